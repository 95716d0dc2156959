"""The instance types of a region, with their offerings and the labels that a Node of each size bears.

Each size is offered without a zone, where Azure chooses the place, and in each zone in which the subscription can use
it, on demand and as spot. Where the list of sizes of the subscription is not known, each size is offered in all zones
of the region. An offering that cannot be requested has the cause.

Source: docs/references/agent-pools.md#gpu-sizes, docs/references/agent-pools.md#request-body.
"""

from collections.abc import Callable, Iterator, Mapping

from cloudprovider.azure.machine_labels import machine_labels
from cloudprovider.azure.pricing import MAX_PODS, Size, reserved, sizes
from cloudprovider.azure.regions import zones_of
from cloudprovider.azure.skus import excluded
from cloudprovider.interface import ON_DEMAND, SPOT, Offering, ResourceSku
from provisioner.api import labels
from provisioner.api.schedulable import SelectorExpression

from .scenario import InstanceTypeInput, OfferingInput

# Why an offering cannot be requested now; "" if it can.
Obstacle = Callable[[Offering], str]


def instance_types(
    region: str, obstacle: Obstacle = lambda _: "", skus: Mapping[str, ResourceSku] | None = None
) -> tuple[InstanceTypeInput, ...]:
    """All sizes with a price in the region; empty for an unknown region.

    `skus`: the sizes that the subscription can use, by name in lower case; None if they are not known.
    """
    return tuple(_instance_type(size, region, obstacle, skus) for size in sizes(region))


def _instance_type(
    size: Size, region: str, obstacle: Obstacle, skus: Mapping[str, ResourceSku] | None
) -> InstanceTypeInput:
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
        offerings=tuple(_offerings(size, region, obstacle, skus)),
    )


def _offerings(
    size: Size, region: str, obstacle: Obstacle, skus: Mapping[str, ResourceSku] | None
) -> Iterator[OfferingInput]:
    for zone in ("", *_zones(size, region, skus)):
        for kind in (ON_DEMAND, SPOT):
            offering = Offering(size=size.name, zone=zone, capacity_type=kind)
            cause = (excluded(skus, offering, region) if skus is not None else "") or obstacle(offering)
            yield OfferingInput(
                zone=f"{region}-{zone}" if zone else "",
                capacity_type=kind,
                price=size.price_as(kind),
                available=not cause,
                cause=cause,
            )


def _zones(size: Size, region: str, skus: Mapping[str, ResourceSku] | None) -> tuple[str, ...]:
    """The zones of the size. A zone that it does not have is no domain over which pods can be spread."""
    if skus is None:
        return zones_of(region)
    sku = skus.get(size.name.casefold())
    return tuple(zone for zone in sku.zones if zone not in sku.zones_restricted) if sku is not None else ()


def _of_size(size: Size) -> dict[str, tuple[str, ...]]:
    """The values of each label of a Node; () for a label that it does not bear."""
    return {key: (value,) if value else () for key, value in machine_labels(size).items()}
