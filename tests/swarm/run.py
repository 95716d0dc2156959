"""Executes a plan: the phase of faults, the quiet phase, and the removal of everything.

The invariants are checked after every write (`provisioner.simulator.invariants`). After the faults everything must
converge within `CONVERGE_SECONDS`: each pod runs, each NodeClaim is Ready or gone, and pools, Nodes and claims agree.
Then no controller writes for `QUIET_SECONDS`. At the end users remove everything, and nothing remains. From the end of
the faults on, an administrator confirms the removals that the circuit breaker restricts.
"""

import asyncio
import hashlib
import logging
import re
import traceback
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog
from aiohttp import web

from controllers.model.policy import Policy
from provisioner.api import labels, reasons
from provisioner.api.nvsentinel import NVSentinel
from provisioner.runtime.leaderelection import LeadershipLost
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.disruption_invariants import has_ended, is_of_daemon_set, owner_of
from provisioner.simulator.kube.resources import CRD_KEY
from provisioner.simulator.nodes.machine import NodeSettings
from provisioner.simulator.snapshot import condition, is_disrupted, of_node_pool, pool_mark, requests_gpus
from tests.world.commands import command
from tests.world.harness import Json, Sim, crds, node_claim, simulate

from . import catalogue, facts, verbs
from .coverage import Coverage
from .limits import Limits, limited
from .objects import made, staged
from .owners import Owner
from .plan import Claim, Event, NodePool, Plan, Workload

CLAIMS, NODE_POOLS = "nodeclaims.karpenter.sh", "nodepools.karpenter.sh"
OUR_GROUPS = (labels.KAITO_NODECLASS_GROUP, labels.OWN_DOMAIN)
CONVERGE_SECONDS, QUIET_SECONDS, SETTLE_SECONDS, REMOVE_SECONDS = 7200.0, 1800.0, 7200.0, 7200.0
# From the end of the last fault on, the interval after which what was refused is tried again.
HORIZON_SECONDS = 86_400.0
# How soon an administrator acts on the alert GpuProvisionerRemovalsRestricted.
CONFIRM_SECONDS = 600.0
# Of all clients within so many seconds; a tenth is usual while machines come and go.
MOST_REQUESTS = {60: 3_000, 3600: 20_000}
CHECK_SECONDS = 10
# AKS allows so many agent pools.
MOST_POOLS = 100
# After these faults, a controller notices late what happens: a watch that is silent is opened again after 75 s.
DISTURBING = frozenset({"process", "read", "write", "lease", "program"})
RECONNECT_SECONDS = 120.0
RETRY_SECONDS = 10.0
SIZES = ("Standard_NC4as_T4_v3", "Standard_NC24ads_A100_v4")
STEPS = ("Launched", "Registered", "Initialized", "Ready")
# With these, a machine keeps the pods that use its GPUs for a day, longer than a run (docs/references/rules.md#repair).
LACKS_GPUS = (reasons.GPU_COUNT_MISMATCH, reasons.DRA_DRIVER_POOLS_NOT_PUBLISHED)


class Unfinished(AssertionError):
    """Something was not reached within its bound; the message states what is left, without names."""


