"""From an outcome to memory: what an attempt teaches about the next plan.

Promise: one place where memories are made; an answer clears what it answers (a read clears read failures, an accepted
DELETE clears its refusals), and nothing is remembered that is not in an outcome.
Left to others: forgetting a whole key (`reconciler.py`), turning memories into ages (`observing.py`).
"""

from cloudprovider.errors import CloudError, NoCapacity, Rejected, Retryable
from cloudprovider.interface import Failure, Instance, InstanceState
from provisioner.api.nodeclaim import NodeClaim

from .acting.outcome import Accepted, CloudFailed, Evicted, KubeFailed, Outcome, ReadClaim, ReadPods, ReadPool, Wrote
from .facts import Facts
from .memory import FORBIDDEN_FIRST_SECONDS, Barrier, DrainMemory, Kind, Memory, Refusal, remember_failure
from .steps import CreateInstance, DeleteInstance, DeleteNode, LookUpPool, PatchNode, ReadDrain, ReleaseFinalizer, Step


def remember(memory: Memory, facts: Facts, step: Step, outcome: Outcome, *, began: float, now: float) -> None:
    """Take the outcome of `step` in. `began` is the loop time before it was sent: what is read is as old as that."""
    match outcome:
        case Wrote(kind=kind, name=name, uid=written, resource_version=version, gone=gone):
            memory.barrier = Barrier(kind=kind, name=name, uid=written, resource_version=version, gone=gone, at=began)
        case Evicted(asked=asked, blocked=blocked):
            memory.drain.evicted |= asked
            memory.drain.blocked = {**memory.drain.blocked, **blocked}
            memory.drain.blocked_at = now
        case Accepted():
            if isinstance(step, DeleteInstance):
                memory.delete_failed = None
        case ReadPool():
            memory.pool_read_at, memory.read_failed = began, None
        case ReadClaim(claim=claim):
            memory.claim_read_at, memory.claim_read = began, claim
        case ReadPods(pods=pods) if isinstance(step, ReadDrain):
            _read_drain(memory, step, pods_read=ReadPods(pods=pods), began=began)
        case CloudFailed(error=error):
            _cloud_failed(memory, step, error, claim=facts.claim, now=now)
        case _:
            return


def refuse(memory: Memory, step: Step, failed: KubeFailed, *, now: float, most_seconds: float) -> None:
    """The API server refuses this step until its object changes; plans go on without it meanwhile.

    It is bound to the versions that were decided on: a patch whose test of a list fails is refused for a change that
    the cache may have by now, and then the step is right again at once.
    A missing permission (403) is no word about the object: the step is tried again soon, then less and less often.
    """
    if not failed.error.refused:
        return
    memory.refusals += 1
    if isinstance(step, ReleaseFinalizer):
        return
    about: Kind = "node" if isinstance(step, PatchNode | DeleteNode) else "claim"
    name, seconds = type(step).__name__, most_seconds
    if failed.error.status == 403:
        times = memory.forbidden[name] = memory.forbidden.get(name, 0) + 1
        seconds = min(FORBIDDEN_FIRST_SECONDS * 2.0 ** min(times - 1, 16), most_seconds)
    said = f"{failed.error.reason}: {failed.error.message}"
    memory.refused[name] = Refusal(about=about, version=memory.versions[about], at=now, seconds=seconds, said=said)


def _read_drain(memory: Memory, step: ReadDrain, *, pods_read: ReadPods, began: float) -> None:
    if memory.drain.node_uid != step.node.uid:
        memory.drain = DrainMemory(node_uid=step.node.uid)
    present = {pod.metadata.uid for pod in pods_read.pods}
    memory.drain.pods, memory.drain.read_at = pods_read.pods, began
    memory.drain.evicted &= present
    memory.drain.blocked = {uid: why for uid, why in memory.drain.blocked.items() if uid in present}


def _cloud_failed(memory: Memory, step: Step, error: CloudError, *, claim: NodeClaim | None, now: float) -> None:
    match step:
        case CreateInstance():
            memory.create_failed = remember_failure(memory.create_failed, error, now=now, claim=claim)
        case DeleteInstance():
            memory.delete_failed = remember_failure(memory.delete_failed, error, now=now, claim=claim)
        case LookUpPool():
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


def _as_error(failure: Failure) -> CloudError:
    """The error that this failure would have been, had the cloud answered at once."""
    if failure.kind == NoCapacity.kind:
        return NoCapacity(failure.reason, failure.message, scope=failure.scope, after=failure.after, code=failure.code)
    if failure.kind == Rejected.kind:
        return Rejected(failure.reason, failure.message, after=failure.after, code=failure.code)
    return Retryable(failure.reason, failure.message, after=failure.after, code=failure.code)
