"""The scenario, played and scraped: a Prometheus that has seen it all, and when that was.

It begins a few scrapes before the first claim and ends a few after the last act, while the program still runs;
Prometheus goes on answering when the world is gone.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from provisioner.runtime.clock import SystemClock
from provisioner.runtime.server import metrics_app, serve

from . import scenario
from .kube_state import kube_state
from .prometheus import SCRAPE_SECONDS, Labels, Prometheus
from .stage import LOOPBACK, Stage, stage

SCRAPES_AROUND = 3
JOB = "gpu-provisioner"


@dataclass(frozen=True)
class Recording:
    """`start` and `end` are whole seconds since the epoch, so that the steps of a range query fall on scrapes.

    `exposition`: all that the replica which leads in the end says in its last scrape, as it says it.
    """

    prometheus: Prometheus
    start: float
    end: float
    exposition: str


async def record(home: Path, until_then: ExitStack, rules: Sequence[Path] = ()) -> Recording:
    """Play the scenario under a Prometheus that runs until `until_then` closes. Raises NotInstalled, TimeoutError."""
    prometheus, clock = Prometheus(home), SystemClock()
    until_then.callback(prometheus.stop)
    async with AsyncExitStack() as life:
        running = await life.enter_async_context(stage(home, scenario.AZURE, scenario.POLICY, scenario.PRICES))
        pods = await life.enter_async_context(serve(LOOPBACK, 0, metrics_app(kube_state(running.world.store))))
        await scenario.begin(running)
        targets = [_target(running, name) for name in running.targets]
        await prometheus.start([*targets, {"__address__": f"{LOOPBACK}:{pods}", "job": "kube-state-metrics"}], rules)
        start = clock.now().timestamp()
        await asyncio.sleep(SCRAPES_AROUND * SCRAPE_SECONDS)
        await scenario.play(running)
        await asyncio.sleep(SCRAPES_AROUND * SCRAPE_SECONDS)
        end = clock.now().timestamp()
        exposition = await _exposed(running.targets[scenario.SECOND])
    return Recording(prometheus, float(int(start)), float(int(end)), exposition)


async def _exposed(target: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://{target}/metrics") as answer:
        return await answer.text()


def _target(running: Stage, name: str) -> Labels:
    """The labels that a ServiceMonitor's targets get."""
    return {
        "__address__": running.targets[name],
        "job": JOB,
        "instance": f"{name}:8080",
        "namespace": "gpu-provisioner",
        "pod": name,
    }
