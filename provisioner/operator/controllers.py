"""The controllers of one process, wired to its caches, its inventory and its leader election.

`build_controllers` starts nothing; `Controllers.add_event_handlers` connects the caches to the work queue.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from prometheus_client import Counter

from cloudprovider.inventory import Inventory
from cloudprovider.prices import PriceWatch
from cloudprovider.watches import QuotaWatch, SkuWatch
from controllers.actuator.actuator import Actuator
from controllers.actuator.cache_nodes import CacheNodeActuator
from controllers.actuator.cloud import CloudActuator
from controllers.actuator.kubernetes import KubernetesActuator
from controllers.actuator.nodepools import NodePoolActuator
from controllers.actuator.nvsentinel import NVSentinelActuator
from controllers.actuator.reads import KubernetesReads
from controllers.garbagecollection.circuit_breaker import tripped
from controllers.model.facts import Candidate, Facts
from controllers.node.health.limits import blocked_by_limits, is_suspended
from controllers.node.health.repairable import deleted_by_repair
from controllers.nodeclaim.lifecycle.launch import is_queued
from controllers.planner.evaluation import candidate
from controllers.reconcile.another_machine import AnotherMachine
from controllers.reconcile.cache_nodes import WATCHED as GKM_RESOURCES
from controllers.reconcile.cache_nodes import CacheNodes
from controllers.reconcile.event_handlers import EventHandlers
from controllers.reconcile.launch_gate import LaunchGate
from controllers.reconcile.nodepool_reconciler import NodePoolReconciler
from controllers.reconcile.nodepool_usage import NodePoolUsage
from controllers.reconcile.nvsentinel import FIELDS as NVSENTINEL_FIELDS
from controllers.reconcile.nvsentinel import NVSentinelController
from controllers.reconcile.nvsentinel import watched as nvsentinel_resources
from controllers.reconcile.reconciler import Reconciler
from controllers.reconcile.removal_records import RemovalRecords
from controllers.state.cluster import ClusterState, Rules
from controllers.state.gc_candidates import GCCandidates
from controllers.state.memory import Memory
from controllers.state.observe import observe
from controllers.state.readiness_rules import ReadinessRules
from controllers.state.repair_history import RepairHistory
from controllers.state.unhealthy_nodes import Rules as UnhealthyRules
from controllers.state.unhealthy_nodes import UnhealthyNodes
from provisioner.metrics.observers.gpus import register_gpu_metrics
from provisioner.metrics.observers.nodepools import register_nodepool_metrics
from provisioner.metrics.observers.observer import Observer
from provisioner.metrics.observers.prices import register_price_metrics
from provisioner.metrics.observers.removals import register_removal_metrics
from provisioner.runtime.controller import Controller
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.fence import Fence
from provisioner.runtime.isolation import Isolation
from provisioner.runtime.leaderelection import LeaderElector
from provisioner.runtime.manager import Manager
from provisioner.runtime.watched_objects import Fields, Watched, WatchedObject, WatchedObjects
from provisioner.runtime.workqueue import WorkQueue

from .caches import Caches, known_node_pools
from .config import Clients, Config
from .disruption import add_abandoned_commands
from .offerings import build_offering_tracker, offerings_in
from .prices import PricedTypes, build_price_watch
from .provisioning import Provisioning, Supply, build_provisioning

WORKERS = 20
# One reconcile holds at most two reads and a write, each of which ARM may take 15 s to answer.
RECONCILE_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Controllers:
    """The NodeClaim controller with its queue, what adds keys to the queue, and the metrics observers.

    `controller` is the one of NodeClaims, whose `event_handlers` the inventory and the Lease call too. `manager` has
    those of NodePools, of abandoned commands, of NVSentinel and of GKM. `objects`: the caches of what readiness rules
    name. `provisioning` None: NodePools are disabled.
    """

    cluster_state: ClusterState
    repair_history: RepairHistory
    reconciler: Reconciler
    queue: WorkQueue
    controller: Controller
    manager: Manager
    event_handlers: EventHandlers
    observer: Observer
    quota_watch: QuotaWatch
    price_watch: PriceWatch
    provisioning: Provisioning | None
    readiness: ReadinessRules
    objects: WatchedObjects

    def add_event_handlers(self, caches: Caches) -> None:
        """Subscribe to the caches. The event handlers run before the observers."""
        handlers, observer = self.event_handlers, self.observer
        caches.claims.add_event_handler(handlers.claim_changed, on_synced=handlers.cache_synced)
        caches.claims.add_event_handler(observer.claim_changed)
        caches.nodes.add_event_handler(
            handlers.node_changed, on_synced=handlers.cache_synced, on_delivered=handlers.node_delivered
        )
        caches.nodes.add_event_handler(observer.node_changed)
        caches.node_classes.add_event_handler(handlers.node_class_changed, on_synced=handlers.cache_synced)
        caches.slices.add_event_handler(handlers.slice_changed, on_synced=handlers.cache_synced)
        caches.node_classes.add_event_handler(lambda old, new: self.readiness.watch())
        caches.crds.add_event_handler(handlers.crd_changed, on_synced=handlers.cache_synced)
        self.readiness.watch()

    def pool_changed(self, key: str) -> None:
        """The inventory has another state for this agent pool."""
        self.event_handlers.pool_changed(key)
        self.observer.pool_changed(key)
        if self.provisioning is not None:
            self.provisioning.conditions.instance_changed(key)

    def pools_changed(self) -> None:
        """The managed cluster changed, or the agent pools were listed for the first time or cannot be listed."""
        self.event_handlers.all_changed()
        if self.provisioning is not None:
            self.provisioning.conditions.all_changed()


def build_controllers(
    clients: Clients,
    config: Config,
    *,
    caches: Caches,
    inventory: Inventory,
    events: EventRecorder,
    elector: LeaderElector | None,
) -> Controllers:
    """`elector` None: the process leads as soon as it runs."""
    queue = WorkQueue(clients.rng, metrics=clients.metrics.workqueue("nodeclaim"))
    launches = LaunchGate(queue.add)
    memories: dict[str, Memory] = {}
    facts = build_facts(clients, config, caches, inventory, memories)
    cluster_state = build_cluster_state(config, caches, inventory, facts)
    unhealthy_nodes = UnhealthyNodes(
        indexes=caches.indexes,
        policy=config.policy,
        rules=UnhealthyRules(
            deleted_by_repair=deleted_by_repair, blocked_by_limits=blocked_by_limits, suspended=is_suspended
        ),
    )
    register_removal_metrics(clients.metrics, cluster_state, unhealthy_nodes, clients.clock)
    fence = build_fence(elector)
    sku_watch = SkuWatch(clients.provider)
    price_watch = build_price_watch(clients, inventory, build_save(elector))
    prices = PricedTypes(
        clients.cloud,
        config,
        caches=caches,
        inventory=inventory,
        skus=sku_watch,
        retail=lambda: price_watch.current,
    )
    observer = build_observer(clients, caches, inventory, fence, prices)
    register_price_metrics(
        clients.metrics,
        types=prices.known,
        retail=lambda: price_watch.current,
        leading=lambda: fence.leads,
        clock=clients.clock,
        errors=observer.errors,
    )
    register_gpu_metrics(
        clients.metrics, clients.cloud, lambda: map(facts, tuple(memories)), lambda: fence.leads, observer.errors
    )
    offering_tracker, quota_watch = build_offering_tracker(
        clients,
        queue,
        observer,
        elector,
        inventory,
        sku_watch=sku_watch,
        node_class_of=lambda claim: caches.indexes.node_class_of(claim)[0],
        types=prices.known,
        creating_seconds=config.policy.replace_creating_seconds,
    )
    usage = NodePoolUsage(caches.claims, caches.nodes, prices.known)
    usage.add_event_handlers()
    another_machine = AnotherMachine(
        offering_tracker,
        usage,
        node_pools=lambda: known_node_pools(caches, enabled=config.node_pools),
        read_quota=quota_watch.wake,
    )
    quota_watch.add_user(lambda: another_machine.asks(asyncio.get_running_loop().time()))
    actuator = build_actuator(clients, caches, inventory, events, fence)

    def object_changed(watched: Watched, old: WatchedObject | None, new: WatchedObject | None) -> None:
        event_handlers.readiness_object_changed(watched, old, new)

    def readiness_changed(watched: Watched) -> None:
        event_handlers.readiness_changed(watched)

    objects = WatchedObjects(clients.kube, rng=clients.rng, on_object=object_changed, on_problem=readiness_changed)
    nothing: Fields = frozenset()
    also = tuple((one, nothing) for one in (GKM_RESOURCES if config.gkm_cleanup else ()))
    if config.nvsentinel is not None:
        also += tuple((one, NVSENTINEL_FIELDS) for one in nvsentinel_resources(config.nvsentinel))
    readiness = ReadinessRules(config.policy.readiness_rules, caches.node_classes.items, objects, also)
    records = NodePoolActuator(clients.kube, events, fence)
    removal_records = RemovalRecords(
        cluster_state=cluster_state, repairs=unhealthy_nodes.history, clock=clients.clock, save=build_save(elector)
    )
    reconciler = Reconciler(
        indexes=caches.indexes,
        inventory=inventory,
        actuator=actuator,
        clock=clients.clock,
        policy=config.policy,
        cluster_state=cluster_state,
        offering_tracker=offering_tracker,
        gpus=clients.cloud.gpus_of,
        unhealthy_nodes=unhealthy_nodes,
        observer=observer,
        memories=memories,
        removal_records=removal_records,
        readiness=readiness,
        another_machine=another_machine,
    )
    manager = build_manager(
        clients,
        caches,
        actuator=actuator,
        records=records,
        usage=usage,
        leads=lambda: fence.leads,
        errors=observer.errors,
        node_pools=config.node_pools,
    )
    isolation = Isolation(clients.metrics.object_errors)
    cache_nodes = CacheNodes(
        objects,
        caches.nodes,
        CacheNodeActuator(clients.kube, events, fence),
        nodes_current=lambda: caches.indexes.current,
        deletes=config.gkm_cleanup,
        isolation=isolation,
    )
    add_periodic(manager, cache_nodes)
    if config.nvsentinel is not None:
        nvsentinel = NVSentinelController(
            config.nvsentinel,
            objects,
            caches.indexes,
            caches.nodes,
            current=lambda: caches.indexes.current and inventory.synced,
            cluster_state=cluster_state,
            removal_records=removal_records,
            actuator=actuator,
            requests=NVSentinelActuator(clients.kube, events, clients.clock, fence),
            disrupted=observer.disrupted,
            isolation=isolation,
            clock=clients.clock,
        )
        add_periodic(manager, nvsentinel)
    event_handlers = EventHandlers(
        queue=queue,
        indexes=caches.indexes,
        inventory=inventory,
        cluster_state=cluster_state,
        known_keys=reconciler.keys,
        continues=reconciler.continues,
        launches=launches,
    )
    provisioning = (
        build_provisioning(
            clients,
            config,
            caches=caches,
            inventory=inventory,
            actuator=actuator,
            records=records,
            supply=Supply(tracker=offering_tracker, quota_watch=quota_watch, sku_watch=sku_watch),
            launches=launches,
            observer=observer,
            prices=prices,
        )
        if config.node_pools
        else None
    )
    return Controllers(
        cluster_state=cluster_state,
        repair_history=unhealthy_nodes.history,
        reconciler=reconciler,
        queue=queue,
        controller=Controller(
            "nodeclaim",
            queue,
            reconciler.reconcile,
            workers=WORKERS,
            reconcile_timeout_seconds=RECONCILE_TIMEOUT_SECONDS,
            metrics=clients.metrics.controller("nodeclaim"),
            log_fields=caches.indexes.log_fields,
            on_failure=reconciler.report_failure,
        ),
        event_handlers=event_handlers,
        readiness=readiness,
        objects=objects,
        observer=observer,
        quota_watch=quota_watch,
        price_watch=price_watch,
        provisioning=provisioning,
        manager=manager,
    )


def build_manager(
    clients: Clients,
    caches: Caches,
    *,
    actuator: Actuator,
    records: NodePoolActuator,
    usage: NodePoolUsage,
    leads: Callable[[], bool],
    errors: Counter,
    node_pools: bool,
) -> Manager:
    """The controllers of abandoned commands, and of NodePools and AgentPoolNodeClasses if they are enabled."""
    manager = Manager(clients.rng, clients.metrics)
    add_abandoned_commands(manager, clients, caches, actuator, node_pools_enabled=node_pools)
    if not node_pools:
        return manager
    queue = manager.queue(NodePoolReconciler)
    reconciler = NodePoolReconciler(
        queue=queue,
        node_pools=caches.node_pools,
        node_classes=caches.node_classes,
        claims=caches.claims,
        nodes=caches.nodes,
        usage=usage,
        actuator=records,
        now=clients.clock.now,
        cloud=clients.cloud,
    )
    manager.add(reconciler, queue)
    register_nodepool_metrics(clients.metrics, caches.node_pools.items, leads, errors)
    return manager


def add_periodic(manager: Manager, reconciler: CacheNodes | NVSentinelController) -> None:
    """Add a controller of one key, whose passes each state when the next one is due."""
    queue = manager.queue(type(reconciler))
    manager.add(reconciler, queue)
    queue.add("all")


def build_save(elector: LeaderElector | None) -> Callable[[str, str], Awaitable[None]]:
    """Removals and repairs are kept on the Lease; without leader election they are lost with the process."""

    async def save(annotation: str, text: str) -> None:
        if elector is not None:
            await elector.annotate(annotation, text)

    return save


def build_fence(elector: LeaderElector | None) -> Fence:
    """Limits all writes; without leader election there is no limit."""
    return Fence(elector.remaining, elector.delay_release) if elector is not None else Fence()


def build_actuator(
    clients: Clients, caches: Caches, inventory: Inventory, events: EventRecorder, fence: Fence
) -> Actuator:
    """Writes to Kubernetes and to the cloud pass the fence."""
    return Actuator(
        KubernetesActuator(kube := clients.kube.fenced(fence)),
        KubernetesReads(kube, clients.cloud.instance_label, lambda: len(caches.nodes.items())),
        CloudActuator(clients.provider, inventory, fence),
        events,
    )


CLUSTER_RULES = Rules(queued=is_queued, tripped=tripped)


def build_facts(
    clients: Clients, config: Config, caches: Caches, inventory: Inventory, memories: Mapping[str, Memory]
) -> Callable[[str], Facts]:
    """What is known of a key now, for counts and metrics: without the judgements of a pass, and remembering nothing."""

    def facts(key: str) -> Facts:
        return observe(
            key,
            indexes=caches.indexes,
            inventory=inventory,
            memory=memories.get(key, Memory()),
            policy=config.policy,
            gpus=clients.cloud.gpus_of,
            wall=clients.clock.now(),
            now=asyncio.get_running_loop().time(),
        )

    return facts


def build_cluster_state(
    config: Config, caches: Caches, inventory: Inventory, facts: Callable[[str], Facts]
) -> ClusterState:
    """Counts over all keys, and the candidates for garbage collection."""

    def evaluate(key: str) -> Candidate | None:
        return candidate(facts(key))

    def keys() -> tuple[str, ...]:
        return (*caches.indexes.keys(), *inventory.names())

    return ClusterState(
        indexes=caches.indexes,
        inventory=inventory,
        policy=config.policy,
        candidates=GCCandidates(evaluate, keys),
        rules=CLUSTER_RULES,
    )


def build_observer(
    clients: Clients, caches: Caches, inventory: Inventory, fence: Fence, prices: PricedTypes
) -> Observer:
    """The metrics observers. Only the leader exports metrics of objects."""
    return Observer(
        clients.metrics,
        indexes=caches.indexes,
        nodes=caches.nodes.items,
        inventory=inventory,
        offerings_of=offerings_in(clients.cloud, inventory),
        cloud=clients.cloud,
        clock=clients.clock,
        leading=lambda: fence.leads,
        types=prices.known,
    )
