"""Cleanup after a failed launch.

A pool that failed before its Node was initialized is deleted once the claim's condition has the cause, and its Node
once the pool is proven absent. The next attempt waits for both, because its machine has the same name and providerID.
A machine whose Node is Ready is one like others although its pool failed, and what it lacks is a matter of repair. Once
the failed pool is being deleted, its Node is part of what remains, even if it turns Ready: the claim is kept, and its
next attempt gets another machine.

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
    LookUpPool,
    ReleaseFinalizer,
    Step,
    Wait,
)
from controllers.node.termination.finalize import prove_gone
from controllers.node.termination.instance_delete import wait_to_delete
from provisioner.api.conditions import LAUNCHED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim


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
    return not any(node.ready for node in _nodes_of(f, claim))


def has_failed(f: Facts, claim: NodeClaim) -> bool:
    """Whether the claim's pool failed."""
    return f.instance is not None and f.instance.state is InstanceState.FAILED and held_by(f.instance, claim)


def step(f: Facts, claim: NodeClaim) -> Step | None:
    """The next step of the cleanup; None if nothing remains, or nothing can be done now."""
    if f.instance is not None and f.instance.failure is None and has_failed(f, claim) and not was_usable(claim):
        return AskCause(instance=f.instance)
    if not failed_launch_remains(f, claim):
        return None
    if f.instance is None:
        return _delete_nodes(f, claim)
    if f.instance.state is not InstanceState.FAILED:
        return None
    # A launched claim whose status cannot be written would lose its machine without a cause: keep the pool then.
    unreportable = "PatchStatus" in f.refused and not launched(claim)
    if not failure_reported(claim) and not unreportable:
        return None
    unsure = wait_to_delete(f)
    if unsure is not None:
        return unsure if isinstance(unsure, LookUpPool) else None
    message = f"Deleted agent pool {f.key}, which failed, before the next attempt"
    works = was_usable(claim) or any(node.ready for node in _nodes_of(f, claim))
    failed = Evidence(cause="failed-create", uid=claim.uid, ours=held_by(f.instance, claim), works=works)
    return delete_instance(f.instance, failed, message)


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
