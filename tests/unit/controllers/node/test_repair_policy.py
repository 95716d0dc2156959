"""Tables of the repair policy: which rows apply to a machine, what confirms them, and which repairs are suspended."""

from typing import Any

import msgspec
import pytest

from controllers.model.diagnosis import Cause, Diagnosis
from controllers.model.facts import Facts, Unhealthy
from controllers.model.policy import Policy
from controllers.model.recent_repairs import RecentRepair, RepairStage, decode, encode
from controllers.node.health import limits, observation, signals
from controllers.node.health.repair_policy import BUILT_IN, rows
from controllers.state.repair_history import RepairHistory
from provisioner.api.node import Node, NodeCondition
from provisioner.api.repair_policy import SIGNALS, RepairPolicy
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
    (GONE, None, True),
    (GONE, Diagnosis(cause=Cause.NO_DEVICES), True),
    (GONE, Diagnosis(cause=Cause.PARTIAL_DEVICES), True),
    (GONE, Diagnosis(cause=Cause.PLUGIN_FAILING, text="is in CrashLoopBackOff"), True),
    (GONE, Diagnosis(cause=Cause.PLUGIN_FAILING, text="is in ImagePullBackOff"), False),
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


SUSPENDED = [
    ("one alike was replaced", ALIKE, False, 1, False, False),
    ("two were", ALIKE, False, 2, False, True),
    ("another one is kept", ALIKE, False, 0, True, True),
    ("this one is kept already", ALIKE, True, 0, False, True),
    ("a machine that served for long", None, False, 5, True, False),
]


@pytest.mark.parametrize(
    ("case", "stage", "kept", "alike", "others", "expected"), SUSPENDED, ids=[r[0] for r in SUSPENDED]
)
def test_repairs_of_machines_that_fail_alike_are_suspended(
    *, case: str, stage: RepairStage | None, kept: bool, alike: int, others: bool, expected: bool
) -> None:
    """Only of machines that failed young."""
    assert limits.is_suspended(Policy(), Unhealthy(stage=stage, kept=kept), alike, others) is expected, case


def test_the_history_counts_each_claim_once_for_an_hour() -> None:
    """Also one that another process recorded; another size, image or stage does not count."""
    history = RepairHistory(3600.0)
    assert history.started("uid-1", ALIKE, 0.0)
    assert not history.started("uid-1", ALIKE, 10.0)
    assert history.started("uid-2", msgspec.structs.replace(ALIKE, image="image-2"), 10.0)
    assert history.alike(ALIKE, 20.0) == 1
    later = RepairHistory(3600.0)
    later.restore(decode(encode(history.entries(NOW, 20.0))) or (), NOW, 500.0)
    assert [later.alike(ALIKE, at) for at in (500.0, 4089.0, 4091.0)] == [1, 1, 0]
    assert decode("[{}]") is None
    assert RecentRepair(claim_uid="u", size="Standard_A", image="image-1", stage="NotRegistered", at=NOW).of == ALIKE