@dataclass(kw_only=True)
class Outcome:
    """`why`: "" or what is wrong, without numbers and names, so that equal failures have equal texts.

    `error`: the whole text. `happened`: how often each fault was injected. `pairs`: of states, see `coverage`.
    `machine_seconds`: virtual seconds of all machines together. `digest`: of the audit log.
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
    digest: str = ""


def execute(plan: Plan, *, whole: bool = True) -> Outcome:
    """Run it; failures are part of the outcome. Without the other phases, unless `whole`, it need not converge."""
    # The log of a run has some hundred thousand lines; the audit log has what is needed.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    outcome = Outcome(seed=plan.seed)
    with limited() as limits:
        _simulate(plan, outcome, limits, whole=whole)
    if limits.exceeded is not None:
        outcome.why = signature(limits.exceeded)
    return outcome


def _simulate(plan: Plan, outcome: Outcome, limits: Limits, *, whole: bool) -> None:
    async def story(sim: Sim) -> None:
        coverage = Coverage(sim)
        try:
            run = Run(sim, plan, outcome, limits)
            await (run.all_phases() if whole else run.faults())
        finally:
            outcome.pairs, outcome.marks = coverage.pairs, coverage.marks
            outcome.seconds, outcome.machine_seconds = sim.now, coverage.machine_seconds
            outcome.writes = sim.writes
            course = sim.audit_log.tail(last=len(sim.audit_log.entries))
            outcome.digest = hashlib.sha256(course.encode()).hexdigest()

    try:
        simulate(
            story,
            seed=plan.seed,
            lease=plan.lease,
            azure=AzureSettings(**_tuples(plan.azure | plan.facts.get("azure", {}))),
            nodes=NodeSettings(taint_evictions=True, **_tuples(plan.nodes | plan.facts.get("nodes", {}))),
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


def signature(error: BaseException) -> str:
    """The kind of a failure: its type and first line, without numbers and the names of objects."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    if first.endswith(" ended") and error.__cause__ is not None:
        return f"ended: {signature(error.__cause__)}"
    violated = next(
        (text for text in (first, *getattr(error, "__notes__", ())) if re.search(r"I\d+ violated", text)), ""
    )
    if violated and not isinstance(error, Unfinished):
        found = re.search(r"(I\d+ violated)(?: at [\d.]+ s)?(.*)", violated)
        assert found is not None
        return found[1] + _nameless(found[2])
    return f"{type(error).__name__}: {_nameless(first)}"


def _nameless(text: str) -> str:
    """Words with a digit are names or numbers."""
    return re.sub(r"[^\s'\"(),:]*\d[^\s'\"(),:]*", "#", text)[:160]


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where the settings have ranges."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def reason_of(claim: Json, kind: str) -> str:
    """The reason of a condition; "" if there is none."""
    conditions = (claim.get("status") or {}).get("conditions") or ()
    return next((held.get("reason", "") for held in conditions if held["type"] == kind), "")


def _node_pool_of(claim: Json) -> str:
    return str(claim["metadata"].get("labels", {}).get("karpenter.sh/nodepool", ""))


def _marks(claim: Json) -> set[str | None]:
    """Of the pools that it may have: one that it has adopted keeps the mark of the former claim."""
    return {claim["metadata"]["uid"], (claim["metadata"].get("annotations") or {}).get(labels.ADOPT)}


