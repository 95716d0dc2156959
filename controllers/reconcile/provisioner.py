"""Creates NodeClaims for pending pods: caches to one snapshot, one decision, and its NodeClaims one by one.

A pass begins when the batch of provisionable pods closes, and every 10 s while pods stay pending. It does not begin
before the cache shows the NodeClaims of the last pass.

Source: docs/references/rules.md#no-machine-is-bought-twice, docs/references/karpenter.md#scheduling.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from controllers.actuator.actuator import Actuator
from controllers.model.steps import DeleteClaim, Event
from controllers.model.storage import Storage
from controllers.provisioning.batch import Batch
from controllers.provisioning.cluster import ClusterSnapshot, Observed, cluster_snapshot, demand
from controllers.provisioning.exhausted import exhausted, still_needed
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nominations import Nominations
from controllers.provisioning.offered import settings_of
from controllers.provisioning.pods import CachedPod, daemon_specs
from controllers.provisioning.solver.model import Decision, NewMachine
from controllers.provisioning.solver.solver import solve
from provisioner.api import reasons
from provisioner.api.conditions import LAUNCHED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, GpuSettings, is_own
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of
from provisioner.api.resourceslice import ResourceSlice
from provisioner.api.schedulable import DaemonSet, SchedulablePod
from provisioner.runtime.clock import Clock
from provisioner.runtime.compute import Compute
from provisioner.runtime.reflector import Reflector

from .claim_creator import FENCED_SECONDS, STALE_SECONDS, ClaimCreator
from .claim_deletion import Deletion, delete_claim
from .launch_gate import LaunchGate
from .omissions import OmissionEvents
from .scheduling_events import SchedulingEvents
from .volumes import volumes_of

# The one key of the work queue.
KEY = "provisioner"
RETRY_SECONDS = 10.0

log = structlog.get_logger("provisioner")


class SchedulingObserver(Protocol):
    """Metrics of decisions; times in seconds."""

    def decided(self, decision: Decision, pods: int, ignored: int, seconds: float) -> None: ...

    def first_decision(self, seconds: float) -> None: ...

    def due(self) -> None:
        """A decision is due, or under way."""

    def finished(self) -> None:
        """The decision that was due is written."""

    def nothing_pending(self, ignored: int) -> None:
        """No pod needs a decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandCaches:
    """The caches that a decision reads. `node_pools`: those of this controller. `slices` is empty while not needed.

    `node_class(name)`: None if it does not exist or is not known. `gpus_required`: machines are not initialized without
    their GPUs.
    """

    node_pools: Callable[[], Sequence[NodePool]]
    node_class: Callable[[str], AgentPoolNodeClass | None]
    claims: Reflector[NodeClaim]
    nodes: Reflector[Node]
    pods: Reflector[SchedulablePod]
    daemon_sets: Reflector[DaemonSet]
    slices: Reflector[ResourceSlice]
    gpus_required: bool = True

    @property
    def current(self) -> bool:
        """Whether all of them were listed and are being watched."""
        caches = (self.claims, self.nodes, self.pods, self.daemon_sets)
        return all(cache.synced and cache.last_error is None for cache in caches)

    def observed(self, claims: Sequence[NodeClaim], max_new: int | None, storage: Storage) -> Observed:
        """What a decision reads of them now. `claims`: those that count."""
        return Observed(
            node_pools=self.node_pools(),
            nodes=self.nodes.items(),
            claims=claims,
            pods=self.pods.items(),
            daemons=daemon_specs(self.daemon_sets.items()),
            max_new=max_new,
            storage=storage,
            node_classes=self.node_classes_of(claims),
            gpus_required=self.gpus_required,
            slices=self.slices.items(),
        )

    def gpu_settings(self, pool: NodePool) -> GpuSettings:
        """How the machines of this NodePool offer their GPUs."""
        return settings_of(pool.spec.template.spec.node_class_ref, self.node_classes_of(()))

    def node_classes_of(self, claims: Sequence[NodeClaim]) -> dict[str, AgentPoolNodeClass]:
        """The known node classes of these claims and of all NodePools, by name."""
        references = {one.spec.template.spec.node_class_ref for one in self.node_pools()}
        references |= {one.spec.node_class_ref for one in claims}
        found = (self.node_class(one.name) for one in references if is_own(one))
        return {one.name: one for one in found if one is not None}


