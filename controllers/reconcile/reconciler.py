"""From caches to facts, from facts to one step, from its outcome to memory: the loop around the pure plan.

One key is never worked on twice at once (the queue's promise); one write a pass; the next plan on that key
waits until the cache shows the write.
"""

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from cloudprovider.errors import Retryable
from cloudprovider.interface import Gpus
from cloudprovider.inventory import Inventory
from controllers.actuator.actuator import Actuator
from controllers.garbagecollection import garbage
from controllers.model.facts import Facts
from controllers.model.policy import Policy
from controllers.model.results import CloudFailed, Fenced, KubeFailed, Outcome, ReadNodes
from controllers.model.steps import (
    CreateInstance,
    DeleteClaim,
    DeleteInstance,
    Event,
    Forget,
    LookUpPool,
    Read,
    ReadDrain,
    ReadVolumes,
    Wait,
    Write,
)
from controllers.planner.controller_names import rule
from controllers.planner.in_flight import in_flight
from controllers.planner.plan import explain, plan
from controllers.state.cluster import ClusterState
from controllers.state.indexes import Indexes
from controllers.state.memory import Memory
from controllers.state.memory_updates import first_conflict, notice_instance, refuse, remember, with_cause
from controllers.state.observe import observe
from controllers.state.offering_tracker import OfferingTracker
from controllers.state.unhealthy_nodes import UnhealthyNodes
from provisioner.api import reasons
from provisioner.runtime.clock import Clock
from provisioner.runtime.controller_name import set_controller

from . import expectations
from .event_dedup import tell
from .step_observer import StepObserver

READS_PER_PASS = 6
FENCED_SECONDS = 5.0
# The cache's next event wakes the key; what is waited for here is a cache that stays behind.
BEHIND_SECONDS, BEHIND_MOST_SECONDS = 1.0, 10.0
# Most steps that are refused for good are passed by; those that cannot be are tried less and less often.
REFUSED_MOST_SECONDS = 60.0
# Ages and limits are differences of floats: what is left of a wait may be less than the clock can tell.
SHORTEST_WAIT_SECONDS = 0.001

log = structlog.get_logger("reconciler")


