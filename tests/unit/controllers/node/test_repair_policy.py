"""Tables of the repair policy: which rows apply to a machine, what confirms them, and which repairs are suspended."""

import math
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cloudprovider.interface import Gpus
from controllers.model import steps
from controllers.model.diagnosis import Diagnosis
from controllers.model.facts import ClusterCounts, Facts, Unhealthy, UnhealthyCounts
from controllers.model.policy import Policy
from controllers.model.recent_repairs import ANY_IMAGE, RecentRepair, RepairStage, decode, encode
from controllers.node.health import another, limits, observation, repair, repair_removal, signals
from controllers.node.health.repair_policy import BUILT_IN, rows
from controllers.state.repair_history import RepairHistory
from provisioner.api import labels
from provisioner.api.node import Node, NodeCondition
from provisioner.api.repair_policy import SIGNALS, RepairPolicy
from provisioner.api.time import rfc3339, shifted
from provisioner.api.workload import Cause
from tests.unit.builders import COLUMNS, NODE, NOW, UP, claim, facts, instance, node

ALIKE = RepairStage(size="Standard_A", image="image-1", stage="NotRegistered")


def with_condition(made: Node, condition: str, status: str) -> Node:
    """The Node with one more condition."""
    found = NodeCondition(type=condition, status=status, reason="Found", last_transition_time=NOW)
    return msgspec.structs.replace(
        made, status=msgspec.structs.replace(made.status, conditions=(*made.status.conditions, found))
    )


def machine(made: Node, **fields: Any) -> Facts:
    """A machine that was initialized, with this Node."""
    return facts(
        claims=(claim(up=UP, node_name=NODE, more_labels=COLUMNS),), nodes=(made,), instance=instance(), **fields
    )


CONDITIONS = [row for row in BUILT_IN if row.condition]


@pytest.mark.parametrize("row", CONDITIONS, ids=[row.name for row in CONDITIONS])
def test_each_condition_is_a_signal_with_its_status_only(row: RepairPolicy) -> None:
    """The opposite status, Unknown and an absent condition are none."""
    seen = observation.observed(machine(with_condition(node(), row.condition, row.status)))
    assert seen is not None
    assert (seen.policy, seen.present) == (row, (row.name,))
    assert seen.replaces is (row.action == "Replace" and row.agreement != "GpuCount")
    for status in {"True", "False", "Unknown"} - {row.status}:
        assert observation.observed(machine(with_condition(node(), row.condition, status))) is None
    assert observation.observed(machine(node())) is None


def test_a_group_keeps_its_first_sight_while_its_signals_take_turns() -> None:
    """The second signal of the group continues the time of the first; one of another group begins anew."""
    first = observation.observed(machine(with_condition(node(), "KubeletProblem", "True"), loop_now=100.0))
    second = machine(with_condition(node(), "ContainerRuntimeProblem", "True"), loop_now=400.0, unhealthy=first)
    other = machine(with_condition(node(), "KernelDeadlock", "True"), loop_now=400.0, unhealthy=first)
    found = [observation.observed(one) for one in (second, other)]
    assert [one.since for one in found if one is not None] == [100.0, 400.0]


def test_the_repair_that_is_due_first_leads() -> None:
    """Of several signals the one with the least time left counts, and none that only waits."""
    made = node()
    for condition in ("GPUClockThrottling", "KubeletProblem", "KernelDeadlock"):
        made = with_condition(made, condition, "True")
    seen = observation.observed(machine(made))
    assert seen is not None
    assert seen.policy.name == "KernelDeadlock=True"
    assert set(seen.present) == {"GPUClockThrottling=True", "KubeletProblem=True", "KernelDeadlock=True"}


GONE, NEVER = "GpuGone", "NotInitialized"
DIAGNOSES = [
    (GONE, None, False),
    (GONE, Diagnosis(cause=Cause.NO_DEVICES), True),
    (GONE, Diagnosis(cause=Cause.PARTIAL_DEVICES), True),
    (GONE, Diagnosis(cause=Cause.NO_DEVICES, elsewhere="its MIG configuration failed"), False),
    (GONE, Diagnosis(cause=Cause.PLUGIN_FAILING, text="is in CrashLoopBackOff"), False),
    (GONE, Diagnosis(cause=Cause.PLUGIN_FAILING, text="is in CrashLoopBackOff", only_here=True), True),
    (GONE, Diagnosis(cause=Cause.PLUGIN_ABSENT), False),
    (GONE, Diagnosis(cause=Cause.PLUGIN_KEPT_AWAY), False),
    (GONE, Diagnosis(cause=Cause.PLUGIN_NOT_SCHEDULED), False),
    (NEVER, None, False),
    (NEVER, Diagnosis(cause=Cause.NO_DEVICES), True),
    (NEVER, Diagnosis(cause=Cause.PARTIAL_DEVICES), True),
    (NEVER, Diagnosis(cause=Cause.PLUGIN_FAILING, text="is in CrashLoopBackOff"), False),
    (NEVER, Diagnosis(cause=Cause.PLUGIN_ABSENT), False),
]


