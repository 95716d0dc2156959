"""Plan tables of a drain: which pods are evicted, when, and when the drain is complete."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cloudprovider.interface import InstanceState
from controllers.model import steps
from controllers.model.drains import Drain, Volumes
from controllers.model.failures import RequestFailure
from controllers.model.results import ReadPods
from controllers.model.steps import DeleteInstance, DeletePods, EvictPods, ReadDrain, ReadVolumes, Wait
from controllers.node.termination.pod_predicates import has_invalid_do_not_disrupt
from controllers.planner.plan import plan
from controllers.state.drain_memory import with_pods
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta, OwnerReference
from provisioner.api.pod import Pod, Toleration
from tests.unit.builders import NODE, NOW, instance

from .common import going, in_seconds
from .drains import EVERYTHING, attachment, cordoned, emptying, pod, says, step

TIERS = [
    ("ordinary pods leave first", [pod("a"), pod("d", daemon=True), pod("c", critical=True)], ["a"]),
    ("all of a tier at once", [pod("a"), pod("b")], ["a", "b"]),
    ("then daemons", [pod("d", daemon=True), pod("c", critical=True)], ["d"]),
    ("then critical ones", [pod("c", critical=True), pod("cd", critical=True, daemon=True)], ["c"]),
    ("critical daemons last", [pod("cd", critical=True, daemon=True)], ["cd"]),
]


@pytest.mark.parametrize(("case", "pods", "expected"), TIERS, ids=[row[0] for row in TIERS])
def test_drain_in_tiers(case: str, pods: list[Pod], expected: list[str]) -> None:
    """Pods are evicted tier by tier."""
    found = step(*pods)
    assert isinstance(found, EvictPods), case
    assert [p.metadata.name for p in found.pods] == expected


def test_a_tier_waits_for_the_previous_one() -> None:
    """A terminating pod delays the eviction of daemons."""
    assert isinstance(step(pod("a", going_in=20.0), pod("d", daemon=True)), Wait | steps.PatchStatus)


def test_another_kind_called_daemonset_is_no_daemon() -> None:
    """Only pods of DaemonSets of the group apps are in the second tier."""
    own = (OwnerReference(api_version="example.com/v1", kind="DaemonSet", name="d", uid="d"),)
    strange = msgspec.structs.replace(pod("x"), metadata=ObjectMeta(name="x", uid="x", owner_references=own))
    found = step(strange, pod("d", daemon=True))
    assert isinstance(found, EvictPods)
    assert [p.metadata.name for p in found.pods] == ["x"]


HOLD_NOTHING = [
    ("a pod that tolerates everything", pod(tolerations=EVERYTHING)),
    ("a pod that tolerates the taint", pod(tolerations=(Toleration(key=labels.DISRUPTED_TAINT, operator="Exists"),))),
    (
        "one that tolerates it by its value",
        pod(tolerations=(Toleration(key=labels.DISRUPTED_TAINT, effect="NoSchedule"),)),
    ),
    ("a mirror pod", pod(mirror=True)),
    ("a pod stuck past its grace", pod(going_in=-61.0)),
    ("a finished pod", pod(phase="Succeeded")),
    ("a failed pod", pod(phase="Failed")),
]


@pytest.mark.parametrize(("case", "held"), HOLD_NOTHING, ids=[row[0] for row in HOLD_NOTHING])
def test_pods_not_waited_for(case: str, held: Pod) -> None:
    """The machine is deleted regardless of these pods."""
    assert isinstance(step(held), DeleteInstance), case


CORDONED = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")
HOLD = [
    ("one that tolerates cordoned Nodes", pod(tolerations=(CORDONED,))),
    ("a pod that is ending", pod(going_in=20.0)),
    ("a pod that should have ended a minute ago", pod(going_in=-60.0)),
    ("one that tolerates NoExecute only", pod(tolerations=(Toleration(operator="Exists", effect="NoExecute"),))),
    ("one that tolerates another value", pod(tolerations=(Toleration(key=labels.DISRUPTED_TAINT, value="x"),))),
    ("a pod that should not be disrupted", pod(annotations={labels.DO_NOT_DISRUPT: "true"})),
]


@pytest.mark.parametrize(("case", "held"), HOLD, ids=[row[0] for row in HOLD])
def test_pods_waited_for(case: str, held: Pod) -> None:
    """The machine waits for all others, whether or not they can be evicted."""
    assert not isinstance(step(held), DeleteInstance), case


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


@pytest.mark.parametrize(("case", "value", "started", "stays"), PROTECTED, ids=[row[0] for row in PROTECTED])
def test_do_not_disrupt(case: str, value: str, started: float | None, stays: bool) -> None:
    """do-not-disrupt applies permanently or for a time since the pod's start; other values are ignored and reported."""
    held = pod(annotations={labels.DO_NOT_DISRUPT: value}, started=started)
    assert isinstance(step(held), EvictPods) is not stays, case
    assert has_invalid_do_not_disrupt(held) is (not stays and value not in ("5m", "10m", "false"))


