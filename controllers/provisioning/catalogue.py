"""The instance types of a region, with the labels that a Node of each size bears.

Source: docs/references/agent-pools.md#gpu-sizes.
"""

from collections.abc import Iterator

from cloudprovider.azure.pricing import MAX_PODS, Size, reserved, sizes
from provisioner.api import labels
from provisioner.api.schedulable import SelectorExpression

from .scenario import InstanceTypeInput, OfferingInput

DOMAIN = "karpenter.azure.com"
ZONES = ("1", "2", "3")


def instance_types(region: str) -> tuple[InstanceTypeInput, ...]:
    """All sizes with a price in the region, in every zone, on demand; empty for an unknown region."""
    return tuple(_instance_type(size, region) for size in sizes(region))


def _instance_type(size: Size, region: str) -> InstanceTypeInput:
    zones = tuple(f"{region}-{zone}" for zone in ZONES)
    return InstanceTypeInput(
        name=size.name,
        requirements=tuple(_labels(size, region, zones)),
        capacity={
            "cpu": str(size.vcpus),
            "memory": f"{size.memory_gib}Gi",
            "pods": str(MAX_PODS),
            **({size.gpu_resource: str(size.gpus)} if size.gpus else {}),
        },
        overhead=dict(reserved(size.vcpus, size.memory_gib)),
        offerings=tuple(OfferingInput(zone=zone, price=size.price) for zone in zones),
    )


def _labels(size: Size, region: str, zones: tuple[str, ...]) -> Iterator[SelectorExpression]:
    known = {
        labels.INSTANCE_TYPE: (size.name,),
        f"{DOMAIN}/sku-name": (size.name,),
        labels.REGION: (region,),
        labels.ZONE: zones,
        labels.CAPACITY_TYPE: ("on-demand",),
        labels.ARCH: (size.arch,),
        labels.OS: ("linux",),
        f"{DOMAIN}/sku-cpu": (str(size.vcpus),),
        f"{DOMAIN}/sku-memory": (str(size.memory_gib * 1024),),
        f"{DOMAIN}/sku-family": (size.name.removeprefix("Standard_")[0],),
        f"{DOMAIN}/sku-gpu-count": (str(size.gpus),),
        f"{DOMAIN}/sku-gpu-name": (size.gpu_model.split(" ")[0],) if size.gpus else (),
        f"{DOMAIN}/sku-gpu-manufacturer": (size.gpu_vendor,) if size.gpus else (),
        "accelerator": ("nvidia",) if size.gpu_vendor == "nvidia" else (),
    }
    for key, values in known.items():
        yield SelectorExpression(key=key, operator="In" if values else "DoesNotExist", values=values)
