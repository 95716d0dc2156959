"""Pools, Nodes and GPUs as a scrape finds them, and what they cost.

Read off the caches at that moment, by the leader alone; of pools only once they were listed. GPUs that are
expected are those of pools whose machine is billed; what is leaked bears our mark and has no claim.

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

# What an hour costs, by size; `/spot` behind it means its spot machines.
PriceTable = Sequence[tuple[str, Decimal]]

Gpus = Counter[tuple[str, str, str]]


class Machines:
    """Reads the inventory, and `nodes()`, when asked, if `leading()`."""

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

    def read(self) -> Iterator[Sample]:
        """All samples."""
        if not self._leading():
            return
        gpus, zones = Gpus(), {REGIONAL}
        for node in self._nodes():
            if marked(node) or labels.REGISTERED in node.metadata.labels:
                zones.add(self._label_values.zone(node.metadata.labels))
                yield from self._node(node, gpus)
        for (size, capacity), amount in self._prices.items():
            # A price is a region's; dashboards look it up by the zone of each Node.
            yield from ((karpenter.PRICE, (size, capacity, zone), amount) for zone in sorted(zones))
        if self._inventory.synced:
            yield from self._pools(gpus)
        yield from ((own.GPUS, about, float(count)) for about, count in gpus.items())

    def _node(self, node: Node, gpus: Gpus) -> Iterator[Sample]:
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

    def _pools(self, gpus: Gpus) -> Iterator[Sample]:
        states, leaked, costs = Counter[str](), 0, dict[tuple[str, str], float]()
        for pool in self._inventory.items():
            if verdict(pool, None) is Verdict.FOREIGN:
                states["foreign"] += 1
                continue
            states["unknown" if pool.unknown_state else str(pool.state)] += 1
            leaked += self._leaked(pool)
            priced = (_known(pool.size), pool.offering.capacity_type)
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
    return _known(size), spot or ON_DEMAND


def _known(size: str) -> str:
    """A size in the spelling that our data has, if it has it."""
    sku = lookup(size)
    return sku.name if sku is not None else size


def _allocatable(node: Node) -> Mapping[str, float]:
    """Karpenter's names of the resources that we tell, with their amounts."""
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
