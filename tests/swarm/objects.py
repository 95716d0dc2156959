"""The objects that users apply at the beginning of a run."""

from typing import Any

from msgspec.structs import replace

from tests.world.demand import node_pool
from tests.world.harness import Json

from .plan import TIER, NodePool

# The label by which a DRA driver chooses the machines of NodePools.
GPUS_LABEL = {"example.com/gpus": "of-node-pools"}
# A ResourceClaim for one GPU, which several pods may share.
SHARED_CLAIM = "shared"


def staged(one: NodePool, now: float) -> NodePool:
    """What the NodePool is at this moment, before users correct it."""
    stage = next((stage for stage in one.stages if now < stage.until), None)
    if stage is None:
        return one
    replicas = one.replicas if stage.replicas is None else stage.replicas
    labels = {**one.labels, **stage.labels}
    return replace(one, sizes=stage.sizes or one.sizes, replicas=replicas, labels=labels)


def made(one: NodePool) -> Json:
    """The NodePool of a plan."""
    least = {} if one.min_values is None else {"minValues": one.min_values}
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [*one.sizes], **least},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [*one.capacity]},
    ]
    if one.tiers:
        requirements.append({"key": TIER, "operator": "In", "values": [*one.tiers]})
    spec: dict[str, Any] = {"requirements": requirements}
    if one.replicas is not None:
        spec["replicas"] = one.replicas
    if one.weight is not None:
        spec["weight"] = one.weight
    spec["disruption"] = {
        "consolidationPolicy": one.policy,
        "consolidateAfter": one.after,
        "budgets": [{"nodes": one.budget}, *one.budgets],
    }
    found = node_pool(one.name, **spec)
    template = found["spec"]["template"]
    template["metadata"]["labels"] |= GPUS_LABEL | one.labels
    if one.expires:
        template["spec"]["expireAfter"] = one.expires
    if one.node_class is not None:
        template["spec"]["nodeClassRef"]["name"] = one.name
    return found
