"""List prices of VM sizes by region.

Prices are retail prices of Linux VMs in USD an hour, as of the date in `prices.csv`, which `python -m tools.prices`
writes. Discounts and reservations are not part of them. A spot machine without a price counts with the price on demand,
which is the most that it costs.

Sources: https://learn.microsoft.com/en-us/rest/api/cost-management/retail-prices/azure-retail-prices,
https://learn.microsoft.com/en-us/azure/virtual-machines/spot-vms#pricing (a spot machine costs at most its price on
demand), docs/references/agent-pools.md#gpu-sizes.
"""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

import msgspec

from cloudprovider.cloud import InstanceType, PriceList
from cloudprovider.interface import ON_DEMAND, SPOT, CapacityType, Offering
from provisioner.api.zones import zone_number

from .instance_types import gpu_sizes, lookup

# Higher than the price of any machine, in USD an hour.
UNPRICED = 1e6
DATED = re.compile(r"# .*\b(\d{4}-\d\d-\d\d)\.")


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """A VM size in one region. `gpus` is 0 for a size without GPUs.

    `price`: on demand. `spot_price`: of the list. Each is None if it is not known. `order_price`: by which a size
    without a price is ordered: after all others where the list has the region, else by its price elsewhere.
    """

    name: str
    vcpus: int
    memory_gib: int
    gpu_model: str
    gpu_vendor: str
    gpus: int
    gpu_resource: str
    arch: str
    price: float | None
    spot_price: float | None = None
    order_price: float = 0.0

    def order_as(self, capacity_type: CapacityType) -> float:
        """The price by which offerings are ordered: that of `price_as`, or an estimate that is not less."""
        price = self.price_as(capacity_type)
        return self.order_price if price is None else price

    def price_as(self, capacity_type: CapacityType) -> float | None:
        """The price with which an offering counts; for spot without a price of its own it is an upper bound."""
        if capacity_type != SPOT or self.spot_price is None:
            return self.price
        return self.spot_price if self.price is None else min(self.spot_price, self.price)


@cache
def regions() -> tuple[str, ...]:
    """The regions with prices, sorted."""
    return _table().regions


def sizes(prices: PriceList) -> tuple[Size, ...]:
    """The sizes that have a price on demand, cheapest first; empty without prices of the region."""
    found = [
        _size(row, prices.on_demand[row.name], prices.spot.get(row.name))
        for row in _on_demand()
        if row.name in prices.on_demand
    ]
    return tuple(sorted(found, key=lambda size: (size.price or 0.0, size.name)))


def unpriced(prices: PriceList) -> tuple[Size, ...]:
    """The sizes that have no price on demand; all of them without prices of the region."""
    last = UNPRICED if prices.on_demand else 0.0
    found = [
        _size(
            row,
            None,
            prices.spot.get(row.name),
            order_price=last + max(row.prices.values(), default=UNPRICED + row.vcpus),
        )
        for row in _on_demand()
        if row.name not in prices.on_demand
    ]
    return tuple(sorted(found, key=lambda size: (size.order_price, size.name)))


def is_priced(name: str) -> bool:
    """Whether any region of the list has a price of this size."""
    row = _by_name().get((name.casefold(), ON_DEMAND))
    return row is not None and bool(row.prices)


def size_of(name: str) -> Size | None:
    """The data of a size, without a price; None for an unknown one. The case of the name is ignored."""
    row = _by_name().get((name.casefold(), ON_DEMAND))
    return _size(row, None) if row is not None else None


def by_price(offerings: Iterable[Offering], region: str, types: Sequence[InstanceType] = ()) -> tuple[Offering, ...]:
    """Offerings in the order in which a NodePool's claim requests them: cheapest first, at equal prices spot first.

    `types`: the instance types with their prices; offerings that none of them has count with list prices. Sizes without
    a price come last.
    """
    kinds = {kind.name.casefold(): kind for kind in types}
    known = _listed(region)

    def rank(one: Offering) -> tuple[float, bool]:
        kind, size = kinds.get(one.size.casefold()), known.get(one.size.casefold())
        offered = kind.offerings if kind is not None else ()
        same = [other for other in offered if other.capacity_type == one.capacity_type]
        price = next((other.order_price for other in same if zone_number(other.zone) == one.zone), None)
        if price is None:
            price = math.inf if size is None else size.order_as(one.capacity_type)
        return price, one.capacity_type != SPOT

    return tuple(sorted(offerings, key=rank))


