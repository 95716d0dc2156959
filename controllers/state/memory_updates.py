"""Updates of one key's memory: from the caches before a pass, and from the result of each step.

A success clears the failures of its kind: a read clears read failures, an accepted DELETE clears its failures until its
operation fails.
"""

from collections.abc import Callable

import msgspec

from cloudprovider.errors import CloudError, NoCapacity, Rejected, Retryable
from cloudprovider.interface import Failure, Instance, InstanceState
from cloudprovider.inventory import Inventory
from controllers.model.crd_deletion import deleted_with
from controllers.model.drains import Drain
from controllers.model.results import (
    Accepted,
    CloudFailed,
    Evicted,
    KubeFailed,
    ReadAttached,
    ReadCause,
    ReadClaim,
    ReadCluster,
    ReadCrds,
    ReadEvents,
    ReadGpuPods,
    ReadNodes,
    ReadPods,
    ReadPool,
    ReadWorkloads,
    Result,
    Wrote,
)
from controllers.model.steps import (
    AddFinalizer,
    AskCause,
    CreateInstance,
    DeleteInstance,
    DeleteNode,
    DeletePods,
    EvictPods,
    LookUpCluster,
    LookUpCrds,
    LookUpPool,
    PatchNode,
    ReadDrain,
    ReadVolumes,
    ReleaseFinalizer,
    RestartPluginPod,
    Step,
)
from provisioner.api import reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.pod import Pod
from provisioner.runtime.own_writes import GONE_SECONDS

from .drain_memory import with_evictions, with_pods, with_read_failure, with_volumes
from .indexes import Indexes
from .memory import CrdRead, Deletion, Memory, NodeWrite, remember_failure

# The writes on the way to a PUT or DELETE of an agent pool, or to the end of a claim.
LEADING = (AddFinalizer, DeleteNode, PatchNode, ReleaseFinalizer)


def refresh(key: str, memory: Memory, indexes: Indexes, inventory: Inventory, *, now: float) -> None:
    """Bring the memory up to date with the caches: what it says of objects that changed or are gone is dropped."""
    memory.versions = indexes.versions(key)
    if (write := memory.node_write) is not None:
        if now - write.at >= GONE_SECONDS:
            memory.node_write = None
        elif indexes.delivered(write):
            memory.nodes_known_at, memory.node_write = max(memory.nodes_known_at or 0.0, write.at), None
    if inventory.get(key) is not None:
        # A pool of another owner: the fresh read of it proves that ours is gone.
        memory.proof_at = memory.pool_read_at
    elif inventory.absence(key) != "absent":
        memory.proof_at = None
    elif memory.proof_at is None:
        memory.proof_at = now
    # The drain of a Node whose object is gone has the UID of its claim.
    uids = {node.uid for node in indexes.nodes_of(key)} | {claim.uid for claim in indexes.claims_of(key)}
    memory.drains = {uid: drain for uid, drain in memory.drains.items() if uid in uids}
    memory.refused = {
        step: refusal
        for step, refusal in memory.refused.items()
        if memory.versions[refusal.about] == refusal.version and now - refusal.at < refusal.seconds
    }


def remember(
    memory: Memory,
    step: Step,
    result: Result,
    *,
    claim: NodeClaim | None,
    evictable: Callable[[Pod], bool],
    began: float,
    now: float,
) -> None:
    """Record the result of `step`. `began`: the loop time before it was sent, which dates what was read."""
    match result:
        case Wrote(claim=written):
            if result.kind == "node" and result.resource_version:
                memory.node_write = NodeWrite(result.name, result.uid, result.resource_version, began)
            if written is not None:
                # The answer to a write shows the claim as well as a read does.
                memory.claim_read_at, memory.claim_read = began, written
        case Accepted():
            if isinstance(step, DeleteInstance):
                memory.deletion = Deletion(step.instance.etag, step.instance.put_time, memory.delete_failed)
                memory.delete_failed = None
        case Evicted() if isinstance(step, RestartPluginPod):
            _update_unhealthy(memory, plugin_restarted=step.pod.name)
        case Evicted() | ReadPods() | ReadAttached() | KubeFailed():
            _remember_drain(memory, step, result, evictable=evictable, began=began, now=now)
        case CloudFailed(error=error):
            _cloud_failed(memory, step, error, claim=claim, now=now)
        case _:
            _read(memory, step, result, began=began)


def _remember_drain(
    memory: Memory,
    step: Step,
    result: Evicted | ReadPods | ReadAttached | KubeFailed,
    *,
    evictable: Callable[[Pod], bool],
    began: float,
    now: float,
) -> None:
    if not isinstance(step, EvictPods | DeletePods | ReadDrain | ReadVolumes):
        return
    uid = step.node.uid
    drain = memory.drains.get(uid) or Drain(began_at=began)
    match result:
        case Evicted() if isinstance(step, EvictPods | DeletePods):
            memory.drains[uid] = with_evictions(drain, step, result, now=now)
        case ReadPods(pods=pods):
            memory.drains[uid] = with_pods(drain, result, began=began, evictable=any(map(evictable, pods)))
        case ReadAttached():
            memory.drains[uid] = with_volumes(drain, result, began=began)
        case KubeFailed(error=error) if isinstance(step, ReadDrain | ReadVolumes):
            memory.drains[uid] = with_read_failure(drain, step, str(error), now=now)
        case _:
            return


