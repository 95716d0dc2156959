"""The leader's controllers that keep NodePools as they should be: replicas, and empty, drifted and expired machines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cloudprovider.interface import Instance, ResourceSku
from cloudprovider.inventory import Inventory
from cloudprovider.watches import ImageWatch
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
from provisioner.api.causes import Cause
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.object_errors import OBJECT_ERRORS
from provisioner.api.owner import nodepool_of
from provisioner.metrics.observers.disruption import DisruptionMetrics
from provisioner.runtime.controller import OnFailure
from provisioner.runtime.isolation import Isolation, left_out
from provisioner.runtime.manager import Manager

from .caches import Caches, known_node_pools
from .config import Clients

# Changes of pods and machines come in groups.
COLLECT_SECONDS = 1.0
# A NodePool that is deleted without `--cascade=orphan` takes its NodeClaims with it.
ABANDONED_SECONDS = 30.0
REPLACEMENT_MARGIN_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What several controllers of NodePools use.

    `instance_types()`: what can be bought now. `max_new()`: how many agent pools may still be created. Both return None
    while they are unknown. `undecided()`: whether pending pods wait for a decision. `disrupted(claim, cause)`: metrics
    of removals.
    """

    clients: Clients
    demand: DemandCaches
    actuator: Actuator
    machines: Machines
    nominations: Nominations
    obstacles: LaunchObstacles
    instance_types: Callable[[], InstanceTypes | None]
    max_new: Callable[[], int | None]
    undecided: Callable[[], bool]
    disrupted: Callable[[NodeClaim, Cause], None]
    metrics: DisruptionMetrics
    policy: Policy


def add_controllers(manager: Manager, shared: Shared) -> None:
    """Those of static NodePools, and of empty, drifted, superfluous and expired machines."""
    clients, demand, actuator = shared.clients, shared.demand, shared.actuator
    isolation = Isolation(clients.metrics.object_errors)
    queue = manager.queue(StaticCapacity)
    manager.add(
        StaticCapacity(
            demand,
            actuator,
            instance_types=shared.instance_types,
            max_new=shared.max_new,
            wake=queue.add,
            clock=clients.clock,
        ),
        queue,
        on_failure=_on_failure(demand, actuator, "static capacity"),
    )
    of_empty = manager.queue(EmptinessController)
    manager.add(
        EmptinessController(
            demand,
            actuator,
            machines=shared.machines,
            cloud=clients.cloud,
            instance_types=shared.instance_types,
            undecided=shared.undecided,
            disrupted=shared.disrupted,
            observer=shared.metrics,
            isolation=isolation,
            wake=lambda name: of_empty.add_after(name, COLLECT_SECONDS),
            clock=clients.clock,
            compute=clients.compute,
        ),
        of_empty,
        on_failure=_on_failure(demand, actuator, "the removal of empty machines"),
    )
    passes = manager.queue(DisruptionController)
    manager.add(
        DisruptionController(
            demand,
            actuator,
            machines=shared.machines,
            obstacles=shared.obstacles,
            nominations=shared.nominations,
            instance_types=shared.instance_types,
            max_new=shared.max_new,
            undecided=shared.undecided,
            disrupted=shared.disrupted,
            observer=shared.metrics,
            limit_seconds=replacement_seconds(shared.policy),
            isolation=isolation,
            wake=lambda: passes.add_after(KEY, COLLECT_SECONDS),
            clock=clients.clock,
            compute=clients.compute,
        ),
        passes,
    )
    of_expired = manager.queue(ExpirationController)
    manager.add(
        ExpirationController(
            demand,
            actuator,
            leaving=shared.machines.leaving,
            disrupted=shared.disrupted,
            wake=of_expired.add,
            clock=clients.clock,
        ),
        of_expired,
    )


def replacement_seconds(policy: Policy) -> float:
    """How long a replacement may take: the deadlines of all stages, so that a machine that can still come is kept."""
    stages = (policy.launch_seconds, policy.creating_seconds, policy.registration_seconds)
    return sum(stages) + policy.initialization_seconds + REPLACEMENT_MARGIN_SECONDS


def add_conditions(
    manager: Manager,
    shared: Shared,
    *,
    caches: Caches,
    inventory: Inventory,
    image_watch: ImageWatch,
    skus: Callable[[], Mapping[str, ResourceSku] | None],
) -> NodeClaimDisruption:
    """The controller of the conditions Drifted and Consolidatable; call it when the inventory changes.

    `skus`: the sizes of the subscription, None while they are not known.
    """
    queue = manager.queue(NodeClaimDisruption)
    # Whether an instance type can be had now does not matter.
    types = InstanceTypeCache(shared.clients.cloud)
    conditions = NodeClaimDisruption(
        shared.demand,
        shared.actuator,
        indexes=caches.indexes,
        inventory=inventory,
        machines=shared.machines,
        instance_types=lambda: types.in_region(inventory.cluster.location) if inventory.cluster is not None else None,
        skus=skus,
        newest_image=image_watch.newest,
        wake=lambda name: queue.add_after(name, COLLECT_SECONDS),
        clock=shared.clients.clock,
    )
    image_watch.add_event_handler(conditions.all_changed)
    manager.add(conditions, queue)
    return conditions


def build_image_watch(clients: Clients, caches: Caches, inventory: Inventory) -> ImageWatch:
    """It reads the images of agent pools of NodePools only."""

    def of_node_pools() -> list[Instance]:
        owned = (one for one in inventory.items() if one.marks)
        return [
            one for one in owned if any(nodepool_of(claim) is not None for claim in caches.indexes.claims_of(one.name))
        ]

    return ImageWatch(clients.provider, pools=of_node_pools)


def add_abandoned_commands(
    manager: Manager, clients: Clients, caches: Caches, actuator: Actuator, *, node_pools_enabled: bool
) -> None:
    """The controller that removes the marks of commands without a NodePool."""
    queue = manager.queue(AbandonedCommands)
    manager.add(
        AbandonedCommands(
            caches.claims,
            caches.nodes,
            caches.node_pools,
            actuator,
            known_node_pools=lambda: known_node_pools(caches, enabled=node_pools_enabled),
            wake=lambda name: queue.add_after(name, ABANDONED_SECONDS),
            clock=clients.clock,
        ),
        queue,
    )


def _on_failure(demand: DemandCaches, actuator: Actuator, doing: str) -> OnFailure:
    """Records an error that a NodePool causes as an Event of it; keys are names of NodePools."""

    async def failed(name: str, error: Exception, _: int) -> None:
        pool = demand.node_pool(name)
        if pool is not None and isinstance(error, OBJECT_ERRORS):
            event = disruption_event(pool, reasons.DISRUPTION_BLOCKED, left_out(doing, error))
            actuator.record_event(pool, event)

    return failed
