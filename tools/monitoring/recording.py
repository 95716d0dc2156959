"""A run of the scenario under Prometheus.

The recording begins a few scrapes before the first claim and ends a few scrapes after the last step, while the
controllers are still running. Prometheus can be queried after the simulated cluster is gone.
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
from .environment import LOOPBACK, Environment, environment
from .kube_state import kube_state
from .prometheus import SCRAPE_SECONDS, Labels, Prometheus

SCRAPES_AROUND = 3
SCRAPED_SECONDS = 60.0
JOB = "gpu-provisioner"


@dataclass(frozen=True)
class Recording:
    """`start` and `end` are whole seconds since the epoch, so that the steps of a range query fall on scrapes.

    `exposition`: the text of the last scrape of the replica that is the leader at the end.
    """

    prometheus: Prometheus
    start: float
    end: float
    exposition: str


async def record(home: Path, until_then: ExitStack, rules: Sequence[Path] = ()) -> Recording:
    """Run the scenario under a Prometheus that runs until `until_then` closes. Raises NotInstalled, TimeoutError."""
    prometheus, clock = Prometheus(home), SystemClock()
    until_then.callback(prometheus.stop)
    async with AsyncExitStack() as life:
        settings = (scenario.AZURE, scenario.POLICY, scenario.PRICES)
        running = await life.enter_async_context(environment(home, *settings))
        pods = await life.enter_async_context(serve(LOOPBACK, 0, metrics_app(kube_state(running.world.store))))
        await scenario.begin(running)
        targets = [_target(running, name) for name in running.targets]
        await prometheus.start([*targets, {"__address__": f"{LOOPBACK}:{pods}", "job": "kube-state-metrics"}], rules)
        start = clock.now().timestamp()
        await asyncio.sleep(SCRAPES_AROUND * SCRAPE_SECONDS)
        await scenario.run(running)
        await asyncio.sleep(SCRAPES_AROUND * SCRAPE_SECONDS)
        end = await _scraped(prometheus, clock, scenario.SECOND)
        exposition = await _exposed(running.targets[scenario.SECOND])
    return Recording(prometheus, float(int(start)), end, exposition)


async def _scraped(prometheus: Prometheus, clock: SystemClock, pod: str) -> float:
    """A whole second, now, whose last scrape of this replica succeeded. Raises TimeoutError.

    On a busy machine a scrape can fail, because the whole simulated cluster shares the replica's event loop.
    """
    async with asyncio.timeout(SCRAPED_SECONDS):
        while True:
            now = float(int(clock.now().timestamp()))
            found = prometheus.instant(f'up{{job="{JOB}",pod="{pod}"}}', now)
            if [one["value"][1] for one in found] == ["1"]:
                return now
            await asyncio.sleep(SCRAPE_SECONDS / 4)


async def _exposed(target: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://{target}/metrics") as response:
        return await response.text()


def _target(running: Environment, name: str) -> Labels:
    """The address and the labels of a replica, as a ServiceMonitor sets them."""
    return {
        "__address__": running.targets[name],
        "job": JOB,
        "instance": f"{name}:8080",
        "namespace": "gpu-provisioner",
        "pod": name,
    }