class Provisioner:
    """`instance_types`: what can be bought now. `max_new`: how many agent pools may still be created.

    Both return None while they are unknown. `wake(key)` adds the key to the work queue. `compute` runs a decision.
    `on_demand()`: a pod has become provisionable.
    """

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        instance_types: Callable[[], InstanceTypes | None],
        max_new: Callable[[], int | None],
        wake: Callable[[str], None],
        on_demand: Callable[[], None],
        clock: Clock,
        compute: Compute,
        observer: SchedulingObserver,
        nominations: Nominations,
        launches: LaunchGate,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._instance_types = instance_types
        self._max_new = max_new
        self._wake = wake
        self._on_demand = on_demand
        self._clock = clock
        self._compute = compute
        self._observer = observer
        self._nominations = nominations
        self._launches = launches
        self._decided: set[str] = set()
        self._batch = Batch()
        self._retry_at: float | None = None
        self._creator = ClaimCreator(caches.claims, caches.node_pools, caches.node_class, actuator)
        self._deciding = False
        self._events = SchedulingEvents(actuator)
        self._omissions = OmissionEvents(actuator)

    @property
    def pending(self) -> bool:
        """Whether pods are in the batch or have been left pending by the last pass, and a NodePool exists."""
        waiting = self._retry_at is not None or self._batch.remaining(_now()) is not None
        return waiting and bool(self._caches.node_pools())

    def pod_changed(self, old: SchedulablePod | None, new: SchedulablePod | None) -> None:
        """A pod that became provisionable, or whose constraints changed, joins the batch."""
        if not isinstance(new, CachedPod) or new.spec.node_name or new.waits_for:
            return
        if isinstance(old, CachedPod) and not old.waits_for and old.constraints is new.constraints:
            return
        self._batch.add(new.metadata.uid, _now())
        self._on_demand()
        self._wake(KEY)

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """The cache may show the last NodeClaim that a pass waits for. Pods of a deleting one need another."""
        if new is not None and self._creator.expects(new.name):
            self._wake(KEY)
        starts = new is not None and new.deleting and (old is None or not old.deleting)
        if new is not None and starts and nodepool_of(new) is not None:
            self._batch.add(new.uid, _now())
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
        if (waits := await self._creator.unobserved(now)) is not None:
            return waits
        self._deciding = True
        try:
            return await self._provision(now)
        finally:
            self._deciding = False

    async def _provision(self, now: float) -> float | None:
        storage = await volumes_of(self._actuator, self._demand)
        pods, collected = self._demand(), self._batch.collected
        if not pods:
            self._batch.close(collected)
            self._retry_at = None
            self._observer.nothing_pending(self._ignored())
            return None
        types, max_new = self._instance_types(), self._max_new()
        if types is None or max_new is None:
            return STALE_SECONDS
        # The caches change during the decision and requests: names and the check count what the decision has seen.
        claims = self._caches.claims.items()
        failed = [claim for claim in claims if exhausted(claim, types.types) and not self._static(claim)]
        kept = [claim for claim in claims if claim not in failed]
        found, decision = await self._decide(now, kept, types, max_new, storage)
        if decision.machines and (waits := await self._creator.stale(claims)) is not None:
            return waits
        if decision.machines and self._may_launch(failed, types):
            return STALE_SECONDS
        self._batch.close(collected)
        self._retry_at = now + RETRY_SECONDS
        if decision.machines and failed:
            classes = self._caches.node_classes_of(failed)
            needed = await self._compute(lambda: still_needed(failed, found.snapshot, decision, classes))
            if not await self._delete([claim for claim in failed if claim.name not in needed]):
                return STALE_SECONDS
        with self._launches.held():
            written = await self._creator.create(self._wanted(decision, pods), claims, types.well_known)
        if written.again_seconds is not None:
            self._retry_at = _now() + written.again_seconds
            return STALE_SECONDS
        decision = msgspec.structs.replace(decision, errors={**decision.errors, **written.refused})
        self._nominations.record({*decision.existing, *written.names.values()}, _now())
        self._count_decisions(pods)
        self._events.record(pods, found, decision, written.names, now)
        self._omissions.record(self._caches.node_pools(), found)
        self._observer.finished()
        return max(0.0, self._retry_at - _now())

    def _demand(self) -> tuple[CachedPod, ...]:
        return demand(self._caches.pods.items(), self._caches.nodes.items(), self._caches.claims.items())

    def _wanted(self, decision: Decision, pods: Sequence[CachedPod]) -> list[NewMachine]:
        """The machines of pods that are still pending, those of the oldest pods first."""
        age = {pod.name: number for number, pod in enumerate(pods)}
        pending = {pod.name for pod in self._demand()}
        wanted = [one for one in decision.machines if not pending.isdisjoint(one.pods)]
        return sorted(wanted, key=lambda one: min(age[name] for name in one.pods))

    def _may_launch(self, failed: Sequence[NodeClaim], types: InstanceTypes) -> bool:
        """Whether a NodeClaim that other machines were to replace has changed since the decision began."""
        current = (self._caches.claims.get(claim.name) for claim in failed)
        return any(one is not None and not one.deleting and not exhausted(one, types.types) for one in current)

    def _static(self, claim: NodeClaim) -> bool:
        """Whether a static NodePool keeps the claim, whether or not it can be launched now."""
        owner = nodepool_of(claim)
        pools = self._caches.node_pools()
        return any(owner and pool.name == owner.name and pool.spec.replicas is not None for pool in pools)

    async def _decide(
        self, now: float, claims: Sequence[NodeClaim], types: InstanceTypes, max_new: int, storage: Storage
    ) -> tuple[ClusterSnapshot, Decision]:
        observed = self._caches.observed(claims, max_new, storage)

        def decide() -> tuple[ClusterSnapshot, Decision]:
            found = cluster_snapshot(observed, types.types, types.well_known)
            return found, solve(found.snapshot)

        found, decision = await self._compute(decide)
        ignored = self._ignored() + len(found.errors)
        self._observer.decided(decision, len(found.snapshot.pods), ignored, _now() - now)
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

    async def _delete(self, failed: Sequence[NodeClaim]) -> bool:
        """Delete NodeClaims whose pods get other machines; False if this process may not write."""
        for claim in failed:
            launched = claim.condition(LAUNCHED)
            message = f"Deleted, other machines are created for its pods: {launched.message if launched else ''}"
            event = Event(type="Warning", reason=reasons.INSUFFICIENT_CAPACITY, message=message)
            step = DeleteClaim(claim=claim, cause="insufficient-capacity", event=event)
            if await delete_claim(self._actuator, step) is Deletion.FENCED:
                self._retry_at = _now() + FENCED_SECONDS
                return False
        return True


def _now() -> float:
    return asyncio.get_running_loop().time()
