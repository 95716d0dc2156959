"""From an outcome to memory: what an attempt teaches about the next plan.

One place where memories are made; an answer clears what it answers (a read clears read failures, an accepted
DELETE clears its refusals), and nothing is remembered that is not in an outcome.
"""

import msgspec

from cloudprovider.errors import CloudError, NoCapacity, Rejected, Retryable
from cloudprovider.interface import Failure, Instance, InstanceState
from controllers.model.facts import Facts
from controllers.model.results import (
    Accepted,
    CloudFailed,
    Evicted,
    KubeFailed,
    Outcome,
    ReadAttached,
    ReadCause,
    ReadClaim,
    ReadCluster,
    ReadCrd,
    ReadEvents,
    ReadNodes,
    ReadPods,
    ReadPool,
    Wrote,
)
from controllers.model.steps import (
    AskCause,
    CreateInstance,
    DeleteInstance,
    DeleteNode,
    DeletePods,
    EvictPods,
    LookUpCluster,
    LookUpCrd,
    LookUpPool,
    PatchNode,
    ReadDrain,
    ReadVolumes,
    ReleaseFinalizer,
    Step,
)
from provisioner.api import reasons
from provisioner.api.meta import ZERO_TIME
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from .drain_memory import asked_to_leave, could_not_read, drain_of, saw_pods, saw_volumes
from .memory import FORBIDDEN_FIRST_SECONDS, CrdRead, Expectation, Kind, Memory, Refusal, remember_failure

UNTOLD_FIRST_SECONDS = 60.0
# Nothing can be done in its stead, so it is never left alone for longer than this.
RELEASE_MOST_SECONDS = 60.0


def remember(memory: Memory, facts: Facts, step: Step, outcome: Outcome, *, began: float, now: float) -> None:
    """Take the outcome of `step` in. `began` is the loop time before it was sent: what is read is as old as that."""
    match outcome:
        case Wrote(kind=kind, name=name, uid=written, resource_version=version, gone=gone, claim=claim):
            memory.expectation = Expectation(
                kind=kind, name=name, uid=written, resource_version=version, gone=gone, at=began
            )
            if claim is not None:
                # The API server has shown it in its answer: nobody need ask for it again at once.
                memory.claim_read_at, memory.claim_read = began, claim
        case Evicted() if isinstance(step, EvictPods | DeletePods):
            asked_to_leave(memory.drains[step.node.uid], step, outcome, now=now)
        case Accepted():
            if isinstance(step, DeleteInstance):
                memory.delete_failed = None
        case ReadPods(pods=pods) if isinstance(step, ReadDrain):
            saw_pods(drain_of(memory, step.node, began), pods, began=began, wall=facts.now)
        case ReadAttached() if isinstance(step, ReadVolumes):
            saw_volumes(drain_of(memory, step.node, began), outcome, began=began)
        case KubeFailed(error=error) if isinstance(step, ReadDrain | ReadVolumes):
            could_not_read(drain_of(memory, step.node, began), step, str(error), now=now)
        case CloudFailed(error=error):
            _cloud_failed(memory, step, error, claim=facts.claim, now=now)
        case _:
            _read(memory, step, outcome, began=began)


def _read(memory: Memory, step: Step, outcome: Outcome, *, began: float) -> None:
    """What a plan wanted to know afresh."""
    match outcome:
        case ReadCluster():
            memory.read_failed = None
        case ReadPool():
            memory.pool_read_at, memory.read_failed = began, None
        case ReadCause(failure=failure) if isinstance(step, AskCause):
            memory.cause = (step.instance.put_time, failure or _untold(step.instance))
        case ReadClaim(claim=claim):
            memory.claim_read_at, memory.claim_read = began, claim
        case ReadCrd(crd=crd) if isinstance(step, LookUpCrd):
            gone_at = crd.metadata.deletion_timestamp if crd is not None else ZERO_TIME
            memory.crd_read = CrdRead(for_uid=step.claim.uid, deleted_at=gone_at)
        case ReadNodes(nodes=nodes):
            memory.nodes_read_at, memory.nodes_read = began, nodes
        case ReadEvents(remedies=remedies) if memory.unhealthy is not None:
            memory.unhealthy.remedies, memory.unhealthy.remedies_read_at = remedies, began
        case _:
            return


