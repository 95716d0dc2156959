"""Replaces drifted machines and consolidates NodePools: one pass over all of them, one new command a pass.

A pass first continues the commands under way, then looks for machines to replace in the order of Karpenter: drift of
static NodePools, drift of dynamic ones, consolidation. Nothing is decided while pending pods wait for a decision. A
consolidation is validated after 15 seconds, before anything of it is written.

Source: docs/references/karpenter.md#disruption-queue, https://karpenter.sh/docs/concepts/disruption/.
"""

import asyncio
from collections.abc import Callable, Iterable

import msgspec
import structlog

from controllers.actuator.actuator import Actuator
from controllers.disruption.command import Command
from controllers.disruption.destinations import lost, rooms
from controllers.disruption.machine import Machine, budget_left
from controllers.disruption.places import for_pods, places
from controllers.disruption.queue import Places, Replacement, replaced_by
from controllers.disruption.retries import Retries
from controllers.disruption.view import View
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nominations import Nominations
from controllers.provisioning.pods import BY_NODE
from provisioner.api.causes import REASONS, Cause, Reason
from provisioner.api.conditions import DRIFTED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of, why_foreign
from provisioner.api.schedulable import SchedulablePod
from provisioner.runtime.clock import Clock
from provisioner.runtime.compute import Compute
from provisioner.runtime.isolation import Isolation

from .claim_creator import STALE_SECONDS, ClaimCreator
from .consolidation import ConsolidationMethod
from .demand_caches import DemandCaches
from .disruption_observer import DisruptionObserver
from .disruption_read import DisruptionReader, is_concerned
from .drift import DriftMethod
from .launch_obstacles import LaunchObstacles
from .machines import Machines, nodes_used
from .removals import Removals
from .replacements import Replacements
from .request_errors import RequestErrors

# The one key of the work queue.
KEY = "disruption"
BUSY_SECONDS = 1.0
# Schedules of budgets and deadlines end without an event.
POLL_SECONDS = 10.0

log = structlog.get_logger("disruption")