class Reconciler:
    """`gpus` says what a size promises; the onlooker is told what is done and what waits."""

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
    ) -> None:
        self._indexes = indexes
        self._inventory = inventory
        self._actuator = actuator
        self._clock = clock
        self._policy = policy
        self._gpus = gpus
        self._unhealthy_nodes = unhealthy_nodes
        self._observer = observer
        self._memories: dict[str, Memory] = {}
        self.cluster_state = cluster_state
        self.offering_tracker = offering_tracker

    def keys(self) -> tuple[str, ...]:
        """The keys of which anything is remembered."""
        return tuple(self._memories)

    # One pass

    async def reconcile(self, key: str) -> float | None:
        """One pass: at most one write. Returns seconds until the next look; None: when something changes.

        Raises KubeError for what the API server may answer better next time; the queue backs off.
        """
        memory = self._memories.setdefault(key, Memory())
        await expectations.settle(memory, self._indexes, self._actuator, now=self._now)
        for _ in range(READS_PER_PASS):
            facts = self._observe(key, memory)
            step = plan(facts)
            match step:
                case Wait(after=after, why=why, held=held):
                    log.debug("waits", why=why, after=after)
                    set_controller(rule(facts, step))
                    self._observer.waits(key, held)
                    self._attend(key, memory, facts)
                    tell(self._actuator, memory, facts, now=self._now())
                    return None if after is None else max(after, SHORTEST_WAIT_SECONDS)
                case Forget():
                    set_controller(rule(facts, step))
                    self._forget(key)
                    return None
                case _:
                    outcome, began = await self._perform(memory, facts, step)
            if isinstance(step, Write):
                return await self._after_write(memory, facts, step, outcome)
            if isinstance(outcome, CloudFailed):
                await self._explain(memory, key)
            pause = self._after_read(memory, step, outcome, began)
            if pause is not None:
                return pause
        return BEHIND_SECONDS

    def _observe(self, key: str, memory: Memory) -> Facts:
        now = self._now()
        instance = with_cause(memory, self._inventory.get(key))
        claims = self._indexes.claims_of(key)
        notice_instance(memory, instance, claim=claims[0] if claims else None, now=now)
        wall = self._clock.now()
        self.offering_tracker.notice(key, instance, wall=wall, now=now)
        facts = observe(
            key,
            indexes=self._indexes,
            inventory=self._inventory,
            memory=memory,
            counts=lambda f: msgspec.structs.replace(
                self.cluster_state.facts(f, now), unhealthy_counts=self._unhealthy_nodes.admit(f, now)
            ),
            policy=self._policy,
            gpus=self._gpus,
            wall=wall,
            now=now,
        )
        facts = msgspec.structs.replace(facts, offers=self.offering_tracker.offers(facts, now))
        if memory.expectation is not None and not facts.own_write_pending:
            expectations.passed(memory)
        return facts

    async def _perform(self, memory: Memory, facts: Facts, step: Write | Read) -> tuple[Outcome, float]:
        began = self._now()
        set_controller(rule(facts, step))
        if isinstance(step, Write):
            outcome = await self._write(facts, step, began)
        else:
            outcome = await self._actuator.read(step)
        remember(memory, facts, step, outcome, began=began, now=self._now())
        self._observer.performed(facts, step, outcome)
        return outcome, began

    async def _write(self, facts: Facts, step: Write, began: float) -> Outcome:
        if not isinstance(step, CreateInstance):
            return await self._actuator.write(step, facts.claim)
        self.cluster_state.creating(step.name, began)
        self.offering_tracker.asked(step, began)
        try:
            outcome = await self._actuator.write(step, facts.claim)
            if isinstance(outcome, CloudFailed):
                error, wall = outcome.error, self._clock.now()
                self.offering_tracker.refused(step, error, asked=facts.now, wall=wall, now=self._now())
            return outcome
        finally:
            self.cluster_state.landed(step.name)

    async def _after_write(self, memory: Memory, facts: Facts, step: Write, outcome: Outcome) -> float | None:
        if not isinstance(outcome, KubeFailed):
            memory.refusals = memory.behind = 0
            memory.forbidden.pop(type(step).__name__, None)
        match outcome:
            case Fenced():
                return FENCED_SECONDS
            case KubeFailed():
                return self._refused_or_raise(memory, step, outcome)
            case CloudFailed(error=error) if isinstance(step, DeleteInstance) and error.status == 412:
                # The pool changed since the inventory saw it: look at what it is now, and decide anew.
                await self._perform(memory, facts, LookUpPool(name=facts.key))
                if memory.delete_failed is not None and self._inventory.get(facts.key) != step.instance:
                    # Else the read lags behind the change: the same DELETE waits its time. Refusals count on.
                    memory.delete_failed.delay = 0.0
            case CloudFailed(error=error) if isinstance(step, DeleteInstance) and first_conflict(memory, error):
                # Somebody works on the pool: it may be a deletion already. Later refusals leave looking to the list.
                await self._perform(memory, facts, LookUpPool(name=facts.key))
            case CloudFailed(error=error) if not (isinstance(error, Retryable) and error.conflict):
                await self._explain(memory, facts.key)
            case _:
                self._count(facts, step)
        return expectations.until_shown(memory, self._indexes)

    async def _explain(self, memory: Memory, key: str) -> None:
        """A step that fails at the cloud is told in the same pass: the one exemption from one write a pass."""
        facts = self._observe(key, memory)
        told = explain(facts)
        if told is not None:
            outcome, _ = await self._perform(memory, facts, told)
            if isinstance(outcome, KubeFailed):
                self._refused_or_raise(memory, told, outcome)

    def _refused_or_raise(self, memory: Memory, step: Write, failed: KubeFailed) -> float:
        """What is refused for good is remembered; what was decided on an old object waits for the new one."""
        error = failed.error
        refuse(memory, step, failed, now=self._now(), most_seconds=self._policy.refused_seconds)
        if error.refused:
            return min(BEHIND_SECONDS * 2.0 ** min(memory.refusals - 1, 16), REFUSED_MOST_SECONDS)
        if error.conflict or error.not_found:
            memory.behind += 1
            return min(BEHIND_SECONDS * 2.0 ** min(memory.behind - 1, 16), BEHIND_MOST_SECONDS)
        raise error

    def _after_read(self, memory: Memory, step: Read, outcome: Outcome, began: float) -> float | None:
        """Seconds to pause before planning with what was read; None: plan at once."""
        match outcome:
            case KubeFailed(error=error) if isinstance(step, ReadDrain | ReadVolumes):
                log.warning("what is on the Node cannot be read", node=step.node.name, error=str(error))
                return None  # it is remembered, and the claim says that it waits for it
            case KubeFailed(error=error):
                raise error
            case CloudFailed():
                return memory.read_failed.delay if memory.read_failed is not None else BEHIND_SECONDS
            case ReadNodes(nodes=nodes):
                if not self._indexes.knows_nodes(nodes):
                    return BEHIND_SECONDS
                memory.nodes_known_at = began
                return None
            case _:
                return None

    # Bookkeeping

    def _count(self, facts: Facts, step: Write) -> None:
        if isinstance(step, DeleteClaim) or (isinstance(step, DeleteInstance) and facts.candidate is not None):
            self.cluster_state.removed_by_inference(facts, self._now())
        log.debug("took a step", step=type(step).__name__, key=facts.key)

    def _attend(self, key: str, memory: Memory, facts: Facts) -> None:
        """While something is in flight the inventory looks often; and what waits for people is told once."""
        if in_flight(facts):
            self._inventory.set_in_flight(key)
        else:
            self._inventory.clear_in_flight(key)
        held = garbage.needs_confirmation(facts)
        if not held:
            memory.restriction_reported = False
        elif not memory.restriction_reported:
            memory.restriction_reported = True
            candidates = {name: one.cause for name, one in self.cluster_state.candidates().items()}
            log.error("a removal by inference waits for people", why=held, candidates=candidates)
            about = facts.claim or facts.instance
            if about is not None:
                self._actuator.tell(about, Event(type="Warning", reason=reasons.REMOVAL_RESTRICTED, message=held))

    def _forget(self, key: str) -> None:
        self._memories.pop(key, None)
        self._inventory.forget(key)
        self._unhealthy_nodes.forget(key)
        self._observer.forgot(key)
        self.offering_tracker.forget(key)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
