"""Finalizers of the Nodes and the claim after the agent pool is deleted.

No finalizer is removed before the pool is proven absent. The claim's finalizer also waits for a read of the Nodes that
is newer than that proof and shows none of them. Their cache is one if its watch has delivered a later write of ours.

Source: docs/references/karpenter.md#finalization, docs/references/rules.md#absence-needs-proof.
"""

from controllers.model.facts import Facts
from controllers.model.ownership import belongs, holds_finalizer
from controllers.model.steps import DeleteNode, LookUpNodes, LookUpPool, ReleaseFinalizer, Step, Wait
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

NODE_WRITE_SECONDS = 10.0


def prove_gone(f: Facts) -> Step | None:
    """Read the pool of this name until it is proven absent or not ours; None if that is proven."""
    if f.instance is None and f.absence == "absent":
        # A LIST can prove it while the GET of this pool waits for its retry.
        return None
    if f.read_failed is not None and (left := f.read_failed.retry_in(f.loop_now)) > 0:
        return Wait(after=left, why=f"failed to read the agent pool: {f.read_failed.reason}")
    if f.instance is not None:
        # Only a fresh read of another owner's pool proves that ours does not exist.
        return LookUpPool(name=f.key) if f.pool_read_age > f.policy.fresh_seconds else None
    if f.absence == "unsettled":
        # Reads lag behind a PUT: a 404 shortly after one is repeated once it is reliable, and at intervals before.
        if f.settles_in <= 0 or f.pool_read_age > f.policy.fresh_seconds:
            return LookUpPool(name=f.key)
        return Wait(after=min(f.settles_in, f.policy.fresh_seconds), why="a 404 after a recent PUT proves no absence")
    return LookUpPool(name=f.key)


def finalize_nodes(f: Facts, nodes: tuple[Node, ...]) -> Step | None:
    """The next step for the claim's Nodes, whose pool is proven absent; None if nothing is left to do for them."""
    for node in nodes:
        if node.deleting and holds_finalizer(node):
            if "ReleaseFinalizer" in f.refused:
                return Wait(after=None, why=f"the API server rejects removing the finalizer of Node {node.name}")
            return ReleaseFinalizer(target=node, why="its agent pool is deleted")
        if not node.deleting:
            return DeleteNode(node=node, cause="requested")
    return None


def finalize_claim(f: Facts, claim: NodeClaim) -> Step | None:
    """The next step for the claim, whose pool is proven absent; None if it has no finalizer of ours."""
    if any(belongs(n, claim) for n in f.nodes):
        return Wait(after=None, why="waiting for finalizers of other controllers on the Node")
    if f.nodes_known_age > f.proof_age:
        # The watch delivers the event of our last write to the Node, and all before it, sooner than a read.
        if f.node_write_age <= min(f.proof_age, NODE_WRITE_SECONDS):
            return Wait(after=NODE_WRITE_SECONDS, why="waiting for the watch to deliver our last write to the Node")
        return LookUpNodes(pool=f.key)
    if not holds_finalizer(claim):
        return None
    if "ReleaseFinalizer" in f.refused:
        return Wait(after=None, why="the API server rejects removing the finalizer of the claim")
    return ReleaseFinalizer(target=claim, why="its agent pool and Nodes are deleted")
