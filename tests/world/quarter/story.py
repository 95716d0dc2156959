"""A quarter of a fleet: the controller runs in the window of each day, and is stopped or killed after it."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from controllers.model.policy import Policy
from tests.world.harness import Sim, simulate

from . import fleet
from .incidents import Incidents
from .ledger import Ledger
from .scenario import HOUR, MINUTE, Scenario

POLL_SECONDS = 60.0


@dataclass(kw_only=True)
class Quarter:
    """The result of a run. `waiting`: the days at whose end pods did not run, and how many.

    `cpu_seconds`: processor time of controller and simulator together.
    """

    ledger: Ledger
    waiting: dict[int, int]
    cpu_seconds: float

    def summary(self) -> dict[str, Any]:
        """The figures of the run."""
        return {**self.ledger.summary(), "pods waiting": self.waiting, "cpu seconds": round(self.cpu_seconds)}


class Days:
    """The controller's windows. `starts` counts its incarnations."""

    def __init__(self, sim: Sim, policy: Policy) -> None:
        self._sim, self._policy = sim, policy
        self.starts = 0

    async def start(self) -> None:
        self.starts += 1
        await self._sim.start_controller(f"ctl{self.starts}", elect=False, policy=self._policy)

    async def stop(self) -> None:
        """By SIGTERM and by SIGKILL in turn."""
        if self.starts % 2:
            await self._sim.stop_controller(f"ctl{self.starts}")
        else:
            self._sim.crash(f"ctl{self.starts}")


def run(
    scenario: Scenario, *, policy: Policy | None = None, report: Callable[[int, Quarter], None] | None = None
) -> Quarter:
    """Run the scenario; all invariants are checked throughout. `report` is called at the end of each day."""
    limited = msgspec.structs.replace(policy or Policy(), max_agent_pools=2 * scenario.machines)
    results: list[Quarter] = []

    async def story(sim: Sim) -> None:
        begun = time.process_time()
        ledger, plugin = Ledger(sim), fleet.PluginDaemonSet(sim)
        incidents, days = Incidents(sim, ledger, plugin), Days(sim, limited)
        pods = await fleet.create(sim, scenario.machines)
        found = Quarter(ledger=ledger, waiting={}, cpu_seconds=0.0)
        results.append(found)
        await days.start()
        await _running(sim, pods, scenario.machines)
        ledger.initial = ledger.booted
        plugin.report(scenario.machines, scenario.machines, scenario.machines)
        await days.stop()
        # The last day is quiet, so that what was begun ends.
        for day in range(scenario.days + 1):
            begins = scenario.begins(day)
            await asyncio.sleep(begins - sim.now)
            await days.start()
            for one in scenario.incidents(day) if day < scenario.days else ():
                await asyncio.sleep(one.at - sim.now)
                incidents.begin(one)
            await asyncio.sleep(begins + scenario.hours * HOUR - MINUTE - sim.now)
            await incidents.ended()
            sim.check()
            if waiting := sum(len(one.waiting) for one in pods):
                found.waiting[day] = waiting
            await days.stop()
            _expire_events(sim)
            found.cpu_seconds = time.process_time() - begun
            if report is not None:
                report(day, found)

    simulate(story, horizon_seconds=math.inf, seed=scenario.seed, azure=fleet.azure(scenario.machines))
    return results[0]


def _expire_events(sim: Sim) -> None:
    """As the API server does after an hour."""
    for event in sim.store.list("events"):
        sim.store.delete("events", event["metadata"]["name"], event["metadata"]["namespace"])


async def _running(sim: Sim, pods: list[fleet.Pods], machines: int) -> None:
    """Wait until the fleet runs."""
    for _ in range(240):
        await asyncio.sleep(POLL_SECONDS)
        ready = sum(one["metadata"]["labels"].get("karpenter.sh/initialized") == "true"
                    for one in sim.store.list("nodes"))  # fmt: skip
        if ready >= machines and not any(one.waiting for one in pods):
            return
    raise AssertionError(f"the fleet does not run\n{sim.describe()}")
