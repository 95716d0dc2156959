"""The leader's controllers that keep NodePools as they should be: replicas, and empty, drifted and expired machines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cloudprovider.image_watch import ImageWatch
from cloudprovider.interface import Instance, ResourceSku
from cloudprovider.inventory import Inventory
from controllers.actuator.actuator import Actuator
from controllers.model.policy import Policy
from controllers.provisioning.instances import InstanceTypeCache, InstanceTypes
from controllers.provisioning.nominations import Nominations
from controllers.reconcile.abandoned_commands import AbandonedCommands
from controllers.reconcile.demand_caches import DemandCaches
from controllers.reconcile.disruption_controller import KEY, DisruptionController
from controllers.reconcile.disruption_events import disruption_event
from controllers.reconcile.emptiness_controller import EmptinessController
from controllers.reconcile.expiration_controller import ExpirationController
from controllers.reconcile.launch_obstacles import LaunchObstacles
from controllers.reconcile.machines import Machines
from controllers.reconcile.nodeclaim_disruption import NodeClaimDisruption
from controllers.reconcile.static_capacity import StaticCapacity
from provisioner.api import reasons
from provisioner.api.object_errors import OBJECT_ERRORS
from provisioner.api.owner import nodepool_of
from provisioner.api.poddisruptionbudget import PodDisruptionBudget
from provisioner.metrics.observers.disruption import DisruptionMetrics
from provisioner.metrics.observers.observer import Observer
from provisioner.runtime.controller import Controller, OnFailure, Reconcile
from provisioner.runtime.isolation import Isolation, left_out
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.workqueue import WorkQueue

from .caches import Caches, known_node_pools
from .config import Clients

# Changes of pods and machines come in groups.
COLLECT_SECONDS = 1.0
# A NodePool that is deleted without `--cascade=orphan` takes its NodeClaims with it.
ABANDONED_SECONDS = 30.0
REPLACEMENT_MARGIN_SECONDS = 300.0


def build_static_capacity(
    clients: Clients,
    caches: Caches,
    demand: DemandCaches,
    actuator: Actuator,
    *,
    instance_types: Callable[[], InstanceTypes | None],
    max_new: Callable[[], int | None],
) -> Controller:
    """The controller of static NodePools, subscribed to its caches."""
    queue = WorkQueue(clients.rng, metrics=clients.metrics.workqueue("static-capacity"))
    capacity = StaticCapacity(
        demand, actuator, instance_types=instance_types, max_new=max_new, wake=queue.add, clock=clients.clock
    )
    caches.node_pools.add_event_handler(capacity.pool_changed)
    caches.claims.add_event_handler(capacity.claim_changed)
    failed = _on_failure(demand, actuator, "static capacity")
    return _controller("static-capacity", queue, capacity.reconcile, clients, failed)


def build_machines(
    clients: Clients,
    caches: Caches,
    demand: DemandCaches,
    pod_budgets: Reflector[PodDisruptionBudget],
    nominations: Nominations,
) -> Machines:
    """What all methods of disruption read, subscribed to its caches. Build it before their controllers."""
    machines = Machines(demand, pod_budgets, nominations=nominations, clock=clients.clock)
    pod_budgets.add_event_handler(machines.pod_budget_changed)
    caches.nodes.add_event_handler(machines.node_changed)
    demand.pods.add_event_handler(machines.pod_changed, on_synced=machines.pods_synced)
    return machines


def build_emptiness(
    clients: Clients,
    caches: Caches,
    demand: DemandCaches,
    actuator: Actuator,
    *,
    machines: Machines,
    instance_types: Callable[[], InstanceTypes | None],
    undecided: Callable[[], bool],
    observer: Observer,
    metrics: DisruptionMetrics,
) -> Controller:
    """The controller that removes empty machines, subscribed to its caches."""
    queue = WorkQueue(clients.rng, metrics=clients.metrics.workqueue("emptiness"))
    emptiness = EmptinessController(
        demand,
        actuator,
        machines=machines,
        instance_types=instance_types,
        undecided=undecided,
        disrupted=observer.disrupted,
        observer=metrics,
        isolation=Isolation(clients.metrics.object_errors),
        wake=lambda name: queue.add_after(name, COLLECT_SECONDS),
        clock=clients.clock,
        compute=clients.compute,
    )
    caches.node_pools.add_event_handler(emptiness.pool_changed)
    caches.claims.add_event_handler(emptiness.claim_changed)
    caches.nodes.add_event_handler(emptiness.node_changed)
    demand.pods.add_event_handler(emptiness.pod_changed)
    failed = _on_failure(demand, actuator, "the removal of empty machines")
    return _controller("emptiness", queue, emptiness.reconcile, clients, failed)


def build_disruption(
    clients: Clients,
    caches: Caches,
    demand: DemandCaches,
    actuator: Actuator,
    *,
    machines: Machines,
    obstacles: LaunchObstacles,
    nominations: Nominations,
    instance_types: Callable[[], InstanceTypes | None],
    max_new: Callable[[], int | None],
    undecided: Callable[[], bool],
    observer: Observer,
    metrics: DisruptionMetrics,
    policy: Policy,
) -> Controller:
    """The controller that replaces drifted machines and consolidates NodePools, subscribed to its caches."""
    queue = WorkQueue(clients.rng, metrics=clients.metrics.workqueue("disruption"))
    disruption = DisruptionController(
        demand,
        actuator,
        machines=machines,
        obstacles=obstacles,
        nominations=nominations,
        instance_types=instance_types,
        max_new=max_new,
        undecided=undecided,
        disrupted=observer.disrupted,
        observer=metrics,
        limit_seconds=replacement_seconds(policy),
        isolation=Isolation(clients.metrics.object_errors),
        wake=lambda: queue.add_after(KEY, COLLECT_SECONDS),
        clock=clients.clock,
        compute=clients.compute,
    )
    caches.node_pools.add_event_handler(disruption.pool_changed)
    caches.claims.add_event_handler(disruption.claim_changed)
    caches.nodes.add_event_handler(disruption.node_changed)
    demand.pods.add_event_handler(disruption.pod_changed)
    return _controller("disruption", queue, disruption.reconcile, clients)


def replacement_seconds(policy: Policy) -> float:
    """How long a replacement may take: the deadlines of all stages, so that a machine that can still come is kept."""
    stages = (policy.launch_seconds, policy.creating_seconds, policy.registration_seconds)
    return sum(stages) + policy.initialization_seconds + REPLACEMENT_MARGIN_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionConditions:
    """The controller of the conditions Drifted and Consolidatable. Call `conditions` when the inventory changes."""

    conditions: NodeClaimDisruption
    controller: Controller
    image_watch: ImageWatch


def build_disruption_conditions(
    clients: Clients,
    caches: Caches,
    demand: DemandCaches,
    actuator: Actuator,
    *,
    inventory: Inventory,
    skus: Callable[[], Mapping[str, ResourceSku] | None],
    machines: Machines,
) -> DisruptionConditions:
    """Subscribed to its caches. `skus`: the sizes of the subscription, None while they are not known."""
    queue = WorkQueue(clients.rng, metrics=clients.metrics.workqueue("nodeclaim-disruption"))
    # Whether an instance type can be had now does not matter.
    types = InstanceTypeCache(lambda _: "")

    def of_node_pools() -> list[Instance]:
        owned = (one for one in inventory.items() if one.claim_uid or one.label_uid)
        return [
            one for one in owned if any(nodepool_of(claim) is not None for claim in caches.indexes.claims_of(one.name))
        ]

    image_watch = ImageWatch(clients.provider, pools=of_node_pools)
    conditions = NodeClaimDisruption(
        demand,
        actuator,
        indexes=caches.indexes,
        inventory=inventory,
        machines=machines,
        instance_types=lambda: types.in_region(inventory.cluster.location) if inventory.cluster is not None else None,
        skus=skus,
        newest_image=image_watch.newest,
        wake=lambda name: queue.add_after(name, COLLECT_SECONDS),
        clock=clients.clock,
    )
    image_watch.add_event_handler(conditions.all_changed)
    caches.claims.add_event_handler(conditions.claim_changed)
    caches.node_pools.add_event_handler(conditions.pool_changed)
    caches.node_classes.add_event_handler(conditions.node_class_changed)
    demand.pods.add_event_handler(conditions.pod_changed)
    controller = _controller("nodeclaim-disruption", queue, conditions.reconcile, clients)
    return DisruptionConditions(conditions=conditions, controller=controller, image_watch=image_watch)


def build_expiration(
    clients: Clients,
    caches: Caches,
    demand: DemandCaches,
    actuator: Actuator,
    *,
    machines: Machines,
    observer: Observer,
) -> Controller:
    """The controller that deletes expired NodeClaims, subscribed to its cache."""
    queue = WorkQueue(clients.rng, metrics=clients.metrics.workqueue("expiration"))
    expiration = ExpirationController(
        demand,
        actuator,
        leaving=machines.leaving,
        disrupted=observer.disrupted,
        wake=queue.add,
        clock=clients.clock,
    )
    caches.claims.add_event_handler(expiration.claim_changed)
    return _controller("expiration", queue, expiration.reconcile, clients)


def build_abandoned_commands(
    clients: Clients, caches: Caches, actuator: Actuator, *, node_pools_enabled: bool
) -> Controller:
    """The controller that removes the marks of commands without a NodePool, subscribed to its caches."""
    queue = WorkQueue(clients.rng, metrics=clients.metrics.workqueue("abandoned-commands"))
    commands = AbandonedCommands(
        caches.claims,
        caches.nodes,
        actuator,
        node_pools=lambda: known_node_pools(caches, enabled=node_pools_enabled),
        wake=lambda name: queue.add_after(name, ABANDONED_SECONDS),
        clock=clients.clock,
    )
    caches.claims.add_event_handler(commands.claim_changed)
    caches.node_pools.add_event_handler(commands.pool_changed)
    return _controller("abandoned-commands", queue, commands.reconcile, clients)


def _controller(
    name: str, queue: WorkQueue, reconcile: Reconcile, clients: Clients, on_failure: OnFailure | None = None
) -> Controller:
    metrics = clients.metrics.controller(name)
    return Controller(name, queue, reconcile, workers=1, metrics=metrics, on_failure=on_failure)


def _on_failure(demand: DemandCaches, actuator: Actuator, doing: str) -> OnFailure:
    """Records an error that a NodePool causes as an Event of it; keys are names of NodePools."""

    async def failed(name: str, error: Exception, _: int) -> None:
        pool = next((one for one in demand.node_pools() if one.name == name), None)
        if pool is not None and isinstance(error, OBJECT_ERRORS):
            event = disruption_event(pool, reasons.DISRUPTION_BLOCKED, left_out(doing, error))
            actuator.record_event(pool, event)

    return failed
