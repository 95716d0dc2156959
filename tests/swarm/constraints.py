"""What the pods of a workload require of their Nodes beyond GPUs: drawn for few, each of which can be met."""

from random import Random
from typing import Any

from provisioner.api import labels

from .plan import TIER, NodePool

# Of runs, those in which workloads have constraints; of their workloads, those that have one.
RUNS, WORKLOADS = 0.4, 0.8
SPREADS = (
    {"topologyKey": labels.ZONE},
    {"topologyKey": labels.HOSTNAME},
    {"topologyKey": labels.HOSTNAME, "nodeTaintsPolicy": "Honor"},
    {"topologyKey": labels.HOSTNAME, "nodeAffinityPolicy": "Ignore"},
)
OF_AKS = (
    ("kubernetes.azure.com/mode", "user"),
    ("kubernetes.azure.com/accelerator", "nvidia"),
    ("kubernetes.azure.com/os-sku", "Ubuntu"),
)


def draw(rng: Random, app: str, node_pool: NodePool) -> dict[str, Any]:
    """Fields of the spec of pods with the label `app`; none for a static NodePool, which buys nothing for pods."""
    if node_pool.replicas is not None or rng.random() >= WORKLOADS:
        return {}
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    kind = rng.choice(("spread", "spread", "near", "labels", "tier" if node_pool.tiers else "labels"))
    if kind == "spread":
        spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **selector, **rng.choice(SPREADS)}
        return {"topologySpreadConstraints": [spread]}
    if kind == "near":
        term = {"topologyKey": labels.ZONE, **selector}
        return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    if kind == "tier":
        return {"affinity": requires({"key": TIER, "operator": "In", "values": [*node_pool.tiers]})}
    name, value = rng.choice(OF_AKS)
    return {"affinity": requires({"key": name, "operator": "In", "values": [value]})}


def requires(expression: dict[str, Any]) -> dict[str, Any]:
    """The affinity of pods whose Nodes must match this expression."""
    terms = [{"matchExpressions": [expression]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def in_zones(*numbers: int) -> dict[str, Any]:
    """The spec of pods whose Nodes must be in one of these zones."""
    zones = [f"westeurope-{number}" for number in numbers]
    return {"affinity": requires({"key": labels.ZONE, "operator": "In", "values": zones})}
