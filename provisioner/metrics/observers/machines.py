"""Gauges of agent pools, Nodes and GPUs, and of their prices.

They are read from the caches at each scrape, by the leader only, and from the inventory once it is synced. Expected
GPUs are those of billed agent pools; a leaked agent pool has our mark and no claim.

Source: docs/references/karpenter.md#metrics (`nodes_allocatable`), docs/references/monitoring.md#names,
docs/references/rules.md#ownership-marks.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from cloudprovider.azure.instance_types import lookup
from cloudprovider.interface import ON_DEMAND, SPOT, Instance, InstanceState
from cloudprovider.inventory import Inventory
from controllers.model.ownership import Verdict, marked, verdict
from controllers.state.indexes import Indexes
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.quantity import parse_quantity
from provisioner.metrics.definitions import karpenter, own
from provisioner.metrics.definitions.labels import REGIONAL, RESOURCES

from .collector import Sample
from .label_values import LabelValues, capacity_label, size_label

FAMILIES = (karpenter.NODES_ALLOCATABLE, karpenter.PRICE, own.POOLS, own.LEAKED_POOLS, own.GPUS, own.NODE_COST)
STATES = (*(str(state) for state in InstanceState), "unknown", "foreign")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
LEFT_OVER = (Verdict.PREVIOUS, Verdict.ORPHANED_LEGACY)

# The price per hour by size; `<size>/spot` is the spot price.
PriceTable = Sequence[tuple[str, Decimal]]

GpuCounts = Counter[tuple[str, str, str]]


class MachineGauges:
    """Samples of the inventory and of `nodes()` while `leading()`."""

    def __init__(
        self,
        *,
        indexes: Indexes,
        nodes: Callable[[], Iterable[Node]],
        inventory: Inventory,
        label_values: LabelValues,
        leading: Callable[[], bool],
        prices: PriceTable,
    ) -> None:
        self._indexes = indexes
        self._nodes = nodes
        self._inventory = inventory
        self._label_values = label_values
        self._leading = leading
        self._prices = {_priced(offer): float(amount) for offer, amount in prices}

    def samples(self) -> Iterator[Sample]:
        """All samples."""
        if not self._leading():
            return
        gpus, zones = GpuCounts(), {REGIONAL}
        for node in self._nodes():
            if marked(node) or labels.REGISTERED in node.metadata.labels:
                zones.add(self._label_values.zone(node.metadata.labels))
                yield from self._node(node, gpus)
        for (size, capacity), amount in self._prices.items():
            # Prices apply to the region; dashboards join them with the zone of each Node.
            yield from ((karpenter.PRICE, (size, capacity, zone), amount) for zone in sorted(zones))
        if self._inventory.synced:
            yield from self._pools(gpus)
        yield from ((own.GPUS, about, float(count)) for about, count in gpus.items())

    def _node(self, node: Node, gpus: GpuCounts) -> Iterator[Sample]:
        known, size = node.metadata.labels, size_label(node.metadata.labels.get(labels.INSTANCE_TYPE, ""))
        shared = (
            node.name,
            self._label_values.nodepool(known),
            size,
            SPOT if known.get(labels.AKS_SPOT) == SPOT else capacity_label(known) or ON_DEMAND,
            self._label_values.zone(known),
            known.get(labels.REGION, ""),
            known.get(labels.ARCH, ""),
            known.get(labels.OS, ""),
            "true",
        )
        for resource, amount in _allocatable(node).items():
            yield karpenter.NODES_ALLOCATABLE, (*shared, resource), amount
            if resource in GPU_RESOURCES:
                gpus["allocatable", size, _model(size)] += int(amount)

    def _pools(self, gpus: GpuCounts) -> Iterator[Sample]:
        states, leaked, costs = Counter[str](), 0, dict[tuple[str, str], float]()
        for pool in self._inventory.items():
            if verdict(pool, None) is Verdict.FOREIGN:
                states["foreign"] += 1
                continue
            states["unknown" if pool.unknown_state else str(pool.state)] += 1
            leaked += self._leaked(pool)
            priced = (_canonical(pool.size), pool.offering.capacity_type)
            if priced in self._prices:
                costs[priced] = costs.get(priced, 0.0) + self._prices[priced] * pool.count
            sku = lookup(pool.size)
            if sku is not None and pool.state is not InstanceState.FAILED:
                gpus["expected", sku.name, sku.model] += sku.gpus * pool.count
        yield from ((own.POOLS, (state,), float(states[state])) for state in STATES)
        yield from ((own.NODE_COST, priced, cost) for priced, cost in costs.items())
        yield own.LEAKED_POOLS, (), float(leaked)

    def _leaked(self, pool: Instance) -> bool:
        claims = self._indexes.claims_of(pool.name)
        return all(verdict(pool, claim) in LEFT_OVER for claim in claims)


def _priced(offer: str) -> tuple[str, str]:
    size, _, spot = offer.partition("/")
    return _canonical(size), spot or ON_DEMAND


def _canonical(size: str) -> str:
    """The size in the spelling of the instance type table, if listed."""
    sku = lookup(size)
    return sku.name if sku is not None else size


def _allocatable(node: Node) -> Mapping[str, float]:
    """Allocatable amounts by Karpenter's resource names."""
    found = dict[str, float]()
    for resource, text in node.status.allocatable.items():
        name = resource.lower().replace("-", "_")
        if name in RESOURCES:
            try:
                found[name] = float(parse_quantity(text))
            except ValueError:
                continue
    return found


def _model(size: str) -> str:
    sku = lookup(size)
    return sku.model if sku is not None else ""