def refuse(memory: Memory, step: Step, failed: KubeFailed, *, now: float, most_seconds: float) -> None:
    """The API server refuses this step until its object changes; plans go on without it meanwhile.

    It is bound to the versions that were decided on: a patch whose test of a list fails is refused for a change that
    the cache may have by now, and then the step is right again at once.
    A missing permission (403) is no word about the object: the step is tried again soon, then less and less often; so
    is letting an object go, which nothing can take the place of.
    """
    if not failed.error.refused:
        return
    memory.refusals += 1
    of_node = isinstance(step, PatchNode | DeleteNode) or (
        isinstance(step, ReleaseFinalizer) and isinstance(step.target, Node)
    )
    about: Kind = "node" if of_node else "claim"
    name, seconds = type(step).__name__, most_seconds
    if isinstance(step, ReleaseFinalizer):
        most_seconds = min(RELEASE_MOST_SECONDS, most_seconds)
    if failed.error.status == 403 or isinstance(step, ReleaseFinalizer):
        times = memory.forbidden[name] = memory.forbidden.get(name, 0) + 1
        seconds = min(FORBIDDEN_FIRST_SECONDS * 2.0 ** min(times - 1, 16), most_seconds)
    said = f"{failed.error.reason}: {failed.error.message}"
    memory.refused[name] = Refusal(about=about, version=memory.versions[about], at=now, seconds=seconds, said=said)


def _cloud_failed(memory: Memory, step: Step, error: CloudError, *, claim: NodeClaim | None, now: float) -> None:
    match step:
        case CreateInstance():
            memory.create_failed = remember_failure(memory.create_failed, error, now=now, claim=claim)
        case DeleteInstance():
            memory.delete_failed = remember_failure(memory.delete_failed, error, now=now, claim=claim)
        case LookUpPool() | LookUpCluster():
            memory.read_failed = remember_failure(memory.read_failed, error, now=now, claim=claim)
        case _:
            return


def notice_instance(memory: Memory, instance: Instance | None, *, claim: NodeClaim | None, now: float) -> None:
    """A pool that failed after it was accepted is a failed attempt too; one that runs ends the row of failures."""
    if instance is None:
        return
    if instance.state is InstanceState.RUNNING:
        memory.create_failed = None
        return
    if instance.state is InstanceState.FAILED and instance.failure is not None and memory.failed_etag != instance.etag:
        memory.failed_etag = instance.etag
        error = _as_error(instance.failure)
        memory.create_failed = remember_failure(memory.create_failed, error, now=now, claim=claim)
        memory.create_failed.uncertain = False


def with_cause(memory: Memory, instance: Instance | None) -> Instance | None:
    """The pool as the inventory has it, with what was learned elsewhere of why it failed."""
    silent = instance is not None and instance.state is InstanceState.FAILED and instance.failure is None
    if instance is None or not silent or memory.cause is None or memory.cause[0] != instance.put_time:
        return instance
    return msgspec.structs.replace(instance, failure=memory.cause[1])


def _untold(instance: Instance) -> Failure:
    """Nobody says why: the next attempt follows soon at first, and then less and less often."""
    message = (
        f"agent pool {instance.name} ended in {instance.raw_state}; AKS names no cause on it, and its operation tells"
        f" none (any longer): see az aks nodepool show --name {instance.name} and the activity log"
    )
    return Failure(
        reason=reasons.CREATE_FAILED,
        message=message,
        kind=Rejected.kind,
        scope="configuration",
        after=UNTOLD_FIRST_SECONDS,
    )


def _as_error(failure: Failure) -> CloudError:
    """The error that this failure would have been, had the cloud answered at once."""
    if failure.kind == NoCapacity.kind:
        return NoCapacity(failure.reason, failure.message, scope=failure.scope, after=failure.after, code=failure.code)
    if failure.kind == Rejected.kind:
        return Rejected(failure.reason, failure.message, after=failure.after, code=failure.code)
    return Retryable(failure.reason, failure.message, after=failure.after, code=failure.code)


def first_conflict(memory: Memory, error: CloudError) -> bool:
    """Whether a DELETE was refused for another operation, for the first time in a row."""
    failed = memory.delete_failed
    return isinstance(error, Retryable) and error.conflict and failed is not None and failed.times == 1
