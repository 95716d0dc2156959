"""Labels of the claim for instance type, capacity type and zone, which kubectl shows as columns.

All are written at once; values that the user has set are kept.

Source: docs/references/karpenter.md#nodeclaim-api, docs/references/kaito.md#what-kaito-reads.
"""

from controllers.model.facts import Facts
from controllers.model.node_for_claim import node_for_claim
from controllers.model.steps import PatchClaim
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim

from .launch import launched_since

# The Node appears within seconds before or after the pool's creation has finished.
NODE_USUAL_SECONDS = 60.0


def step(f: Facts) -> PatchClaim | None:
    """Write the labels once the Node has its zone, which the node manager sets; without the zone if no Node appears."""
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
    """Whether the pool has been running for longer than a Node usually takes to appear."""
    since = launched_since(f, claim)
    return since is not None and (f.now - since).total_seconds() >= NODE_USUAL_SECONDS
