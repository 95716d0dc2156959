"""Plan table of node repair: when the claim of an unready Node is deleted, and when it is not."""

import math
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cloudprovider.interface import Cluster
from controllers.model import steps
from controllers.model.facts import ClusterCounts, Facts, Remedy, Unhealthy, UnhealthyCounts
from controllers.model.policy import Policy
from controllers.node.health import limits, observation, repair, repair_delays, signals
from controllers.planner.plan import plan
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.nodeclaim import NodeClaim
from tests.unit.builders import BORN, COLUMNS, NODE, NOW, UID, claim, instance, node

from .common import about, sick_claim, unhealthy

REMEDIATOR = Taint(key=repair_delays.REMEDIATOR_TAINTS[0], effect="NoSchedule")
OVER = "2026-03-01T12:08:00Z"
SOON = "2026-03-01T12:12:00Z"
BOUND = "2026-03-01T12:15:00Z"


def remedied(stage: Any, minutes_ago: float) -> tuple[Remedy, ...]:
    return (Remedy(stage=stage, at=NOW - timedelta(minutes=minutes_ago)),)


def among(**fields: Any) -> ClusterCounts:
    return ClusterCounts(unhealthy_counts=UnhealthyCounts(**fields))


def noted(**notes: Any):
    """The claim with annotations: `bound` is the deadline, `own` the one that repair wrote."""
    names = {"bound": labels.TERMINATION_TIMESTAMP, "own": labels.REPAIR_DRAIN_UNTIL, "repair": labels.REPAIR}
    return sick_claim(annotations={names[key]: value for key, value in notes.items()})


OFF = Policy(node_repair=False)
BOUNDED = (noted(bound=BOUND, own=BOUND),)
TAINTED = (node(ready="False", taints=(REMEDIATOR,)),)
DISABLED = (noted(repair="disabled"),)