@pytest.mark.parametrize(("signal", "diagnosis", "agrees"), DIAGNOSES)
def test_the_diagnosis_confirms_or_excludes_a_fault_of_the_machine(
    signal: str, diagnosis: Diagnosis | None, agrees: bool
) -> None:
    """A machine whose GPUs are missing for a cause outside of it is kept: another one would lack them as well."""
    row = next(row for row in BUILT_IN if row.signal == signal)
    given = machine(node(gpus="0"), diagnosis=diagnosis)
    assert signals.agrees(given, given.claims[0], given.nodes[0], row) is agrees


@pytest.mark.parametrize(
    ("up", "found"),
    [(("Launched",), ["NotRegistered"]), (("Launched", "Registered"), []), ((), [])],
    ids=["no Node yet", "its Node is gone", "not launched"],
)
def test_a_running_machine_without_a_node(up: tuple[str, ...], found: list[str]) -> None:
    """Its Node never came; one that was registered and is gone is not meant."""
    made = facts(claims=(claim(up=up),), nodes=(), instance=instance())
    assert [row.signal for row in signals.present(made, made.claims[0], None)] == found


def test_rows_of_the_settings_replace_those_of_the_same_signal() -> None:
    """They keep the group and, unless they state one, the agreement; other rows stay."""
    own = (
        RepairPolicy(signal="GpuGone", seconds=60, action="Wait"),
        RepairPolicy(condition="XIDErrors", seconds=60, action="Replace", agreement="None"),
        RepairPolicy(condition="Other", status="False", seconds=60, action="Replace"),
    )
    found = {row.name: row for row in rows(Policy(repair_policies=own))}
    assert (found["GpuGone"].action, found["GpuGone"].agreement, found["GpuGone"].group) == (
        "Wait",
        "Diagnosis",
        "GpuGone",
    )
    assert (found["XIDErrors=True"].agreement, found["XIDErrors=True"].group) == ("None", "Hardware")
    assert (found["Other=False"].agreement, found["Other=False"].group) == ("None", "Other")
    assert len(found) == len(BUILT_IN) + 1
    assert {row.signal for row in BUILT_IN} - {""} == set(SIGNALS)


OLD = msgspec.structs.replace(ALIKE, young=False)
SUSPENDED = [
    ("one alike was replaced", ALIKE, False, 1, 1, False, False),
    ("two were", ALIKE, False, 2, 2, False, True),
    ("another one is kept", ALIKE, False, 0, 0, True, True),
    ("this one is kept already", ALIKE, True, 0, 0, False, True),
    ("a machine that served for long", OLD, False, 5, 3, True, False),
    ("it does, after four of its owner, one after the other", OLD, False, 0, 4, False, True),
    ("it does, and is kept already", OLD, True, 0, 0, False, True),
]


@pytest.mark.parametrize(
    ("case", "stage", "kept", "alike", "in_turn", "others", "expected"), SUSPENDED, ids=[r[0] for r in SUSPENDED]
)
def test_repairs_of_machines_that_fail_alike_are_suspended(
    *, case: str, stage: RepairStage, kept: bool, alike: int, in_turn: int, others: bool, expected: bool
) -> None:
    """After two of machines that failed young, and after four of one owner at any age."""
    unhealthy = Unhealthy(stage=stage, kept=kept)
    assert limits.is_suspended(Policy(), unhealthy, alike, in_turn, others) is expected, case
    allowed = msgspec.structs.replace(unhealthy, allowed=True)
    assert not limits.is_suspended(Policy(), allowed, alike, in_turn, others)


def test_the_history_counts_each_claim_once_until_a_machine_is_usable() -> None:
    """Also one that another process recorded; another size, image or stage does not count."""
    history = RepairHistory(30 * 86_400.0)
    assert history.started("uid-1", ALIKE, "NodePool a", 0.0)
    assert not history.started("uid-1", ALIKE, "NodePool a", 10.0)
    assert history.started("uid-2", msgspec.structs.replace(ALIKE, image="image-2"), "", 10.0)
    assert history.alike(ALIKE, "", 20.0) == 1
    later = RepairHistory(30 * 86_400.0)
    later.restore(decode(encode(history.entries(NOW, 20.0))) or (), NOW, 500.0)
    week = 7 * 86_400.0
    assert later.alike(ALIKE, "", week) == 1
    assert later.last("NotRegistered", "NodePool a", week) == pytest.approx(490.0, abs=11.0)
    assert later.last("NotRegistered", "NodePool b", week) is None
    assert later.of_group("NotRegistered", 0.0, week) == {"uid-1", "uid-2"}
    later.usable(ALIKE, "NodePool a", created=400.0, now=week)
    assert later.alike(ALIKE, "", week) == 1
    later.usable(ALIKE, "NodePool a", created=600.0, now=week)
    assert later.alike(ALIKE, "", week) == 0
    assert later.alike(msgspec.structs.replace(ALIKE, image="image-2"), "", week) == 1
    assert later.entries(NOW, 31 * 86_400.0) == ()
    assert decode("[{}]") is None


