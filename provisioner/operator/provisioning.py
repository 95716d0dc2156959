"""The leader's tasks that create NodeClaims for pending pods; they run only while a NodePool of this controller exists.

Without one, no pod and no DaemonSet is listed or watched.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Never

import structlog

from cloudprovider.inventory import Inventory
from cloudprovider.quota_watch import QuotaWatch
from cloudprovider.sku_watch import SkuWatch
from controllers.actuator.actuator import Actuator
from controllers.actuator.nodepools import NodePoolActuator
from controllers.model.ownership import Verdict, verdict
from controllers.model.policy import Policy
from controllers.nodeclaim.lifecycle.limits import pool_limit
from controllers.provisioning.cluster_facts import cluster_facts
from controllers.provisioning.instances import InstanceTypeCache, InstanceTypes
from controllers.provisioning.nominations import Nominations
from controllers.provisioning.pods import PodDigest, pod_indexes
from controllers.reconcile.admission_errors import AdmissionErrors
from controllers.reconcile.demand_caches import DemandCaches
from controllers.reconcile.launch_gate import LaunchGate
from controllers.reconcile.launch_obstacles import LaunchObstacles
from controllers.reconcile.machines import Machines
from controllers.reconcile.provisioner import Provisioner
from controllers.reconcile.purchase_brake import PurchaseBrake
from controllers.state.offering_tracker import OfferingTracker
from provisioner.api.bounded_digest import BoundedDigest
from provisioner.api.namespace import Namespace, NamespaceDigest
from provisioner.api.node import Node
from provisioner.api.nodeclass import is_own
from provisioner.api.nodepool import NodePool
from provisioner.api.poddisruptionbudget import PodDisruptionBudget
from provisioner.api.schedulable import DaemonSet, SchedulablePod
from provisioner.metrics.observers.disruption import DisruptionMetrics
from provisioner.metrics.observers.observer import Observer
from provisioner.metrics.observers.scheduling import SchedulingMetrics
from provisioner.runtime.controller import Controller
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import DAEMONSETS, NAMESPACES, PODDISRUPTIONBUDGETS, SCHEDULABLE_PODS
from provisioner.runtime.workqueue import WorkQueue

from .caches import Caches
from .config import Clients, Config
from .disruption import (
    DisruptionConditions,
    build_disruption,
    build_disruption_conditions,
    build_emptiness,
    build_expiration,
    build_machines,
    build_static_capacity,
)

# A pod that has ended uses nothing of its Node.
LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
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
    """`node_pools()`: the NodePools of this controller.

    `instance_types()` and `max_new()` return None while they are unknown.
    """

    node_pools: Callable[[], tuple[NodePool, ...]]
    pods: Reflector[SchedulablePod]
    daemon_sets: Reflector[DaemonSet]
    namespaces: Reflector[Namespace]
    pod_budgets: Reflector[PodDisruptionBudget]
    sku_watch: SkuWatch
    provisioner: Provisioner
    instance_types: Callable[[], InstanceTypes | None]
    max_new: Callable[[], int | None]
    demand: DemandCaches
    machines: Machines
    obstacles: LaunchObstacles
    controller: Controller
    static_capacity: Controller
    emptiness: Controller
    disruption: Controller
    expiration: Controller
    admission_errors: Controller
    disruption_conditions: DisruptionConditions
    changed: asyncio.Event
    scheduling_metrics: SchedulingMetrics

    async def run(self) -> Never:
        """Watch pods and create NodeClaims while there is a NodePool, until cancelled."""
        while True:
            await self._until(exists=True)
            log.info("started to watch pods: a NodePool exists")
            async with asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(self.pods.run(), name="pods"),
                    tasks.create_task(self.daemon_sets.run(), name="daemonsets"),
                    tasks.create_task(self.namespaces.run(), name="namespaces"),
                    tasks.create_task(self.pod_budgets.run(), name="poddisruptionbudgets"),
                    tasks.create_task(self.sku_watch.run(), name="skus"),
                    tasks.create_task(self.controller.run(), name="provisioner"),
                    tasks.create_task(self.static_capacity.run(), name="static-capacity"),
                    tasks.create_task(self.emptiness.run(), name="emptiness"),
                    tasks.create_task(self.disruption.run(), name="disruption"),
                    tasks.create_task(self.expiration.run(), name="expiration"),
                    tasks.create_task(self.admission_errors.run(), name="admission-errors"),
                    tasks.create_task(self.disruption_conditions.controller.run(), name="nodeclaim-disruption"),
                    tasks.create_task(self.disruption_conditions.image_watch.run(), name="images"),
                ]
                await self._until(exists=False)
                for task in running:
                    task.cancel()
            log.info("stopped to watch pods: no NodePool exists")
            self.pods.reset()
            self.daemon_sets.reset()
            self.namespaces.reset()
            self.pod_budgets.reset()
            self.scheduling_metrics.stopped()

    async def _until(self, *, exists: bool) -> None:
        while bool(self.node_pools()) is not exists:
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
) -> Provisioning:
    """Subscribes to the caches, which must not run yet. `records` writes what node classes record of machines."""
    kube, rng, metrics = clients.kube, clients.rng, clients.metrics
    queue = WorkQueue(rng, metrics=metrics.workqueue("provisioner"))
    of_namespaces = NamespaceDigest()
    namespaces: Reflector[Namespace] = Reflector(
        kube,
        NAMESPACES,
        rng=rng,
        indexes={},
        digest=of_namespaces,
        refusals=of_namespaces.refusals,
        metrics=metrics.reflector("namespaces"),
    )

    def number() -> int:
        return len(namespaces.items())

    digest, of_daemon_sets, of_budgets = PodDigest(number), BoundedDigest(number), BoundedDigest(number)
    pods: Reflector[SchedulablePod] = Reflector(
        kube,
        SCHEDULABLE_PODS,
        rng=rng,
        indexes=pod_indexes(),
        field_selector=LIVE_PODS,
        digest=digest,
        refusals=digest.refusals,
        metrics=metrics.reflector("pods"),
    )
    daemon_sets: Reflector[DaemonSet] = Reflector(
        kube,
        DAEMONSETS,
        rng=rng,
        indexes={},
        digest=of_daemon_sets,
        refusals=of_daemon_sets.refusals,
        metrics=metrics.reflector("daemonsets"),
    )
    pod_budgets: Reflector[PodDisruptionBudget] = Reflector(
        kube,
        PODDISRUPTIONBUDGETS,
        rng=rng,
        indexes={},
        digest=of_budgets,
        refusals=of_budgets.refusals,
        metrics=metrics.reflector("poddisruptionbudgets"),
    )
    changed = asyncio.Event()

    def node_pools() -> tuple[NodePool, ...]:
        found = caches.node_pools.items()
        return tuple(pool for pool in found if is_own(pool.spec.template.spec.node_class_ref))

    scheduling = SchedulingMetrics(metrics, observer.errors, clients.clock)
    demand = DemandCaches(
        node_pools=node_pools,
        node_class=caches.node_classes.get,
        claims=caches.claims,
        nodes=caches.nodes,
        pods=pods,
        daemon_sets=daemon_sets,
        namespaces=namespaces,
        slices=caches.slices,
        gpus_required=config.policy.gpu_readiness == "require",
    )
    instance_types = build_instance_types(inventory, supply, caches.nodes.items)
    nominations = Nominations()
    max_new = build_max_new(caches, inventory, config.policy)
    obstacles = LaunchObstacles(
        supply.tracker,
        key_of=caches.indexes.key_of,
        node_class=caches.node_classes.get,
        policy=config.policy,
        clock=clients.clock,
    )
    brake = PurchaseBrake(
        demand, records, actuator.record_event, clock=clients.clock, compute=clients.compute, observer=scheduling
    )
    provisioner = Provisioner(
        demand,
        actuator,
        instance_types=instance_types,
        max_new=max_new,
        wake=queue.add,
        on_demand=supply.quota_watch.wake,
        clock=clients.clock,
        compute=clients.compute,
        observer=scheduling,
        nominations=nominations,
        launches=launches,
        obstacles=obstacles,
        brake=brake,
    )
    supply.quota_watch.add_user(lambda: provisioner.pending)
    caches.node_pools.add_event_handler(lambda *_: changed.set())
    caches.claims.add_event_handler(provisioner.claim_changed)
    pods.add_event_handler(provisioner.pod_changed)
    pods.add_event_handler(brake.machines.pod_changed)
    pods.add_event_handler(scheduling.pod_changed)
    controller = Controller(
        "provisioner",
        queue,
        provisioner.reconcile,
        workers=1,
        reconcile_timeout_seconds=RECONCILE_TIMEOUT_SECONDS,
        metrics=metrics.controller("provisioner"),
    )
    machines = build_machines(clients, caches, demand, pod_budgets, nominations)
    disruption_metrics = DisruptionMetrics(
        metrics,
        observer.errors,
        clients.clock,
        node_pools=lambda: node_pools() if pods.synced else (),
        machines=machines.of,
    )
    return Provisioning(
        node_pools=node_pools,
        pods=pods,
        daemon_sets=daemon_sets,
        namespaces=namespaces,
        pod_budgets=pod_budgets,
        sku_watch=supply.sku_watch,
        provisioner=provisioner,
        instance_types=instance_types,
        max_new=max_new,
        demand=demand,
        machines=machines,
        obstacles=obstacles,
        controller=controller,
        static_capacity=build_static_capacity(
            clients, caches, demand, actuator, instance_types=instance_types, max_new=max_new
        ),
        emptiness=build_emptiness(
            clients,
            caches,
            demand,
            actuator,
            machines=machines,
            instance_types=instance_types,
            undecided=provisioner.undecided,
            observer=observer,
            metrics=disruption_metrics,
        ),
        disruption=build_disruption(
            clients,
            caches,
            demand,
            actuator,
            machines=machines,
            obstacles=obstacles,
            nominations=nominations,
            instance_types=instance_types,
            max_new=max_new,
            undecided=provisioner.undecided,
            observer=observer,
            metrics=disruption_metrics,
            policy=config.policy,
        ),
        expiration=build_expiration(clients, caches, demand, actuator, machines=machines, observer=observer),
        admission_errors=build_admission_errors(
            clients, caches, pods, actuator, policy=config.policy, observer=observer
        ),
        disruption_conditions=build_disruption_conditions(
            clients,
            caches,
            demand,
            actuator,
            inventory=inventory,
            skus=lambda: supply.sku_watch.skus,
            machines=machines,
        ),
        changed=changed,
        scheduling_metrics=scheduling,
    )


def build_admission_errors(
    clients: Clients,
    caches: Caches,
    pods: Reflector[SchedulablePod],
    actuator: Actuator,
    *,
    policy: Policy,
    observer: Observer,
) -> Controller:
    """The controller that reads the pods which the kubelet rejected, subscribed to the cache of pods."""
    queue = WorkQueue(clients.rng, metrics=clients.metrics.workqueue("admission-errors"))
    errors = AdmissionErrors(
        indexes=caches.indexes,
        nodes=caches.nodes,
        now=clients.clock.now,
        policy=policy,
        actuator=actuator,
        wake=lambda name: queue.add_after(name, COLLECT_SECONDS),
        seen=observer.rejected,
    )
    pods.add_event_handler(errors.pod_changed)
    caches.nodes.add_event_handler(errors.node_changed)
    metrics = clients.metrics.controller("admission-errors")
    return Controller("admission-errors", queue, errors.reconcile, workers=1, metrics=metrics)


def build_instance_types(
    inventory: Inventory, supply: Supply, nodes: Callable[[], Iterable[Node]]
) -> Callable[[], InstanceTypes | None]:
    """Those of the cluster's region; None until the cluster was read and the first read of sizes ended."""
    cache = InstanceTypeCache(lambda offering: supply.tracker.obstacle(offering, asyncio.get_running_loop().time()))

    def current() -> InstanceTypes | None:
        if inventory.cluster is None or not supply.sku_watch.done:
            return None
        cluster = inventory.cluster
        facts = cluster_facts(nodes(), cluster.max_pods)
        return cache.in_region(cluster.location, supply.sku_watch.skus, facts)

    return current


def build_max_new(caches: Caches, inventory: Inventory, policy: Policy) -> Callable[[], int | None]:
    """How many agent pools may still be created; NodeClaims without one count as well. None while it is unknown."""

    def left() -> int | None:
        if inventory.cluster is None or not inventory.synced:
            return None
        foreign = sum(1 for pool in inventory.items() if verdict(pool, None) is Verdict.FOREIGN)
        names = {pool.name for pool in inventory.items()}
        coming = sum(1 for claim in caches.claims.items() if caches.indexes.key_of(claim) not in names)
        limit = pool_limit(policy, max_pools=inventory.cluster.max_pools, foreign=foreign)
        return max(0, limit - (len(names) - foreign) - coming)

    return left
