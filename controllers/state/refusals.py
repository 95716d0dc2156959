"""Writes that the API server refuses: plans skip them until their object changes, or a delay ends."""

from controllers.model.facts import Facts
from controllers.model.results import Kind, KubeFailed, Result, Wrote
from controllers.model.steps import AddFinalizer, DeleteNode, PatchClaim, PatchNode, PatchStatus, ReleaseFinalizer, Step
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.kube_errors import KubeError

from .indexes import Indexes
from .memory import FORBIDDEN_FIRST_SECONDS, Memory, Refusal

# No other step can take the place of the removal of a finalizer, so it is retried at least this often.
RELEASE_MOST_SECONDS = 60.0
# The steps before a drain. Without them pods are still evicted, and the drain still has its deadline.
SKIPPED_IN_REMOVAL = (DeleteNode, PatchClaim, PatchNode)
PATCHES = (AddFinalizer, PatchClaim, PatchNode, PatchStatus, ReleaseFinalizer)
# The codes of refusals that do not depend on the object.
NOT_OF_OBJECT = (400, 403)
# The queue has retried for a second by then.
FAILURES_IN_ROW = 4


def undone(facts: Facts, step: Step, result: Result, indexes: Indexes) -> KubeFailed | None:
    """The refusal of a patch after which the caches show the version that the plan saw; None if it changed the object.

    A mutating admission policy undoes it. The next plan would be the same, and be made at once.
    """
    if not isinstance(result, Wrote) or not isinstance(step, PATCHES):
        return None
    seen: tuple[Node | NodeClaim, ...] = (*facts.nodes, *facts.claims)
    left: tuple[Node | NodeClaim, ...] = (*indexes.nodes_of(facts.key), *indexes.claims_of(facts.key))
    written = (result.uid, result.resource_version)
    if any(written not in ((one.uid, one.metadata.resource_version) for one in of) for of in (seen, left)):
        return None
    message = f"{type(step).__name__} changed nothing: an admission policy undoes it"
    return KubeFailed(error=KubeError(400, "NotChanged", message))


def refuse(memory: Memory, step: Step, failed: KubeFailed, *, removing: bool, now: float, most_seconds: float) -> bool:
    """Record that the API server refuses this step; plans skip it until its object changes, or the delay ends.

    False if it is not recorded, because the same request can succeed later. While a machine is removed, a step that the
    removal can do without counts as refused after some failures in a row, whatever the error.

    The refusal is bound to the versions that the plan saw: a patch whose `test` of a list fails is valid again as soon
    as the cache shows the change. A missing permission (403) and a webhook (400) say nothing about the object, and the
    removal of a finalizer has no alternative, so these are retried with exponential backoff.
    """
    name, error = type(step).__name__, failed.error
    persistent = False
    if not error.refused:
        if not removing or not isinstance(step, SKIPPED_IN_REMOVAL) or error.conflict or error.not_found:
            return False
        memory.failed_in_row[name] = memory.failed_in_row.get(name, 0) + 1
        if memory.failed_in_row[name] < FAILURES_IN_ROW:
            return False
        persistent = True
    memory.refusals += 1
    of_node = isinstance(step, PatchNode | DeleteNode) or (
        isinstance(step, ReleaseFinalizer) and isinstance(step.target, Node)
    )
    about: Kind = "node" if of_node else "claim"
    seconds = most_seconds
    if persistent or isinstance(step, ReleaseFinalizer):
        most_seconds = min(RELEASE_MOST_SECONDS, most_seconds)
    if persistent or error.status in NOT_OF_OBJECT or isinstance(step, ReleaseFinalizer):
        times = memory.forbidden[name] = memory.forbidden.get(name, 0) + 1
        seconds = min(FORBIDDEN_FIRST_SECONDS * 2.0 ** min(times - 1, 16), most_seconds)
    message = f"{error.reason}: {error.message}"
    memory.refused[name] = Refusal(
        about=about, version=memory.versions[about], at=now, seconds=seconds, message=message
    )
    return True