def test_a_pod_is_evicted_once() -> None:
    """A pod whose eviction was accepted is waited for."""
    assert not isinstance(step(pod(), evicted={"p": 0.0}), EvictPods | DeleteInstance)


def test_a_new_pod_of_the_same_name_is_evicted() -> None:
    """Evictions are recorded by UID."""
    again = msgspec.structs.replace(pod(), metadata=msgspec.structs.replace(pod().metadata, uid="p2"))
    assert isinstance(step(again, evicted={"p": 0.0}), EvictPods)


BUDGET = "The disruption budget guard needs 1 healthy pods and has 1 currently"


def test_a_blocked_eviction_is_reported_and_retried() -> None:
    """The message names the budget, and other pods are evicted meanwhile."""
    held = {"p": RequestFailure(message=BUDGET, seconds=4.0)}
    assert says(emptying(pod(), failures=held), "Drained") == (
        "Unknown",
        "Draining",
        f"waiting for pods on Node {NODE}: default/p: {BUDGET}",
    )
    found = step(pod(), pod("q"), failures=held)
    assert isinstance(found, EvictPods)
    assert [p.metadata.name for p in found.pods] == ["q"]
    assert isinstance(step(pod(), failures={"p": RequestFailure(message=BUDGET)}), EvictPods)


def test_poll_interval_of_a_drain() -> None:
    """Pods are listed each second for a minute, then every five seconds."""
    assert isinstance(step(pod(), evicted={"p": 0.0}, read_at=-1.1), ReadDrain)
    unhealthy_node = {"evicted": {"p": 0.0}, "began_at": -61.0}
    assert not isinstance(step(pod(), read_at=-4.9, **unhealthy_node), ReadDrain)
    assert isinstance(step(pod(), read_at=-5.1, **unhealthy_node), ReadDrain)


def test_late_binding_is_waited_for() -> None:
    """After an eviction another pod may have been bound: five seconds are waited."""
    known = emptying(began_at=-3.0, had_evictable=True)
    assert isinstance(step(began_at=-3.0, had_evictable=True), Wait)
    assert says(known, "Drained") == ("", "", "")
    assert isinstance(step(began_at=-5.0, had_evictable=True), DeleteInstance)
    assert isinstance(step(began_at=-0.0, had_evictable=False), DeleteInstance)


def test_a_failed_list_of_pods_does_not_complete_a_drain() -> None:
    """The failure is reported, and retried after its delay."""
    refused: dict[str, Any] = {
        "read_at": None,
        "read_failure": RequestFailure(message="403 Forbidden: no", verb="read", seconds=3.0),
    }
    known = emptying(**refused)
    assert isinstance(step(**refused), steps.PatchStatus)
    status, reason, message = says(known, "Drained")
    assert (status, reason) == ("Unknown", "Draining")
    assert "403 Forbidden" in message
    again = {**refused, "read_failure": RequestFailure(message="403 Forbidden: no", verb="read")}
    assert isinstance(step(**again), ReadDrain)


def test_two_nodes_of_one_pool_are_drained_separately() -> None:
    """The list of pods of one Node does not apply to another."""
    known = emptying()
    other = msgspec.structs.replace(
        known.nodes[0], metadata=msgspec.structs.replace(known.nodes[0].metadata, name="other", uid="other")
    )
    both = msgspec.structs.replace(known, nodes=(*known.nodes, other))
    found = plan(both)
    assert isinstance(found, ReadDrain)
    assert found.node.name == "other"


# The termination time


def test_the_deadline_is_recorded_once_before_the_drain() -> None:
    """The annotation is the deletion time plus terminationGracePeriod."""
    found = step(pod(), going=going(period="1h"))
    assert isinstance(found, steps.PatchClaim)
    assert found.annotations == {labels.TERMINATION_TIMESTAMP: in_seconds(3600 - 30)}
    assert isinstance(step(pod(), going=going(period="1h", by=in_seconds(7200))), EvictPods)


def test_a_rejected_annotation_does_not_block_the_drain() -> None:
    """The deadline applies also if it cannot be recorded."""
    refused = msgspec.structs.replace(
        emptying(pod(grace=100), going=going(period="1m")), refused={"PatchClaim": "Invalid: no"}
    )
    assert isinstance(plan(refused), DeletePods)


