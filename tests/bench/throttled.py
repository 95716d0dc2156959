"""A burst of claims against AKS's own token buckets: how often ARM has to say 429.

Promise: the real program, both real SDKs and the published buckets, with AKS's own durations, on virtual time: a count
does not depend on whose seconds pass, and twelve minutes become a few.
Left to others: latencies (`bursts.py`, buckets off).

Source: aks-arm.md §3.6.
"""

import logging

import structlog

from controllers.policy import Policy
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.harness import Sim, node_claim, simulate

from .figures import Figure
from .stage import names

CLAIMS = 90
MOST_POOLS = 110


def measure() -> list[Figure]:
    """About 15 s."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    minutes: dict[str, float] = {}

    async def story(sim: Sim) -> None:
        wanted = names("many", CLAIMS)
        await sim.start_controller(policy=Policy(max_creates_per_minute=CLAIMS))
        begun = sim.now
        for name in wanted:
            await sim.apply(node_claim(name))
        await sim.until(lambda: all(sim.condition(name, "Ready") == "True" for name in wanted), 3600.0, "all are Ready")
        minutes["up"], begun = (sim.now - begun) / 60, sim.now
        for name in wanted:
            await sim.delete_claim(name)
        await sim.until(lambda: not any(sim.claim(name) for name in wanted), 3600.0, "all are gone")
        minutes["down"] = (sim.now - begun) / 60
        await sim.settled()

    report = simulate(story, azure=AzureSettings(max_agent_pools=MOST_POOLS))
    calls = report.world.ledger.calls(system="arm")
    refused = [call for call in calls if call.status == 429]
    return [
        Figure(
            name=f"429 answers, AKS's buckets on, {CLAIMS} claims created and removed",
            unit="answers",
            labels=("",),
            predecessor="522",
            target=(0,),
            measured=(len(refused),),
            asserted=True,
            note=f"of {len(calls)} calls; up in {minutes['up']:.1f} min, gone in {minutes['down']:.1f} min (virtual)",
        )
    ]
