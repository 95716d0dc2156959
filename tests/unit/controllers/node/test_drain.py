"""Plan tables of a drain: which pods are asked to leave, when, and when a Node counts as empty."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cloudprovider.interface import InstanceState
from controllers.model import steps
from controllers.model.facts import Held, Volumes
from controllers.model.steps import DeleteInstance, DeletePods, EvictPods, ReadDrain, ReadVolumes, Wait
from controllers.node.termination.pod_predicates import has_invalid_do_not_disrupt
from controllers.planner.plan import plan
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta, OwnerReference
from provisioner.api.pod import Pod, Toleration
from tests.unit.builders import NODE, NOW, UP, claim, instance

from .drains import EVERYTHING, emptying, pod, says, step

TIERS = [
    ("ordinary pods leave first", [pod("a"), pod("d", daemon=True), pod("c", critical=True)], ["a"]),
    ("all of a tier at once", [pod("a"), pod("b")], ["a", "b"]),
    ("then daemons", [pod("d", daemon=True), pod("c", critical=True)], ["d"]),
    ("then critical ones", [pod("c", critical=True), pod("cd", critical=True, daemon=True)], ["c"]),
    ("critical daemons last", [pod("cd", critical=True, daemon=True)], ["cd"]),
]


@pytest.mark.parametrize(("told", "pods", "expected"), TIERS, ids=[row[0] for row in TIERS])
def test_drain_in_tiers(told: str, pods: list[Pod], expected: list[str]) -> None:
    """Pods leave tier by tier."""
    found = step(*pods)
    assert isinstance(found, EvictPods), told
    assert [p.metadata.name for p in found.pods] == expected


def test_a_tier_waits_until_the_one_before_it_is_gone() -> None:
    """A pod that is still ending keeps daemons from being asked."""
    assert isinstance(step(pod("a", going_in=20.0), pod("d", daemon=True)), Wait | steps.PatchStatus)


def test_another_kind_called_daemonset_is_no_daemon() -> None:
    """Only apps' DaemonSets put their pods into the second tier."""
    own = (OwnerReference(api_version="example.com/v1", kind="DaemonSet", name="d", uid="d"),)
    strange = msgspec.structs.replace(pod("x"), metadata=ObjectMeta(name="x", uid="x", owner_references=own))
    found = step(strange, pod("d", daemon=True))
    assert isinstance(found, EvictPods)
    assert [p.metadata.name for p in found.pods] == ["x"]


HOLD_NOTHING = [
    ("a pod that tolerates everything", pod(tolerations=EVERYTHING)),
    ("a pod that tolerates the taint", pod(tolerations=(Toleration(key=labels.DISRUPTED_TAINT, operator="Exists"),))),
    ("a mirror pod", pod(mirror=True)),
    ("a pod stuck past its grace", pod(going_in=-61.0)),
    ("a finished pod", pod(phase="Succeeded")),
    ("a failed pod", pod(phase="Failed")),
]


@pytest.mark.parametrize(("told", "held"), HOLD_NOTHING, ids=[row[0] for row in HOLD_NOTHING])
def test_pods_that_hold_nothing_up(told: str, held: Pod) -> None:
    """Some pods never leave, and the machine goes all the same."""
    assert isinstance(step(held), DeleteInstance), told


HOLD = [
    ("a pod that is ending", pod(going_in=20.0)),
    ("a pod that should have ended a minute ago", pod(going_in=-60.0)),
    ("one that tolerates NoExecute only", pod(tolerations=(Toleration(operator="Exists", effect="NoExecute"),))),
    ("one that tolerates another value", pod(tolerations=(Toleration(key=labels.DISRUPTED_TAINT, value="x"),))),
    ("a pod that should not be disrupted", pod(annotations={labels.DO_NOT_DISRUPT: "true"})),
]


@pytest.mark.parametrize(("told", "held"), HOLD, ids=[row[0] for row in HOLD])
def test_pods_that_hold_the_machine(told: str, held: Pod) -> None:
    """The machine waits for all others, whether or not they may be asked to leave."""
    assert not isinstance(step(held), DeleteInstance), told


PROTECTED = [
    ("for good", "true", 600.0, True),
    ("for an hour that is not over", "1h", 600.0, True),
    ("for five minutes that are over", "5m", 600.0, False),
    ("for exactly its age", "10m", 600.0, False),
    ("for an hour, not yet started", "1h", None, True),
    ("not, says its owner", "false", 600.0, False),
    ("for no time", "0s", 600.0, False),
    ("for less than no time", "-1h", None, False),
    ("in days, which Go does not know", "1d", None, False),
    ("yes, says its owner wrongly", "True", 600.0, False),
    ("with nothing", "", 600.0, False),
]


