"""What processes tell the next ones about a signal that they have observed."""

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controllers.model import steps
from controllers.model.facts import Facts
from controllers.node.health import observed_before
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.repair_policy import RepairPolicy
from provisioner.api.time import rfc3339
from tests.unit.builders import NOW, node

from .common import about, sick_claim, unhealthy

MINUTE, HOUR = 60.0, 3600.0
ROW = RepairPolicy(condition="KernelDeadlock", seconds=3 * HOUR, action="Replace", agreement="None", group="Kernel")
BEGAN = NOW - timedelta(hours=2)
UID = node().uid


def stated(minutes_ago: float = 5.0, **changes: Any) -> str:
    """An annotation that was written so long ago."""
    at = rfc3339(NOW - timedelta(minutes=minutes_ago))
    return json.dumps({"group": "Kernel", "node": UID, "seconds": 5400, "closed": 600, "at": at, **changes})


def noted(text: str | None) -> NodeClaim:
    made = sick_claim()
    if text is None:
        return made
    notes = {**made.metadata.annotations, labels.SIGNAL_OBSERVED: text}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=notes))


COUNTED, NOTHING = (5400.0, 600.0), (0.0, 0.0)
READS = [
    ("the leader before", stated(), BEGAN, COUNTED),
    ("whose clock is ahead by minutes", stated(-20), BEGAN, COUNTED),
    ("or by an hour", stated(-60), BEGAN, NOTHING),
    ("too long ago", stated(31), BEGAN, NOTHING),
    ("the signal ended since", stated(), NOW - timedelta(minutes=4), NOTHING),
    ("of another group", stated(group="Disk"), BEGAN, NOTHING),
    ("of another Node of this name", stated(node="another"), BEGAN, NOTHING),
    ("without the time of the Node", json.dumps({**json.loads(stated()), "closed": 0}), BEGAN, (5400.0, 0.0)),
    ("a negative time", stated(seconds=-1), BEGAN, NOTHING),
    ("a number of no meaning", stated(seconds="long"), BEGAN, NOTHING),
    ("a time without a zone", stated(at="2026-03-01T12:00:00"), BEGAN, NOTHING),
    ("no JSON", "90 minutes", BEGAN, NOTHING),
    ("another JSON", "[]", BEGAN, NOTHING),
    ("nothing", None, BEGAN, NOTHING),
]


@pytest.mark.parametrize(("case", "text", "began", "expected"), READS, ids=[row[0] for row in READS])
def test_what_counts_of_others(case: str, text: str | None, began: Any, expected: tuple[float, float]) -> None:
    """Seconds of the signal, and of a Node that took no pods."""
    claim = noted(text)
    assert observed_before.read(about(claims=(claim,)), claim, "Kernel", UID, began) == expected, case


def observing(minutes: float, *, before: float = 0.0, text: str | None = None, row: RepairPolicy = ROW) -> Facts:
    """This process has observed the signal for so long, and others before it."""
    sick = unhealthy(minutes, policy=row, node_uid=UID, seconds_before=before * MINUTE)
    return about(claims=(noted(text),), unhealthy=sick)


SHORT = msgspec.structs.replace(ROW, seconds=20 * MINUTE, pods_seconds=0.0)
PODS = msgspec.structs.replace(SHORT, pods_seconds=2 * HOUR)
WRITES = [
    ("not yet", observing(9.9), None),
    ("of its own", observing(10), 600),
    ("with others", observing(10, before=90, text=stated()), 6000),
    ("not what is stated already", observing(9, before=90, text=stated()), None),
    ("what others stated does not count", observing(10, text=stated()), 600),
    ("nor that of another group", observing(20, text=stated(group="Disk", seconds=1000)), 1200),
    ("one process observes a short row", observing(100, row=SHORT), None),
    ("its pods are waited for longer", observing(100, row=PODS), 6000),
    ("a refusal", msgspec.structs.replace(observing(10), refused={"PatchClaim": "denied"}), None),
]


@pytest.mark.parametrize(("case", "given", "seconds"), WRITES, ids=[row[0] for row in WRITES])
def test_what_is_written(case: str, given: Facts, seconds: float | None) -> None:
    """Each 10 min of a signal, and only for rows that one process cannot be relied on to observe."""
    assert given.claim is not None
    assert given.unhealthy is not None
    step = observed_before.write(given, given.claim, given.unhealthy)
    if seconds is None:
        assert step is None, case
        return
    assert isinstance(step, steps.PatchClaim)
    made = json.loads(step.annotations[labels.SIGNAL_OBSERVED] or "")
    assert (made["seconds"], made["node"], made["at"]) == (seconds, UID, rfc3339(NOW)), case


def healthy(**fields: Any) -> Facts:
    return msgspec.structs.replace(observing(10, text=stated()), unhealthy=None, nodes=(node(),), **fields)


REMOVALS = [
    ("the signal is over", healthy(), True),
    ("it is not", observing(10, text=stated()), False),
    ("a Node that is not Ready shows nothing", msgspec.structs.replace(healthy(), nodes=(node(ready="False"),)), False),
    ("without a Node", msgspec.structs.replace(healthy(), nodes=()), False),
    ("nothing is stated", msgspec.structs.replace(healthy(), claims=(noted(None),)), False),
    ("a refusal", healthy(refused={"PatchClaim": "denied"}), False),
]


@pytest.mark.parametrize(("case", "given", "removed"), REMOVALS, ids=[row[0] for row in REMOVALS])
def test_when_it_is_removed(case: str, given: Facts, *, removed: bool) -> None:
    """Only when the signal is known to be over."""
    assert given.claim is not None
    step = observed_before.remove(given, given.claim)
    assert (step is not None) is removed, case
