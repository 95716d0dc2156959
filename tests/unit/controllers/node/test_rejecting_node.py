"""When the kubelet's rejections of pods show that a Node takes none, as a table; and when that can have ended."""

from datetime import datetime, timedelta

import msgspec
import pytest

from controllers.model.diagnosis import Workloads
from controllers.node.health import rejecting_node as rules
from controllers.node.health.admission_errors import AdmissionError, AdmissionFailure
from provisioner.api import labels
from provisioner.api.node import Node
from tests.unit.builders import NOW, node

from .workloads import plugin, pod

DEVICES, OTHER = AdmissionFailure.UNREGISTERED, AdmissionFailure.OTHER
TAKEN, LARGE = AdmissionFailure.UNAVAILABLE, AdmissionFailure.TOO_LARGE


def at(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def rejected(*minutes: float, failure: AdmissionFailure = DEVICES, owner: str = "") -> tuple[AdmissionError, ...]:
    """Pods that were created so many minutes ago."""
    return tuple(
        AdmissionError(
            uid=f"u{one}", pod=f"d/p{one}", owner=owner or f"o{one}", created=at(one), failure=failure, text="t"
        )
        for one in minutes
    )


ROWS: list[tuple[str, tuple[AdmissionError, ...], float | None, Node, bool]] = [
    ("three over ten minutes", rejected(10, 5, 0), None, node(), True),
    ("two are not enough", rejected(10, 0), None, node(), False),
    ("many at one moment", rejected(4, 3, 2, 1, 0), None, node(), False),
    ("long ago", rejected(90, 80, 70), None, node(), False),
    ("a pod ran since", rejected(10, 5, 0), 1.0, node(), False),
    ("a pod ran before", rejected(9, 5, 0), 9.5, node(), True),
    ("of one Job, by the device manager", rejected(10, 5, 0, owner="job"), None, node(), True),
    ("of one Job, for another cause", rejected(10, 5, 0, owner="job", failure=OTHER), None, node(), False),
    ("of three owners, for another cause", rejected(10, 5, 0, failure=OTHER), None, node(), True),
    ("others use the devices", rejected(10, 5, 0, failure=TAKEN), None, node(), False),
    ("more shares than one pod gets", rejected(10, 5, 0, failure=LARGE), None, node(), False),
    ("the Node shows no GPUs", rejected(10, 5, 0), None, node(gpus="0"), False),
    ("the Node is not Ready", rejected(10, 5, 0), None, node(ready="False"), False),
]


@pytest.mark.parametrize(("errors", "ran", "of", "found"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_rejections_that_show_a_node_takes_no_pod(
    errors: tuple[AdmissionError, ...], ran: float | None, of: Node, found: bool
) -> None:
    """Several pods over some minutes, none of which ran, by causes that lie in the Node."""
    old = msgspec.structs.replace(of, metadata=msgspec.structs.replace(of.metadata, creation_timestamp=at(600)))
    assert bool(rules.rejects_pods(old, errors, at(ran) if ran is not None else None, NOW, elsewhere=NOW)) is found


@pytest.mark.parametrize(("elsewhere", "shown"), [(None, False), (at(90), False), (at(30), True)])
@pytest.mark.parametrize("failure", [DEVICES, OTHER])
def test_pods_that_run_nowhere(failure: AdmissionFailure, elsewhere: datetime | None, *, shown: bool) -> None:
    """What all Nodes reject is no fault of one of them, unless its device manager contradicts its own numbers."""
    of = node()
    old = msgspec.structs.replace(of, metadata=msgspec.structs.replace(of.metadata, creation_timestamp=at(600)))
    errors = rejected(10, 5, 0, failure=failure)
    assert bool(rules.rejects_pods(old, errors, None, NOW, elsewhere=elsewhere)) is (shown or failure is DEVICES)


def noted(value: str) -> Node:
    made = node()
    return msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(
            made.metadata, annotations={labels.REJECTS_PODS: value}, creation_timestamp=at(600)
        ),
    )


def test_older_pods_do_not_count_once_it_is_released() -> None:
    """Neither after a restart of the plugin nor after a user has uncordoned the Node."""
    released = noted("released 2026-03-01T12:05:00Z")
    assert not rules.is_cordoned(released)
    assert rules.decided_at(released) == datetime(2026, 3, 1, 12, 5, tzinfo=NOW.tzinfo)
    before = (NOW - datetime(2026, 3, 1, 12, 5, tzinfo=NOW.tzinfo)).total_seconds() / 60
    assert not rules.rejects_pods(released, rejected(before + 11, before + 6, before + 1), None, NOW, elsewhere=NOW)


def test_what_is_not_known_ends_no_cordon() -> None:
    """DaemonSets that could not be read say nothing about the plugin."""
    cordoned = noted("2026-03-01T12:11:00Z")
    assert rules.is_cordoned(cordoned)
    assert not rules.restarted(cordoned, Workloads(since=NOW), None)
    assert "cordoned since 12:11:00Z" in rules.message(cordoned)
    assert "delete the plugin's pod" in rules.message(cordoned)


@pytest.mark.parametrize(("minute", "ended"), [(10, False), (12, True)])
def test_a_container_of_the_plugin_that_started_anew_ends_the_cordon(minute: int, *, ended: bool) -> None:
    """Its pod stays the same when it crashes, and the new container registers the devices."""
    running = {"name": "ctr", "restartCount": 1, "state": {"running": {"startedAt": f"2026-03-01T12:{minute}:30Z"}}}
    of_plugin = pod(containerStatuses=[running], meta={"creationTimestamp": "2026-03-01T09:00:00Z"})
    found = Workloads(daemon_sets=(plugin(),), pods=(of_plugin,), since=NOW)
    assert rules.restarted(noted("2026-03-01T12:11:00Z"), found, None) is ended
    # Where AKS manages the plugin, it has no pod: its GPUs return.
    returned = NOW.replace(minute=minute, second=30)
    assert rules.restarted(noted("2026-03-01T12:11:00Z"), Workloads(since=NOW), returned) is ended


def test_a_few_nodes_only_are_cordoned() -> None:
    """A plugin that is broken everywhere is no fault of its Nodes: beyond a fifth of them it is only reported."""
    cordoned, others = noted("2026-03-01T12:09:00Z"), [node(name=f"n{number}") for number in range(9)]
    assert not rules.too_many(others)
    assert not rules.too_many([cordoned, *others])
    assert rules.too_many([cordoned, cordoned, *others[:8]])
    assert rules.too_many([cordoned, others[0]])