@pytest.mark.parametrize(("told", "value", "started", "stays"), PROTECTED, ids=[row[0] for row in PROTECTED])
def test_protected(told: str, value: str, started: float | None, stays: bool) -> None:
    """do-not-disrupt holds for good or for a time from the pod's start; other values say nothing, and are told of."""
    held = pod(annotations={labels.DO_NOT_DISRUPT: value}, started=started)
    assert isinstance(step(held), EvictPods) is not stays, told
    assert has_invalid_do_not_disrupt(held) is (not stays and value not in ("5m", "10m", "false"))


def test_an_eviction_is_asked_once() -> None:
    """A pod that is leaving is waited for, not asked again."""
    assert not isinstance(step(pod(), evicted=frozenset({"p"})), EvictPods | DeleteInstance)


def test_a_pod_made_anew_under_the_same_name_is_asked_too() -> None:
    """What was asked is a UID."""
    again = msgspec.structs.replace(pod(), metadata=msgspec.structs.replace(pod().metadata, uid="p2"))
    assert isinstance(step(again, evicted=frozenset({"p"})), EvictPods)


BUDGET = "The disruption budget guard needs 1 healthy pods and has 1 currently"


def test_a_budget_that_refuses_is_waited_for_and_named() -> None:
    """A blocked eviction is told with the budget's own words, asked again later, and keeps no other pod."""
    held = {"p": Held(words=BUDGET, holds_for=4.0)}
    assert says(emptying(pod(), held=held), "Drained") == (
        "Unknown",
        "Draining",
        f"waiting for pods on Node {NODE}: default/p: {BUDGET}",
    )
    found = step(pod(), pod("q"), held=held)
    assert isinstance(found, EvictPods)
    assert [p.metadata.name for p in found.pods] == ["q"]
    assert isinstance(step(pod(), held={"p": Held(words=BUDGET)}), EvictPods)


def test_pods_are_read_anew_once_a_second_and_later_less_often() -> None:
    """A drain is looked at each second for a minute, then every five."""
    assert isinstance(step(pod(), evicted=frozenset({"p"}), age=1.1), ReadDrain)
    unhealthy_node = {"evicted": frozenset({"p"}), "since": 61.0}
    assert not isinstance(step(pod(), age=4.9, **unhealthy_node), ReadDrain)
    assert isinstance(step(pod(), age=5.1, **unhealthy_node), ReadDrain)


def test_pods_bound_just_after_the_taint_are_waited_for() -> None:
    """Where pods were evicted another may have been bound at that moment: five seconds are given to see it."""
    known = emptying(since=3.0, had_evictable=True)
    assert isinstance(step(since=3.0, had_evictable=True), Wait)
    assert says(known, "Drained") == ("", "", "")
    assert isinstance(step(since=5.0, had_evictable=True), DeleteInstance)
    assert isinstance(step(since=0.0, had_evictable=False), DeleteInstance)


def test_a_node_whose_pods_cannot_be_read_is_not_taken_for_empty() -> None:
    """The API server's refusal is told, and tried again in its time."""
    refused: dict[str, Any] = {
        "age": float("inf"),
        "unread": Held(words="403 Forbidden: no", asked="read", holds_for=3.0),
    }
    known = emptying(**refused)
    assert isinstance(step(**refused), steps.PatchStatus)
    status, reason, message = says(known, "Drained")
    assert (status, reason) == ("Unknown", "Draining")
    assert "403 Forbidden" in message
    again = {**refused, "unread": Held(words="403 Forbidden: no", asked="read")}
    assert isinstance(step(**again), ReadDrain)


def test_two_nodes_of_one_pool_are_drained_each_by_its_own_reading() -> None:
    """What was read of one Node says nothing of another."""
    known = emptying()
    other = msgspec.structs.replace(
        known.nodes[0], metadata=msgspec.structs.replace(known.nodes[0].metadata, name="other", uid="other")
    )
    both = msgspec.structs.replace(known, nodes=(*known.nodes, other))
    found = plan(both)
    assert isinstance(found, ReadDrain)
    assert found.node.name == "other"


# The termination time


def going(*, period: str | None = None, by: str | None = None, asked_ago: float = 30.0):
    """A claim asked to go, with a grace period, or a termination time that somebody wrote."""
    made = claim(up=UP, node_name=NODE, deleting=True, annotations={labels.TERMINATION_TIMESTAMP: by} if by else {})
    meta = msgspec.structs.replace(made.metadata, deletion_timestamp=NOW - timedelta(seconds=asked_ago))
    spec = msgspec.structs.replace(made.spec, termination_grace_period=period)
    return msgspec.structs.replace(made, metadata=meta, spec=spec)


