"""Executes a plan: the phase of faults, the quiet phase, and the removal of everything.

The invariants are checked after every write (`provisioner.simulator.invariants`). After the faults everything must
converge within `CONVERGE_SECONDS`: each pod runs, each NodeClaim is Ready or gone, and pools, Nodes and claims agree.
Then no controller writes for `QUIET_SECONDS`. At the end users remove everything, and nothing remains.
"""

import asyncio
import logging
import re
import traceback
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import structlog

from controllers.model.confirmation import CONFIRMED_SECONDS, Confirmation, encode
from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.runtime.leaderelection import LeadershipLost
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from provisioner.simulator.snapshot import deleting, pool_mark
from tests.world.harness import EPOCH, SHIPPED_LEASE, Json, Sim, node_claim, simulate

from . import facts, verbs
from .coverage import Coverage
from .objects import made
from .owners import Owner
from .plan import Claim, Event, Plan, Workload

CLAIMS, NODE_POOLS = "nodeclaims.karpenter.sh", "nodepools.karpenter.sh"
LEASES = "leases.coordination.k8s.io"
OUR_GROUPS = (labels.KAITO_NODECLASS_GROUP, labels.OWN_DOMAIN)
# How often a user looks at what the circuit breaker restricts.
CONFIRM_SECONDS = 300.0
CONVERGE_SECONDS, QUIET_SECONDS, SETTLE_SECONDS, REMOVE_SECONDS = 7200.0, 1800.0, 7200.0, 7200.0
# From the end of the last fault on, the interval after which what was refused is tried again.
HORIZON_SECONDS = 86_400.0


@dataclass(kw_only=True)
class Outcome:
    """`why`: "" or what is wrong, without numbers and names, so that equal failures have equal texts.

    `error`: the whole text. `happened`: how often each fault injected. `pairs`: of states, see `coverage`.
    `machine_seconds`: virtual seconds of all machines together.
    """

    seed: int
    why: str = ""
    error: str = ""
    happened: Counter[str] = field(default_factory=Counter)
    pairs: set[str] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    seconds: float = 0.0
    machine_seconds: float = 0.0
    writes: int = 0


def execute(plan: Plan, *, whole: bool = True) -> Outcome:
    """Run it; failures are part of the outcome. Without the other phases, unless `whole`, it need not converge."""
    # The log of a run has some hundred thousand lines; the audit log has what is needed.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    outcome = Outcome(seed=plan.seed)

    async def story(sim: Sim) -> None:
        coverage = Coverage(sim)
        try:
            run = Run(sim, plan, outcome)
            await (run.all_phases() if whole else run.faults())
        finally:
            outcome.pairs, outcome.marks = coverage.pairs, coverage.marks
            outcome.seconds, outcome.machine_seconds = sim.now, coverage.machine_seconds
            outcome.writes = sim.writes

    try:
        simulate(
            story,
            seed=plan.seed,
            lease=SHIPPED_LEASE,
            azure=AzureSettings(**_tuples(plan.azure | plan.facts.get("azure", {}))),
            nodes=NodeSettings(**_tuples(plan.nodes | plan.facts.get("nodes", {}))),
            watch_window=plan.window,
            horizon_seconds=HORIZON_SECONDS,
        )
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        outcome.error = "".join(traceback.format_exception(error))
        outcome.why = signature(error)
    finally:
        structlog.reset_defaults()
    return outcome