SUCCESSES = [
    ("its own", "NodePool a", "NodePool a", (0, 0, 0)),
    ("of another owner", "NodePool a", "NodePool b", (1, 0, 0)),
    ("of no owner", "NodePool a", "", (1, 0, 0)),
    ("of any owner, after one without an owner failed", "", "NodePool b", (0, 0, 0)),
]


@pytest.mark.parametrize(("case", "failed", "worked", "counts"), SUCCESSES, ids=[row[0] for row in SUCCESSES])
def test_a_success_ends_the_row_of_its_owner(*, case: str, failed: str, worked: str, counts: tuple[int, ...]) -> None:
    """What fails can be in the template of the owner: its own machines count until one of them is usable."""
    history = RepairHistory(86_400.0)
    history.started("uid-1", ALIKE, failed, 0.0)
    history.usable(ALIKE, worked, created=10.0, now=20.0)
    assert history.unsaved
    later = RepairHistory(86_400.0)
    later.restore(decode(encode(history.entries(NOW, 20.0))) or (), NOW, 0.0)
    for one in (history, later):
        assert tuple(one.alike(ALIKE, owner, 20.0) for owner in ("NodePool a", "NodePool b", "")) == counts, case
    history.unsaved = False
    history.usable(ALIKE, worked, created=10.0, now=20.0)
    assert not history.unsaved


@pytest.mark.parametrize(
    ("until", "allowed"),
    [
        ("enabled", False),
        ("", False),
        ("2026-03-01T12:09:59Z", False),
        ("2026-03-01T13:00:00Z", True),
        ("2026-03-02T12:10:00Z", True),
        ("2099-01-01T00:00:00Z", False),
    ],
)
def test_a_repair_is_allowed_until_a_time_within_a_day(until: str, allowed: bool) -> None:
    """A word that a template copies to every claim allows nothing, and a time in it ends."""
    made = claim(up=UP, node_name=NODE, more_labels=COLUMNS, annotations={labels.REPAIR: until})
    assert limits.allowed(facts(claims=(made,)), made) is allowed
    assert RecentRepair(claim_uid="u", size="Standard_A", image="image-1", stage="NotRegistered", at=NOW).of == ALIKE


def new_machine(gpus: str, **fields: Any) -> Facts:
    """A machine with 8 GPUs that was registered 25 min ago and never was usable; so many GPUs are allocatable."""
    made = claim(up=("Launched", "Registered"), node_name=NODE, more_labels=COLUMNS)
    given = {
        "claims": (made,),
        "nodes": (node(gpus=gpus, initialized=False),),
        "instance": instance(),
        "gpus": Gpus(resource="nvidia.com/gpu", count=8),
        "diagnosis": Diagnosis(cause=Cause.PARTIAL_DEVICES if gpus != "0" else Cause.NO_DEVICES),
        "gpu_short_since": -1500.0,
        "now": NOW + timedelta(minutes=20),
        "loop_now": 0.0,
    }
    return facts(**{**given, **fields})


@pytest.mark.parametrize(("gpus", "works"), [("0", False), ("1", True), ("7", True)])
def test_a_machine_that_never_had_all_its_gpus_works_with_the_others(gpus: str, works: bool) -> None:
    """It is cordoned, and another machine has to be had. Of its row of failures, size and cause count."""
    given = new_machine(gpus)
    seen = observation.observed(given)
    assert seen is not None
    assert (seen.policy.name, seen.replaces, seen.some_gpus) == ("NotInitialized", True, works)
    assert (seen.serves, seen.runs_gpus, seen.only_lost_gpus) == (works, works, works)
    assert (seen.cordon_at < math.inf) is works
    assert another.place(msgspec.structs.replace(given, unhealthy=seen, scarce=None)) == (
        "Unknown" if works else "Available"
    )
    assert seen.stage is not None
    assert (seen.stage.image == ANY_IMAGE) is works


def test_all_gpus_or_another_cause_are_no_fault_of_the_machine() -> None:
    """The row neither cordons nor replaces without a diagnosis that lays the loss on the machine."""
    assert observation.observed(new_machine("8")) is None
    for diagnosis in (None, Diagnosis(cause=Cause.PLUGIN_KEPT_AWAY)):
        seen = observation.observed(new_machine("7", diagnosis=diagnosis))
        assert seen is not None
        assert (seen.replaces, seen.acting, seen.cordon_at) == (False, (), math.inf)