def in_seconds(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_the_termination_time_is_written_once_before_the_drain() -> None:
    """Deletion plus terminationGracePeriod stands on the claim, where all can see it."""
    found = step(pod(), going=going(period="1h"))
    assert isinstance(found, steps.PatchClaim)
    assert found.annotations == {labels.TERMINATION_TIMESTAMP: in_seconds(3600 - 30)}
    assert isinstance(step(pod(), going=going(period="1h", by=in_seconds(7200))), EvictPods)


def test_a_refused_termination_time_does_not_hold_the_drain() -> None:
    """A claim that cannot be written to is drained all the same, and in the same time."""
    refused = msgspec.structs.replace(
        emptying(pod(grace=100), going=going(period="1m")), refused={"PatchClaim": "Invalid: no"}
    )
    assert isinstance(plan(refused), DeletePods)


DUE = [
    ("a pod whose grace would just end in time is asked nicely", pod(grace=30), 31.0, None),
    ("one whose grace would not is deleted with what is left", pod(grace=60), 40.5, 40),
    ("so is one that should not be disrupted", pod(annotations={labels.DO_NOT_DISRUPT: "true"}), 20.0, 20),
    ("so is a critical daemon, before its turn", pod(critical=True, daemon=True), 20.0, 20),
    ("so is one without a grace of its own", pod(grace=None), 29.0, 29),
    ("a second is the least", pod(), 0.4, 1),
    ("also when the time is over", pod(), -600.0, 1),
    ("a pod that ends later than it may is deleted again", pod(grace=600, going_in=500.0), 40.0, 40),
    ("a pod that ends in time is left alone", pod(going_in=10.0), 20.0, None),
    ("a pod that ends now is left alone, late as it is", pod(going_in=0.5), -30.0, None),
]


@pytest.mark.parametrize(("told", "held", "left", "grace"), DUE, ids=[row[0] for row in DUE])
def test_termination_time(told: str, held: Pod, left: float, grace: int | None) -> None:
    """Whoever would outlast the termination time is deleted for it, with at least a second of grace."""
    due = NOW + timedelta(seconds=left)
    found = step(held, going=going(by=due.strftime("%Y-%m-%dT%H:%M:%S.%fZ")))
    assert isinstance(found, DeletePods) is (grace is not None), told
    if isinstance(found, DeletePods):
        assert found.grace_seconds == grace
        assert found.pods == (held,)


def test_a_budget_does_not_hold_a_pod_past_the_termination_time() -> None:
    """The eviction that was refused a moment ago does not delay the delete; a refused delete has its own time."""
    late = going(by=in_seconds(10))
    assert isinstance(step(pod(), going=late, held={"p": Held(words=BUDGET, holds_for=4.0)}), DeletePods)
    refused = {"p": Held(words="403 Forbidden: no", asked="delete", holds_for=4.0)}
    assert not isinstance(step(pod(), going=late, held=refused), DeletePods | EvictPods)


def test_the_next_forced_pod_wakes_the_plan_in_time() -> None:
    """A drain that is looked at every five seconds is not late for a termination time in between."""
    held = {"p": Held(words=BUDGET, holds_for=9.0)}
    known = emptying(pod(grace=30), going=going(by=in_seconds(32)), held=held, since=100.0)
    told = plan(known)
    assert isinstance(told, steps.PatchStatus)
    status = msgspec.structs.replace(known.claims[0].status, conditions=told.conditions)
    waiting = plan(msgspec.structs.replace(known, claims=(msgspec.structs.replace(known.claims[0], status=status),)))
    assert isinstance(waiting, Wait)
    assert waiting.after == pytest.approx(2.0)


def test_a_termination_time_that_is_none_says_nothing() -> None:
    """Text that is no time is left as it is: the spec's period holds, or none."""
    assert not isinstance(step(pod(), going=going(by="soon")), DeletePods)
    assert isinstance(step(pod(grace=100), going=going(by="soon", period="1m")), DeletePods)
    assert not isinstance(step(pod(grace=100), going=going(by="2026-03-01T12:10:00")), DeletePods)


def test_a_node_is_read_for_volumes_only_once_it_is_empty() -> None:
    """Attachments are of no interest while pods are there."""
    assert not isinstance(step(pod(), evicted=frozenset({"p"}), volumes=Volumes()), ReadVolumes)
    assert isinstance(step(volumes=Volumes()), ReadVolumes)


def test_a_drain_that_nobody_saw_is_not_called_done() -> None:
    """After a restart, or where somebody else deleted the pool, Drained stays as it stands while the machine goes."""
    seen = emptying()
    going_machine = {"instance": instance(InstanceState.DELETING)}
    assert says(msgspec.structs.replace(seen, **going_machine), "Drained")[0] == "True"
    assert says(msgspec.structs.replace(seen, drains={}, **going_machine), "Drained") == ("", "", "")
    crowded = msgspec.structs.replace(emptying(pod()), **going_machine)
    assert says(crowded, "Drained") == ("", "", "")
