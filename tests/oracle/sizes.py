"""Machine sizes with list prices, and instance types that are drawn from them."""

import random
from typing import Any, NamedTuple

ZONE = "topology.kubernetes.io/zone"
ZONES = ("eastus-1", "eastus-2", "eastus-3")
# The zone label of a machine without a zone (docs/references/agent-pools.md).
REGIONAL = "0"


class Size(NamedTuple):
    """A machine size; `price` in USD an hour (eastus, pay as you go, docs/references/agent-pools.md#gpu-sizes)."""

    name: str
    cpus: int
    gib: int
    gpus: int
    price: float

    @property
    def model(self) -> str:
        """The GPU model."""
        return self.name.split("_")[-2]


SIZES = tuple(
    Size(*values)
    for values in (
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
)
GPU = "nvidia.com/gpu"
MODEL = "karpenter.azure.com/sku-gpu-name"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
# Labels of all machines of AKS, and the label and taint of its spot machines.
AKS_LABELS = {
    "kubernetes.azure.com/cluster": "MC_drawn",
    "kubernetes.azure.com/mode": "user",
    "kubernetes.azure.com/os-sku": "Ubuntu",
}
SPOT_LABEL = "kubernetes.azure.com/scalesetpriority"
SPOT_TAINT = {"key": SPOT_LABEL, "value": "spot", "effect": "NoSchedule"}
ON_SPOT = {"Labels": [{"key": SPOT_LABEL, "operator": "In", "values": ["spot"]}], "Taints": [SPOT_TAINT]}
ON_DEMAND = {"Labels": [{"key": SPOT_LABEL, "operator": "DoesNotExist"}], "Taints": list[dict[str, str]]()}


def instance_types(rng: random.Random, has: frozenset[str]) -> list[dict[str, Any]]:
    """Most of SIZES with the features of a scenario; at least one."""
    chosen = [size for size in SIZES if rng.random() < 0.8] or [SIZES[0]]
    return [_with_features(rng, instance_type(rng, size), has) for size in chosen]


def _with_features(rng: random.Random, kind: dict[str, Any], has: frozenset[str]) -> dict[str, Any]:
    """An offering has the labels and taints that AKS adds to its machines."""
    offerings = kind["offerings"]
    if "spot" not in has:
        offerings = [one for one in offerings if one["CapacityType"] != "spot"]
    if "without-zones" in has:
        first = offerings[0]["Zone"]
        offerings = [{**one, "Zone": REGIONAL} for one in offerings if one["Zone"] == first]
    elif "regional-offerings" in has and rng.random() < 0.7:
        first = offerings[0]["Zone"]
        offerings = [{**one, "Zone": REGIONAL} for one in offerings if one["Zone"] == first] + offerings
    zones = sorted({one["Zone"] for one in offerings})
    terms = sorted({one["CapacityType"] for one in offerings})
    offerings = [one | (ON_SPOT if one["CapacityType"] == "spot" else ON_DEMAND) for one in offerings]
    replaced = {ZONE: zones, CAPACITY_TYPE: terms}
    requirements = [
        {**one, "values": replaced[one["key"]]} if one["key"] in replaced else one for one in kind["requirements"]
    ]
    for key, value in AKS_LABELS.items():
        requirements.append({"key": key, "operator": "In", "values": [value]})
    capacity = {**kind["capacity"], "ephemeral-storage": rng.choice(("128Gi", "128Gi", "256Gi"))}
    overhead = {**kind["overhead"], "ephemeral-storage": "14Gi"}
    return {**kind, "requirements": requirements, "capacity": capacity, "overhead": overhead, "offerings": offerings}


def instance_type(rng: random.Random, size: Size) -> dict[str, Any]:
    """One of SIZES with the zones and capacity types in which it is sold, most of them available."""
    name, cpus, gib, gpus, price = size
    zones = [zone for zone in ZONES if rng.random() < 0.8] or [ZONES[0]]
    terms = ["on-demand", "spot"] if rng.random() < 0.5 else ["on-demand"]
    model = size.model if gpus else ""
    return {
        "name": name,
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": ZONE, "operator": "In", "values": zones},
            {"key": CAPACITY_TYPE, "operator": "In", "values": terms},
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
