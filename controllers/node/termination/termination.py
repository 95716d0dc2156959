"""The way down for a claim that is asked to go: instance, then Node, then claim.

The pool is always looked for by name, whatever the claim's status says; nothing of the Node or the claim is let go
before the pool is proven gone (docs/references/rules.md#absence-needs-proof); a status write never stands before a step
that removes. The claim's own finalizer also waits for a view of the Nodes that is newer than the proof.

Source: docs/references/karpenter.md#finalization, docs/references/karpenter.md#node-termination,
docs/references/rules.md#absence-needs-proof.
"""

from datetime import datetime

from cloudprovider.interface import Instance, InstanceState
from controllers.model.facts import Facts
from controllers.model.ownership import belongs, held_by, holds_finalizer
from controllers.model.patches import add_keys, replace_list
from controllers.model.steps import (
    DeleteInstance,
    DeleteNode,
    LookUpNodes,
    LookUpPool,
    PatchNode,
    ReleaseFinalizer,
    Step,
    Wait,
)
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from . import drain, grace_period, volumes
from .instance_delete import wait_to_delete

DISRUPTED = Taint(key=labels.DISRUPTED_TAINT, effect="NoSchedule")


def step(f: Facts, claim: NodeClaim) -> Step | None:
    """The next removing step for a deleting claim; a Wait when it must wait; None when nothing of ours is left."""
    nodes = tuple(n for n in f.nodes if belongs(n, claim))
    if f.instance is not None and held_by(f.instance, claim):
        return _delete_instance(f, claim, f.instance, nodes)
    return prove_gone(f) or _finalize_nodes(f, nodes) or _finalize_claim(f, claim)


def _delete_instance(f: Facts, claim: NodeClaim, instance: Instance, nodes: tuple[Node, ...]) -> Step:
    if instance.state is InstanceState.DELETING:
        return Wait(after=None, why="the agent pool is being deleted")
    for node in nodes:
        if not holds_finalizer(node):
            continue
        noted = grace_period.record_deadline(f, claim)
        if noted is not None:
            return noted
        if not node.deleting and "DeleteNode" not in f.refused:
            return DeleteNode(node=node, cause="asked")
        emptying = drain_node(f, node, grace_period.deadline(claim))
        if emptying is not None:
            return emptying
    return wait_to_delete(f) or DeleteInstance(instance=instance, cause="asked")


def drain_node(f: Facts, node: Node, by: datetime | None) -> Step | None:
    """Keep new pods off a Node, make the old ones leave, let volumes be detached; None: its machine may go.

    `by`: when that must have ended, whoever is in the way.
    """
    patch = _cordon(node)
    if patch and "PatchNode" not in f.refused:
        return PatchNode(node=node, patch=patch, why="keep new pods off a Node that is going")
    return drain.step(f, node, by) or volumes.step(f, node, by)


def _cordon(node: Node) -> tuple[dict[str, object], ...]:
    taints = node.spec.taints
    if not any(taint.matches(DISRUPTED) for taint in taints):
        taints = (*(taint for taint in taints if taint.key != DISRUPTED.key), DISRUPTED)
    operations = (
        *replace_list("/spec/taints", node.spec.taints, taints),
        *add_keys("/metadata/labels", node.metadata.labels, {labels.EXCLUDE_BALANCERS: "karpenter"}),
    )
    return tuple(dict(operation) for operation in operations)


def prove_gone(f: Facts) -> Step | None:
    """Ask the cloud until the pool under this name is proven not to be ours any longer; None: it is proven."""
    if f.read_failed is not None and f.read_failed.holds_for > 0:
        return Wait(after=f.read_failed.holds_for, why=f"the cloud does not answer: {f.read_failed.reason}")
    if f.instance is not None:
        # A pool of somebody else's: only a fresh look at it proves that ours is not there.
        return LookUpPool(name=f.key) if f.pool_read_age > f.policy.fresh_seconds else None
    if f.absence == "absent":
        return None
    if f.absence == "unsettled":
        # A 404 shortly after a PUT may be read lag: look again when it can be believed, and now and then before.
        if f.settles_in <= 0 or f.pool_read_age > f.policy.fresh_seconds:
            return LookUpPool(name=f.key)
        return Wait(
            after=min(f.settles_in, f.policy.fresh_seconds), why="a missing pool is not yet proof of its absence"
        )
    return LookUpPool(name=f.key)


def _finalize_nodes(f: Facts, nodes: tuple[Node, ...]) -> Step | None:
    for node in nodes:
        if node.deleting and holds_finalizer(node):
            if "ReleaseFinalizer" in f.refused:
                return Wait(after=None, why=f"the API refuses to let Node {node.name} go")
            return ReleaseFinalizer(target=node, why="its agent pool is proven gone")
        if not node.deleting:
            return DeleteNode(node=node, cause="asked")
    return None


def _finalize_claim(f: Facts, claim: NodeClaim) -> Step | None:
    if any(belongs(n, claim) for n in f.nodes):
        return Wait(after=None, why="its Node is kept by somebody else's finalizer")
    if f.nodes_known_age > f.proof_age:
        return LookUpNodes(pool=f.key)
    if not holds_finalizer(claim):
        return None
    if "ReleaseFinalizer" in f.refused:
        return Wait(after=None, why="the API refuses to let the claim go")
    return ReleaseFinalizer(target=claim, why="its agent pool and Nodes are proven gone")
