"""The leader's tasks that create NodeClaims for pending pods; they run only while a NodePool of this controller exists.

Without one, no pod and no DaemonSet is listed or watched.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Never

import structlog

from cloudprovider.inventory import Inventory
from cloudprovider.watches import ImageWatch, QuotaWatch, SkuWatch
from controllers.actuator.actuator import Actuator
from controllers.actuator.nodepools import NodePoolActuator
from controllers.model.policy import Policy
from controllers.nodeclaim.lifecycle.limits import pool_limit
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nominations import Nominations
from controllers.reconcile.admission_errors import AdmissionErrors
from controllers.reconcile.demand_caches import DemandCaches
from controllers.reconcile.launch_gate import LaunchGate
from controllers.reconcile.launch_obstacles import LaunchObstacles
from controllers.reconcile.machines import Machines
from controllers.reconcile.node_overlays import NodeOverlays
from controllers.reconcile.nodeclaim_disruption import NodeClaimDisruption
from controllers.reconcile.provisioner import Provisioner
from controllers.reconcile.purchase_brake import PurchaseBrake
from controllers.state.offering_tracker import OfferingTracker
from provisioner.metrics.observers.disruption import DisruptionMetrics
from provisioner.metrics.observers.observer import Observer
from provisioner.metrics.observers.scheduling import SchedulingMetrics
from provisioner.runtime.manager import Manager

from .caches import Caches, build_demand_caches
from .config import Clients, Config
from .disruption import Shared, add_conditions, add_controllers, build_image_watch
from .prices import PricedTypes

# A pass ends by itself: decisions end after a number of steps, and each request has its own timeout. This one is for
# what nobody thought of; it is far above the time of a decision on a slow processor, because a cancelled one is lost.
RECONCILE_TIMEOUT_SECONDS = 150.0
# The kubelet rejects pods in groups.
COLLECT_SECONDS = 2.0

log = structlog.get_logger("operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """What is known of the machines that can be bought."""

    tracker: OfferingTracker
    quota_watch: QuotaWatch
    sku_watch: SkuWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioning:
    """`instance_types()` and `max_new()` return None while they are unknown.

    `conditions`: to be called when the inventory changes. `changed`: a NodePool was.
    """

    demand: DemandCaches
    manager: Manager
    sku_watch: SkuWatch
    image_watch: ImageWatch
    provisioner: Provisioner
    instance_types: Callable[[], InstanceTypes | None]
    max_new: Callable[[], int | None]
    machines: Machines
    obstacles: LaunchObstacles
    conditions: NodeClaimDisruption
    changed: asyncio.Event
    scheduling_metrics: SchedulingMetrics

    async def run(self) -> Never:
        """Watch pods and create NodeClaims while there is a NodePool, until cancelled."""
        while True:
            await self._until(exists=True)
            log.info("started to watch pods: a NodePool exists")
            async with asyncio.TaskGroup() as tasks:
                running: list[asyncio.Task[Never]] = [
                    *(tasks.create_task(one.run(), name="cache") for one in self.demand.while_needed),
                    tasks.create_task(self.sku_watch.run(), name="skus"),
                    tasks.create_task(self.image_watch.run(), name="images"),
                    *self.manager.start(tasks),
                ]
                await self._until(exists=False)
                for task in running:
                    task.cancel()
            log.info("stopped to watch pods: no NodePool exists")
            for cache in self.demand.while_needed:
                cache.reset()
            self.scheduling_metrics.stopped()

    async def _until(self, *, exists: bool) -> None:
        while bool(self.demand.node_pools()) is not exists:
            self.changed.clear()
            await self.changed.wait()


def build_provisioning(
    clients: Clients,
    config: Config,
    *,
    caches: Caches,
    inventory: Inventory,
    actuator: Actuator,
    records: NodePoolActuator,
    supply: Supply,
    launches: LaunchGate,
    observer: Observer,
    prices: PricedTypes,
) -> Provisioning:
    """Subscribes to the caches, which must not run yet. `records` writes what node classes record of machines."""
    metrics, manager = clients.metrics, Manager(clients.rng, clients.metrics)
    changed = asyncio.Event()
    demand = build_demand_caches(clients, caches, gpus_required=config.policy.gpu_readiness == "require")
    scheduling = SchedulingMetrics(metrics, observer.errors, clients.clock)
    instance_types = prices.available(lambda: supply.tracker.obstacles(asyncio.get_running_loop().time()))
    nominations = Nominations()
    max_new = build_max_new(caches, inventory, config.policy)
    obstacles = LaunchObstacles(
        supply.tracker,
        key_of=caches.indexes.key_of,
        node_class=demand.node_class,
        policy=config.policy,
        clock=clients.clock,
    )
    queue = manager.queue(Provisioner)
    provisioner = Provisioner(
        demand,
        actuator,
        instance_types=instance_types,
        max_new=max_new,
        unread=prices.unread,
        wake=queue.add,
        on_demand=supply.quota_watch.wake,
        clock=clients.clock,
        compute=clients.compute,
        observer=scheduling,
        nominations=nominations,
        launches=launches,
        obstacles=obstacles,
        brake=PurchaseBrake(
            demand, records, actuator.record_event, clock=clients.clock, compute=clients.compute, observer=scheduling
        ),
    )
    supply.quota_watch.add_user(lambda: provisioner.pending)
    caches.node_pools.add_event_handler(lambda *_: changed.set())
    manager.add(provisioner, queue, reconcile_timeout_seconds=RECONCILE_TIMEOUT_SECONDS)
    demand.pods.add_event_handler(scheduling.pod_changed)
    machines = Machines(demand, nominations=nominations, pool_of=clients.cloud.pool_of, clock=clients.clock)
    machines.add_event_handlers()
    shared = Shared(
        clients=clients,
        demand=demand,
        actuator=actuator,
        machines=machines,
        nominations=nominations,
        obstacles=obstacles,
        instance_types=instance_types,
        max_new=max_new,
        undecided=provisioner.undecided,
        disrupted=observer.disrupted,
        metrics=DisruptionMetrics(
            metrics,
            observer.errors,
            clients.clock,
            node_pools=lambda: demand.node_pools() if demand.pods.synced else (),
            count=machines.count,
            drifted=machines.drifted,
        ),
        policy=config.policy,
    )
    add_controllers(manager, shared)
    overlays = manager.queue(NodeOverlays)
    node_overlays = NodeOverlays(
        queue=overlays,
        overlays=caches.node_overlays,
        node_pools=caches.node_pools,
        instance_types=prices.known,
        actuator=records,
        now=clients.clock.now,
    )
    manager.add(node_overlays, overlays)
    add_admission_errors(manager, shared, caches, observer)
    image_watch = build_image_watch(clients, caches, inventory)
    return Provisioning(
        demand=demand,
        manager=manager,
        sku_watch=supply.sku_watch,
        image_watch=image_watch,
        provisioner=provisioner,
        instance_types=instance_types,
        max_new=max_new,
        machines=machines,
        obstacles=obstacles,
        conditions=add_conditions(
            manager,
            shared,
            caches=caches,
            inventory=inventory,
            image_watch=image_watch,
            skus=lambda: supply.sku_watch.skus,
        ),
        changed=changed,
        scheduling_metrics=scheduling,
    )


def add_admission_errors(manager: Manager, shared: Shared, caches: Caches, observer: Observer) -> None:
    """The controller that reads the pods which the kubelet rejected."""
    queue = manager.queue(AdmissionErrors)
    manager.add(
        AdmissionErrors(
            indexes=caches.indexes,
            nodes=caches.nodes,
            pods=shared.demand.pods,
            now=shared.clients.clock.now,
            policy=shared.policy,
            actuator=shared.actuator,
            wake=lambda name: queue.add_after(name, COLLECT_SECONDS),
            seen=observer.rejected,
        ),
        queue,
    )


def build_max_new(caches: Caches, inventory: Inventory, policy: Policy) -> Callable[[], int | None]:
    """How many agent pools may still be created; NodeClaims without one count as well. None while it is unknown."""

    def left() -> int | None:
        if inventory.cluster is None or not inventory.synced:
            return None
        known = inventory.tally
        coming = sum(1 for claim in caches.claims.items() if inventory.get(caches.indexes.key_of(claim)) is None)
        limit = pool_limit(policy, max_pools=inventory.cluster.max_pools, foreign=known.foreign)
        return max(0, limit - (known.pools - known.foreign) - coming)

    return left
