"""The objects that users apply at the beginning of a run."""

from typing import Any

from tests.world.demand import node_pool
from tests.world.harness import Json

from .plan import TIER, NodePool

# The label by which a DRA driver chooses the machines of NodePools.
GPUS_LABEL = {"example.com/gpus": "of-node-pools"}


def made(one: NodePool) -> Json:
    """The NodePool of a plan."""
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [*one.sizes]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [*one.capacity]},
    ]
    if one.tiers:
        requirements.append({"key": TIER, "operator": "In", "values": [*one.tiers]})
    spec: dict[str, Any] = {"requirements": requirements}
    if one.replicas is not None:
        spec["replicas"] = one.replicas
    spec["disruption"] = {
        "consolidationPolicy": one.policy,
        "consolidateAfter": one.after,
        "budgets": [{"nodes": one.budget}],
    }
    found = node_pool(one.name, **spec)
    found["spec"]["template"]["metadata"]["labels"] |= GPUS_LABEL
    return found
