"""The instance types that can be bought now, listed once for each set of unavailable offerings.

They have the only prices of the program: those of the cloud's list, which retail prices and then a price table replace,
as NodeOverlays change them (docs/adr/0088-stated-prices.md, docs/adr/0090-retail-prices.md).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec

from cloudprovider.cloud import (
    UNKNOWN_CLUSTER,
    Cloud,
    ClusterFacts,
    InstanceOffering,
    InstanceType,
    Obstacle,
    PriceList,
)
from cloudprovider.interface import ON_DEMAND, SPOT, Offering, ResourceSku
from cloudprovider.prices import RetailPrices, with_retail
from provisioner.api import labels
from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.nodepool import NodePool

from .overlays import Overlaid, overlaid

# USD an hour by size; `<size>/spot` is the price of spot.
PriceTable = Sequence[tuple[str, Decimal]]

WELL_KNOWN = frozenset(
    {
        labels.NODEPOOL,
        labels.ZONE,
        labels.REGION,
        labels.INSTANCE_TYPE,
        labels.ARCH,
        labels.OS,
        labels.CAPACITY_TYPE,
        "node.kubernetes.io/windows-build",
    }
)


class InstanceTypes(msgspec.Struct, frozen=True, kw_only=True):
    """Of `cloud`. `well_known`: the labels that every type defines. `quotas`: those that offerings need, by name.

    `listed`: the prices of their region. `overlaid`: what NodeOverlays change of them. `table`: prices that replace
    listed ones, by size in lower case and capacity type.
    """

    types: tuple[InstanceType, ...]
    well_known: frozenset[str]
    cloud: Cloud
    quotas: frozenset[str] = frozenset()
    overlaid: Overlaid = Overlaid()
    listed: PriceList = PriceList()
    table: Mapping[tuple[str, str], float] = {}

    @property
    def stated(self) -> bool:
        """Whether a price table replaces list prices."""
        return bool(self.table)

    def of_pool(self, name: str) -> tuple[InstanceType, ...]:
        """The types as machines of the NodePool of this name have them, with its prices.

        A name that is no NodePool of this controller, such as "", stands for NodeClaims without one.
        """
        return self.overlaid.types.get(name) or self.overlaid.types.get("", self.types)

    def price(self, node_pool: str, size: str, capacity_type: str, zone: str) -> float | None:
        """What a machine of the NodePool costs, USD an hour; None if it is not known.

        `zone`: the value of its label; without one, or if it is no zone of the size, the cheapest zone counts.
        """
        kind = next((one for one in self.of_pool(node_pool) if one.name == size), None)
        if kind is None:  # a size that Azure has offered only recently
            on_demand, own = self.table.get((size.lower(), ON_DEMAND)), self.table.get((size.lower(), capacity_type))
            return own if own is not None else on_demand
        offered = [one for one in kind.offerings if one.capacity_type == capacity_type]
        here = [one for one in offered if one.zone == zone] or offered
        return min((one.price for one in here if one.price is not None), default=None)


def _well_known(types: tuple[InstanceType, ...]) -> frozenset[str]:
    """The labels that instance types or their offerings define; a NodePool need not."""
    return WELL_KNOWN.union(
        *(kind.requirements for kind in types), *(one.requirements for kind in types for one in kind.offerings)
    )


def no_obstacle(_: Offering) -> str:
    """Every offering can be requested."""
    return ""


def _priced(offer: str, cloud: Cloud) -> tuple[str, str]:
    """Size, in lower case, and capacity type of an entry of a price table."""
    size, _, spot = offer.partition("/")
    return cloud.canonical_name(size).lower(), spot or ON_DEMAND


def _stated(kind: InstanceType, prices: Mapping[tuple[str, str], float]) -> InstanceType:
    """The instance type with the prices of a table. A price on demand is the most that its spot machines cost."""
    on_demand, spot = (prices.get((kind.name.lower(), term)) for term in (ON_DEMAND, SPOT))

    def changed(one: InstanceOffering) -> InstanceOffering:
        price = on_demand if one.capacity_type == ON_DEMAND else spot
        if price is None and one.capacity_type == SPOT and on_demand is not None:
            price = on_demand if one.price is None else min(one.price, on_demand)
        return one if price is None else msgspec.structs.replace(one, price=price, order_price=price)

    return msgspec.structs.replace(kind, offerings=tuple(map(changed, kind.offerings)))


class InstanceTypeCache:
    """`obstacles()` tells of each offering why it cannot be requested now, "" if it can: all can without it.

    `overlays()`: the NodeOverlays, which apply to the instance types of `pools()`. `retail()`: prices that were read,
    instead of list prices; `prices`: instead of both. `every_size`: also sizes that nobody is known to offer in the
    region, as for machines that exist.
    """

    def __init__(
        self,
        cloud: Cloud,
        obstacles: Callable[[], Obstacle] = lambda: no_obstacle,
        overlays: Callable[[], Sequence[NodeOverlay]] = tuple,
        pools: Callable[[], Iterable[NodePool]] = tuple,
        prices: PriceTable = (),
        *,
        every_size: bool = False,
        retail: Callable[[], RetailPrices | None] = lambda: None,
    ) -> None:
        self._cloud = cloud
        self._every_size = every_size
        self._retail = retail
        self._prices = {_priced(offer, cloud): float(amount) for offer, amount in prices}
        self._obstacles = obstacles
        self._overlays = overlays
        self._pools = pools
        self._read: object = None
        self._region = ""
        self._read_prices: RetailPrices | None = None
        self._skus: Mapping[str, ResourceSku] | None = None
        self._facts = UNKNOWN_CLUSTER
        self._answers: dict[Offering, str] = {}
        self._types = InstanceTypes(types=(), well_known=WELL_KNOWN, cloud=cloud)

    def in_region(
        self,
        region: str,
        skus: Mapping[str, ResourceSku] | None = None,
        facts: ClusterFacts = UNKNOWN_CLUSTER,
    ) -> InstanceTypes:
        """The instance types of a region. `skus`: None if they are not known. `facts`: of its cluster."""
        retail = self._retail()
        same = region == self._region and skus is self._skus and facts == self._facts and retail is self._read_prices
        if same and self._current():
            return self._with_overlays()
        listed = with_retail(self._cloud.list_prices(region), retail, region)
        obstacle = self._obstacles()
        answers: dict[Offering, str] = {}

        def recorded(offering: Offering) -> str:
            answers[offering] = obstacle(offering)
            return answers[offering]

        found = self._cloud.instance_types(region, recorded, skus, facts, listed, every_size=self._every_size)
        if self._prices:
            found = tuple(_stated(kind, self._prices) for kind in found)
        self._types = InstanceTypes(
            types=found,
            well_known=_well_known(found),
            cloud=self._cloud,
            listed=listed,
            table=self._prices,
            quotas=frozenset(name for kind in found for one in kind.offerings for name in one.quotas),
        )
        self._region, self._skus, self._facts, self._answers = region, skus, facts, answers
        self._read, self._read_prices = None, retail
        return self._with_overlays()

    def _with_overlays(self) -> InstanceTypes:
        """The types with the NodeOverlays of now, which are evaluated when an overlay or a template has changed."""
        overlays = [one for one in self._overlays() if not one.metadata.deleting]
        pools = tuple(self._pools()) if overlays else ()
        read = (
            sorted((one.name, one.metadata.uid, one.metadata.generation) for one in overlays),
            sorted((one.name, sorted(one.spec.template.metadata.labels.items())) for one in pools),
        )
        if read != self._read:
            found = overlaid(overlays, pools, self._types.types) if overlays else Overlaid()
            self._types = msgspec.structs.replace(self._types, overlaid=found)
            self._read = read
        return self._types

    def _current(self) -> bool:
        obstacle = self._obstacles()
        return all(obstacle(one) == known for one, known in self._answers.items())