DUE = [
    ("a pod whose grace period ends in time is evicted", pod(grace=30), 31.0, None),
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


@pytest.mark.parametrize(("case", "held", "left", "grace"), DUE, ids=[row[0] for row in DUE])
def test_deadline(case: str, held: Pod, left: float, grace: int | None) -> None:
    """A pod that would end after the deadline is deleted, with at least a second of grace."""
    due = NOW + timedelta(seconds=left)
    found = step(held, going=going(by=due.strftime("%Y-%m-%dT%H:%M:%S.%fZ")))
    assert isinstance(found, DeletePods) is (grace is not None), case
    if isinstance(found, DeletePods):
        assert found.grace_seconds == grace
        assert found.pods == (held,)


def test_a_pod_at_its_deadline_does_not_wait_for_earlier_tiers() -> None:
    """An ordinary pod is still being evicted; the daemon needs all of the time that is left."""
    daemon = pod("d", daemon=True, grace=60)
    found = step(pod("a", going_in=20.0), daemon, going=going(by=in_seconds(40)))
    assert isinstance(found, DeletePods)
    assert found.pods == (daemon,)


def test_a_budget_does_not_apply_at_the_deadline() -> None:
    """A rejected eviction does not delay the deletion; a rejected deletion has its own delay."""
    late = going(by=in_seconds(10))
    assert isinstance(step(pod(), going=late, failures={"p": RequestFailure(message=BUDGET, seconds=4.0)}), DeletePods)
    refused = {"p": RequestFailure(message="403 Forbidden: no", verb="delete", seconds=4.0)}
    assert not isinstance(step(pod(), going=late, failures=refused), DeletePods | EvictPods)


def test_the_wait_ends_at_the_next_forced_deletion() -> None:
    """A poll interval of five seconds does not delay a forced deletion."""
    held = {"p": RequestFailure(message=BUDGET, seconds=9.0)}
    known = emptying(pod(grace=30), going=going(by=in_seconds(32)), failures=held, began_at=-100.0)
    reported = plan(known)
    assert isinstance(reported, steps.PatchStatus)
    status = msgspec.structs.replace(known.claims[0].status, conditions=reported.conditions)
    waiting = plan(msgspec.structs.replace(known, claims=(msgspec.structs.replace(known.claims[0], status=status),)))
    assert isinstance(waiting, Wait)
    assert waiting.after == pytest.approx(2.0)


def test_an_invalid_deadline_is_ignored() -> None:
    """The annotation is kept, and the period in the spec applies."""
    assert not isinstance(step(pod(), going=going(by="soon")), DeletePods)
    assert isinstance(step(pod(grace=100), going=going(by="soon", period="1m")), DeletePods)
    assert not isinstance(step(pod(grace=100), going=going(by="2026-03-01T12:10:00")), DeletePods)


def test_volumes_are_read_after_the_drain() -> None:
    """Attachments are not read while pods remain, and read again if those known are older than the pods."""
    assert not isinstance(step(pod(), evicted={"p": 0.0}, volumes=Volumes()), ReadVolumes)
    assert isinstance(step(volumes=Volumes()), ReadVolumes)
    assert isinstance(step(volumes=Volumes(read_at=-0.2)), ReadVolumes)


def test_a_node_without_volumes_is_read_once() -> None:
    """Attachments are read with the pods when a drain begins: they are known then only if there are none."""
    assert step(read_at=None) == ReadDrain(node=cordoned(), attachments=True)
    assert step(pod(), read_at=-60.0) == ReadDrain(node=cordoned())
    begun = Drain(began_at=-0.1)
    read = with_pods(begun, ReadPods(pods=(), attachments=()), began=-0.1, evictable=False)
    assert isinstance(plan(msgspec.structs.replace(emptying(), drains={f"node-{NODE}": read})), DeleteInstance)
    for found in (None, (attachment("pv-1"),)):
        read = with_pods(begun, ReadPods(pods=(), attachments=found), began=-0.1, evictable=False)
        assert isinstance(plan(msgspec.structs.replace(emptying(), drains={f"node-{NODE}": read})), ReadVolumes)


def test_an_unobserved_drain_is_not_reported_as_done() -> None:
    """After a restart, or if another client deleted the pool, Drained is kept while the machine is deleted."""
    seen = emptying()
    going_machine = {"instance": instance(InstanceState.DELETING)}
    assert says(msgspec.structs.replace(seen, **going_machine), "Drained")[0] == "True"
    assert says(msgspec.structs.replace(seen, drains={}, **going_machine), "Drained") == ("", "", "")
    crowded = msgspec.structs.replace(emptying(pod()), **going_machine)
    assert says(crowded, "Drained") == ("", "", "")
