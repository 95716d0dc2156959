"""The instance types of a region, with their offerings and the labels that a Node of each size bears.

Each size is offered without a zone, where Azure chooses the place, and in each zone of the region, on demand and as
spot. A spot machine is priced as an on-demand one: spot prices are not known, and are never higher.

Source: docs/references/agent-pools.md#gpu-sizes, docs/references/agent-pools.md#request-body.
"""

from collections.abc import Callable

from cloudprovider.azure.machine_labels import machine_labels
from cloudprovider.azure.pricing import MAX_PODS, Size, reserved, sizes
from cloudprovider.interface import ON_DEMAND, SPOT, Offering
from provisioner.api import labels
from provisioner.api.schedulable import SelectorExpression

from .scenario import InstanceTypeInput, OfferingInput

ZONES = ("", "1", "2", "3")

# Whether an offering may be requested now.
Available = Callable[[Offering], bool]


def instance_types(region: str, available: Available = lambda _: True) -> tuple[InstanceTypeInput, ...]:
    """All sizes with a price in the region; empty for an unknown region."""
    return tuple(_instance_type(size, region, available) for size in sizes(region))


def _instance_type(size: Size, region: str, available: Available) -> InstanceTypeInput:
    return InstanceTypeInput(
        name=size.name,
        requirements=tuple(
            SelectorExpression(key=key, operator="In" if values else "DoesNotExist", values=values)
            for key, values in {**_of_size(size), labels.REGION: (region,)}.items()
        ),
        capacity={
            "cpu": str(size.vcpus),
            "memory": f"{size.memory_gib}Gi",
            "pods": str(MAX_PODS),
            **({size.gpu_resource: str(size.gpus)} if size.gpus else {}),
        },
        overhead=dict(reserved(size.vcpus, size.memory_gib)),
        offerings=tuple(
            OfferingInput(
                zone=f"{region}-{zone}" if zone else "",
                capacity_type=kind,
                price=size.price,
                available=available(Offering(size=size.name, zone=zone, capacity_type=kind)),
            )
            for zone in ZONES
            for kind in (ON_DEMAND, SPOT)
        ),
    )


def _of_size(size: Size) -> dict[str, tuple[str, ...]]:
    """The values of each label of a Node; () for a label that it does not bear."""
    return {key: (value,) if value else () for key, value in machine_labels(size).items()}
