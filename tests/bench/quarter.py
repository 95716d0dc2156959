"""The figures of a simulated quarter: what was deleted, reported and bought, by what the scenario knows of machines.

MACHINES (60), DAYS (14), SEED (1) and HOURS (3) of each day in which the controller runs are read from the environment.
A day of a fleet of 20 costs about ten seconds of one processor, and as many times more as there are more machines.
"""

import logging
import os

import structlog
from rich.console import Console

from tests.world.quarter.scenario import Scenario
from tests.world.quarter.story import Quarter, run

from .figures import Figure


def measure(console: Console) -> list[Figure]:
    """Each day's figures are printed when it has ended."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

    def report(day: int, quarter: Quarter) -> None:
        console.print(f"day {day}: {quarter.summary()}", soft_wrap=True)

    scenario = Scenario(
        machines=_number("MACHINES", 60), days=_number("DAYS", 14), seed=_number("SEED", 1), hours=_number("HOURS", 3)
    )
    quarter = run(scenario, report=report)
    ledger = quarter.ledger
    about = f"{scenario.machines} machines, {scenario.days} days, seed {scenario.seed}"
    alarms = sum(ledger.alarms.values()) - len(ledger.faults)
    note = f"{len(ledger.faults)} faults, {alarms} other incidents, {quarter.cpu_seconds:.0f} s of processor time"
    return [
        _count(f"{about}: healthy machines deleted", len(ledger.healthy_deleted), note),
        _count(f"{about}: faults neither reported nor ended in time", len(ledger.late()), "; ".join(ledger.late())),
        Figure(
            name=f"{about}: replacements per fault", unit="machines", labels=("",), asserted=True,
            measured=(ledger.replacements_per_fault(),), target=(1.05,), note=f"{dict(ledger.deleted)}",
        ),
        _count(f"{about}: days at whose end pods waited", len(quarter.waiting), ""),
    ]  # fmt: skip


def _count(name: str, number: int, note: str) -> Figure:
    return Figure(name=name, unit="count", labels=("",), measured=(float(number),), target=(0.0,), asserted=True,
                  note=note)  # fmt: skip


def _number(name: str, default: int) -> int:
    return int(os.environ.get(name, str(default)))