@pytest.mark.parametrize(("cached", "read", "goes"), [("0", "0", True), ("0", "7", False), ("7", "7", True)])
def test_gpus_that_only_a_fresh_read_shows_keep_the_machine(cached: str, read: str, goes: bool) -> None:
    """Pods may have come for them: the cache has to show them first, so that they are asked for."""
    given = new_machine(
        cached,
        pool_read_age=1.0,
        nodes_read_age=1.0,
        nodes_read=(node(gpus=read, initialized=False),),
        claim_read_age=1.0,
        scarce="",
    )
    given = msgspec.structs.replace(given, claim_read=given.claims[0])
    seen = observation.observed(given)
    assert seen is not None
    read_now = {"remedies_read_at": 0.0, "gpu_pods_read_at": 0.0, "observed_since": -1500.0}
    given = msgspec.structs.replace(given, unhealthy=msgspec.structs.replace(seen, cordon_at=math.inf, **read_now))
    assert isinstance(repair.step(given), steps.PatchClaim if goes else steps.Wait)


def among(**fields: Any) -> dict[str, Any]:
    return {"counts": ClusterCounts(unhealthy_counts=UnhealthyCounts(nodes=6, serves=True, **fields))}


REFUSALS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("nothing is against it", {}, {}, ""),
    ("no fresh read", {"claim_read_age": 11.0}, {}, "no fresh read confirms the cause"),
    ("no time", {}, {"since": -60.0}, "the cause has not persisted for its whole time"),
    ("no diagnosis", {"diagnosis": None}, {}, "the cause of the missing GPUs is not known"),
    ("pods", {}, {"gpu_pods": 2}, "waiting for 2 pods with GPUs"),
    ("pods that were not counted", {}, {"gpu_pods_read_at": None}, "it is not known whether pods with GPUs run there"),
    ("no other machine", {"scarce": "no quota"}, {}, "no other machine can be had now (no quota)"),
    ("another machine is not known", {"scarce": None}, {}, "it is not known whether another machine can be had"),
    ("a rollout", among(affected=3), {}, "3 Nodes of 6 had this within 24 h; look for a rollout"),
    ("a loop", among(suspended=True), {}, "2 machines Standard_NC24ads_A100_v4 had some of their GPUs only"),
]


@pytest.mark.parametrize(("case", "known", "seen", "why"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_the_gate_gets_what_is_known(case: str, known: dict[str, Any], seen: dict[str, Any], why: str) -> None:
    """It refuses a removal by itself, whatever rules have let it come so far."""
    given = new_machine("7", pool_read_age=1.0, nodes_read_age=1.0, claim_read_age=1.0, scarce="")
    found = observation.observed(given)
    assert found is not None
    counted = {"gpu_pods_read_at": 0.0, "observed_since": -1500.0, **seen}
    unhealthy = msgspec.structs.replace(found, **counted)
    given = msgspec.structs.replace(given, refused={"PatchClaim": "no"}, **{"unhealthy": unhealthy, **known})
    step = repair_removal.remove(given, given.claims[0], given.nodes[0], unhealthy)
    assert isinstance(step, steps.Wait if why else steps.DeleteClaim), case
    assert isinstance(step, steps.DeleteClaim) or step.why.startswith(why)


@pytest.mark.parametrize(("signal", "seconds"), [("NotReady", 300.0), ("GpuPartial", 390.0)])
def test_pods_of_a_machine_that_works_have_their_own_grace(signal: str, seconds: float) -> None:
    """After the time in which they can be evicted."""
    given = new_machine("7")
    row = next(row for row in BUILT_IN if row.signal == signal)
    unhealthy = Unhealthy(policy=row, grace_seconds=90.0)
    step = repair_removal.remove(given, given.claims[0], given.nodes[0], unhealthy)
    assert isinstance(step, steps.PatchClaim)
    assert step.annotations[labels.TERMINATION_TIMESTAMP] == rfc3339(shifted(given.now, seconds))


def test_a_row_of_failures_that_no_image_explains() -> None:
    """It ends with a machine of the size, whatever its image."""
    some = RepairStage(size="Standard_A", image=ANY_IMAGE, stage="NotInitialized")
    history = RepairHistory(86_400.0)
    history.started("uid-1", some, "", 0.0)
    assert history.young_stages() == {some}
    assert some.has_image("image-9")
    later = RepairHistory(86_400.0)
    later.restore(decode(encode(history.entries(NOW, 20.0))) or (), NOW, 500.0)
    assert later.alike(some, "", 600.0) == 1