class DisruptionController:
    """`instance_types`: what can be bought now. `max_new`: how many agent pools may still be created.

    Both return None while they are unknown. `undecided()`: whether pending pods wait for a decision. `compute` runs a
    decision. `disrupted(claim, cause)`: metrics of removals. `limit_seconds`: how long a replacement may take.
    """

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        machines: Machines,
        obstacles: LaunchObstacles,
        nominations: Nominations,
        instance_types: Callable[[], InstanceTypes | None],
        max_new: Callable[[], int | None],
        undecided: Callable[[], bool],
        disrupted: Callable[[NodeClaim, Cause], None],
        observer: DisruptionObserver,
        limit_seconds: float,
        isolation: Isolation,
        wake: Callable[[], None],
        clock: Clock,
        compute: Compute,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._machines = machines
        self._instance_types = instance_types
        self._max_new = max_new
        self._undecided = undecided
        self._wake = wake
        self._clock = clock
        self._compute = compute
        self._observer = observer
        # What one method fails at does not delay the others.
        self._retries: dict[Reason, Retries] = {reason: Retries() for reason in REASONS}
        self._replacements = Replacements(
            caches,
            actuator,
            ClaimCreator(caches.claims, caches.node_pools, caches.node_class, actuator),
            machines=machines,
            nominations=nominations,
            removals=Removals(caches, actuator, machines=machines, disrupted=disrupted, clock=clock),
            observer=observer,
            ended=self._ended,
            places=self._places,
            trying=obstacles.is_trying,
            limit_seconds=limit_seconds,
            clock=clock,
        )
        self._drift = DriftMethod(
            caches,
            machines=machines,
            retries=self._retries["Drifted"],
            record_event=actuator.record_event,
            observer=observer,
            isolation=isolation,
            clock=clock,
            compute=compute,
        )
        self._consolidation = ConsolidationMethod(
            caches, record_event=actuator.record_event, observer=observer, compute=compute
        )
        self._reader = DisruptionReader(
            caches,
            actuator,
            machines=machines,
            obstacles=obstacles,
            changes=lambda: self._consolidation.changes,
            isolation=isolation,
            clock=clock,
        )

    def pool_changed(self, _: NodePool | None, new: NodePool | None) -> None:
        """Subscribe this to the cache of NodePools."""
        if new is not None:
            self._changed()

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """Subscribe this to the cache of NodeClaims."""
        found = [one for one in (old, new) if one is not None and not why_foreign(one)]
        if any(is_concerned(one) or replaced_by(one) for one in found):
            self._changed()

    def pod_changed(self, old: SchedulablePod | None, new: SchedulablePod | None) -> None:
        """Subscribe this to the cache of pods: room has changed, which the next pass looks at."""
        if nodes_used(old, new):
            self._consolidation.search_again()

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Subscribe this to the cache of Nodes: what pods can be placed there."""
        if old is None or new is None or _room(old) != _room(new):
            self._consolidation.search_again()

    async def reconcile(self, _: str) -> float | None:
        """One pass; returns the seconds until the next one, None: when a NodePool or a NodeClaim changes.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        if not self._caches.node_pools():
            return None
        if not self._machines.current:
            return STALE_SECONDS
        claims = [one for one in self._caches.claims.items() if not why_foreign(one)]
        errors = RequestErrors()
        under_way = await self._replacements.advance(claims, errors)
        if under_way is None and not errors.any and not any(is_concerned(one) for one in claims):
            self._observer.candidates("Underutilized", 0)
            return None
        decided = await self._decide(claims)
        errors.raise_first()
        return min(under_way if under_way is not None else POLL_SECONDS, decided)

    async def _decide(self, claims: Iterable[NodeClaim]) -> float:
        """Begin at most one command; returns the seconds until the next pass."""
        if self._undecided():
            return BUSY_SECONDS
        drifted = any(one.condition(DRIFTED, "True") is not None for one in claims)
        if not drifted and (seconds := self._consolidation.due_in) > 0:
            return min(seconds, POLL_SECONDS)
        types, max_new = self._instance_types(), self._max_new()
        if types is None or max_new is None:
            return STALE_SECONDS
        if drifted and (command := self._drift.static(types, max_new)) is not None:
            return await self._begin_static(command, types, max_new)
        read = self._reader.read(types, max_new)
        if not drifted and self._consolidation.has_searched(read):
            return POLL_SECONDS
        view, read = await self._reader.view(read)
        if drifted and (command := await self._drift.dynamic(view)) is not None:
            return await self._begin(command, types, view)
        # A machine can stay drifted for weeks: nothing else is searched again because of that.
        if (seconds := self._consolidation.due_in) > 0:
            return min(seconds, POLL_SECONDS)
        waiting = self._retries["Underutilized"].waiting((one.claim for one in view.machines), _now())
        view = msgspec.structs.replace(view, waiting=waiting)
        command, seconds = await self._consolidation.decide(view, read)
        return await self._begin(command, types, view) if command is not None else seconds

    async def _begin_static(self, command: Command, types: InstanceTypes, max_new: int) -> float:
        """Carry out a command of a static NodePool, unless a pod would have no place; others have their turn then."""
        view, _ = await self._reader.view(self._reader.read(types, max_new))
        found = await self._compute(lambda: for_pods(view, command))
        if isinstance(found, str):
            self._drift.keep(command, found)
            return BUSY_SECONDS
        return await self._begin(found, types, view)

    async def _begin(self, command: Command, types: InstanceTypes, view: View | None) -> float:
        """Carry out a command, unless its machines, budgets or destinations have changed since the decision."""
        current = self._current(command)
        if current is None or self._undecided():
            return BUSY_SECONDS
        if view is not None and (why := self._lost(command, view)):
            log.info("disruption rejected", NodeClaims=[one.claim.name for one in command.machines], cause=why)
            self._observer.rejected(command)
            return BUSY_SECONDS
        seconds = await self._replacements.begin(current, types.well_known)
        self._consolidation.search_again()
        return BUSY_SECONDS if seconds is None else seconds

    def _lost(self, command: Command, view: View) -> str:
        """Why the destinations of a command have not the room any more that they had in the view."""
        names, caches = command.destinations, self._caches
        nodes = [node for name in names if (node := caches.nodes.get(name)) is not None]
        pods = [pod for name in names for pod in caches.pods.by_index(BY_NODE, name)]
        before = rooms(names, view.observed.nodes, view.observed.pods)
        every = [one for machines in self._machines.by_pool().values() for one in machines]
        return lost(before, rooms(names, nodes, pods), every)

    async def _places(self, command: Replacement) -> Places | None:
        """Where the pods of the old machines of a command go now; None if that cannot be computed now."""
        types = self._instance_types()
        if types is None:
            return None
        view, _ = await self._reader.view(self._reader.read(types, 0))
        return await self._compute(lambda: places(view, command))

    def _current(self, command: Command) -> Command | None:
        """The command with its machines as they are now; None if it is not allowed any more."""
        uids = {one.claim.uid for one in command.machines}
        owners = {owner.uid for one in command.machines if (owner := nodepool_of(one.claim)) is not None}
        now = self._clock.now()
        found = list[Machine]()
        for pool in self._caches.node_pools():
            if pool.metadata.uid not in owners:
                continue
            machines = self._machines.of(pool)
            own = [one for one in machines if one.claim.uid in uids]
            left = budget_left(pool, machines, command.reason, now)
            blocked = (one.blocked_eventually if command.reason == "Drifted" else one.blocked for one in own)
            if any(blocked) or (left is not None and len(own) > left):
                return None
            found += own
        return msgspec.structs.replace(command, machines=tuple(found)) if len(found) == len(uids) else None

    def _changed(self) -> None:
        self._consolidation.search_again()
        self._wake()

    def _ended(self, command: Replacement, why: str) -> None:
        retries = self._retries[command.reason]
        if not why:
            retries.succeeded(command)
            return
        static = {pool.name for pool in self._caches.node_pools() if pool.spec.replicas is not None}
        retries.failed(command, why, _now(), static=bool(static & command.node_pools))


def _room(node: Node) -> tuple[object, ...]:
    """What of a Node decides about the pods that can be placed there; its conditions change all the time."""
    return node.metadata.labels, node.spec.taints, node.status.allocatable, node.deleting


def _now() -> float:
    return asyncio.get_running_loop().time()
