"""Gauges of agent pools, Nodes and GPUs, and of their prices.

They are read from the caches at each scrape, by the leader only, and from the inventory once it is synced. Expected
GPUs are those of billed agent pools, as devices if their node class partitions or shares them; a leaked agent pool has
our mark and no claim.

Source: docs/references/karpenter.md#metrics (`nodes_allocatable`), docs/references/monitoring.md#names,
docs/references/rules.md#ownership-marks.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import fmean

from cloudprovider.cloud import Cloud
from cloudprovider.interface import ON_DEMAND, SPOT, Instance, InstanceState
from cloudprovider.inventory import Inventory
from controllers.model.gpu_devices import Devices, expected_devices
from controllers.model.ownership import Verdict, held_by, marked, verdict
from controllers.nodeclaim.lifecycle.gpu_resources import allocatable
from controllers.provisioning.instances import InstanceTypes
from controllers.state.indexes import Indexes
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.quantity import parse_quantity
from provisioner.metrics.definitions import karpenter, own
from provisioner.metrics.definitions.labels import RESOURCES
from provisioner.vendors import BY_RESOURCE

from .collector import Sample
from .label_values import LabelValues, capacity_label

FAMILIES = (
    karpenter.NODES_ALLOCATABLE,
    karpenter.PRICE,
    karpenter.NODEPOOLS_COST,
    own.POOLS,
    own.LEAKED_POOLS,
    own.GPUS,
    own.NODE_COST,
    own.UNPRICED,
)
STATES = (*(str(state) for state in InstanceState), "unknown", "foreign")
LEFT_OVER = (Verdict.PREVIOUS, Verdict.ORPHANED_LEGACY)

GpuCounts = Counter[tuple[str, str, str]]


class MachineGauges:
    """Samples of the inventory and of `nodes()` while `leading()`, and of prices once `types()` are known."""

    def __init__(
        self,
        *,
        indexes: Indexes,
        nodes: Callable[[], Iterable[Node]],
        inventory: Inventory,
        label_values: LabelValues,
        leading: Callable[[], bool],
        types: Callable[[], InstanceTypes | None],
        cloud: Cloud,
    ) -> None:
        self._cloud = cloud
        self._indexes = indexes
        self._nodes = nodes
        self._inventory = inventory
        self._label_values = label_values
        self._leading = leading
        self._types = types

    def samples(self) -> Iterator[Sample]:
        """All samples."""
        if not self._leading():
            return
        gpus, types, prices = GpuCounts(), self._types(), dict[tuple[str, str, str], list[float]]()
        for node in self._nodes():
            known = node.metadata.labels
            if marked(node) or labels.REGISTERED in known:
                size, capacity = self._offering(node)
                pool, zone = known.get(labels.NODEPOOL, ""), known.get(labels.ZONE, "")
                price = types.price(pool, size, capacity, zone) if types is not None else None
                if price is not None:
                    prices.setdefault((size, capacity, self._label_values.zone(known)), []).append(price)
                yield from self._node(node, gpus)
        # Dashboards join the price with each Node: with the mean, the sum over Nodes is that of their prices.
        yield from ((karpenter.PRICE, offering, fmean(amounts)) for offering, amounts in prices.items())
        if self._inventory.synced:
            yield from self._pools(gpus, types)
        yield from ((own.GPUS, about, float(count)) for about, count in gpus.items())

    def _node(self, node: Node, gpus: GpuCounts) -> Iterator[Sample]:
        known = node.metadata.labels
        size, capacity = self._offering(node)
        shared = (
            node.name,
            self._label_values.nodepool(known),
            size,
            capacity,
            self._label_values.zone(known),
            known.get(labels.REGION, ""),
            known.get(labels.ARCH, ""),
            known.get(labels.OS, ""),
            "true",
        )
        for resource, amount in _allocatable(node).items():
            yield karpenter.NODES_ALLOCATABLE, (*shared, resource), amount
        published = self._indexes.published_gpus(node.name)
        if published is not None:
            gpus["allocatable", size, self._cloud.gpus_of(size).model] += published
            return
        named = self._devices(self._indexes.pool_of(node), size).resource
        offered = tuple(BY_RESOURCE) if named in ("", *BY_RESOURCE) else (named,)
        if any(resource in node.status.allocatable for resource in offered):
            gpus["allocatable", size, self._cloud.gpus_of(size).model] += sum(
                allocatable(node, resource) for resource in offered
            )

    def _pools(self, gpus: GpuCounts, types: InstanceTypes | None) -> Iterator[Sample]:
        states, leaked, unpriced = Counter[str](), 0, Counter[tuple[str, str]]()
        costs, by_node_pool = dict[tuple[str, str], float](), dict[str, float]()
        for pool in self._inventory.items():
            if pool.foreign:
                states["foreign"] += 1
                continue
            states["unknown" if pool.unknown_state else str(pool.state)] += 1
            leaked += self._leaked(pool)
            priced = (self._cloud.canonical_name(pool.size), pool.offering.capacity_type)
            known_labels = self._labels_of_claim(pool)
            price = None
            if types is not None:
                price = types.price(known_labels.get(labels.NODEPOOL, ""), *priced, known_labels.get(labels.ZONE, ""))
                unpriced[priced] += pool.count if price is None else 0
            if price is not None:
                costs[priced] = costs.get(priced, 0.0) + price * pool.count
                if name := self._label_values.nodepool(known_labels):
                    by_node_pool[name] = by_node_pool.get(name, 0.0) + price * pool.count
            known = self._cloud.gpus_of(pool.size)
            if known.count and pool.state is not InstanceState.FAILED:
                about = "expected", self._cloud.canonical_name(pool.size), known.model
                gpus[about] += self._devices(pool.name, pool.size).count * pool.count
        yield from ((own.POOLS, (state,), float(states[state])) for state in STATES)
        yield from ((own.NODE_COST, priced, cost) for priced, cost in costs.items())
        yield from ((own.UNPRICED, priced, float(count)) for priced, count in unpriced.items())
        yield from ((karpenter.NODEPOOLS_COST, (name,), cost) for name, cost in by_node_pool.items())
        yield own.LEAKED_POOLS, (), float(leaked)

    def _devices(self, key: str, size: str) -> Devices:
        """The devices of a machine, as the node class of its claim states them."""
        claim = next(iter(self._indexes.claims_of(key)), None)
        node_class = self._indexes.node_class_of(claim)[0] if claim is not None else None
        return expected_devices(self._cloud.gpus_of(size), node_class.spec.gpu if node_class is not None else None)

    def _labels_of_claim(self, pool: Instance) -> Mapping[str, str]:
        """The labels of the NodeClaim that has this agent pool; none without one."""
        claim = next((claim for claim in self._indexes.claims_of(pool.name) if held_by(pool, claim)), None)
        return claim.metadata.labels if claim is not None else {}

    def _leaked(self, pool: Instance) -> bool:
        claims = self._indexes.claims_of(pool.name)
        return all(verdict(pool, claim) in LEFT_OVER for claim in claims)

    def _offering(self, node: Node) -> tuple[str, str]:
        """Size and capacity type of a Node, as label values."""
        known = node.metadata.labels
        capacity = SPOT if known.get(labels.AKS_SPOT) == SPOT else capacity_label(known) or ON_DEMAND
        return self._label_values.size(known.get(labels.INSTANCE_TYPE, "")), capacity


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