def signature(error: BaseException) -> str:
    """The kind of a failure: its type and first line, without numbers and the names of objects."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    first = next((line for line in [*str(error).splitlines(), ""] if line.strip()), "")
    violated = re.search(r"I\d+ violated", first)
    if violated is None:
        notes = " ".join(getattr(error, "__notes__", []))
        violated = re.search(r"I\d+ violated", notes)
    if violated is not None and not first.startswith("not within"):
        return violated[0]
    return f"{type(error).__name__}: {re.sub(r'[0-9a-f]*[0-9][0-9a-f]*', '#', first)[:160]}"


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where the settings have ranges."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


class Run:
    """What a verb acts on. `outcome.happened` counts the faults that found something to strike."""

    def __init__(self, sim: Sim, plan: Plan, outcome: Outcome) -> None:
        self.sim, self.plan, self.outcome = sim, plan, outcome
        self.owners: list[Owner] = []
        self._claims_gone: set[str] = set()

    async def all_phases(self) -> None:
        confirming = asyncio.create_task(self._confirm_removals())
        await self.faults()
        await self.sim.until(self._converged, CONVERGE_SECONDS, "everything converges after the faults")
        await self.sim.settled(QUIET_SECONDS, SETTLE_SECONDS)
        assert self._converged(), f"what had converged changed in the quiet phase\n{self.sim.describe()}"
        await self._remove_all()
        confirming.cancel()

    async def faults(self) -> None:
        """The phase of faults alone."""
        await self._begin()
        async with asyncio.TaskGroup() as tasks:
            for claim in self.plan.claims:
                tasks.create_task(self._claim(claim))
            for workload in self.plan.workloads:
                tasks.create_task(self._workload(workload))
            for event in self.plan.events:
                tasks.create_task(self._strike(event))
            tasks.create_task(self._watch_over())

    def injected(self, event: Event) -> None:
        """Count that the fault has found something to strike."""
        self.outcome.happened[event.fault] += 1

    async def lasts(self, event: Event) -> None:
        """Wait until the fault ends."""
        await asyncio.sleep(event.seconds)

    # what a fault may choose from

    def chosen(self, pick: float, candidates: list[Any]) -> Any | None:
        """One of them, None if there are none."""
        return candidates[int(pick * len(candidates))] if candidates else None

    def node(self, event: Event) -> str:
        """The Node of a running machine of ours, "" if there is none."""
        ours = {pool.name for pool in self.sim.cloud.pools.values() if pool_mark(pool)}
        found = [name for name, machine in self.sim.nodes.machines.items() if machine.pool.name in ours]
        return self.chosen(event.pick, [name for name in found if self.sim.store.get("nodes", name)]) or ""

    def pool(self, event: Event) -> str:
        """The name of an agent pool of ours at rest, "" if there is none."""
        found = [pool.name for pool in self.sim.cloud.pools.values() if pool_mark(pool) and not pool.busy]
        return self.chosen(event.pick, found) or ""

    def claims(self) -> list[Json]:
        """The NodeClaims of our node classes that are not deleted."""
        found = [one for one in self.sim.store.list(CLAIMS) if "deletionTimestamp" not in one["metadata"]]
        return [one for one in found if one["spec"]["nodeClassRef"]["group"] in OUR_GROUPS]

    def claim(self, event: Event) -> Json | None:
        """One of them."""
        return self.chosen(event.pick, self.claims())

    def workspace_claim(self, event: Event) -> Json | None:
        """One of those that KAITO creates."""
        found = [one for one in self.claims() if labels.KAITO_WORKSPACE in one["metadata"].get("labels", {})]
        return self.chosen(event.pick, found)

    # phases

    async def _begin(self) -> None:
        sim = self.sim
        sim.store.create("namespaces", {"metadata": {"name": "tenant"}})
        await facts.begin(sim, self.plan)
        for one in self.plan.node_pools:
            await sim.apply(made(one))
        await sim.start_controller(policy=Policy(**self.plan.policy), restart_on=(LeadershipLost,))

    async def _strike(self, event: Event) -> None:
        await asyncio.sleep(event.at)
        await verbs.of(event.fault)(self, event)

    async def _watch_over(self) -> None:
        """Fail at once instead of at the end of the faults; the phase of faults has its full length."""
        while self.sim.now < self.plan.faults_seconds:
            await asyncio.sleep(min(60.0, self.plan.faults_seconds - self.sim.now + 0.001))
            self.sim.check()

    async def _confirm_removals(self) -> None:
        """A user confirms what the circuit breaker restricts, if it is true: machines that lost a part of them."""
        sim = self.sim
        while True:
            await asyncio.sleep(CONFIRM_SECONDS)
            claims = {one["metadata"]["uid"] for one in sim.store.list(CLAIMS)}
            marked = [name for name, pool in sim.cloud.pools.items() if pool_mark(pool) in claims]
            whole = {name for name in marked if any(not deleting(node) for node in sim.nodes_of(name))}
            lost = sorted({put.pool for put in sim.cloud.put_log} - whole)
            if lost and sim.store.get(LEASES, "gpu-provisioner", "kube-system") is not None:
                until = EPOCH + timedelta(seconds=sim.now + CONFIRMED_SECONDS)
                value = encode(Confirmation(until=until, removals=tuple(lost)))
                note = {"metadata": {"annotations": {labels.CONFIRMED_REMOVALS: value}}}
                sim.store.patch(LEASES, "gpu-provisioner", note, "kube-system")

    async def _claim(self, claim: Claim) -> None:
        await asyncio.sleep(claim.at)
        await self.sim.apply(node_claim(claim.name, size=claim.size))
        if claim.gone_at:
            await asyncio.sleep(claim.gone_at - claim.at)
            if self.sim.claim(claim.name) is not None:
                await self.sim.delete_claim(claim.name)

    async def _workload(self, workload: Workload) -> None:
        await asyncio.sleep(workload.at)
        owner = Owner(self.sim, workload)
        self.owners.append(owner)
        owner.begin()
        if workload.gone_at:
            await asyncio.sleep(workload.gone_at - workload.at)
            owner.end()

    def _converged(self) -> bool:
        sim = self.sim
        if any(owner.waiting for owner in self.owners):
            return False
        claims = sim.store.list(CLAIMS)
        if any("deletionTimestamp" in one["metadata"] for one in claims):
            return False
        if any(sim.condition(one["metadata"]["name"], "Ready") != "True" for one in claims):
            return False
        pools = sorted(pool_mark(pool) for pool in sim.cloud.pools.values() if pool_mark(pool))
        return pools == sorted(one["metadata"]["uid"] for one in claims)

    async def _remove_all(self) -> None:
        sim = self.sim
        for owner in self.owners:
            owner.end()
        for one in sim.store.list(NODE_POOLS):
            await sim.request("DELETE", f"/apis/karpenter.sh/v1/nodepools/{one['metadata']['name']}")
        for one in sim.store.list(CLAIMS):
            if "deletionTimestamp" not in one["metadata"]:
                await sim.delete_claim(one["metadata"]["name"])
        await sim.until(self._nothing_is_left, REMOVE_SECONDS, "everything is removed")
        await sim.settled(within_seconds=1800.0)

    def _nothing_is_left(self) -> bool:
        sim = self.sim
        ours = any(pool_mark(pool) for pool in sim.cloud.pools.values())
        foreign = {*sim.cloud.pools}
        nodes = [one for one in sim.store.list("nodes") if one["metadata"]["labels"].get("agentpool") not in foreign]
        return not ours and not nodes and not sim.store.list(CLAIMS) and not sim.store.list(NODE_POOLS)