class Run:
    """What a verb acts on. `outcome.happened` counts the faults that found something to strike."""

    def __init__(self, sim: Sim, plan: Plan, outcome: Outcome, limits: Limits) -> None:
        self.sim, self.plan, self.outcome, self._limits = sim, plan, outcome, limits
        self.owners: list[Owner] = []
        self.protected: set[str] = set(plan.facts.get("protected", ()))
        # The UIDs of NodeClaims for whose machines NVSentinel has requested others.
        self.requested: set[str] = set()
        self._requests = 0
        sim.world.before.append(self._count)

    async def all_phases(self) -> None:
        async with asyncio.TaskGroup() as beside:
            watching = beside.create_task(self._watch_over())
            await self.faults()
            administrator = beside.create_task(self._administer())
            await self._until(lambda: not self._unconverged(), CONVERGE_SECONDS, self._unconverged)
            if self.protected or any(
                self._may_wait(one) or self._keeps_pods(one) for one in self.sim.store.each(CLAIMS)
            ):
                # What is refused is requested again and again, and how long a signal was observed is written.
                await asyncio.sleep(QUIET_SECONDS)
            else:
                await self.sim.settled(QUIET_SECONDS, SETTLE_SECONDS)
            assert not (left := self._unconverged()), f"after the quiet phase: {left}\n{self.sim.describe()}"
            await self._remove_all()
            watching.cancel()
            administrator.cancel()

    async def faults(self) -> None:
        """The phase of faults alone."""
        await self._begin()
        async with asyncio.TaskGroup() as tasks:
            for claim in self.plan.claims:
                tasks.create_task(self._claim(claim))
            for workload in self.plan.workloads:
                tasks.create_task(self._workload(workload))
            for one in self.plan.node_pools:
                if one.stages:
                    tasks.create_task(self._correct(one))
            for event in self.plan.events:
                tasks.create_task(self._strike(event))
            tasks.create_task(asyncio.sleep(self.plan.faults_seconds - self.sim.now))

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

    def installs(self, key: str) -> bool:
        """Whether objects of this kind can be created."""
        return bool(self.crd(key))

    def crd(self, key: str) -> str:
        """The UID of this CRD, "" unless it exists and is not being deleted."""
        found = self.sim.store.get(CRD_KEY, key)
        return "" if found is None or "deletionTimestamp" in found["metadata"] else found["metadata"]["uid"]

    def size(self) -> str:
        """The smallest size that the region has."""
        return next(one for one in SIZES if one not in self.plan.facts.get("absent", ()))

    def node_pool_exists(self, name: str) -> bool:
        """Also without the CRD."""
        return any(one["metadata"]["name"] == name for one in self.sim.store.each_served(NODE_POOLS))

    async def apply(self, obj: Json) -> Json:
        """As a user, who tries again while the CRD of this kind is being deleted or is not there."""
        key = next((one["metadata"]["name"] for one in crds() if one["spec"]["names"]["kind"] == obj["kind"]), "")
        while True:
            if not key or self.installs(key):
                try:
                    return await self.sim.apply(obj)
                except AssertionError:
                    if not key or self.installs(key):
                        raise
            await asyncio.sleep(RETRY_SECONDS)

    def claims(self) -> list[Json]:
        """The NodeClaims of our node classes that are not deleted."""
        found = [one for one in self.sim.store.each_served(CLAIMS) if "deletionTimestamp" not in one["metadata"]]
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
        sim.store.create("namespaces", {"metadata": {"name": "tenant", "labels": {"team": "tenant"}}})
        await facts.begin(sim, self.plan)
        for one in self.plan.node_pools:
            await sim.apply(made(staged(one, sim.now)))
        self._protect()
        enabled = NVSentinel() if self.plan.facts.get("nvsentinel") else None
        await sim.start_controller(policy=Policy(**self.plan.policy), restart_on=(LeadershipLost,), nvsentinel=enabled)

    async def _strike(self, event: Event) -> None:
        await asyncio.sleep(event.at)
        if catalogue.faults()[event.fault].layer in DISTURBING:
            self.sim.disturbed_until = max(self.sim.disturbed_until, self.sim.now + event.seconds + RECONNECT_SECONDS)
        await verbs.of(event.fault)(self, event)

    async def _watch_over(self) -> None:
        """Fail at once instead of at the end of a phase, also if the controller sends requests without a pause."""
        counts = deque[int]((0,), maxlen=max(MOST_REQUESTS) // CHECK_SECONDS + 1)
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self._limits.exceeded is not None:
                raise self._limits.exceeded
            self.sim.check()
            self._check_pools()
            counts.append(self._requests)
            for seconds, most in MOST_REQUESTS.items():
                if counts[-1] - counts[max(-len(counts), -1 - seconds // CHECK_SECONDS)] > most:
                    raise Unfinished(f"more than {most} requests within {seconds} s\n{self.sim.describe()}")

    def _check_pools(self) -> None:
        """No more NodeClaims of NodePools exist than agent pools are allowed."""
        most = self.plan.policy.get("max_agent_pools", MOST_POOLS)
        if (found := sum(map(of_node_pool, self.sim.store.each(CLAIMS)))) > most:
            raise Unfinished(f"{found} NodeClaims of NodePools, and {most} agent pools are allowed")

    async def _count(self, _: Call, __: web.Request) -> None:
        self._requests += 1

    async def _correct(self, node_pool: NodePool) -> None:
        """A user corrects the NodePool at the end of each stage."""
        for stage in node_pool.stages:
            await asyncio.sleep(stage.until - self.sim.now)
            if self.node_pool_exists(node_pool.name):
                await self.apply(made(staged(node_pool, self.sim.now)))

    def _protect(self) -> None:
        """An admission policy lets no controller delete some NodeClaims until everything is removed."""

        async def before(call: Call, _: web.Request) -> web.StreamResponse | None:
            target = call.target
            if (call.verb, target.kind) != ("DELETE", "nodeclaims") or call.who not in self.sim.controllers:
                return None
            if target.name not in self.protected:
                return None
            body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}
            return web.json_response({**body, "message": "admission policy: this is protected"}, status=403)

        if self.protected:
            self.sim.world.before.append(before)

    async def _claim(self, claim: Claim) -> None:
        await asyncio.sleep(claim.at)
        await self.apply(node_claim(claim.name, size=claim.size))
        if claim.gone_at:
            await asyncio.sleep(claim.gone_at - claim.at)
            if self.sim.claim(claim.name) is not None:
                await self.sim.delete_claim(claim.name)

    async def _workload(self, workload: Workload) -> None:
        await asyncio.sleep(workload.at)
        owner = Owner(self.sim, facts.claiming(self.plan, workload))
        self.owners.append(owner)
        owner.begin()
        if workload.gone_at:
            await asyncio.sleep(workload.gone_at - workload.at)
            owner.end()

    async def _administer(self) -> None:
        """Do what the runbook of the circuit breaker's alert, and docs/troubleshooting/reasons.md, have people do.

        They confirm removals, delete claims whose Nodes Kubernetes is deleting, and correct refused adoptions.
        """
        while True:
            await asyncio.sleep(CONFIRM_SECONDS)
            if any(one.get("reason") == "RemovalRestricted" for one in self.sim.store.each("events")):
                await command(self.sim, "gc", "--confirm", "--yes")
            for one in self.claims():
                name, found = one["metadata"]["name"], (one.get("status") or {}).get("conditions") or ()
                reasons = {held.get("reason") for held in found}
                if "NodeDeleting" in reasons:
                    await self.sim.delete_claim(name)
                elif "AdoptionRefused" in reasons:
                    self.sim.store.patch(CLAIMS, name, {"metadata": {"annotations": {labels.ADOPT: None}}})

    async def _until(self, reached: Callable[[], bool], within_seconds: float, left: Callable[[], str]) -> None:
        """Raises Unfinished with what is `left` after `within_seconds`, or what `Sim.until` raises before."""
        limit = "not within"
        try:
            await self.sim.until(reached, within_seconds, "the state after the faults")
        except AssertionError as error:
            if str(error).startswith(limit):
                raise Unfinished(f"{limit} {within_seconds:g} s: {left()}\n{error}") from None
            raise

    def _unconverged(self) -> str:
        """What has not converged, by kind; "" if all has."""
        sim, found = self.sim, set()
        if any(len(owner.waiting) > owner.workload.waits for owner in self.owners):
            found.add("pods wait")
        if self.tainted():
            found.add("a machine is cordoned for a disruption")
        claims = list(sim.store.each(CLAIMS))
        wanted = [one for one in claims if not self._may_wait(one)]
        drifted = Counter(_node_pool_of(one) for one in wanted if condition(one, "Drifted") == "True")
        for one in wanted:
            if "deletionTimestamp" in one["metadata"]:
                found.add("a claim is being deleted")
            elif step := next((step for step in STEPS if condition(one, step) != "True"), ""):
                if not self._keeps_pods(one):
                    found.add(f"a claim is not {step} ({reason_of(one, step)})")
            else:
                found.add(self._undisrupted(one, drifted[_node_pool_of(one)]))
        if any(one["metadata"]["uid"] in self.requested for one in claims):
            found.add("a request of NVSentinel waits")
        pools = {pool_mark(pool) for pool in sim.cloud.pools.values() if pool_mark(pool)}
        if pools - set[str | None]().union(*map(_marks, claims)):
            found.add("a pool has no claim")
        if not all(pools & _marks(one) for one in wanted):
            found.add("a claim has no pool")
        return ", ".join(sorted(found - {""}))

    def _keeps_pods(self, claim: Json) -> bool:
        """Whether its machine lacks GPUs since its start, and pods that use the others keep it."""
        pools = self.sim.pools_of(claim["metadata"]["uid"])
        nodes = {node["metadata"]["name"] for pool in pools for node in self.sim.nodes_of(pool.name)}
        pods = (one for one in self.sim.store.each("pods") if one["spec"].get("nodeName") in nodes)
        lacks = "deletionTimestamp" not in claim["metadata"] and reason_of(claim, "Initialized") in LACKS_GPUS
        return lacks and any(requests_gpus(one) and not has_ended(one) for one in pods)

    def tainted(self) -> list[str]:
        """Our Nodes that a disruption has tainted, of NodeClaims that are not deleted."""
        machines = {
            (one.get("status") or {}).get("nodeName")
            for one in self.claims()
            if one["metadata"]["name"] not in self.protected
        }
        nodes = [one["metadata"]["name"] for one in self.sim.store.each("nodes") if is_disrupted(one)]
        return [name for name in nodes if name in machines]

    def _may_wait(self, claim: Json) -> bool:
        """Whether Azure refuses all sizes of the NodeClaim for good, and nothing else could serve what it is for."""
        refused = {size.lower() for size in self.plan.facts.get("refused", {})}
        values = (one["values"] for one in claim["spec"]["requirements"] if one["key"] == labels.INSTANCE_TYPE)
        sizes = {size.lower() for found in values for size in found}
        if not sizes or sizes - refused or "deletionTimestamp" in claim["metadata"]:
            return False
        if condition(claim, "Launched") == "True":
            return False
        name = _node_pool_of(claim)
        one = next((one for one in self.plan.node_pools if one.name == name), None)
        if one is None or not owner_of(claim):
            # A claim that was restored without its owner is a user's.
            return True
        if one.replicas is not None:
            return not {size.lower() for size in one.sizes} - refused
        return any(owner.workload.waits for owner in self.owners if owner.workload.node_pool == name)

    def _undisrupted(self, claim: Json, drifted: int) -> str:
        """What the controller is to disrupt about a machine of its NodePool, of which so many drift; "" if nothing."""
        node_pool = next((one for one in self.plan.node_pools if one.name == _node_pool_of(claim)), None)
        if node_pool is None or not owner_of(claim) or claim["metadata"]["name"] in self.protected:
            return ""
        if drifted > node_pool.stays and node_pool.stages and condition(claim, "Drifted") == "True":
            return "a machine has drifted"
        return "a machine is idle" if self._is_idle(claim, node_pool) else ""

    def _is_idle(self, claim: Json, node_pool: NodePool) -> bool:
        """Whether no pod but those of DaemonSets uses a machine that consolidation is to remove."""
        if node_pool.replicas is not None or node_pool.after == "Never" or node_pool.budget == "0" or node_pool.budgets:
            return False
        name = (claim.get("status") or {}).get("nodeName")
        pods = (one for one in self.sim.store.each("pods") if one["spec"].get("nodeName") == name)
        return all(has_ended(one) or is_of_daemon_set(one) for one in pods)

    async def _remove_all(self) -> None:
        sim = self.sim
        self.protected.clear()
        for owner in self.owners:
            owner.end()
        for one in sim.store.list(NODE_POOLS):
            await sim.request("DELETE", f"/apis/karpenter.sh/v1/nodepools/{one['metadata']['name']}")
        for one in sim.store.list(CLAIMS):
            if "deletionTimestamp" not in one["metadata"]:
                await sim.delete_claim(one["metadata"]["name"])
        await self._until(lambda: not self._unremoved(), REMOVE_SECONDS, self._unremoved)
        await sim.settled(within_seconds=1800.0)

    def _unremoved(self) -> str:
        """What remains after the removal of everything, by kind; "" if nothing does."""
        sim = self.sim
        kept = {*sim.cloud.pools}
        nodes = [one for one in sim.store.each("nodes") if one["metadata"]["labels"].get("agentpool") not in kept]
        found = {
            "a pool remains": any(pool_mark(pool) for pool in sim.cloud.pools.values()),
            "a Node remains": bool(nodes),
            "a claim remains": any(sim.store.each(CLAIMS)),
            "a NodePool remains": any(sim.store.each(NODE_POOLS)),
        }
        return ", ".join(what for what, holds in found.items() if holds)
