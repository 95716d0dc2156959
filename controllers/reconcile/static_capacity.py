"""Keeps the number of NodeClaims of each static NodePool at its `spec.replicas`, or at what a schedule allows.

A key is the name of a NodePool. NodeClaims have consecutive numbers in their names, so that the API server refuses one
that exists and that the cache lacks; before NodeClaims are deleted, they are listed from the API server. NodeClaims are
created in groups, and no more than agent pools may still be created, whatever `spec.replicas` is.

Source: docs/references/karpenter.md#static-nodepools, docs/references/rules.md#no-machine-is-bought-twice.
"""

from collections.abc import Callable, Iterable
from typing import ClassVar

from controllers.actuator.actuator import Actuator
from controllers.disruption.blockers import MOVABLE
from controllers.gate.gate import Evidence
from controllers.model.conditions import was_usable
from controllers.model.ownership import managed
from controllers.nodepool.replica_schedules import Desired, desired
from controllers.nodepool.static_capacity import Replica, limited, scale
from controllers.provisioning.cost import room_for
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nodepools import why_unusable
from controllers.provisioning.pods import BY_NOMINATED_NODE
from controllers.provisioning.static_machine import is_outdated, static_machine
from controllers.state.indexes import NODEPOOL
from provisioner.api import labels, reasons
from provisioner.api.conditions import LAUNCHED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import counted_in, is_member
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.clock import Clock

from .claim_creator import STALE_SECONDS, ClaimCreator
from .claim_deletion import delete_claim
from .demand_caches import DemandCaches
from .disruption_events import disruption_event
from .request_errors import RequestErrors
from .wall_clock import WallClock

RESYNC_SECONDS = 60.0
# NodeClaims that one pass creates: other NodePools have their turn in between.
GROUP = 10


