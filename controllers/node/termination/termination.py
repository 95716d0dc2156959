"""Removal of the machine of a deleting claim: the instance first, then its Nodes, then the claim's finalizer.

The pool is looked up by name, whatever the claim's status contains. Status writes never precede a step that removes.

Source: docs/references/karpenter.md#finalization, docs/references/karpenter.md#node-termination.
"""

from datetime import datetime

from cloudprovider.interface import Instance, InstanceState
from controllers.gate.gate import Evidence
from controllers.model.deletion import delete_instance
from controllers.model.facts import Facts
from controllers.model.ownership import belongs, held_by, holds_finalizer
from controllers.model.steps import DeleteNode, PatchNode, Step
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from . import drain, grace_period, volumes
from .cordon import cordon
from .finalize import finalize_claim, finalize_nodes, prove_gone
from .instance_delete import poll_deletion, wait_to_delete


def step(f: Facts, claim: NodeClaim) -> Step | None:
    """The next step for a deleting claim, a Wait included; None if nothing of ours is left."""
    nodes = tuple(n for n in f.nodes if belongs(n, claim))
    if f.instance is not None and held_by(f.instance, claim):
        return _delete_instance(f, claim, f.instance, drain.nodes_to_drain(f, claim))
    return prove_gone(f) or finalize_nodes(f, nodes) or finalize_claim(f, claim)


def _delete_instance(f: Facts, claim: NodeClaim, instance: Instance, nodes: tuple[Node, ...]) -> Step:
    if instance.state is InstanceState.DELETING:
        return poll_deletion(f)
    for node in nodes:
        recording = grace_period.record_deadline(f, claim)
        if recording is not None:
            return recording
        if holds_finalizer(node) and not node.deleting and "DeleteNode" not in f.refused:
            return DeleteNode(node=node, cause="requested")
        draining = drain_node(f, node, grace_period.deadline(claim))
        if draining is not None:
            return draining
    return wait_to_delete(f) or delete_instance(instance, _evidence(f, claim, instance))


def _evidence(f: Facts, claim: NodeClaim, instance: Instance) -> Evidence:
    """Somebody deleted the claim in charge, or Kubernetes did with a CRD, which counts if a user confirms it."""
    ours = held_by(instance, claim)
    if not f.deleted_with_crd:
        return Evidence(cause="requested", uid=claim.uid, ours=ours)
    doubt = "" if f.counts.confirmed else f"the NodeClaim was deleted with CRD {f.deleted_with_crd}, not by a user"
    return Evidence(cause="crd-deleted", uid=claim.uid, ours=ours, seen=True if f.crd_known else None, doubt=doubt)


def drain_node(f: Facts, node: Node, by: datetime | None) -> Step | None:
    """Taint a Node, evict its pods and wait for its volumes; None if its machine can be deleted.

    `by`: the deadline, after which budgets and `do-not-disrupt` no longer apply.
    """
    patch = cordon(node, f.now) if node in f.nodes else ()
    if patch and "PatchNode" not in f.refused:
        return PatchNode(node=node, patch=patch, why="taint a Node that is being removed")
    return drain.step(f, node, by) or volumes.step(f, node, by)