TABLE = [
    ("nine minutes and a half are not enough", about(9.5), steps.PatchStatus),
    ("after ten its drain is bounded", about(10.0), steps.PatchClaim),
    ("then its claim goes", about(10.0, claims=BOUNDED), steps.DeleteClaim),
    ("an Unknown Node goes as a False one", about(claims=BOUNDED, nodes=(node(ready="Unknown"),)), steps.DeleteClaim),
    ("without the bound if the API refuses it", about(refused=frozenset({"PatchClaim"})), steps.DeleteClaim),
    ("the gate keeps all", about(policy=OFF), steps.PatchStatus),
    ("and takes back what was begun", about(policy=OFF, claims=BOUNDED), steps.PatchClaim),
    ("the claim's annotation keeps it", about(claims=DISABLED), steps.PatchStatus),
    ("another word there does not", about(claims=(noted(repair="enabled"),)), steps.PatchClaim),
    ("a refused deletion is not repeated", about(refused=frozenset({"DeleteClaim"})), steps.PatchStatus),
    ("a new process watches for half of the time", about(unhealthy=unhealthy(11, watched=299.0)), steps.PatchStatus),
    ("and acts after it", about(unhealthy=unhealthy(11, watched=300.0)), steps.PatchClaim),
    ("not while the cluster is stopped", about(cluster=Cluster(running=False)), steps.PatchStatus),
    ("nor while that is not known", about(cluster=None), steps.PatchStatus),
    ("nor while AKS works on the pool", about(instance=instance(raw_state="Upgrading")), steps.PatchStatus),
    ("nor by a list that is old", about(inventory_age=91.0), steps.PatchStatus),
    ("AKS's Events are read first", about(unhealthy=unhealthy(remedies_age=math.inf)), steps.ReadRemedies),
    ("and once more for the deletion", about(unhealthy=unhealthy(remedies_age=11.0)), steps.ReadRemedies),
    ("then the claim", about(claim_read_age=11.0), steps.LookUpClaim),
    ("then the pool", about(pool_read_age=11.0), steps.LookUpPool),
    ("then the Node", about(nodes_read_age=11.0), steps.LookUpNodes),
    ("a Node that is Ready by a fresh read stays", about(nodes_read=(node(),)), steps.PatchStatus),
    ("so does one of which nothing is read", about(nodes_read=()), steps.PatchStatus),
    ("and one that is being deleted", about(nodes_read=(node(ready="False", deleting=True),)), steps.PatchStatus),
    ("a claim that is gone by a fresh read is none", about(claim_read=None), steps.PatchStatus),
    ("nor is another of that name", about(claim_read=claim(uid="other")), steps.PatchStatus),
    ("nor one whose owner has just disabled it", about(claim_read=DISABLED[0]), steps.PatchStatus),
    ("the shared circuit breaker holds it", about(counts=ClusterCounts(restricted=True)), steps.PatchStatus),
    ("Nodes unhealthy together hold it back", about(counts=among(nodes=5, simultaneous=4)), steps.PatchStatus),
    ("and another one's repair", about(counts=among(nodes=5, going=1)), steps.PatchStatus),
    ("and those before it in line", about(counts=among(nodes=5, place=2)), steps.PatchStatus),
    ("in a large fleet some go at once", about(counts=among(nodes=10, going=1)), steps.PatchClaim),
    ("a remediator's taint is AKS at work", about(nodes=TAINTED), steps.PatchStatus),
    (
        "a Node that came back loses its bound",
        about(unhealthy=None, claims=BOUNDED, nodes=(node(),)),
        steps.PatchClaim,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("case", "given", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_plan(case: str, given: Facts, expected: type) -> None:
    """Each row; a Node that is not repaired still has its status written."""
    assert type(plan(given)) is expected, case
    assert (type(repair.step(given)) in {steps.Wait, type(None)}) is (expected is steps.PatchStatus)


def test_a_node_that_was_never_initialized_is_not_repaired() -> None:
    """Its deadline is reported instead."""
    young = claim(up=("Launched", "Registered"), node_name=NODE, more_labels=COLUMNS)
    assert observation.observed(about(claims=(young,))) is None
    assert observation.observed(about()) is not None


def test_the_deadline_of_the_drain_is_written_once() -> None:
    """Five minutes from now, or the earlier deadline that another client has set; again if ours passed meanwhile."""
    own = {labels.TERMINATION_TIMESTAMP: BOUND, labels.REPAIR_DRAIN_UNTIL: BOUND}
    expected = [
        (sick_claim(), own),
        (noted(bound=SOON), {**own, labels.TERMINATION_TIMESTAMP: SOON}),
        (noted(bound="2026-03-01T13:00:00Z"), own),
        (noted(bound="soon"), own),
        (noted(bound="2026-03-01T12:12:00"), own),
        (noted(bound=OVER), {**own, labels.TERMINATION_TIMESTAMP: OVER}),
        (noted(bound=OVER, own=OVER), own),
    ]
    for given, annotations in expected:
        step = plan(about(claims=(given,)))
        assert isinstance(step, steps.PatchClaim)
        assert dict(step.annotations) == annotations
        assert not step.labels
    assert isinstance(plan(about(claims=(noted(bound=SOON, own=BOUND),))), steps.DeleteClaim)


@pytest.mark.parametrize(("period", "until"), [("90s", "12:11:30"), ("1h", "12:15:00"), (None, "12:15:00")])
def test_the_deadline_is_limited_by_the_grace_period(period: str | None, until: str) -> None:
    """The claim's terminationGracePeriod applies if it is shorter than five minutes."""
    made = sick_claim()
    given = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, termination_grace_period=period))
    step = plan(about(claims=(given,)))
    assert isinstance(step, steps.PatchClaim)
    assert step.annotations[labels.TERMINATION_TIMESTAMP] == f"2026-03-01T{until}Z"


def test_only_our_own_deadline_is_removed() -> None:
    """After a recovery, the deadline that repair wrote is removed; a different one is kept."""
    for given, annotations in [
        (noted(bound=BOUND, own=BOUND), {labels.REPAIR_DRAIN_UNTIL: None, labels.TERMINATION_TIMESTAMP: None}),
        (noted(bound=SOON, own=BOUND), {labels.REPAIR_DRAIN_UNTIL: None}),
    ]:
        step = repair.step(about(unhealthy=None, claims=(given,), nodes=(node(),)))
        assert isinstance(step, steps.PatchClaim)
        assert dict(step.annotations) == annotations
    assert repair.step(about(unhealthy=None, claims=(noted(bound=SOON),), nodes=(node(),))) is None


def test_the_deletion_has_its_cause() -> None:
    """The Event names the unhealthy Node and since when."""
    step = plan(about(10.0, claims=BOUNDED))
    assert isinstance(step, steps.DeleteClaim)
    assert (step.cause, step.claim.uid, step.event.type, step.event.reason) == (
        "unhealthy-node",
        UID,
        "Warning",
        "NodeRepair",
    )
    assert f"Node {NODE} has not been Ready (KubeletNotReady) for 10 min" in step.event.message


REMEDIES = [
    ("nothing seen: ten minutes", (), 9.9, False),
    ("nothing seen: ten minutes and over", (), 10.0, True),
    ("a reboot under way", remedied("Start", 5), 10.0, False),
    ("a reboot under way, just before 25", remedied("Start", 20), 24.9, False),
    ("a reboot under way, 25", remedied("Start", 20), 25.0, True),
    ("a second remedy under way has 20 of its own", remedied("Start", 10), 30.0, False),
    ("and no more", remedied("Start", 20), 30.0, True),
    ("one after the other, just before 60", remedied("Start", 1), 59.9, False),
    ("one after the other, 60", remedied("Start", 1), 60.0, True),
    ("a remedy of an earlier sickness that never ended", remedied("Start", 55), 24.9, False),
    ("that again, 25", remedied("Start", 55), 25.0, True),
    ("a reboot that has just ended", remedied("End", 4), 12.0, False),
    ("a reboot that ended five minutes ago", remedied("End", 5), 12.0, True),
    ("a reboot that failed", remedied("Error", 0), 10.0, True),
    ("Events that may not be read", None, 24.9, False),
    ("Events that may not be read, 25", None, 25.0, True),
]


@pytest.mark.parametrize(("case", "remedies", "minutes", "replaced"), REMEDIES, ids=[row[0] for row in REMEDIES])
def test_aks_auto_repair_is_waited_for(
    case: str, remedies: tuple[Remedy, ...] | None, minutes: float, replaced: bool
) -> None:
    """How long a remedy of AKS delays the repair."""
    given = about(unhealthy=unhealthy(minutes, remedies=remedies))
    assert repair.is_due(given) is replaced, case


THRESHOLDS = [(1, 1, 2), (4, 1, 2), (5, 1, 2.5), (6, 1, 3), (9, 1, 4.5), (10, 2, 5), (20, 4, 10)]


@pytest.mark.parametrize(("nodes", "at_once", "simultaneous"), THRESHOLDS)
def test_limits(nodes: int, at_once: int, simultaneous: float) -> None:
    """How many are repaired at once, and how many may become unhealthy together."""
    assert limits.max_concurrent(Policy(), nodes) == at_once
    assert limits.max_simultaneous(Policy(), nodes) == simultaneous


BLOCKED = [
    (UnhealthyCounts(nodes=5, unhealthy=2), ""),
    (UnhealthyCounts(nodes=5, unhealthy=2, place=2), "2 of 5 Nodes are unhealthy, repaired 1 at a time"),
    (
        UnhealthyCounts(nodes=10, unhealthy=2, going=1, owner="Workspace a/b"),
        "another machine of Workspace a/b is being replaced",
    ),
    (
        UnhealthyCounts(nodes=5, unhealthy=4, simultaneous=4),
        "4 of 5 Nodes became unhealthy within 10 min; look for a common cause",
    ),
    (
        UnhealthyCounts(nodes=3, unhealthy=3, simultaneous=3),
        "3 of 3 Nodes became unhealthy within 10 min; look for a common cause",
    ),
    (UnhealthyCounts(nodes=2, unhealthy=2, simultaneous=2), ""),
    (UnhealthyCounts(nodes=6, unhealthy=1, affected=2), ""),
    (
        UnhealthyCounts(nodes=6, unhealthy=1, affected=3),
        "3 Nodes of 6 had this within 24 h; look for a rollout",
    ),
    (UnhealthyCounts(nodes=200, unhealthy=1, affected=20), ""),
    (UnhealthyCounts(nodes=10, unhealthy=1, successor="NodePool a"), "the last replacement of NodePool a is not Ready"),
    (UnhealthyCounts(nodes=20, unhealthy=2, going=1), ""),
    (
        UnhealthyCounts(nodes=20, unhealthy=2, going=1, serves=True),
        "2 of 20 Nodes are unhealthy, repaired 1 at a time",
    ),
]


@pytest.mark.parametrize(("unhealthy_counts", "why"), BLOCKED)
def test_a_delayed_repair_is_reported(unhealthy_counts: UnhealthyCounts, why: str) -> None:
    """Since when and why, within 256 bytes, and not before the repair is due."""
    given = about(counts=ClusterCounts(unhealthy_counts=unhealthy_counts))
    step = plan(given)
    assert repair.blocked(given) == why
    assert repair.blocked(msgspec.structs.replace(given, unhealthy=unhealthy(9.9))) == ""
    if not why:
        assert isinstance(step, steps.PatchClaim)
        return
    assert isinstance(step, steps.PatchStatus)
    (stated,) = (c.message for c in step.conditions if c.type == "Initialized")
    assert stated.startswith("Node status is NotReady (KubeletNotReady) since 12:10:00Z")
    assert stated.endswith(f"; repair delayed: {why}")


FIRST_SIGHTS = [
    ("the claim says nothing yet", claim(up=("Launched", "Registered", "Initialized"), node_name=NODE), 0, 0.0),
    ("it says so for ten minutes, and so does the Node", sick_claim(), 600, 600.0),
    ("the Node's reasons took turns since", sick_claim(), 60, 60.0),
    ("the Node was not Ready before we looked", sick_claim(), 900, 600.0),
    ("the Node's clock is ahead", sick_claim(), -60, 0.0),
    ("what it says is another thing", claim(down={"Initialized": "GPUUnavailable"}, node_name=NODE), 600, 0.0),
]


@pytest.mark.parametrize(("case", "given", "node_seconds", "expected"), FIRST_SIGHTS, ids=[r[0] for r in FIRST_SIGHTS])
def test_observation_of_an_earlier_process(case: str, given: NodeClaim, node_seconds: int, expected: float) -> None:
    """After a restart the transition time of the claim counts, or of the Node if it is later."""
    made = node(ready="Unknown")
    (ready,) = made.status.conditions
    turned = msgspec.structs.replace(ready, last_transition_time=NOW - timedelta(seconds=node_seconds))
    made = msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, conditions=(turned,)))
    assert timedelta(minutes=10) == NOW - BORN
    seen = about(claims=(given,), nodes=(made,))
    assert signals.reported_seconds(seen, given, made, Unhealthy().policy) == expected, case