class StaticCapacity:
    """`instance_types`: what can be bought now. `max_new`: how many agent pools may still be created.

    Both return None while they are unknown. `wake(name)` adds a NodePool to the work queue.
    """

    name: ClassVar[Queue] = "static-capacity"

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        instance_types: Callable[[], InstanceTypes | None],
        max_new: Callable[[], int | None],
        wake: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._instance_types = instance_types
        self._max_new = max_new
        self._wake = wake
        self._clock = clock
        self._wall = WallClock(clock)
        self._creator = ClaimCreator(caches.claims, caches.node_pools, caches.node_class, actuator)

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._caches.every_node_pool.add_event_handler(self._pool_changed)
        self._caches.claims.add_event_handler(self._claim_changed)

    def _pool_changed(self, _: NodePool | None, new: NodePool | None) -> None:
        if new is not None and new.spec.replicas is not None:
            self._wake(new.name)

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """One appeared, is being deleted, or is gone."""
        claim = new or old
        if claim is None or (old is not None and new is not None and old.deleting == new.deleting):
            return
        pool = self._caches.node_pool(counted_in(claim))
        if pool is not None and pool.spec.replicas is not None:
            self._wake(pool.name)

    async def reconcile(self, name: str) -> float | None:
        """One pass over one NodePool; returns the seconds until the next one, None: when the NodePool changes.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        pool = self._caches.node_pool(name)
        if pool is None or pool.spec.replicas is None or pool.metadata.deleting:
            return None
        if not self._caches.current:
            return STALE_SECONDS
        target = self._desired(pool)
        if target is None:
            return None
        wanted = scale(pool, self._replicas(pool, self._caches.claims.by_index(NODEPOOL, pool.metadata.uid)), target)
        if wanted.delete or wanted.replace:
            return await self._delete(pool, target)
        if why_unusable(pool):
            return RESYNC_SECONDS
        if wanted.limited:
            self._actuator.record_event(
                pool, disruption_event(pool, reasons.POOL_LIMIT_REACHED, limited(pool, wanted.limited))
            )
        return await self._create(pool, wanted.create) if wanted.create else RESYNC_SECONDS

    def _desired(self, pool: NodePool) -> Desired | None:
        """A clock that is set ahead begins no schedule."""
        return desired(pool, self._caches.settings_of(pool).replica_schedules, self._wall.now())

    def _replicas(self, pool: NodePool, claims: Iterable[NodeClaim]) -> tuple[Replica, ...]:
        # Once for all claims: whether each offering can be had is asked again each time.
        types = self._instance_types()
        return tuple(self._replica(claim, pool, types) for claim in claims if is_member(claim, pool))

    def _replica(self, claim: NodeClaim, pool: NodePool, types: InstanceTypes | None) -> Replica:
        name, now = claim.status.node_name, self._clock.now()
        node = self._caches.node_of(claim)
        annotated = (claim.metadata, *([node.metadata] if node is not None else ()))
        placed = (*self._caches.pods_on(name), *self._caches.pods_on(name, by=BY_NOMINATED_NODE))
        pods = [pod for pod in placed if pod.own and not pod.metadata.deleting]
        return Replica(
            claim=claim,
            protected=any(one.annotations.get(labels.DO_NOT_DISRUPT) == "true" for one in annotated)
            or any(pod.protects(now) for pod in placed),
            work=any(pod.eviction.group or pod.eviction.owner not in MOVABLE for pod in pods),
            gpus=any(pod.eviction.gpus for pod in pods),
            cost=sum(max(0.0, pod.eviction.cost) for pod in pods),
            outdated=self._is_outdated(claim, pool, types),
        )

    def _is_outdated(self, claim: NodeClaim, pool: NodePool, types: InstanceTypes | None) -> bool:
        if types is None or why_unusable(pool):
            return False
        node_class = self._caches.node_class(pool.spec.template.spec.node_class_ref.name)
        settings, now = self._caches.settings_of(pool), self._clock.now()
        replaces = self._caches.replaces_another(claim)
        return is_outdated(claim, pool, types, node_class=node_class, settings=settings, now=now, replaces=replaces)

    async def _create(self, pool: NodePool, count: int) -> float | None:
        claims, types, max_new = self._caches.claims.items(), self._instance_types(), self._max_new()
        if types is None or max_new is None:
            return STALE_SECONDS
        if max_new < count:
            self._actuator.record_event(
                pool, disruption_event(pool, reasons.POOL_LIMIT_REACHED, _beyond_agent_pools(pool))
            )
        if not max_new:
            return RESYNC_SECONDS
        machine = static_machine(pool, types, self._caches.settings_of(pool))
        if machine is None:
            return RESYNC_SECONDS
        own = ((one, self._caches.node_of(one)) for one in claims if counted_in(one) == pool.name)
        allowed, why = room_for(pool, own, machine.requirements, types)
        if allowed is not None and allowed < count:
            self._actuator.record_event(pool, disruption_event(pool, reasons.POOL_LIMIT_REACHED, why))
        if allowed == 0:
            return RESYNC_SECONDS
        if (seconds := await self._creator.stale(claims, pool)) is not None:
            return seconds
        group = min(count, max_new, GROUP) if allowed is None else min(count, max_new, GROUP, allowed)
        created = await self._creator.create([machine] * group, claims, types.well_known, (pool,))
        if created.denied:
            self._actuator.record_event(pool, disruption_event(pool, reasons.LAUNCH_FAILED, created.denied[0]))
        if created.again_seconds is not None:
            return created.again_seconds
        return STALE_SECONDS if created.claims and group < count else RESYNC_SECONDS

    async def _delete(self, pool: NodePool, target: Desired) -> float | None:
        """Delete what is too much, or outdated, by a fresh LIST: the cache may lack deletions of others.

        A request that fails keeps its NodeClaim only.
        """
        errors = RequestErrors()
        wanted = scale(pool, self._replicas(pool, await self._actuator.reads.claims()), target)
        for claim in wanted.replace:
            launched = claim.condition(LAUNCHED)
            message = f"Deleted, NodePool {pool.name} was changed since: {launched.message if launched else ''}"
            evidence = Evidence(cause="launch-failed", uid=claim.uid, ours=managed(claim), works=was_usable(claim))
            with errors.kept():
                await delete_claim(self._actuator, claim, evidence, message)
        for claim in wanted.delete:
            message = f"Deleted from NodePool {pool.name} by {target}"
            # The machine whose end costs least; its pods are evicted, protected ones if no other machine is left.
            evidence = Evidence(cause="scaled-down", uid=claim.uid, ours=managed(claim), seen=True)
            with errors.kept():
                await delete_claim(self._actuator, claim, evidence, message)
        errors.raise_first()
        return RESYNC_SECONDS


def _beyond_agent_pools(pool: NodePool) -> str:
    return (
        f"spec.replicas {pool.spec.replicas} is more than the limit on agent pools allows now (--max-agent-pools, or"
        " what AKS and other agent pools leave): lower spec.replicas, or raise the limit"
    )