@cache
def list_prices(region: str) -> PriceList:
    """The list prices of a region."""
    by_kind: dict[CapacityType, dict[str, float]] = {ON_DEMAND: {}, SPOT: {}}
    for row in _table().rows:
        if region in row.prices:
            by_kind[row.capacity_type][row.name] = row.prices[region]
    return PriceList(on_demand=by_kind[ON_DEMAND], spot=by_kind[SPOT], date=_table().date)


def is_known_size(name: str) -> bool:
    """Whether the table has this VM size, or it is a GPU size without a price."""
    return size_of(name) is not None or lookup(name) is not None


@cache
def known_sizes() -> tuple[str, ...]:
    """The names of all sizes of the table, and of GPU sizes without a price."""
    return tuple(dict.fromkeys([*(row.size for row in _on_demand()), *(size.name for size in gpu_sizes())]))


def canonical_name(name: str) -> str:
    """The name of a size in the case that Azure documents; an unknown name unchanged. Azure ignores the case."""
    found = size_of(name) or lookup(name)
    return found.name if found is not None else name


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table; `prices`: by region."""

    size: str
    capacity_type: CapacityType
    vcpus: int
    memory_gib: int
    prices: Mapping[str, float]

    @property
    def name(self) -> str:
        """The size in lower case."""
        return self.size.casefold()


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `prices.csv`. `date`: of the prices, in ISO form."""

    date: str
    regions: tuple[str, ...]
    rows: tuple[Row, ...]


def read_table(text: str) -> Table:
    """The table in the text of a file, whose first line is a comment that ends with the date. Raises ValueError."""
    comment, *lines = text.splitlines()
    date = DATED.fullmatch(comment)
    if date is None:
        raise ValueError(f"the first line has no date: {comment!r}")
    header, *rows = csv.reader(lines)
    fields = ("size", "capacity_type", "vcpus", "memory_gib")
    if tuple(header[: len(fields)]) != fields:
        raise ValueError(f"the columns are not {', '.join(fields)} and the regions")
    found_regions = header[len(fields) :]
    return Table(
        date=date[1],
        regions=tuple(found_regions),
        rows=tuple(
            Row(
                size=size,
                capacity_type=SPOT if kind == SPOT else ON_DEMAND,
                vcpus=int(vcpus),
                memory_gib=int(memory),
                prices={region: float(price) for region, price in zip(found_regions, prices, strict=True) if price},
            )
            for size, kind, vcpus, memory, *prices in rows
        ),
    )


@cache
def _table() -> Table:
    return read_table(files("cloudprovider.azure").joinpath("prices.csv").read_text(encoding="utf-8"))


@cache
def _by_name() -> Mapping[tuple[str, CapacityType], Row]:
    return {(row.name, row.capacity_type): row for row in _table().rows}


def _on_demand() -> list[Row]:
    return [row for row in _table().rows if row.capacity_type == ON_DEMAND]


@cache
def _listed(region: str) -> Mapping[str, Size]:
    """All sizes with list prices, by name in lower case."""
    prices = list_prices(region)
    return {size.name.casefold(): size for size in (*sizes(prices), *unpriced(prices))}


def _size(row: Row, price: float | None, spot_price: float | None = None, order_price: float = 0.0) -> Size:
    known = lookup(row.size)
    return Size(
        name=row.size,
        vcpus=row.vcpus,
        memory_gib=row.memory_gib,
        gpu_model=known.model if known else "",
        gpu_vendor=known.vendor if known else "",
        gpus=known.gpus if known else 0,
        gpu_resource=known.resource if known else "",
        # Grace CPUs are arm64; all other sizes of the table are amd64.
        arch="arm64" if known is not None and known.model.startswith("GB") else "amd64",
        price=price,
        spot_price=spot_price,
        order_price=order_price,
    )
