"""An attempt that failed: what it left behind, what goes first, and in which order.

Promise: a pool that failed before its Node was ever usable is removed once its cause stands on the claim; then, once
the pool is proven gone, its Node. The next machine bears the same name and providerID: it is not asked for before that.
The claim stays and says all the while why. A machine that is Ready is kept, whatever its pool says.
Left to others: when the next attempt is due (`offerings.py`, `memory.py`), its cause in words (`launch.py`), Nodes that
were usable once (`repair.py`).

Source: aks-arm.md §3.1 and §3.2 (a failed pool keeps its name and its machine), §4 (names); DESIGN rules 2, 4, 5.
"""

from cloudprovider.interface import InstanceState
from provisioner.api import reasons
from provisioner.api.conditions import INITIALIZED, LAUNCHED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from .deletion import not_yet
from .facts import Facts
from .ownership import belongs, held_by, holds_finalizer
from .steps import AskCause, DeleteInstance, DeleteNode, Event, LookUpPool, ReleaseFinalizer, Step, Wait
from .termination import prove_gone


def was_usable(claim: NodeClaim) -> bool:
    """Whether this claim was ever Initialized: the condition never goes back to Unknown."""
    return claim.condition(INITIALIZED, "True", "False") is not None


def launched(claim: NodeClaim) -> bool:
    """Whether this claim has had its machine, and no attempt has failed since."""
    return claim.condition(LAUNCHED, "True") is not None


def told(claim: NodeClaim) -> bool:
    """Whether this claim says why its last attempt failed."""
    return claim.condition(LAUNCHED, "False") is not None


def remains(f: Facts, claim: NodeClaim) -> bool:
    """Whether what is here of this claim's machine, or nothing at all, is what a failed attempt has left."""
    if claim.deleting or was_usable(claim) or any(node.ready for node in _own(f, claim)):
        return False
    if f.instance is None:
        return told(claim)
    failed = f.instance.state is InstanceState.FAILED
    going = f.instance.state is InstanceState.DELETING and told(claim)
    return (failed or going) and held_by(f.instance, claim)


def step(f: Facts, claim: NodeClaim) -> Step | None:
    """The next step of clearing a failed attempt away; None: there is nothing left of it, or nothing to do now."""
    if not remains(f, claim):
        return None
    if f.instance is None:
        return _clear_nodes(f, claim)
    if f.instance.state is not InstanceState.FAILED:
        return None
    if f.instance.failure is None:
        return AskCause(instance=f.instance)
    # What a claim that was launched does not take back, it would lose: then the pool must not go.
    untold = "PatchStatus" in f.refused and not launched(claim)
    if not told(claim) and not untold:
        return None
    unsure = not_yet(f)
    if unsure is not None:
        return unsure if isinstance(unsure, LookUpPool) else None
    message = f"agent pool {f.key} failed and is removed before the next attempt"
    return DeleteInstance(
        instance=f.instance,
        cause="failed-create",
        event=Event(type="Normal", reason=reasons.REMOVING_FAILED_POOL, message=message),
    )


def nodes_left(f: Facts, claim: NodeClaim) -> tuple[Node, ...]:
    """The Nodes of a failed attempt, which stand in the way of the next."""
    return _own(f, claim) if remains(f, claim) else ()


def _clear_nodes(f: Facts, claim: NodeClaim) -> Step | None:
    nodes = _own(f, claim)
    if not nodes:
        return None
    unproven = prove_gone(f)
    if unproven is not None:
        return unproven
    for node in nodes:
        if node.deleting and holds_finalizer(node) and "ReleaseFinalizer" not in f.refused:
            return ReleaseFinalizer(target=node, why="its agent pool failed and is proven gone")
        if not node.deleting:
            if "DeleteNode" in f.refused:
                return Wait(after=None, why=f"the API refuses to delete Node {node.name}")
            return DeleteNode(node=node, cause="failed-create")
    return None


def _own(f: Facts, claim: NodeClaim) -> tuple[Node, ...]:
    return tuple(node for node in f.nodes if belongs(node, claim))
