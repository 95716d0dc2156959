"""The instance types of a region, with their offerings and the labels that a Node of each size bears.

Each size is offered without a zone, where Azure chooses the place, and in each zone in which the subscription can use
it, on demand and as spot. Where the list of sizes of the subscription is not known, each size is offered in all zones
of the region. An offering that cannot be requested has the cause.

Source: docs/references/agent-pools.md#gpu-sizes, docs/references/agent-pools.md#request-body,
docs/references/nodes.md.
"""

from collections.abc import Iterator, Mapping

from cloudprovider.cloud import UNKNOWN_CLUSTER, ClusterFacts, InstanceTypeInput, Obstacle, OfferingInput, Skus
from cloudprovider.interface import ON_DEMAND, SPOT, Offering
from provisioner.api import labels
from provisioner.api.schedulable import SelectorExpression

from .machine_labels import aks_labels, machine_labels, offering_labels, offering_taints
from .node_resources import default_disk_gib, ephemeral_storage, reserved
from .pricing import Size, is_priced, regions, sizes, unpriced
from .quota import needs
from .regions import zones_of
from .skus import excluded


def instance_types(
    region: str,
    obstacle: Obstacle = lambda _: "",
    skus: Skus = None,
    facts: ClusterFacts = UNKNOWN_CLUSTER,
) -> tuple[InstanceTypeInput, ...]:
    """The sizes with a price in the region, then those without one that it may have.

    Where the region has prices, a size that only others price is left out unless the subscription's list has it.

    `skus`: the sizes that the subscription can use, by name in lower case; None if they are not known.
    """
    here = region in regions()
    others = [one for one in unpriced(region) if not here or not is_priced(one.name) or _is_listed(one, skus)]
    return tuple(_instance_type(size, region, obstacle, skus, facts) for size in (*sizes(region), *others))


def _is_listed(size: Size, skus: Skus) -> bool:
    return skus is not None and size.name.casefold() in skus


def _instance_type(size: Size, region: str, obstacle: Obstacle, skus: Skus, facts: ClusterFacts) -> InstanceTypeInput:
    sku = (skus or {}).get(size.name.casefold())
    disk, usable = ephemeral_storage(default_disk_gib(size.vcpus, sku))
    return InstanceTypeInput(
        name=size.name,
        requirements=_requirements({**aks_labels(), **facts.labels, **machine_labels(size), labels.REGION: region}),
        capacity={
            "cpu": str(size.vcpus),
            "memory": f"{size.memory_gib}Gi",
            "pods": str(facts.max_pods),
            "ephemeral-storage": str(disk),
            **({size.gpu_resource: str(size.gpus)} if size.gpus else {}),
        },
        overhead={**reserved(size.vcpus, size.memory_gib, facts.max_pods), "ephemeral-storage": str(disk - usable)},
        offerings=tuple(_offerings(size, region, obstacle, skus, facts)),
    )


def _offerings(size: Size, region: str, obstacle: Obstacle, skus: Skus, facts: ClusterFacts) -> Iterator[OfferingInput]:
    for zone in ("", *_zones(size, region, skus)):
        for kind in (ON_DEMAND, SPOT):
            offering = Offering(size=size.name, zone=zone, capacity_type=kind)
            cause = (excluded(skus, offering, region) if skus is not None else "") or obstacle(offering)
            yield OfferingInput(
                zone=f"{region}-{zone}" if zone else facts.regional_zone,
                capacity_type=kind,
                price=size.price_as(kind),
                order_price=size.order_as(kind),
                available=not cause,
                cause=cause,
                requirements=_requirements(offering_labels(kind, regional=not zone)),
                taints=offering_taints(kind),
                quotas=needs(offering, skus),
            )


def _zones(size: Size, region: str, skus: Skus) -> tuple[str, ...]:
    """The zones of the size. A zone that it does not have is no domain over which pods can be spread."""
    if skus is None:
        return zones_of(region)
    sku = skus.get(size.name.casefold())
    return tuple(zone for zone in sku.zones if zone not in sku.zones_restricted) if sku is not None else ()


def _requirements(found: Mapping[str, str | None]) -> tuple[SelectorExpression, ...]:
    """The labels of a Node as requirements: "" for a label that it does not bear, None for one of any value."""
    return tuple(
        SelectorExpression(key=key, operator="Exists")
        if value is None
        else SelectorExpression(key=key, operator="In" if value else "DoesNotExist", values=(value,) if value else ())
        for key, value in found.items()
    )
