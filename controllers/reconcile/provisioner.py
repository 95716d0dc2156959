"""Creates NodeClaims for pending pods: caches to one snapshot, one decision, and its NodeClaims one by one.

A pass begins when the batch of provisionable pods closes, and every 10 s while pods stay pending.

Source: docs/references/rules.md#no-machine-is-bought-twice, docs/references/karpenter.md#scheduling.
"""

import asyncio
import math
from collections.abc import Callable, Sequence, Set
from typing import ClassVar, Protocol

import msgspec
import structlog

from controllers.actuator.actuator import Actuator
from controllers.disruption.commands_under_way import replaced
from controllers.gate.gate import Evidence
from controllers.model.conditions import was_usable
from controllers.model.ownership import managed
from controllers.model.storage import Storage
from controllers.provisioning.batch import Batch
from controllers.provisioning.brake import Brake
from controllers.provisioning.cluster import ClusterSnapshot, cluster_snapshot
from controllers.provisioning.demand import demand, is_read
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.launchless import still_needed
from controllers.provisioning.nominations import Nominations
from controllers.provisioning.observed import Observed
from controllers.provisioning.pods import CachedPod
from controllers.provisioning.purchases import annotation, purchase_of
from controllers.provisioning.solver.model import Decision, NewMachine
from controllers.provisioning.solver.solver import solve
from controllers.provisioning.volumes import selected_node
from provisioner.api.causes import Cause
from provisioner.api.conditions import LAUNCHED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import nodepool_of
from provisioner.api.pod import Pod
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.clock import Clock
from provisioner.runtime.compute import Compute
from provisioner.runtime.kube_errors import KubeError

from .claim_creator import STALE_SECONDS, ClaimCreator
from .claim_deletion import delete_claim
from .demand_caches import DemandCaches
from .launch_gate import LaunchGate
from .launch_obstacles import LaunchObstacles, removable
from .purchase_brake import PurchaseBrake
from .request_errors import RequestErrors
from .scheduling_events import SchedulingEvents, omissions
from .volumes import volumes_of

# The one key of the work queue.
KEY = "provisioner"
RETRY_SECONDS = 10.0

log = structlog.get_logger("provisioner")


class SchedulingObserver(Protocol):
    """Metrics of decisions; times in seconds."""

    def decided(self, decision: Decision, pods: int, ignored: int, set_aside: int, seconds: float) -> None: ...

    def first_decision(self, seconds: float) -> None: ...

    def due(self) -> None:
        """A decision is due, or under way."""

    def finished(self) -> None:
        """The decision that was due is written."""

    def nothing_pending(self, ignored: int) -> None:
        """No pod needs a decision."""


