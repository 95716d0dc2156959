"""Draws scheduling scenarios by seed: NodePools, instance types with prices, nodes and pending pods."""

import random
from typing import Any

ZONES = ("eastus-1", "eastus-2", "eastus-3")
# name, vCPUs, GiB, GPUs, USD an hour (eastus, pay as you go, docs/references/agent-pools.md#gpu-sizes).
SIZES = (
    ("Standard_NC4as_T4_v3", 4, 28, 1, 0.526),
    ("Standard_NC8as_T4_v3", 8, 56, 1, 0.752),
    ("Standard_NC16as_T4_v3", 16, 110, 1, 1.204),
    ("Standard_NC64as_T4_v3", 64, 440, 4, 4.352),
    ("Standard_NV36ads_A10_v5", 36, 440, 1, 3.2),
    ("Standard_NV72ads_A10_v5", 72, 880, 2, 6.52),
    ("Standard_NC24ads_A100_v4", 24, 220, 1, 3.673),
    ("Standard_NC48ads_A100_v4", 48, 440, 2, 7.346),
    ("Standard_NC96ads_A100_v4", 96, 880, 4, 14.692),
    ("Standard_NC40ads_H100_v5", 40, 320, 1, 6.98),
    ("Standard_NC80adis_H100_v5", 80, 640, 2, 13.96),
    ("Standard_ND96amsr_A100_v4", 96, 1900, 8, 32.77),
    ("Standard_ND96isr_H100_v5", 96, 1900, 8, 98.32),
    ("Standard_D4s_v5", 4, 16, 0, 0.192),
    ("Standard_D8s_v5", 8, 32, 0, 0.384),
    ("Standard_D16s_v5", 16, 64, 0, 0.768),
    ("Standard_D64s_v5", 64, 256, 0, 3.072),
)
GPU = "nvidia.com/gpu"
MODEL = "karpenter.azure.com/sku-gpu-name"


def draw(seed: int, *, topology: bool = True) -> dict[str, Any]:
    """One scenario; the same seed draws the same one."""
    rng = random.Random(seed)
    types = [instance_type(rng, size) for size in SIZES if rng.random() < 0.8] or [instance_type(rng, SIZES[0])]
    pools = [_pool(rng, index) for index in range(rng.choice((1, 1, 1, 2, 3)))]
    nodes = [_node(rng, index) for index in range(rng.choice((0, 0, 1, 3)))]
    shapes = [_shape(rng, index, topology=topology) for index in range(rng.choice((1, 2, 3, 5)))]
    count = rng.choice((1, 2, 5, 8, 20, 50))
    pods = [_pod(number, rng.choice(shapes)) for number in range(count)]
    daemons = [_pod(9000, {"requests": {"cpu": "200m", "memory": "256Mi"}, "tolerate": True})] * (rng.random() < 0.4)
    return {
        "nodePools": pools,
        "instanceTypes": types,
        "daemonPods": daemons,
        "nodes": nodes,
        "pods": pods,
        "wellKnownLabels": [MODEL],
    }


def instance_type(rng: random.Random, size: tuple[str, int, int, int, float]) -> dict[str, Any]:
    """One of SIZES with the zones and capacity types in which it is sold, most of them available."""
    name, cpus, gib, gpus, price = size
    zones = [zone for zone in ZONES if rng.random() < 0.8] or [ZONES[0]]
    terms = ["on-demand", "spot"] if rng.random() < 0.5 else ["on-demand"]
    model = name.split("_")[-2] if gpus else ""
    return {
        "name": name,
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": terms},
            {"key": MODEL, "operator": "In", "values": [model]} if gpus else {"key": MODEL, "operator": "DoesNotExist"},
        ],
        "capacity": {"cpu": str(cpus), "memory": f"{gib}Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})},
        "overhead": {"cpu": "180m", "memory": "2Gi"},
        "offerings": [
            {
                "Zone": zone,
                "CapacityType": term,
                "Price": round(price * (0.3 if term == "spot" else 1.0), 4),
                "Available": rng.random() < 0.9,
            }
            for zone in zones
            for term in terms
        ],
    }


