"""List prices of VM sizes by region, and what a machine of each size offers to pods.

Prices are retail prices of Linux VMs, pay as you go, in USD an hour, as of `DATE`; `prices.csv` is written by
`python -m tools.prices`. Discounts, reservations and spot prices are not part of them.

Sources: https://learn.microsoft.com/en-us/rest/api/cost-management/retail-prices/azure-retail-prices,
docs/references/agent-pools.md#gpu-sizes,
https://learn.microsoft.com/en-us/azure/aks/node-resource-reservations.
"""

import csv
import math
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

import msgspec

from cloudprovider.interface import SPOT, Offering

from .instance_types import lookup

DATE = "2026-06-18"
MAX_PODS = 110
# kube-reserved: a share of each part of the cores and of the memory; the parts end at these sizes.
_CPU_SHARES = ((1, 60), (2, 40), (4, 20))
_CPU_REST = 10
_EVICTION_MIB = 100
_VM_OVERHEAD = 0.075


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """A VM size in one region. `gpus` is empty for a size without GPUs. `price` is None if it is not known."""

    name: str
    vcpus: int
    memory_gib: int
    gpu_model: str
    gpu_vendor: str
    gpus: int
    gpu_resource: str
    arch: str
    price: float | None


@cache
def regions() -> tuple[str, ...]:
    """The regions with prices, sorted."""
    return tuple(_table()[0][3:])


@cache
def sizes(region: str) -> tuple[Size, ...]:
    """The sizes that have a price in a region, cheapest first; empty for an unknown region."""
    header, *rows = _table()
    if region not in header[3:]:
        return ()
    column = header.index(region)
    found = [_size(row, float(row[column])) for row in rows if row[column]]
    return tuple(sorted(found, key=lambda size: (size.price or 0.0, size.name)))


@cache
def size_of(name: str) -> Size | None:
    """The data of a size, without a price; None for an unknown one. The case of the name is ignored."""
    row = next((row for row in _table()[1:] if row[0].lower() == name.lower()), None)
    return _size(row, None) if row is not None else None


def by_price(offerings: Iterable[Offering], region: str) -> tuple[Offering, ...]:
    """Offerings in the order in which a NodePool's claim requests them: cheapest first, spot before on demand.

    Spot prices are not known and never higher than those on demand. Sizes without a price come last.
    """
    prices = list_prices(region)

    def rank(one: Offering) -> tuple[float, bool]:
        return prices.get(one.size.lower(), math.inf), one.capacity_type != SPOT

    return tuple(sorted(offerings, key=rank))


@cache
def list_prices(region: str) -> Mapping[str, float]:
    """The prices on demand of a region, by the name of the size in lower case; empty for an unknown region."""
    return {size.name.lower(): size.price for size in sizes(region) if size.price is not None}


def is_known_size(name: str) -> bool:
    """Whether the table has this VM size, or it is a GPU size without a price."""
    return name in _names() or lookup(name) is not None


@cache
def _names() -> frozenset[str]:
    return frozenset(row[0] for row in _table()[1:])


def reserved(vcpus: int, memory_gib: int, max_pods: int = MAX_PODS) -> dict[str, str]:
    """What the VM, the system and the kubelet take of a machine, as quantities.

    Memory: 7.5 % that the VM never reports, the smaller of 20 MiB for each possible pod + 50 MiB and a quarter of the
    memory, and 100 MiB below which the kubelet evicts pods.
    """
    milli, before = 0, 0
    for cores, share in _CPU_SHARES:
        milli += max(0, min(vcpus, cores) - before) * share
        before = cores
    milli += max(0, vcpus - before) * _CPU_REST
    mib = memory_gib * 1024
    kube = min(20 * max_pods + 50, mib // 4)
    return {"cpu": f"{milli}m", "memory": f"{int(mib * _VM_OVERHEAD) + kube + _EVICTION_MIB}Mi"}


@cache
def _table() -> tuple[list[str], ...]:
    text = files("cloudprovider.azure").joinpath("prices.csv").read_text(encoding="utf-8")
    return tuple(csv.reader(text.splitlines()))


def _size(row: list[str], price: float | None) -> Size:
    known = lookup(row[0])
    return Size(
        name=row[0],
        vcpus=int(row[1]),
        memory_gib=int(row[2]),
        gpu_model=known.model if known else "",
        gpu_vendor=known.vendor if known else "",
        gpus=known.gpus if known else 0,
        gpu_resource=known.resource if known else "",
        # Grace CPUs are arm64; all other sizes of the table are amd64.
        arch="arm64" if known is not None and known.model.startswith("GB") else "amd64",
        price=price,
    )
