"""The leader's controllers that keep NodePools as they should be: their replicas, empty and expired machines."""

from collections.abc import Callable

from controllers.actuator.actuator import Actuator
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nominations import Nominations
from controllers.reconcile.emptiness import EmptinessController
from controllers.reconcile.expiration import ExpirationController
from controllers.reconcile.provisioner import DemandCaches
from controllers.reconcile.static_capacity import StaticCapacity
from provisioner.metrics.observers.observer import Observer
from provisioner.runtime.controller import Controller, Reconcile
from provisioner.runtime.workqueue import WorkQueue

from .caches import Caches
from .config import Clients

# Changes of pods and machines come in groups.
COLLECT_SECONDS = 1.0


def build_static_capacity(
    clients: Clients,
    caches: Caches,
    demand: DemandCaches,
    actuator: Actuator,
    instance_types: Callable[[], InstanceTypes | None],
) -> Controller:
    """The controller of static NodePools, subscribed to its caches."""
    queue = WorkQueue(clients.rng, metrics=clients.metrics.workqueue("static-capacity"))
    capacity = StaticCapacity(demand, actuator, instance_types=instance_types, wake=queue.add)
    caches.node_pools.add_event_handler(capacity.pool_changed)
    caches.claims.add_event_handler(capacity.claim_changed)
    return _controller("static-capacity", queue, capacity.reconcile, clients)


def build_emptiness(
    clients: Clients,
    caches: Caches,
    demand: DemandCaches,
    actuator: Actuator,
    *,
    nominations: Nominations,
    undecided: Callable[[], bool],
    observer: Observer,
) -> Controller:
    """The controller that removes empty machines, subscribed to its caches."""
    queue = WorkQueue(clients.rng, metrics=clients.metrics.workqueue("emptiness"))
    emptiness = EmptinessController(
        demand,
        actuator,
        nominations=nominations,
        undecided=undecided,
        disrupted=observer.disrupted,
        wake=lambda name: queue.add_after(name, COLLECT_SECONDS),
        clock=clients.clock,
    )
    caches.node_pools.add_event_handler(emptiness.pool_changed)
    caches.claims.add_event_handler(emptiness.claim_changed)
    caches.nodes.add_event_handler(emptiness.node_changed)
    demand.pods.add_event_handler(emptiness.pod_changed, on_synced=emptiness.pods_synced)
    return _controller("emptiness", queue, emptiness.reconcile, clients)


def build_expiration(
    clients: Clients, caches: Caches, demand: DemandCaches, actuator: Actuator, observer: Observer
) -> Controller:
    """The controller that deletes expired NodeClaims, subscribed to its cache."""
    queue = WorkQueue(clients.rng, metrics=clients.metrics.workqueue("expiration"))
    expiration = ExpirationController(
        demand, actuator, disrupted=observer.disrupted, wake=queue.add, clock=clients.clock
    )
    caches.claims.add_event_handler(expiration.claim_changed)
    return _controller("expiration", queue, expiration.reconcile, clients)


def _controller(name: str, queue: WorkQueue, reconcile: Reconcile, clients: Clients) -> Controller:
    return Controller(name, queue, reconcile, workers=1, metrics=clients.metrics.controller(name))