def _pool(rng: random.Random, index: int) -> dict[str, Any]:
    requirements: list[dict[str, Any]] = []
    if rng.random() < 0.4:
        requirements.append({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]})
    if rng.random() < 0.2:
        zones = sorted(rng.sample(ZONES, 2))
        requirements.append({"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones})
    if rng.random() < 0.2:
        requirements.append({"key": MODEL, "operator": "NotIn", "values": ["H100"]})
    spec: dict[str, Any] = {
        "template": {
            "metadata": {"labels": {"team": f"team-{index}"} if rng.random() < 0.3 else {}},
            "spec": {
                "requirements": requirements,
                "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
            },
        }
    }
    if rng.random() < 0.3:
        spec["template"]["spec"]["taints"] = [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]
    if rng.random() < 0.3:
        spec["weight"] = rng.choice((1, 10, 50))
    if rng.random() < 0.2:
        spec["limits"] = rng.choice(({GPU: "16"}, {"cpu": "200"}, {"memory": "2000Gi"}))
    return {"metadata": {"name": f"pool-{index}"}, "spec": spec}


def _node(rng: random.Random, index: int) -> dict[str, Any]:
    name, cpus, gib, gpus, _ = rng.choice(SIZES[:12])
    sizes = {"cpu": str(cpus), "memory": f"{gib}Gi", "pods": "110", GPU: str(gpus)}
    labels = {
        "kubernetes.io/hostname": f"node-{index}",
        "node.kubernetes.io/instance-type": name,
        "topology.kubernetes.io/zone": rng.choice(ZONES),
        "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        MODEL: name.split("_")[-2],
    }
    used = rng.choice((0, 0, gpus))
    running = _pod(5000 + index, {"requests": {"cpu": "1", GPU: str(used)} if used else {"cpu": "1"}})
    return {
        "node": {
            "metadata": {"name": f"node-{index}", "labels": labels},
            "spec": {"providerID": f"azure:///node-{index}"},
            "status": {"capacity": sizes, "allocatable": sizes},
        },
        "pods": [running],
    }


def _shape(rng: random.Random, index: int, *, topology: bool) -> dict[str, Any]:
    gpus = rng.choice((0, 1, 1, 1, 2, 4, 8))
    shape: dict[str, Any] = {
        "app": f"app-{index}",
        "requests": {
            "cpu": rng.choice(("500m", "1", "3", "3", "7", "12")),
            "memory": rng.choice(("512Mi", "4Gi", "14Gi", "14Gi", "60Gi")),
            **({GPU: str(gpus)} if gpus else {}),
        },
        "tolerate": rng.random() < 0.6,
    }
    if rng.random() < 0.25:
        shape["selector"] = rng.choice(
            (
                {MODEL: "T4"},
                {MODEL: "A100"},
                {"topology.kubernetes.io/zone": rng.choice(ZONES)},
                {"team": "team-0"},
                {"karpenter.sh/capacity-type": "spot"},
            )
        )
    if rng.random() < 0.2:
        values = sorted(rng.sample(ZONES, rng.choice((1, 2))))
        shape["preferred"] = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": values}
    if topology and rng.random() < 0.4:
        shape["topology"] = rng.choice(("zone", "hostname", "anti-hostname", "affinity-zone", "anti-zone"))
    return shape


def _pod(number: int, shape: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": shape.get("app", "none")}
    selector = {"matchLabels": labels}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": shape["requests"]}}]}
    if shape.get("tolerate"):
        spec["tolerations"] = [{"key": "sku", "operator": "Exists"}]
    if "selector" in shape:
        spec["nodeSelector"] = shape["selector"]
    affinity: dict[str, Any] = {}
    if "preferred" in shape:
        term = {"weight": 10, "preference": {"matchExpressions": [shape["preferred"]]}}
        affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
    match shape.get("topology"):
        case "zone" | "hostname" as kind:
            key = "topology.kubernetes.io/zone" if kind == "zone" else "kubernetes.io/hostname"
            spec["topologySpreadConstraints"] = [
                {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
            ]
        case "anti-hostname" | "anti-zone" as kind:
            key = "topology.kubernetes.io/zone" if kind == "anti-zone" else "kubernetes.io/hostname"
            term = {"topologyKey": key, "labelSelector": selector}
            affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        case "affinity-zone":
            term = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": selector}
            affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if affinity:
        spec["affinity"] = affinity
    metadata = {"name": f"pod-{number:04}", "namespace": "default", "labels": labels, "uid": f"uid-{number:04}"}
    return {"metadata": metadata, "spec": spec}
