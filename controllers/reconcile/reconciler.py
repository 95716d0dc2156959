"""Reconciles one key: caches to Facts, Facts to one step, the step's result to memory.

The work queue never hands out a key twice at the same time. One pass makes at most one write, which the caches show
before the next one.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

import msgspec
import structlog
from structlog.contextvars import bound_contextvars

from cloudprovider.errors import Retryable
from cloudprovider.interface import Gpus
from cloudprovider.inventory import Inventory
from controllers.actuator.actuator import Actuator
from controllers.model.facts import Facts
from controllers.model.policy import Policy
from controllers.model.results import CloudFailed, KubeFailed, ReadNodes, Result, WriteResult
from controllers.model.steps import (
    CreateInstance,
    DeleteClaim,
    DeleteInstance,
    Forget,
    LookUpPool,
    Read,
    ReadDrain,
    ReadVolumes,
    Step,
    Wait,
    Write,
)
from controllers.node.termination.pod_predicates import is_drainable, is_evictable
from controllers.nodeclaim.lifecycle.launch import own_blocking_condition
from controllers.planner.controller_names import controller_name
from controllers.planner.evaluation import evaluate, in_flight_seconds, repair_waits_for, with_judgements
from controllers.planner.events import notices
from controllers.planner.plan import explain, plan
from controllers.state.cluster import ClusterState
from controllers.state.indexes import Indexes
from controllers.state.memory import Memory
from controllers.state.memory_updates import (
    LEADING,
    first_conflict,
    refresh,
    remember,
    update_from_deletion,
    update_from_instance,
    with_cause,
)
from controllers.state.observe import observe
from controllers.state.offering_tracker import OfferingTracker
from controllers.state.readiness_rules import ReadinessRules
from controllers.state.refusals import SKIPPED_IN_REMOVAL, refuse, undone
from controllers.state.unhealthy_nodes import UnhealthyNodes
from provisioner.api import reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.clock import Clock
from provisioner.runtime.controller_name import set_controller
from provisioner.runtime.kube_errors import KubeError

from . import lifecycle_log
from .another_machine import AnotherMachine
from .observers import StepObserver
from .removal_records import RemovalRecords
from .stalled import recovered, stalled

READS_PER_PASS = 6
# The cache's next event adds the key again; these delays are for a cache that stays stale.
STALE_SECONDS, STALE_MOST_SECONDS = 1.0, 10.0
# The longest delay after steps that the API server refuses one after the other.
REFUSED_MOST_SECONDS = 60.0
# Ages and limits are differences of floats: the rest of a wait can be below the resolution of the clock.
SHORTEST_WAIT_SECONDS = 0.001

log = structlog.get_logger("reconciler")


class Reconciler:
    """`gpus` maps a VM size to its GPUs; `memories` is what is remembered, by key.

    `removal_records` keeps removals by inference on the Lease, for the next leader.
    """

    def __init__(
        self,
        *,
        indexes: Indexes,
        inventory: Inventory,
        actuator: Actuator,
        clock: Clock,
        policy: Policy,
        cluster_state: ClusterState,
        offering_tracker: OfferingTracker,
        gpus: Callable[[str], Gpus],
        unhealthy_nodes: UnhealthyNodes,
        observer: StepObserver,
        memories: dict[str, Memory],
        removal_records: RemovalRecords,
        readiness: ReadinessRules,
        another_machine: AnotherMachine,
    ) -> None:
        self._another_machine = another_machine
        self._indexes = indexes
        self._inventory = inventory
        self._actuator = actuator
        self._clock = clock
        self._policy = policy
        self._gpus = gpus
        self._unhealthy_nodes = unhealthy_nodes
        self._observer = observer
        self._memories = memories
        self._removal_records = removal_records
        self._readiness = readiness
        self.cluster_state = cluster_state
        self.offering_tracker = offering_tracker

    def keys(self) -> tuple[str, ...]:
        """The keys that were reconciled and still exist."""
        return tuple(self._memories)

    def continues(self, key: str) -> bool:
        """Whether the write on this key that is under way, or was the last one, leads to its next step."""
        memory = self._memories.get(key)
        return memory is not None and memory.leads

    async def reconcile(self, key: str) -> float | None:
        """One pass: at most one write. Returns the seconds until the next one; None: when an object changes.

        Raises KubeError for a request that can succeed when it is repeated; the queue backs off.
        """
        memory = self._memories.setdefault(key, Memory())
        memory.leads = False
        for _ in range(READS_PER_PASS):
            facts = self.observe(key, memory)
            await self._removal_records.record_ended_rows()
            step = plan(facts)
            match step:
                case Wait(after=after, why=why, blocked_by=blocked_by):
                    log.debug("waiting", why=why, after=after)
                    set_controller(controller_name(facts, step))
                    self._observer.waits(key, blocked_by)
                    self._set_polling(key, facts)
                    recovery = recovered(facts.claim, facts.now)
                    if recovery is not None and "PatchStatus" not in facts.refused:
                        result, _ = await self._perform(memory, facts, recovery)
                        return await self._after_write(memory, facts, recovery, result)
                    self._record_events(facts)
                    return None if after is None else max(after, SHORTEST_WAIT_SECONDS)
                case Forget():
                    set_controller(controller_name(facts, step))
                    self._forget(key)
                    return None
                case _:
                    result, began = await self._perform(memory, facts, step)
            if isinstance(step, Write):
                return await self._after_write(memory, facts, step, result)
            if isinstance(result, CloudFailed):
                await self._explain(memory, key)
            pause = self._after_read(memory, step, result, began)
            if pause is not None:
                return pause
        return STALE_SECONDS

    async def preview(self, key: str) -> tuple[Facts, Step]:
        """The facts and the step of the first pass of a new process, after its reads; nothing is written."""
        memory = Memory()
        for _ in range(READS_PER_PASS):
            facts = self.observe(key, memory)
            step = plan(facts)
            if not isinstance(step, Read):
                break
            result, _ = await self._perform(memory, facts, step)
            if isinstance(result, CloudFailed | KubeFailed):
                break
        return facts, step

    async def report_failure(self, key: str, error: Exception, failures: int) -> None:
        """Report on the claim that its passes fail; the queue retries them."""
        for claim in self._indexes.claims_of(key)[:1]:
            step = stalled(claim, error, failures, self._clock.now())
            if step is None:
                continue
            await self._actuator.write(step, claim)

    def observe(self, key: str, memory: Memory) -> Facts:
        """The Facts of this pass, with its judgements; what they count from is remembered here."""
        now, wall = self._now(), self._clock.now()
        instance = with_cause(memory, self._inventory.get(key))
        claim = next(iter(self._indexes.claims_of(key)), None)
        node_class = self._indexes.node_class_of(claim)[0] if claim is not None else None
        update_from_deletion(memory, instance, claim=claim, now=now)
        update_from_instance(memory, instance, claim=claim, node_class=node_class, now=now)
        self.offering_tracker.update_from_instance(key, instance, claim=claim, wall=wall, now=now)
        refresh(key, memory, self._indexes, self._inventory, now=now)
        facts = observe(
            key,
            indexes=self._indexes,
            inventory=self._inventory,
            memory=memory,
            policy=self._policy,
            gpus=self._gpus,
            wall=wall,
            now=now,
            readiness=self._readiness,
        )
        seen = memory.first_sights = evaluate(facts)
        if seen.gpu_short_since is None:
            memory.workloads = None
        waits = repair_waits_for(facts, seen)
        unhealthy_counts = self._unhealthy_nodes.update(key, seen.unhealthy, waits, wall, now)
        self.cluster_state.evaluated(key, seen.candidate)
        counts = self.cluster_state.counts(facts, seen, unhealthy_counts, now)
        offers = self.offering_tracker.offers(facts, blocked=own_blocking_condition(facts) is not None)
        useful = seen.unhealthy is not None and seen.unhealthy.replaces and seen.unhealthy.runs_gpus
        scarce = self._another_machine.obstacle(facts) if useful else ""
        ordered = self.offering_tracker.ordered(facts.claim)
        return with_judgements(facts, seen, counts=counts, offers=offers, ordered=ordered, scarce=scarce)

    async def _perform(self, memory: Memory, facts: Facts, step: Write | Read) -> tuple[Result, float]:
        began = self._now()
        set_controller(controller_name(facts, step))
        result: Result
        try:
            if isinstance(step, Write):
                # Before the write: its answer changes the caches, whose handlers add the key again.
                memory.leads = isinstance(step, LEADING)
                result = await self._write(facts, step, began)
                result = undone(facts, step, result, self._indexes) or result
            else:
                result = await self._actuator.read(step)
        except KubeError as error:
            result = KubeFailed(error=error)
        self._remember(memory, step, result, claim=facts.claim, wall=facts.now, began=began)
        if isinstance(step, Write):
            lifecycle_log.write(facts, step, result)
        self._observer.performed(facts, step, result)
        return result, began

    def _remember(
        self,
        memory: Memory,
        step: Write | Read,
        result: Result,
        *,
        claim: NodeClaim | None,
        wall: datetime,
        began: float,
    ) -> None:
        remember(
            memory,
            step,
            result,
            claim=claim,
            evictable=lambda pod: is_drainable(pod, wall) and is_evictable(pod, wall),
            began=began,
            now=self._now(),
        )

    async def _write(self, facts: Facts, step: Write, began: float) -> WriteResult:
        if isinstance(step, DeleteClaim) or (isinstance(step, DeleteInstance) and facts.candidate is not None):
            cause = facts.candidate.cause if facts.candidate is not None else step.cause
            await self._removal_records.record(facts, step, cause)
        if isinstance(step, DeleteInstance):
            with bound_contextvars(**lifecycle_log.fields_of_cloud_write(facts, step)):
                return await self._actuator.write(step, facts.claim)
        if not isinstance(step, CreateInstance):
            try:
                return await self._actuator.write(step, facts.claim)
            except KubeError as error:
                if isinstance(step, DeleteClaim) and error.refused:
                    self._removal_records.refused(facts.key, step.claim.uid)
                raise
        self.cluster_state.create_started(step.name, step.claim, facts.now, began)
        self.offering_tracker.create_started(step, began)
        try:
            with bound_contextvars(**lifecycle_log.fields_of_cloud_write(facts, step)):
                result = await self._actuator.write(step, facts.claim)
            if isinstance(result, CloudFailed):
                wall, now = self._clock.now(), self._now()
                self.offering_tracker.create_failed(step, result.error, requested=facts.now, wall=wall, now=now)
            return result
        finally:
            self.cluster_state.create_finished(step.name)

    async def _after_write(self, memory: Memory, facts: Facts, step: Write, result: Result) -> float | None:
        if not isinstance(result, KubeFailed):
            memory.refusals = memory.stale_writes = 0
            memory.forbidden.pop(type(step).__name__, None)
            memory.failed_in_row.pop(type(step).__name__, None)
        match result:
            case KubeFailed():
                return self._refused_or_raise(memory, facts, step, result)
            case CloudFailed(error=error) if isinstance(step, DeleteInstance) and error.status == 412:
                # The pool changed since the inventory read it: read it again, and plan anew.
                await self._perform(memory, facts, LookUpPool(name=facts.key))
                if memory.delete_failed is not None and self._inventory.get(facts.key) != step.instance:
                    # Otherwise the read is stale, and the same DELETE waits for its delay.
                    memory.delete_failed = msgspec.structs.replace(memory.delete_failed, delay=0.0)
            case CloudFailed(error=error) if isinstance(step, DeleteInstance) and first_conflict(memory, error):
                # The operation in progress may be a deletion. After later conflicts the LIST shows it.
                await self._perform(memory, facts, LookUpPool(name=facts.key))
            case CloudFailed(error=error) if not (isinstance(error, Retryable) and error.conflict):
                await self._explain(memory, facts.key)
        return 0.0

    async def _explain(self, memory: Memory, key: str) -> None:
        """Write why a cloud call failed in the same pass: the exception from one write per pass."""
        facts = self.observe(key, memory)
        step = explain(facts)
        if step is not None:
            result, _ = await self._perform(memory, facts, step)
            if isinstance(result, KubeFailed):
                self._refused_or_raise(memory, facts, step, result)

    def _refused_or_raise(self, memory: Memory, facts: Facts, step: Write, failed: KubeFailed) -> float:
        """Remember a refusal; wait for the cache after a conflict. Returns the delay; raises any other KubeError."""
        error = failed.error
        removing = facts.claim is None or facts.claim.deleting
        most_seconds = self._policy.refused_seconds
        if refuse(memory, step, failed, removing=removing, now=self._now(), most_seconds=most_seconds):
            if removing and isinstance(step, SKIPPED_IN_REMOVAL):
                return STALE_SECONDS
            return min(STALE_SECONDS * 2.0 ** min(memory.refusals - 1, 16), REFUSED_MOST_SECONDS)
        if error.conflict or error.not_found:
            memory.stale_writes += 1
            return min(STALE_SECONDS * 2.0 ** min(memory.stale_writes - 1, 16), STALE_MOST_SECONDS)
        raise error

    def _after_read(self, memory: Memory, step: Read, result: Result, began: float) -> float | None:
        """Seconds to pause before planning with what was read; None: plan at once."""
        match result:
            case KubeFailed(error=error) if isinstance(step, ReadDrain | ReadVolumes):
                log.warning("failed to read the pods or volumes of the Node", node=step.node.name, error=str(error))
                return None  # the condition reports it
            case KubeFailed(error=error):
                raise error
            case CloudFailed():
                return memory.read_failed.delay if memory.read_failed is not None else STALE_SECONDS
            case ReadNodes(nodes=nodes):
                if not self._indexes.knows_nodes(nodes):
                    return STALE_SECONDS
                memory.nodes_known_at = began
                return None
            case _:
                return None

    def _record_events(self, facts: Facts) -> None:
        for notice in notices(facts):
            recorded = self._actuator.record_event(notice.about, notice.event)
            if recorded and notice.event.reason == reasons.REMOVAL_RESTRICTED:
                causes = {key: one.cause for key, one in self.cluster_state.candidates().items()}
                log.error("a removal by inference waits for confirmation", why=notice.event.message, candidates=causes)

    def _set_polling(self, key: str, facts: Facts) -> None:
        """The inventory lists the pools more often while the key is in flight."""
        if (seconds := in_flight_seconds(facts)) > 0:
            self._inventory.set_in_flight(key, seconds)
        else:
            self._inventory.clear_in_flight(key)

    def _forget(self, key: str) -> None:
        self._memories.pop(key, None)
        self._inventory.forget(key)
        self._unhealthy_nodes.forget(key)
        self._observer.forgot(key)
        self.offering_tracker.forget(key)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
