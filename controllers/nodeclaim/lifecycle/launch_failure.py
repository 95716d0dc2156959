"""Cleanup after a failed launch.

A pool that failed before its Node was initialized is deleted once the claim's condition has the cause, and its Node
once the pool is proven absent. The next attempt waits for both, because its machine has the same name and providerID.
A Ready Node is kept although its pool failed, unless none of its GPUs appeared before the deadline: then it is drained
and deleted. One with some of its GPUs may run pods, and is a matter of repair. Once the failed pool is being deleted,
its Node is part of what remains, even if it turns Ready: the claim is kept, and its next attempt gets another machine.

Source: docs/references/agent-pools.md#quota-and-capacity-errors, docs/references/agent-pools.md#node-bring-up-errors,
docs/references/rules.md#deterministic-names, docs/references/rules.md#absence-needs-proof,
docs/references/rules.md#every-state-has-a-deadline.
"""

from cloudprovider.interface import InstanceState
from controllers.gate.gate import Evidence
from controllers.model.conditions import launched, was_usable
from controllers.model.deletion import delete_instance
from controllers.model.facts import Facts
from controllers.model.ownership import belongs, held_by, holds_finalizer
from controllers.model.steps import (
    AskCause,
    DeleteNode,
    Event,
    LookUpPool,
    ReleaseFinalizer,
    Step,
    Wait,
)
from controllers.node.termination.finalize import prove_gone
from controllers.node.termination.instance_delete import wait_to_delete
from controllers.node.termination.termination import drain_node
from provisioner.api import reasons
from provisioner.api.conditions import LAUNCHED, REGISTERED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.time import shifted

from .gpu_resources import lacks_gpus, state_of


def failure_reported(claim: NodeClaim) -> bool:
    """Whether the claim's condition has the cause of a failed attempt."""
    return claim.condition(LAUNCHED, "False") is not None


def failed_launch_remains(f: Facts, claim: NodeClaim) -> bool:
    """Whether the claim's last attempt failed, so that its pool and Nodes, if any, are to be deleted."""
    if claim.deleting or was_usable(claim):
        return False
    if f.instance is None:
        return failure_reported(claim)
    if not held_by(f.instance, claim):
        return False
    if f.instance.state is InstanceState.DELETING:
        return failure_reported(claim)
    if f.instance.state is not InstanceState.FAILED:
        return False
    return not any(node.ready and not _unusable(f, claim, node) for node in _nodes_of(f, claim))


def failed_without_gpus(f: Facts, claim: NodeClaim) -> bool:
    """Whether the pool failed and the claim has a Ready Node that lacks all its GPUs, and was never initialized."""
    without = has_failed(f, claim) and any(node.ready and _lacks_all(f, claim, node) for node in _nodes_of(f, claim))
    return without and not claim.deleting and not was_usable(claim)


def has_failed(f: Facts, claim: NodeClaim) -> bool:
    """Whether the claim's pool failed."""
    return f.instance is not None and f.instance.state is InstanceState.FAILED and held_by(f.instance, claim)


def _lacks_all(f: Facts, claim: NodeClaim, node: Node) -> bool:
    return lacks_gpus(f, claim, node) and not state_of(f, claim, node).some


def _unusable(f: Facts, claim: NodeClaim, node: Node) -> bool:
    """Whether a Ready Node of a failed pool does not end the failed attempt: its GPUs did not appear.

    Once reported, this holds until GPUs appear. A device plugin that restarts shows none for a moment.
    """
    if not _lacks_all(f, claim, node):
        return False
    if failure_reported(claim):
        return True
    registered, seen = claim.condition(REGISTERED, "True"), f.devices
    if registered is None or not failed_without_gpus(f, claim):
        return False
    since = seen.none_since if seen is not None and seen.node_uid == node.uid else None
    if since is None or f.loop_now - since < f.policy.gpu_loss_seconds:
        return False
    return (f.now - registered.last_transition_time).total_seconds() >= f.policy.initialization_seconds


def step(f: Facts, claim: NodeClaim) -> Step | None:
    """The next step of the cleanup; None if nothing remains, or nothing can be done now."""
    if f.instance is not None and f.instance.failure is None and failed_without_gpus(f, claim):
        return AskCause(instance=f.instance)
    if not failed_launch_remains(f, claim):
        return None
    if f.instance is None:
        return _delete_nodes(f, claim)
    if f.instance.state is not InstanceState.FAILED:
        return None
    if f.instance.failure is None:
        return AskCause(instance=f.instance)
    # A launched claim whose status cannot be written would lose its machine without a cause: keep the pool then.
    unreportable = "PatchStatus" in f.refused and not launched(claim)
    if not failure_reported(claim) and not unreportable:
        return None
    unsure = wait_to_delete(f)
    if unsure is not None:
        return unsure if isinstance(unsure, LookUpPool) else None
    draining = _drain(f, claim)
    if draining is not None:
        return draining
    message = f"Deleted agent pool {f.key}, which failed, before the next attempt"
    works = was_usable(claim) or any(node.ready and not _unusable(f, claim, node) for node in _nodes_of(f, claim))
    failed = Evidence(cause="failed-create", uid=claim.uid, ours=held_by(f.instance, claim), works=works)
    event = Event(type="Normal", reason=reasons.REMOVING_FAILED_POOL, message=message)
    return delete_instance(f.instance, failed, event)


def _drain(f: Facts, claim: NodeClaim) -> Step | None:
    """Drain a Node that is Ready without its GPUs, because pods may run on it."""
    since = claim.condition(LAUNCHED, "False")
    by = shifted(since.last_transition_time, f.policy.draining_seconds) if since is not None else f.now
    return next(
        (step for node in _nodes_of(f, claim) if node.ready and (step := drain_node(f, node, by)) is not None), None
    )


def remaining_nodes(f: Facts, claim: NodeClaim) -> tuple[Node, ...]:
    """The Nodes of a failed attempt, which block the next."""
    return _nodes_of(f, claim) if failed_launch_remains(f, claim) else ()


def _delete_nodes(f: Facts, claim: NodeClaim) -> Step | None:
    nodes = _nodes_of(f, claim)
    if not nodes:
        return None
    unproven = prove_gone(f)
    if unproven is not None:
        return unproven
    for node in nodes:
        if node.deleting and holds_finalizer(node) and "ReleaseFinalizer" not in f.refused:
            return ReleaseFinalizer(target=node, why="its agent pool failed and is deleted")
        if not node.deleting:
            if "DeleteNode" in f.refused:
                return Wait(after=None, why=f"the API server rejects deleting Node {node.name}")
            return DeleteNode(node=node, cause="failed-create")
    return None


def _nodes_of(f: Facts, claim: NodeClaim) -> tuple[Node, ...]:
    return tuple(node for node in f.nodes if belongs(node, claim))
