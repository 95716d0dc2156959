"""Carries out what the methods of disruption decide: one pass over all NodePools, one new command a pass.

A pass first continues the commands under way, and then runs the methods in their order until one of them has a command
(`controllers.disruption.methods`). Emptiness has a controller of its own. Nothing is decided while pending pods wait
for a decision. A consolidation is validated after 15 seconds, before anything of it is written.

Source: docs/references/karpenter.md#disruption-queue, https://karpenter.sh/docs/concepts/disruption/.
"""

import asyncio
from collections.abc import Callable
from typing import ClassVar

import msgspec
import structlog

from controllers.actuator.actuator import Actuator
from controllers.disruption.command import Command, Evaluation, renewed
from controllers.disruption.commands_under_way import Places, Replacement, replaced_by
from controllers.disruption.consolidation import validated
from controllers.disruption.destinations import lost, rooms
from controllers.disruption.drift import why_held
from controllers.disruption.methods import CONDITIONS, CONSOLIDATION, EMPTINESS, METHODS, Method, Pass
from controllers.disruption.places import places
from controllers.disruption.retries import Retries
from controllers.disruption.view import View
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nodepools import why_unusable
from controllers.provisioning.nominations import Nominations
from provisioner.api.causes import REASONS, Cause, Reason
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import why_foreign
from provisioner.api.pod import Pod
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.clock import Clock
from provisioner.runtime.compute import Compute
from provisioner.runtime.isolation import Isolation

from .claim_creator import STALE_SECONDS, ClaimCreator
from .consolidation_searches import POLL_SECONDS, ConsolidationSearches
from .demand_caches import DemandCaches
from .disruption_events import EvaluationEvents
from .disruption_queue import DisruptionQueue
from .disruption_read import DisruptionReader, Read, is_concerned
from .launch_obstacles import LaunchObstacles
from .machines import Machines, nodes_used
from .observers import DisruptionObserver, timed
from .removals import Removals
from .request_errors import RequestErrors

# The one key of the work queue.
KEY = "disruption"
BUSY_SECONDS = 1.0
# A command of these begins when it is found. Emptiness has a controller of its own, which states why.
AT_ONCE = tuple(one for one in METHODS if one not in (EMPTINESS, CONSOLIDATION))

log = structlog.get_logger("disruption")