def _read(memory: Memory, step: Step, result: Result, *, began: float) -> None:
    match result:
        case ReadCluster():
            memory.read_failed = None
        case ReadPool():
            memory.pool_read_at, memory.read_failed = began, None
        case ReadCause(failure=failure) if isinstance(step, AskCause):
            memory.cause = (step.instance.put_time, failure or _unknown_cause(step.instance))
        case ReadClaim(claim=claim):
            memory.claim_read_at, memory.claim_read = began, claim
        case ReadCrds(crds=crds) if isinstance(step, LookUpCrds):
            memory.crd_read = CrdRead(for_uid=step.claim.uid, deleted_with=deleted_with(step.claim, crds))
        case ReadNodes(nodes=nodes):
            memory.nodes_read_at, memory.nodes_read = began, nodes
        case ReadWorkloads(workloads=workloads):
            memory.workloads = workloads
        case ReadEvents(remedies=remedies):
            _update_unhealthy(memory, remedies=remedies, remedies_read_at=began)
        case ReadGpuPods(count=count, grace_seconds=grace):
            _update_unhealthy(memory, gpu_pods=count, grace_seconds=grace, gpu_pods_read_at=began)
        case _:
            return


def _update_unhealthy(memory: Memory, **fields: object) -> None:
    if (unhealthy := memory.first_sights.unhealthy) is not None:
        unhealthy = msgspec.structs.replace(unhealthy, **fields)
        memory.first_sights = msgspec.structs.replace(memory.first_sights, unhealthy=unhealthy)


def _cloud_failed(memory: Memory, step: Step, error: CloudError, *, claim: NodeClaim | None, now: float) -> None:
    match step:
        case CreateInstance(node_class=node_class):
            memory.create_failed = remember_failure(
                memory.create_failed, error, now=now, claim=claim, node_class=node_class
            )
        case DeleteInstance():
            memory.delete_failed = remember_failure(memory.delete_failed, error, now=now, claim=claim)
        case LookUpPool() | LookUpCluster():
            memory.read_failed = remember_failure(memory.read_failed, error, now=now, claim=claim)
        case _:
            return


def update_from_instance(
    memory: Memory,
    instance: Instance | None,
    *,
    claim: NodeClaim | None,
    node_class: AgentPoolNodeClass | None,
    now: float,
) -> None:
    """Count a pool that failed after its PUT was accepted as a failed create; a running one clears the failures."""
    if instance is None:
        return
    if instance.state is InstanceState.RUNNING:
        memory.create_failed = None
        return
    if instance.state is InstanceState.FAILED and instance.failure is not None and memory.failed_etag != instance.etag:
        memory.failed_etag = instance.etag
        error = _as_error(instance.failure)
        failure = remember_failure(memory.create_failed, error, now=now, claim=claim, node_class=node_class)
        memory.create_failed = msgspec.structs.replace(failure, uncertain=False, of_machine=True)


def update_from_deletion(memory: Memory, instance: Instance | None, *, claim: NodeClaim | None, now: float) -> None:
    """Count an accepted DELETE whose operation failed as a refused one, so that it is retried with the same delays."""
    deletion = memory.deletion
    if deletion is None or (instance is not None and instance.state is InstanceState.DELETING):
        return
    if instance is None or instance.put_time != deletion.put_time:
        memory.deletion = None
        return
    if instance.etag == deletion.etag:
        # A read that lags behind the DELETE.
        return
    memory.deletion, memory.failed_etag = None, instance.etag
    ended = f"the deletion of agent pool {instance.name} ended in {instance.raw_state}"
    failure = instance.failure
    cause = f"{failure.message} ({ended})" if failure is not None else f"{ended} without a cause"
    error = Retryable(failure.reason if failure is not None else reasons.POOL_FAILED, cause)
    failed = remember_failure(deletion.failed, error, now=now, claim=claim)
    memory.delete_failed = msgspec.structs.replace(failed, uncertain=False, unanswered=False)


def with_cause(memory: Memory, instance: Instance | None) -> Instance | None:
    """The pool as the inventory has it, with the cause of its failure as read from its operation."""
    without_cause = instance is not None and instance.state is InstanceState.FAILED and instance.failure is None
    if instance is None or not without_cause or memory.cause is None or memory.cause[0] != instance.put_time:
        return instance
    return msgspec.structs.replace(instance, failure=memory.cause[1])


def _unknown_cause(instance: Instance) -> Failure:
    """The failure of a pool whose cause is not available: a machine may have been created and billed."""
    message = (
        f"agent pool {instance.name} ended in {instance.raw_state}; AKS names no cause on it, and its operation has"
        f" none (any longer): see az aks nodepool show --name {instance.name} and the activity log"
    )
    return Failure(reason=reasons.CREATE_FAILED, message=message, kind=Rejected.kind, scope="request")


def _as_error(failure: Failure) -> CloudError:
    """The error that a synchronous answer with this failure would have been."""
    if failure.kind == NoCapacity.kind:
        return NoCapacity(failure.reason, failure.message, scope=failure.scope, after=failure.after, code=failure.code)
    if failure.kind == Rejected.kind:
        return Rejected(failure.reason, failure.message, after=failure.after, code=failure.code)
    return Retryable(failure.reason, failure.message, after=failure.after, code=failure.code)


def first_conflict(memory: Memory, error: CloudError) -> bool:
    """Whether this is the first of a row of DELETEs that conflict with another operation."""
    failed = memory.delete_failed
    return isinstance(error, Retryable) and error.conflict and failed is not None and failed.times == 1