class Provisioner:
    """`instance_types`: what can be bought now. `max_new`: how many agent pools may still be created.

    Both return None while they are unknown. `unread()`: what could not be read for it, "" if that is not known.
    `wake(key)` adds the key to the work queue. `compute` runs a decision.
    `on_demand()`: a pod has become provisionable.
    """

    name: ClassVar[Queue] = "provisioner"

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        instance_types: Callable[[], InstanceTypes | None],
        max_new: Callable[[], int | None],
        unread: Callable[[], str],
        wake: Callable[[str], None],
        on_demand: Callable[[], None],
        clock: Clock,
        compute: Compute,
        observer: SchedulingObserver,
        nominations: Nominations,
        launches: LaunchGate,
        obstacles: LaunchObstacles,
        brake: PurchaseBrake,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._instance_types = instance_types
        self._max_new = max_new
        self._unread = unread
        self._wake = wake
        self._on_demand = on_demand
        self._clock = clock
        self._compute = compute
        self._observer = observer
        self._nominations = nominations
        self._launches = launches
        self._obstacles = obstacles
        self._brake = brake
        self._decided: set[str] = set()
        self._decisions = 0
        self._batch = Batch()
        self._retry_at: float | None = None
        # The UIDs of NodeClaims whose deletion had no response.
        self._hanging: set[str] = set()
        self._creator = ClaimCreator(
            caches.claims, caches.node_pools, caches.node_class, actuator, refused=obstacles.claim_refused
        )
        self._deciding = False
        self._events = SchedulingEvents(actuator)

    @property
    def pending(self) -> bool:
        """Whether pods are in the batch or have been left pending by the last pass, and a NodePool exists."""
        waiting = self._retry_at is not None or self._batch.remaining(_now()) is not None
        return waiting and bool(self._caches.node_pools())

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._caches.claims.add_event_handler(self._claim_changed)
        self._caches.pods.add_event_handler(self._pod_changed)
        self._caches.pods.add_event_handler(self._brake.machines.pod_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod that became provisionable, or whose constraints changed, joins the batch."""
        if not isinstance(new, CachedPod) or new.spec.node_name or new.waits_for:
            return
        if isinstance(old, CachedPod) and not old.waits_for and old.constraints is new.constraints:
            return
        self._batch.add(new.metadata.uid, _now())
        self._on_demand()
        self._wake(KEY)

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """Pods of a deleting NodeClaim need another. One that cannot be launched may be to delete, or to replace."""
        starts = new is not None and new.deleting and (old is None or not old.deleting)
        if new is not None and starts and nodepool_of(new) is not None:
            self._batch.add(new.uid, _now())
            self._wake(KEY)
        if new is not None and old is not None and _launch_changed(old, new) and removable(new, ()):
            self._retry_at = min(_now(), self._retry_at or math.inf)
            self._wake(KEY)

    def undecided(self) -> bool:
        """Whether pending pods wait for a decision, or for what was decided."""
        return self._deciding or self._batch.remaining(_now()) is not None

    async def reconcile(self, _: str) -> float | None:
        """One pass; returns the seconds until the next one, None: when a pod becomes provisionable.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        if not self._caches.node_pools():
            return None
        if not self._caches.current:
            return STALE_SECONDS
        now = _now()
        if (remaining := self._batch.remaining(now)) is None:
            remaining = None if self._retry_at is None else max(0.0, self._retry_at - now)
        if remaining != 0:
            return remaining
        self._observer.due()
        self._deciding = True
        try:
            return await self._provision(now)
        finally:
            self._deciding = False

    async def _provision(self, now: float) -> float | None:
        storage = await volumes_of(self._actuator, self._demand, of_drivers=self._caches.of_drivers)
        everything, errors = self._demand(), RequestErrors()
        pods = tuple(pod for pod in everything if is_read(pod, storage))
        # Pods that came too late stay in the window.
        collected = self._batch.collected - {pod.metadata.uid for pod in everything if not is_read(pod, storage)}
        # The caches change during the decision and requests: names and the check count what the decision has seen.
        claims, pools = self._caches.claims.items(), self._caches.node_pools()
        launchless = [claim for claim in claims if self._obstacles.launchless(claim)]
        failed = [claim for claim in launchless if removable(claim, pools)]
        if not everything:
            await self._brake.learn(errors)
            self._batch.close(collected)
            self._observer.nothing_pending(self._ignored())
            self._retry_at = _now() + RETRY_SECONDS  # of a deletion that is not sent or not answered
            await self._delete(failed, "no pod waits for it", errors)
            errors.raise_first()
            self._retry_at = None
            return None
        types, max_new = self._instance_types(), self._max_new()
        if types is None or max_new is None:
            return self._wait(pods, now)
        brake = await self._brake.assess(pods, types, storage, errors)
        without_machine = {claim.uid for claim in launchless}
        kept = [claim for claim in claims if claim.uid not in without_machine]
        observed = self._observed(kept, max_new + len(failed), storage, types, brake)
        found, decision = await self._decide(now, observed, types)
        if decision.machines and (waits := await self._creator.stale(claims)) is not None:
            return waits
        if decision.machines and self._may_launch(launchless):
            return STALE_SECONDS
        self._batch.close(collected)
        self._retry_at = now + RETRY_SECONDS
        if failed:
            classes = self._caches.node_classes_of(failed)
            needed = await self._compute(lambda: still_needed(failed, found.snapshot, decision, classes, types))
            # What a pod needs that cannot be read now is not known.
            unknown = {pod.metadata.uid for pod in pods if pod.name in found.errors}
            unused = [claim for claim in failed if claim.name not in needed and not self._is_for(claim, unknown)]
            await self._delete(unused, "other machines take its pods", errors)
        with self._launches.held():
            named, wanted = {pod.name: pod for pod in pods}, self._wanted(decision, pods)
            written = await self._creator.create(
                wanted, claims, types.well_known, pools, lambda machine: annotation(machine, named), errors=errors
            )
        if written.again_seconds is not None:
            self._retry_at = _now() + written.again_seconds
            return STALE_SECONDS
        decision = msgspec.structs.replace(decision, errors={**decision.errors, **written.refused})
        expected = {*decision.existing, *written.names.values(), *brake.assessed.expected}
        self._nominations.record(expected, _now())
        places = {name: node for node, names in decision.existing.items() for name in names}
        # One that has a Node already waits for its volume: the Node does not refuse it.
        unplaced = [pod for pod in pods if not selected_node(pod.claims, storage)]
        self._brake.refused.placed(places, unplaced, self._caches.nodes.items(), _now())
        self._count_decisions(pods)
        self._events.record(pods, found, decision, written.names, now)
        pools = self._caches.node_pools()
        for about, event in omissions(pools, found, self._obstacles.refused(pools)):
            self._actuator.record_event(about, event)
        errors.raise_first()
        self._observer.finished()
        return max(0.0, self._retry_at - _now())

    def _wait(self, pods: Sequence[CachedPod], now: float) -> float:
        """The seconds until what is unknown is asked again; Events state why if reading it fails."""
        if why := self._unread():
            self._events.undecided(pods, why, now)
        return STALE_SECONDS

    async def preview(self, types: InstanceTypes) -> tuple[ClusterSnapshot, Decision]:
        """What a pass would decide now; nothing is recorded or written."""
        storage = await volumes_of(self._actuator, self._demand, of_drivers=self._caches.of_drivers)
        pods = tuple(pod for pod in self._demand() if is_read(pod, storage))
        claims, pools, max_new = self._caches.claims.items(), self._caches.node_pools(), self._max_new()
        launchless = {claim.uid: claim for claim in claims if self._obstacles.launchless(claim)}
        room = None if max_new is None else max_new + sum(removable(one, pools) for one in launchless.values())
        kept = [claim for claim in claims if claim.uid not in launchless]
        brake = await self._brake.assess(pods, types, storage, None)
        found = cluster_snapshot(self._observed(kept, room, storage, types, brake), types)
        return found, solve(found.snapshot)

    def _observed(
        self, kept: Sequence[NodeClaim], room: int | None, storage: Storage, types: InstanceTypes, brake: Brake
    ) -> Observed:
        """What a decision reads. `kept`: the NodeClaims that count as machines."""
        refused = self._obstacles.refused(self._caches.node_pools())
        quotas = self._obstacles.quotas(types.quotas, kept)
        return self._caches.observed(kept, room, storage, refused, brake=brake, quotas=quotas)

    def _demand(self) -> tuple[CachedPod, ...]:
        claims = [claim for claim in self._caches.claims.items() if not self._obstacles.launchless(claim)]
        return demand(self._caches.pods.items(), self._caches.nodes.items(), claims, replaced(claims))

    def _wanted(self, decision: Decision, pods: Sequence[CachedPod]) -> list[NewMachine]:
        """The machines of pods that are still pending, those of the oldest pods first."""
        age = {pod.name: number for number, pod in enumerate(pods)}
        pending = {pod.name for pod in self._demand()}
        wanted = [one for one in decision.machines if not pending.isdisjoint(one.pods)]
        return sorted(wanted, key=lambda one: min(age[name] for name in one.pods))

    @staticmethod
    def _is_for(claim: NodeClaim, pods: Set[str]) -> bool:
        """Whether a NodeClaim was bought for one of these pods, by their UIDs."""
        return any(not pods.isdisjoint(uids) for uids in purchase_of(claim).pods.values()) if pods else False

    def _may_launch(self, failed: Sequence[NodeClaim]) -> bool:
        """Whether a NodeClaim that was not counted as a machine has changed since the decision began."""
        current = (self._caches.claims.get(claim.name) for claim in failed)
        return any(one is not None and not one.deleting and not self._obstacles.launchless(one) for one in current)

    async def _decide(self, now: float, observed: Observed, types: InstanceTypes) -> tuple[ClusterSnapshot, Decision]:
        number, self._decisions = self._decisions, self._decisions + 1

        def decide() -> tuple[ClusterSnapshot, Decision]:
            found = cluster_snapshot(observed, types)
            return found, solve(found.snapshot, number)

        found, decision = await self._compute(decide)
        ignored = self._ignored() + len(found.errors)
        self._observer.decided(decision, len(found.snapshot.pods), ignored, len(found.set_aside), _now() - now)
        log.debug(
            "computed a scheduling decision",
            pods=len(found.snapshot.pods),
            machines=len(decision.machines),
            price=round(decision.price, 3),
            errors=len(decision.errors),
        )
        return found, decision

    def _ignored(self) -> int:
        return sum(1 for pod in self._caches.pods.items() if isinstance(pod, CachedPod) and pod.waits_for)

    def _count_decisions(self, pods: Sequence[CachedPod]) -> None:
        wall, before = self._clock.now(), self._decided
        self._decided = {pod.metadata.uid for pod in pods}
        for pod in pods:
            if pod.metadata.uid not in before and not pod.moves:
                self._observer.first_decision((wall - pod.metadata.creation_timestamp).total_seconds())

    async def _delete(self, failed: Sequence[NodeClaim], why: str, errors: RequestErrors) -> None:
        """Delete NodeClaims that cannot be launched and that no pod needs.

        A request that fails keeps its NodeClaim only. After one without a response the rest of the pass goes on: a
        webhook can hang for each of them. Others are deleted before this one the next time.
        """
        self._hanging &= {claim.uid for claim in failed}
        for claim in sorted(failed, key=lambda one: one.uid in self._hanging):
            launched = claim.condition(LAUNCHED)
            message = f"Deleted, {why}: {launched.message if launched else ''}"
            short = self._obstacles.lacks_capacity(claim)
            cause: Cause = "insufficient-capacity" if short else "launch-failed"
            works = was_usable(claim) or claim.condition(LAUNCHED, "True") is not None
            evidence = Evidence(cause=cause, uid=claim.uid, ours=managed(claim), works=works)
            try:
                await delete_claim(self._actuator, claim, evidence, message)
            except KubeError as error:
                errors.keep(error)
                if error.timed_out:
                    self._hanging.add(claim.uid)
                    break


def _launch_changed(old: NodeClaim, new: NodeClaim) -> bool:
    """Whether what is known of the launch of a NodeClaim without a machine changed."""
    launched = new.condition(LAUNCHED)
    return launched is not None and launched.status != "True" and launched != old.condition(LAUNCHED)


def _now() -> float:
    return asyncio.get_running_loop().time()
