"""A quarter of a fleet: no healthy machine is deleted, each broken one is gone or reported in time, and bought once.

Which machines are broken is drawn before the run (`tests/world/quarter`): device plugins, drivers and detectors that
are rolled out or wrong, machines that die, lose GPUs, or never register, a zone that is lost, spot machines that Azure
takes, new node images, and edits of a node class. By default it is a fortnight of a small fleet, in which each of these
happens; MACHINES, DAYS and SEED in the environment, or `python -m tests.bench quarter`, choose another size.
"""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.api.repair_policy import RepairPolicy
from tests.world.quarter.ledger import MARGIN_SECONDS, REPAIR_SECONDS, Fault, Ledger, Machine
from tests.world.quarter.scenario import CONDITIONS, DAY, ROWS, Incident, Kind, Scenario
from tests.world.quarter.story import run

MACHINES, DAYS, SEED = (int(os.environ.get(name, default)) for name, default in
                        (("MACHINES", "20"), ("DAYS", "14"), ("SEED", "1")))  # fmt: skip
REPLACEMENTS_AT_MOST = 1.05


@pytest.mark.matrix(quick=0)
def test_a_quarter() -> None:
    """The goals of the deletion gate, by what the scenario knows."""
    scenario = Scenario(machines=MACHINES, days=DAYS, seed=SEED)
    quarter = run(scenario)
    found = quarter.summary()
    print(found)
    assert not quarter.ledger.healthy_deleted, found
    assert not quarter.ledger.late(), found
    assert quarter.ledger.faults, found
    assert quarter.ledger.replacements_per_fault() <= REPLACEMENTS_AT_MOST, found
    # Each kind that was drawn met a machine.
    assert scenario.kinds() <= set(quarter.ledger.alarms), found
    assert not quarter.waiting, found


BELIEVED = Policy(
    repair_policies=tuple(
        RepairPolicy(condition=one, seconds=60.0, action="Replace", agreement="None") for one in CONDITIONS
    )
)


@pytest.mark.matrix(quick=0)
def test_a_controller_that_believes_every_detector_deletes_healthy_machines() -> None:
    """The figures show it: users opt in to replacements by conditions alone, and a detector is wrong."""
    quarter = run(Scenario(machines=10, days=1, seed=6), policy=BELIEVED)
    assert quarter.ledger.healthy_deleted


# The drawing


def test_a_scenario_is_repeatable_and_ends_in_its_window() -> None:
    """The same seed draws the same; another one draws something else. All begins before the window of the day ends."""
    one, same, other = (Scenario(seed=seed) for seed in (1, 1, 2))
    drawn = [one.incidents(day) for day in range(14)]
    assert drawn == [same.incidents(day) for day in range(14)]
    assert drawn != [other.incidents(day) for day in range(14)]
    for day, incidents in enumerate(drawn):
        assert incidents == sorted(incidents, key=lambda incident: incident.at)
        assert all(0 < incident.at - one.begins(day) < one.hours * 3600.0 for incident in incidents)
        assert sum(incident.kind in ROWS for incident in incidents) >= 1


def test_a_larger_fleet_has_more_faults() -> None:
    """A quarter of 200 machines has 200 * 90 / 500 faults, and five times as many alarms."""
    large = Scenario(machines=200, days=90)
    drawn = [one for day in range(large.days) for one in large.incidents(day)]
    faults = sum(one.kind in ROWS for one in drawn)
    assert 90 <= faults <= 110


# The figures


def fault(kind: Kind, reported: float | None, gone: float | None) -> Fault:
    incident = Incident(at=0.0, kind=kind, seconds=0.0, pick=0.0)
    machine = Machine(uid="u", claim="c", node_pool="static", created=0.0)
    return Fault(incident=incident, machine=machine, began=DAY, reported=reported, gone=gone)


DISK, DEAD = (DAY + ROWS[kind] + MARGIN_SECONDS for kind in ("disk", "dead"))


@pytest.mark.parametrize(
    ("kind", "reported", "gone", "in_time"),
    [
        ("disk", None, None, False),
        ("disk", DISK, None, True),
        ("disk", DISK + 1, None, False),
        ("dead", None, DEAD, True),
        ("dead", None, DEAD + 1, False),
        ("dead", DEAD + 1, DEAD, True),
        ("dead", DEAD, None, False),
        ("dead", DEAD, DEAD + REPAIR_SECONDS, True),
        ("dead", DEAD, DEAD + REPAIR_SECONDS + 1, False),
    ],
)
def test_a_fault_is_over_in_time(kind: Kind, reported: float | None, gone: float | None, *, in_time: bool) -> None:
    """It is reported or gone within the row's time; one that the row replaces is gone some time later."""
    assert fault(kind, reported, gone).in_time is in_time


@pytest.mark.parametrize(("booted", "ratio"), [(14, 1.0), (15, 1.25), (12, 0.5)])
def test_replacements_per_fault(booted: int, ratio: float) -> None:
    """Ten machines at first, four lost by faults, none by other causes."""
    nothing: Any = SimpleNamespace(subscribe=lambda _: None)
    ledger = Ledger(SimpleNamespace(store=nothing, cloud=nothing))  # type: ignore[arg-type]
    ledger.initial, ledger.booted = 10, booted
    ledger.deleted.update({"a fault": 2, "an outage": 1, "a user": 1})
    assert ledger.replacements_per_fault() == ratio
