"""What machines cost, as one process knows it, for its decisions, launches and metrics.

Source: docs/adr/0088-stated-prices.md, docs/adr/0090-retail-prices.md.
"""

from collections.abc import Awaitable, Callable, Iterator

import structlog

from cloudprovider.cloud import UNKNOWN_CLUSTER, Cloud, ClusterFacts, Obstacle
from cloudprovider.inventory import Inventory
from cloudprovider.prices import PriceWatch, RetailPrices
from cloudprovider.watches import SkuWatch
from controllers.provisioning.instances import InstanceTypeCache, InstanceTypes, PriceTable, no_obstacle
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclass import is_own
from provisioner.api.nodepool import NodePool
from provisioner.metrics.observers.prices import PriceReads
from provisioner.runtime.kube_errors import KubeError

from .caches import Caches, known_node_pools, overlays_known
from .config import Clients, Config
from .offerings import location_of

log = structlog.get_logger("prices")


def unknown_sizes(cloud: Cloud, prices: PriceTable) -> Iterator[str]:
    """Warnings of a price table: the sizes that nothing can be bought of."""
    for size in dict.fromkeys(offer.partition("/")[0] for offer, _ in prices):
        if not cloud.is_known_size(size):
            near = cloud.nearest_size(size)
            meant = f"; did you mean {near}?" if near else ""
            yield f"PRICES has a price of {size}, which is not a known VM size{meant}"


class PricedTypes:
    """The instance types of the cluster's region with all that changes their prices.

    `retail()`: the prices that were read last.
    """

    def __init__(
        self,
        cloud: Cloud,
        config: Config,
        *,
        caches: Caches,
        inventory: Inventory,
        skus: SkuWatch,
        retail: Callable[[], RetailPrices | None] = lambda: None,
    ) -> None:
        self._cloud = cloud
        self._config = config
        self._caches = caches
        self._inventory = inventory
        self._skus = skus
        self._retail = retail
        self._all = self._cache(lambda: no_obstacle, every_size=True)
        self._facts: ClusterFacts | None = None
        caches.nodes.add_event_handler(self._node_changed)

    def known(self) -> InstanceTypes | None:
        """Of all sizes. None until the cluster, the NodeOverlays and, if there are any, the NodePools were read."""
        return self._in_region(self._all)

    def unread(self) -> str:
        """Why the NodeOverlays could not be read, "" if they were, or if no request has failed yet."""
        error = self._caches.node_overlays.last_error
        if error is None or overlays_known(self._caches):
            return ""
        return f"the NodeOverlays, which state prices, cannot be read: {error}; gpu-provisioner check names the remedy"

    def available(self, obstacles: Callable[[], Obstacle]) -> Callable[[], InstanceTypes | None]:
        """Those that can be bought now. None also until the first read of sizes ended."""
        cache = self._cache(obstacles)

        def current() -> InstanceTypes | None:
            cluster = self._inventory.cluster
            if cluster is None or not self._skus.done:
                return None
            return self._in_region(cache, self._cloud.cluster_facts(self._caches.nodes.items(), cluster.max_pods))

        return current

    def _cache(self, obstacles: Callable[[], Obstacle], *, every_size: bool = False) -> InstanceTypeCache:
        return InstanceTypeCache(
            self._cloud,
            obstacles,
            overlays=self._caches.node_overlays.items,
            pools=self._node_pools,
            prices=self._config.prices,
            every_size=every_size,
            retail=self._retail,
        )

    def _node_pools(self) -> tuple[NodePool, ...]:
        pools = self._caches.node_pools.items()
        return tuple(one for one in pools if is_own(one.spec.template.spec.node_class_ref))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self._facts = None

    def _of_cluster(self, max_pods: int) -> ClusterFacts:
        """What overlays can require of all machines of the cluster; nothing is read of the Nodes without overlays."""
        if not self._caches.node_overlays.items():
            return UNKNOWN_CLUSTER
        if self._facts is None or self._facts.max_pods != max_pods:
            self._facts = self._cloud.cluster_facts(self._caches.nodes.items(), max_pods)
        return self._facts

    def _in_region(self, cache: InstanceTypeCache, facts: ClusterFacts | None = None) -> InstanceTypes | None:
        """`facts`: None for those that prices depend on."""
        cluster = self._inventory.cluster
        if cluster is None or not overlays_known(self._caches):
            return None
        pools = known_node_pools(self._caches, enabled=self._config.node_pools)
        if pools is None and self._caches.node_overlays.items():
            return None
        facts = facts if facts is not None else self._of_cluster(cluster.max_pods)
        return cache.in_region(cluster.location, self._skus.skus, facts)


def build_price_watch(
    clients: Clients, inventory: Inventory, save: Callable[[str, str], Awaitable[None]]
) -> PriceWatch:
    """The retail prices of the cluster's region. `save` sets an annotation of the Lease, and raises KubeError."""

    async def keep(text: str) -> None:
        try:
            await save(labels.RETAIL_PRICES, text)
        except KubeError as error:
            log.warning("failed to keep the retail prices on the Lease", error=str(error))

    return PriceWatch(
        clients.price_source,
        region=lambda: location_of(inventory),
        save=keep,
        observer=PriceReads(clients.metrics),
        clock=clients.clock,
    )