class DisruptionController:
    """`instance_types`: what can be bought now. `max_new`: how many agent pools may still be created.

    Both return None while they are unknown. `undecided()`: whether pending pods wait for a decision. `compute` runs a
    decision. `disrupted(claim, cause)`: metrics of removals. `limit_seconds`: how long a replacement may take.
    """

    name: ClassVar[Queue] = "disruption"

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
        self._queue = DisruptionQueue(
            caches,
            actuator,
            ClaimCreator(caches.claims, caches.node_pools, caches.node_class, actuator),
            machines=machines,
            nominations=nominations,
            removals=Removals(
                caches, actuator, machines=machines, instance_types=instance_types, disrupted=disrupted, clock=clock
            ),
            observer=observer,
            ended=self._ended,
            places=self._places,
            trying=obstacles.is_trying,
            limit_seconds=limit_seconds,
            clock=clock,
        )
        self._events = EvaluationEvents(caches, actuator.record_event, isolation)
        self._searches = ConsolidationSearches()
        self._reader = DisruptionReader(
            caches,
            actuator,
            machines=machines,
            obstacles=obstacles,
            changes=lambda: self._searches.changes,
            isolation=isolation,
            clock=clock,
        )

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._caches.every_node_pool.add_event_handler(self._pool_changed)
        self._caches.claims.add_event_handler(self._claim_changed)
        self._caches.nodes.add_event_handler(self._node_changed)
        self._caches.pods.add_event_handler(self._pod_changed)

    def _pool_changed(self, _: NodePool | None, new: NodePool | None) -> None:
        if new is not None:
            self._changed()

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        found = [one for one in (old, new) if one is not None and not why_foreign(one)]
        if any(is_concerned(one) or replaced_by(one) for one in found):
            self._changed()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Room has changed, which the next pass looks at."""
        if nodes_used(old, new):
            self._searches.search_again()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """Other pods may be placed there."""
        if old is None or new is None or _room(old) != _room(new):
            self._searches.search_again()

    async def reconcile(self, _: str) -> float | None:
        """One pass; returns the seconds until the next one, None: when a NodePool or a NodeClaim changes.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        if not self._caches.node_pools():
            return None
        if not self._machines.current:
            return STALE_SECONDS
        errors = RequestErrors()
        under_way = await self._queue.advance(errors)
        if not self._is_consolidating():
            self._observer.candidates("Underutilized", 0)
            if under_way is None and not errors.any and not any(map(self._is_concerned, self._caches.node_pools())):
                return None
        decided = await self._decide()
        errors.raise_first()
        return min(under_way if under_way is not None else POLL_SECONDS, decided)

    def _is_concerned(self, pool: NodePool) -> bool:
        """Whether something may have to be done about a machine of this NodePool, besides consolidation."""
        return any(self._machines.has(kind, pool) for kind in CONDITIONS if kind != CONSOLIDATION.condition)

    def _is_consolidating(self) -> bool:
        """Whether there may be candidates of consolidation, or a proposal to validate."""
        return self._searches.proposes or any(map(self._machines.may_consolidate, self._caches.node_pools()))

    def _due(self) -> list[Method]:
        """The methods that have something to do at once."""
        return [one for one in AT_ONCE if any(self._is_due(one, pool) for pool in self._caches.node_pools())]

    def _is_due(self, method: Method, pool: NodePool) -> bool:
        """Whether the method may have a command for this NodePool; if it is held, an Event states why."""
        if (pool.spec.replicas is not None) is not method.static or why_unusable(pool):
            return False
        if not self._machines.has(method.condition, pool):
            return False
        now = self._clock.now()
        undone = self._retries[method.reason].undone((), _now())
        why = "" if method.static else why_held(pool, self._machines.count(pool), undone, now)
        self._events.record(method, Evaluation(held={pool.name: why} if why else {}))
        return not why

    async def _decide(self) -> float:
        """Begin at most one command; returns the seconds until the next pass."""
        if self._undecided():
            return BUSY_SECONDS
        due = self._due()
        if not due and (seconds := self._consolidation_in()) > 0:
            return min(seconds, POLL_SECONDS)
        types, max_new = self._instance_types(), self._max_new()
        if types is None or max_new is None:
            return STALE_SECONDS
        read = self._reader.read(types, max_new)
        if not due and self._searches.has_searched(read):
            return POLL_SECONDS
        view, read = await self._reader.view(read)
        current, now = [one.claim for one in view.machines], _now()
        undone = {reason: retries.undone(current, now) for reason, retries in self._retries.items()}
        one_pass = Pass(msgspec.structs.replace(view, undone=undone))
        for method in due:
            if (command := (await self._evaluate(one_pass, method)).command) is not None:
                return await self._begin(command, types, view)
        # A machine can stay drifted for weeks: nothing else is searched again because of that.
        if (seconds := self._consolidation_in()) > 0:
            return min(seconds, POLL_SECONDS)
        command, seconds = await self._consolidate(one_pass, read)
        return await self._begin(command, types, view) if command is not None else seconds

    def _consolidation_in(self) -> float:
        """Seconds until a search for consolidation is due; 0 if one is."""
        return self._searches.due_in if self._is_consolidating() else POLL_SECONDS

    async def _evaluate(self, one_pass: Pass, method: Method) -> Evaluation:
        """What the method finds, with Events about what it keeps."""
        found = await timed(self._observer, self._compute, method.reason, lambda: one_pass.run(method))
        self._events.record(method, found)
        for uid, why in found.unplaced.items():
            self._retries[method.reason].delay(uid, why, _now())
        if found.unplaced:
            self._wake()  # others have their turn
        return found

    async def _consolidate(self, one_pass: Pass, read: Read) -> tuple[Command | None, float]:
        """The command that was proposed 15 seconds ago, if it still holds; or the seconds until the next pass."""
        if (command := self._searches.proposal()) is not None:
            current = await self._compute(lambda: validated(command, one_pass.view))
            if isinstance(current, Command):
                return current, 0.0
            self._observer.rejected(command)
            log.info("consolidation rejected", NodeClaims=_names(command), cause=current)
        found = await self._evaluate(one_pass, CONSOLIDATION)
        self._observer.candidates(CONSOLIDATION.reason, found.eligible)
        if (proposed := found.command) is not None:
            log.debug("consolidation proposed", NodeClaims=_names(proposed), saving=round(proposed.saving, 3))
        return None, self._searches.searched(read, found)

    async def _begin(self, command: Command, types: InstanceTypes, view: View) -> float:
        """Carry out a command, unless its machines, budgets or destinations have changed since the decision."""
        pools = [(pool, self._machines.count(pool)) for pool in self._caches.node_pools()]
        current = renewed(command, self._machines.current_of(command.machines), pools, self._clock.now())
        if current is None or self._undecided():
            return BUSY_SECONDS
        if why := self._lost(command, view):
            log.info("disruption rejected", NodeClaims=_names(command), cause=why)
            self._observer.rejected(command)
            return BUSY_SECONDS
        seconds = await self._queue.begin(current, types.well_known)
        self._searches.search_again()
        return BUSY_SECONDS if seconds is None else seconds

    def _lost(self, command: Command, view: View) -> str:
        """Why the destinations of a command have not the room any more that they had in the view."""
        names, caches = command.destinations, self._caches
        nodes = [node for name in names if (node := caches.nodes.get(name)) is not None]
        pods = [pod for name in names for pod in caches.pods_on(name)]
        before = rooms(names, view.observed.nodes, view.observed.pods)
        return lost(before, rooms(names, nodes, pods), self._machines.on(names))

    async def _places(self, command: Replacement) -> Places | None:
        """Where the pods of the old machines of a command go now; None if that cannot be computed now."""
        types = self._instance_types()
        if types is None:
            return None
        view, _ = await self._reader.view(self._reader.read(types, 0))
        return await self._compute(lambda: places(view, command))

    def _changed(self) -> None:
        self._searches.search_again()
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


def _names(command: Command) -> list[str]:
    return [one.claim.name for one in command.machines]


def _now() -> float:
    return asyncio.get_running_loop().time()
