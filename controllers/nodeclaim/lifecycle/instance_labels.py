"""The labels behind kubectl's Type, Capacity and Zone columns.

What the machine turned out to be stands on its claim, in one write; a value the user gave stays.

Source: docs/references/karpenter.md#nodeclaim-api, docs/references/kaito.md#what-kaito-reads.
"""

from controllers.model.facts import Facts
from controllers.model.node_for_claim import node_for_claim
from controllers.model.steps import PatchClaim
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim

from .launch import launched_since

# A machine's Node comes within seconds of its pool's end, before it or after.
NODE_USUAL_SECONDS = 60.0


def step(f: Facts) -> PatchClaim | None:
    """Put them on the claim.

    One write for all three: the zone comes with the Node, from the node manager. Only if no Node comes, without it.
    """
    claim, node = f.claim, node_for_claim(f)
    if claim is None or "PatchClaim" in f.refused:
        return None
    if (node is None and not _late(f, claim)) or (node is not None and node.cloud_uninitialized):
        return None
    wanted: dict[str, str] = {}
    if node is not None:
        wanted = {key: node.metadata.labels.get(key, "") for key in (labels.INSTANCE_TYPE, labels.ZONE)}
    if f.instance is not None:
        wanted[labels.INSTANCE_TYPE] = wanted.get(labels.INSTANCE_TYPE) or f.instance.size
        wanted[labels.CAPACITY_TYPE] = "spot" if f.instance.priority == "Spot" else "on-demand"
    missing = {key: value for key, value in wanted.items() if value and key not in claim.metadata.labels}
    return PatchClaim(claim=claim, labels=missing) if missing else None


def _late(f: Facts, claim: NodeClaim) -> bool:
    """Whether the pool has run for a while, and its Node should have come."""
    since = launched_since(f, claim)
    return since is not None and (f.now - since).total_seconds() >= NODE_USUAL_SECONDS
