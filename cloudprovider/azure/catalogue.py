"""The instance types of a region, with their offerings and the labels that a Node of each size bears.

Each size is offered without a zone, where Azure chooses the place, and in each zone in which the subscription can use
it, on demand and as spot. Where the list of sizes of the subscription is not known, each size is offered in all zones
of the region. An offering that cannot be requested has the cause.

Source: docs/references/agent-pools.md#gpu-sizes, docs/references/agent-pools.md#request-body,
docs/references/nodes.md.
"""

from collections.abc import Iterator

from cloudprovider.cloud import (
    UNKNOWN_CLUSTER,
    ClusterFacts,
    InstanceOffering,
    InstanceType,
    Obstacle,
    PriceList,
    Skus,
)
from cloudprovider.interface import ON_DEMAND, SPOT, Offering
from provisioner.api import labels
from provisioner.api.requirements import of_expected

from .machine_labels import aks_labels, machine_labels, offering_labels, offering_taints
from .node_resources import MIB, UNIT, default_disk_gib, ephemeral_storage, reserved
from .pricing import Size, is_priced, list_prices, sizes, unpriced
from .quota import needs
from .regions import zones_of
from .skus import excluded


def instance_types(
    region: str,
    obstacle: Obstacle = lambda _: "",
    skus: Skus = None,
    facts: ClusterFacts = UNKNOWN_CLUSTER,
    prices: PriceList | None = None,
    *,
    every_size: bool = False,
) -> tuple[InstanceType, ...]:
    """The sizes with a price in the region, then those without one that it may have.

    Where the region has prices, a size that only others price is left out unless the subscription's list has it.
    `every_size`: it is not.

    `skus`: the sizes that the subscription can use, by name in lower case; None if they are not known. `prices`: of
    the region; None: the list prices.
    """
    known = list_prices(region) if prices is None else prices
    here = bool(known.on_demand) and not every_size
    others = [one for one in unpriced(known) if not here or not is_priced(one.name) or _is_listed(one, skus)]
    return tuple(_instance_type(size, region, obstacle, skus, facts) for size in (*sizes(known), *others))


def _is_listed(size: Size, skus: Skus) -> bool:
    return skus is not None and size.name.casefold() in skus


def _instance_type(size: Size, region: str, obstacle: Obstacle, skus: Skus, facts: ClusterFacts) -> InstanceType:
    sku = (skus or {}).get(size.name.casefold())
    disk, usable = ephemeral_storage(default_disk_gib(size.vcpus, sku))
    capacity = {
        "cpu": size.vcpus * UNIT,
        "memory": size.memory_gib * 1024 * MIB,
        "pods": facts.max_pods * UNIT,
        "ephemeral-storage": disk,
        **({size.gpu_resource: size.gpus * UNIT} if size.gpus else {}),
    }
    taken = {**reserved(size.vcpus, size.memory_gib, facts.max_pods), "ephemeral-storage": disk - usable}
    bears = {labels.INSTANCE_TYPE: size.name, **aks_labels(), **facts.labels, **machine_labels(size)}
    return InstanceType(
        name=size.name,
        requirements=of_expected({**bears, labels.REGION: region}),
        capacity=capacity,
        allocatable={name: max(0, amount - taken.get(name, 0)) for name, amount in capacity.items()},
        offerings=tuple(_offerings(size, region, obstacle, skus, facts)),
    )


def _offerings(
    size: Size, region: str, obstacle: Obstacle, skus: Skus, facts: ClusterFacts
) -> Iterator[InstanceOffering]:
    for zone in ("", *_zones(size, region, skus)):
        for kind in (ON_DEMAND, SPOT):
            offering = Offering(size=size.name, zone=zone, capacity_type=kind)
            cause = (excluded(skus, offering, region) if skus is not None else "") or obstacle(offering)
            yield InstanceOffering(
                zone=f"{region}-{zone}" if zone else facts.regional_zone,
                capacity_type=kind,
                price=size.price_as(kind),
                order_price=size.order_as(kind),
                available=not cause,
                cause=cause,
                requirements=of_expected(offering_labels(kind, regional=not zone)),
                taints=offering_taints(kind),
                quotas=needs(offering, skus),
            )


def _zones(size: Size, region: str, skus: Skus) -> tuple[str, ...]:
    """The zones of the size. A zone that it does not have is no domain over which pods can be spread."""
    if skus is None:
        return zones_of(region)
    sku = skus.get(size.name.casefold())
    return tuple(zone for zone in sku.zones if zone not in sku.zones_restricted) if sku is not None else ()
