"""Draws scheduling scenarios by seed. Each seed draws first which features its scenario has, then their values.

A scenario has NodePools, instance types with prices, DaemonSet pods, nodes with pods, and pending pods. All values are
ones that the API server accepts and stores, with what it adds at admission.
"""

import random
from typing import Any, NamedTuple

from .scenario_pods import daemon_pods, pending_pods, running_pods, shapes
from .sizes import AKS_LABELS, GPU, MODEL, REGIONAL, SIZES, SPOT_LABEL, SPOT_TAINT, ZONE, ZONES, Size, instance_types

FEATURES = (
    "affinity-to-other-apps",
    "aks-labels",
    "custom-labels",
    "daemons-with-affinity",
    "ephemeral-storage",
    "half-full-nodes",
    "host-ports",
    "inclusion-policies",
    "limits",
    "match-label-keys",
    "min-domains",
    "min-values",
    "namespaces",
    "node-affinity-terms",
    "prefer-no-schedule",
    "preferred-terms",
    "regional-offerings",
    "spot",
    "terminating-pods",
    "topology",
    "weights",
    "without-zones",
)
NAMESPACES = {"default": {}, "team-a": {"team": "a"}, "team-b": {"team": "b"}}
HALF_FULL = "half-full-nodes"


class Drawn(NamedTuple):
    """A scenario and the features that were drawn for it."""

    features: frozenset[str]
    scenario: dict[str, Any]


def draw(seed: int) -> Drawn:
    """One scenario; the same seed draws the same one. Each tenth seed draws none of the features."""
    rng = random.Random(seed)
    share = 0.0 if seed % 10 == 0 else rng.choice((0.15, 0.3, 0.5))
    has = frozenset(feature for feature in FEATURES if rng.random() < share)
    if share and rng.random() < 0.5:
        has |= {"topology"}
    types = instance_types(rng, has)
    pools = [_pool(rng, index, has) for index in range(rng.choice((1, 1, 2, 3)))]
    drawn = shapes(rng, has)
    number = rng.choice((3, 6, 10)) if HALF_FULL in has else rng.choice((0, 0, 1, 3))
    nodes = [_node(rng, index, has, pools, drawn) for index in range(number)]
    scenario = {
        "nodePools": pools,
        "instanceTypes": types,
        "daemonPods": daemon_pods(rng, has),
        "nodes": nodes,
        "pods": pending_pods(rng, drawn),
        "namespaces": [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES.items()],
        "wellKnownLabels": [MODEL, *AKS_LABELS, SPOT_LABEL],
    }
    return Drawn(has, scenario)


def _pool(rng: random.Random, index: int, has: frozenset[str]) -> dict[str, Any]:
    requirements: list[dict[str, Any]] = []
    if rng.random() < 0.4:
        requirements.append({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]})
    if "without-zones" not in has and rng.random() < 0.2:
        requirements.append({"key": ZONE, "operator": "In", "values": sorted(rng.sample(ZONES, 2))})
    if rng.random() < 0.2:
        requirements.append({"key": MODEL, "operator": "NotIn", "values": ["H100"]})
    if "custom-labels" in has and rng.random() < 0.6:
        values = rng.choice((["gold"], ["gold", "silver"], ["bronze", "gold", "silver"]))
        requirements.append({"key": "tier", "operator": "In", "values": values})
    if "min-values" in has and rng.random() < 0.7:
        requirements.append(_min_values(rng))
    labels = {"team": f"team-{index}"} if rng.random() < 0.3 else {}
    spec: dict[str, Any] = {
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "requirements": requirements,
                "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
            },
        }
    }
    taints = [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}] if rng.random() < 0.3 else []
    if "prefer-no-schedule" in has and rng.random() < 0.6:
        taints.append({"key": "costly", "value": "yes", "effect": "PreferNoSchedule"})
    if taints:
        spec["template"]["spec"]["taints"] = taints
    if "weights" in has and rng.random() < 0.7:
        spec["weight"] = rng.choice((1, 10, 50))
    if "limits" in has and rng.random() < 0.7:
        spec["limits"] = rng.choice(({GPU: "4"}, {GPU: "16"}, {"cpu": "64"}, {"cpu": "200"}, {"memory": "800Gi"}))
    return {"metadata": {"name": f"pool-{index}"}, "spec": spec}


def _min_values(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": rng.choice((2, 3))}
    return {"key": MODEL, "operator": "In", "values": ["A100", "A10", "H100", "T4"], "minValues": 2}


def _node(
    rng: random.Random, index: int, has: frozenset[str], pools: list[dict[str, Any]], drawn: list[dict[str, Any]]
) -> dict[str, Any]:
    size: Size = rng.choice(SIZES if HALF_FULL in has else SIZES[:12])
    sizes = {"cpu": str(size.cpus), "memory": f"{size.gib}Gi", "pods": "110", "ephemeral-storage": "120Gi"}
    if size.gpus:
        sizes[GPU] = str(size.gpus)
    zones = (REGIONAL,) if "without-zones" in has else (*ZONES, REGIONAL) if "regional-offerings" in has else ZONES
    labels = {
        "kubernetes.io/hostname": f"node-{index}",
        "node.kubernetes.io/instance-type": size.name,
        ZONE: rng.choice(zones),
        "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
    if size.gpus:
        labels[MODEL] = size.model
    if "aks-labels" in has:
        labels |= AKS_LABELS
    taints: list[dict[str, Any]] = []
    if rng.random() < 0.5:
        pool = rng.choice(pools)
        template = pool["spec"]["template"]
        labels |= {"karpenter.sh/nodepool": pool["metadata"]["name"], **template["metadata"]["labels"]}
        taints += template["spec"].get("taints", [])
        tiers = [one["values"] for one in template["spec"]["requirements"] if one["key"] == "tier"]
        if tiers:
            labels["tier"] = rng.choice(tiers[0])
    if "spot" in has and rng.random() < 0.3:
        labels |= {"karpenter.sh/capacity-type": "spot", SPOT_LABEL: "spot"}
        taints.append(SPOT_TAINT)
    node: dict[str, Any] = {
        "metadata": {"name": f"node-{index}", "labels": labels},
        "spec": {"providerID": f"azure:///node-{index}", "taints": taints},
        "status": {"capacity": sizes, "allocatable": sizes},
    }
    return {"node": node, "pods": running_pods(rng, index, size, drawn, has)}
