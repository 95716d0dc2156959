"""For how long the repair of a machine that still works waits for its pods, and what is written for the next leader."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controllers.model import steps
from controllers.model.facts import DeviceSight, Facts
from controllers.model.policy import Policy
from controllers.node.health import cordon
from controllers.node.health.repair_delays import pods_seconds_left
from provisioner.api import labels
from provisioner.api.repair_policy import READINESS_TIMEOUT, RepairPolicy
from provisioner.api.time import rfc3339
from tests.unit.builders import NOW, node

from .common import about, unhealthy

HOUR = 3600.0
DAY = 24 * HOUR
ROW = RepairPolicy(condition="KernelDeadlock", seconds=600.0, action="Replace", agreement="None", group="Kernel")
DUE = 10.0
OURS, OTHERS = labels.CORDONED_AT, labels.CORDON_SEEN_AT


def works(
    *,
    due: float = 30.0,
    seen: float | None = None,
    ours: float | None = None,
    others: float | None = None,
    row: RepairPolicy = ROW,
    **fields: Any,
) -> Facts:
    """A repair that is due for so many hours; hours since which the Node was seen unschedulable, and what it states."""
    notes = {key: at for key, at in ((OURS, ours), (OTHERS, others)) if at is not None}
    made = node()
    stated = {**made.metadata.annotations, **{key: rfc3339(NOW - timedelta(hours=at)) for key, at in notes.items()}}
    meta = msgspec.structs.replace(made.metadata, annotations=stated)
    made = msgspec.structs.replace(
        made, metadata=meta, spec=msgspec.structs.replace(made.spec, unschedulable=seen is not None)
    )
    closed_since = None if seen is None else -seen * HOUR
    sick = unhealthy(DUE + due * 60, policy=row, cordon_at=-due * HOUR)
    devices = DeviceSight(node_uid=made.uid, closed_since=closed_since)
    return about(nodes=(made,), unhealthy=sick, devices=devices, loop_now=0.0, **fields)


LEFT = [
    ("this process has cordoned it", works(seen=20, ours=20), 4),
    ("it is due later than that", works(due=3, seen=20, ours=20), 21),
    ("so long, and no longer", works(seen=24, ours=24), 0),
    ("a former leader did", works(seen=12, ours=23), 1),
    ("this process has seen less than half of it", works(seen=1, ours=23), 11),
    ("the former leader's clock was behind", works(seen=0, ours=50), 12),
    ("it was ahead", works(seen=0, ours=-25), 24),
    ("and this process has seen it since", works(seen=20, ours=-25), 4),
    ("a cordon of others that was just seen", works(seen=0), 24),
    ("one that was seen before", works(seen=13, others=20), 4),
    ("the Node takes pods", works(due=100), 24),
    ("and bears what was true before", works(due=100, others=50), 24),
    ("no cordon is permitted", works(due=20, refused={"PatchNode": "denied"}), 4),
    ("nor made in a dry run", works(due=20, policy=Policy(repair_dry_run=True)), 4),
    ("pods are not waited for", works(due=0, row=msgspec.structs.replace(ROW, pods_seconds=0.0)), 0),
]


@pytest.mark.parametrize(("case", "given", "hours"), LEFT, ids=[row[0] for row in LEFT])
def test_pods_are_waited_for(case: str, given: Facts, hours: float) -> None:
    """Since the repair is due and the Node takes no new pods, at least half of it by this process."""
    assert given.unhealthy is not None
    assert pods_seconds_left(given, given.unhealthy) == pytest.approx(hours * HOUR), case


def test_a_machine_that_is_not_cordoned_before_its_repair() -> None:
    """The wait counts since the repair is due."""
    row = RepairPolicy(signal=READINESS_TIMEOUT, seconds=0.0, action="Replace", group=READINESS_TIMEOUT)
    given = works(row=row)
    assert given.unhealthy is not None
    for observed, hours in ((20, 4), (11, 4), (1, 11)):
        seen = msgspec.structs.replace(
            given.unhealthy, cordon_at=float("inf"), since=-20 * HOUR, observed_since=-observed * HOUR
        )
        left = pods_seconds_left(msgspec.structs.replace(given, unhealthy=seen), seen)
        assert left == pytest.approx(hours * HOUR)


def healthy(given: Facts) -> Facts:
    return msgspec.structs.replace(given, unhealthy=None)


def reported(given: Facts) -> Facts:
    """A row that only cordons."""
    assert given.unhealthy is not None
    return msgspec.structs.replace(given, unhealthy=msgspec.structs.replace(given.unhealthy, replaces=False))


NOTES = [
    ("a cordon of others", works(seen=1), True, "add"),
    ("it is written once", works(seen=1, others=1), True, ""),
    ("not beside our own", works(seen=1, ours=1), True, ""),
    ("nor for a row that only cordons", reported(works(seen=1)), True, ""),
    ("nor if nothing may be changed", works(seen=1), False, ""),
    ("nor without a cause", healthy(works(seen=1)), True, ""),
    ("it is removed when others uncordon the Node", works(others=1, kube_current=False), True, "remove"),
    ("and when we have cordoned it", works(seen=1, ours=1, others=2), True, "remove"),
    ("and when the cause is gone", healthy(works(seen=1, others=1)), True, "remove"),
    ("and when repair is disabled", works(seen=1, others=1), False, "remove"),
]


@pytest.mark.parametrize(("case", "given", "enabled", "expected"), NOTES, ids=[row[0] for row in NOTES])
def test_the_first_sight_of_a_cordon_of_others(case: str, given: Facts, expected: str, *, enabled: bool) -> None:
    """It is an annotation of the Node, and `spec.unschedulable` is left as it is."""
    step = cordon.step(given, enabled=enabled)
    if not expected:
        assert step is None, case
        return
    assert isinstance(step, steps.PatchNode)
    path = f"/metadata/annotations/{OTHERS.replace('/', '~1')}"
    assert [(one["op"], one["path"]) for one in step.patch] == [(expected, path)], case
