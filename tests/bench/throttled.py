"""A hundred pools against AKS's token buckets: their number of calls, and the number of 429 responses.

The real program, both real SDKs and the published buckets, with AKS's own durations, on virtual time: a count is the
same on virtual time, and half an hour takes a few seconds.

Source: docs/references/agent-pools.md#throttling, docs/references/rules.md#arm-request-budget.
"""

import logging
from collections import Counter

import structlog

from controllers.model.policy import Policy
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.harness import Sim, node_claim, simulate

from .figures import Figure
from .stage import names

CLAIMS = 100
MOST_POOLS = 110
IDLE_SECONDS = 1200.0
# A PUT and a DELETE; a GET if LISTs cannot prove the absence.
LIFE = ("PUT", "DELETE", "GET")


def measure() -> list[Figure]:
    """About 20 s."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    begun: dict[str, float] = {}

    async def story(sim: Sim) -> None:
        wanted = names("many", CLAIMS)
        await sim.start_controller(policy=Policy(max_creates_per_minute=CLAIMS, max_agent_pools=CLAIMS))
        begun["up"] = sim.now
        for name in wanted:
            await sim.apply(node_claim(name))
        await sim.until(lambda: all(sim.condition(name, "Ready") == "True" for name in wanted), 3600.0, "all are Ready")
        await sim.until(lambda: not any(pool.busy for pool in sim.cloud.pools.values()), 600.0, "no pool is busy")
        begun["calming"] = sim.now
        await sim.settled()
        begun["idle"] = sim.now
        await sim.until(lambda: sim.now >= begun["idle"] + IDLE_SECONDS, IDLE_SECONDS + 1.0, "an idle period")
        begun["down"] = sim.now
        for name in wanted:
            await sim.delete_claim(name)
        await sim.until(lambda: not any(sim.claim(name) for name in wanted), 3600.0, "all are gone")
        begun["end"] = sim.now
        await sim.settled()

    report = simulate(story, azure=AzureSettings(max_agent_pools=MOST_POOLS))
    calls = report.world.audit_log.calls(system="arm")
    return [_refused(calls, begun), _per_life(calls), *_per_minute(calls, begun)]


def _refused(calls: list[Call], begun: dict[str, float]) -> Figure:
    up, down = ((begun[end] - begun[start]) / 60 for start, end in (("up", "calming"), ("down", "end")))
    return Figure(
        name=f"429 answers, AKS's buckets on, {CLAIMS} claims created and removed",
        unit="answers",
        labels=("",),
        predecessor="522 of 90",
        target=(0,),
        measured=(sum(call.status == 429 for call in calls),),
        asserted=True,
        note=f"of {len(calls)} calls; up in {up:.1f} min, gone in {down:.1f} min (virtual)",
    )


def _per_life(calls: list[Call]) -> Figure:
    verbs = Counter(call.verb for call in calls if call.target.kind == "pools")
    each = ", ".join(f"{verbs[verb] / CLAIMS:.2f} {verb}" for verb in LIFE)
    return Figure(
        name="ARM calls a claim, whole life",
        unit="calls",
        labels=("own", "with its share of the LISTs"),
        target=(2.0,),
        measured=(sum(verbs[verb] for verb in LIFE) / CLAIMS, len(calls) / CLAIMS),
        note=each,
    )


def _per_minute(calls: list[Call], begun: dict[str, float]) -> list[Figure]:
    def rate(start: str, end: str) -> float:
        found = sum(begun[start] <= call.at < begun[end] for call in calls)
        return found * 60 / (begun[end] - begun[start])

    idle = Figure(
        name=f"ARM calls a minute, {CLAIMS} idle pools",
        unit="calls",
        labels=("",),
        target=(10,),
        measured=(rate("idle", "down"),),
        asserted=True,
        note="the shared LIST and the managed cluster; polling each pool every 5 s would take 1200",
    )
    moving = Figure(
        name=f"ARM calls a minute, {CLAIMS} pools at once",
        unit="calls",
        labels=("coming", "going"),
        measured=(rate("up", "calming"), rate("down", "end")),
        note="PUTs have buckets of their own; AKS allows 60 a minute of all others",
    )
    return [idle, moving]
