"""Rows of the repair policy in the settings: what is accepted, and which mistakes are named."""

import json
from typing import Any

import pytest

from provisioner.api.repair_policy import STARTING, RepairPolicy
from provisioner.settings import repair_policies

from .loading import loaded, the_error

GOOD: dict[str, Any] = {
    "condition": "AcceleratedHardwareReady",
    "status": "False",
    "toleration": "10m",
    "action": "Replace",
}


def test_rows_are_read_from_json_yaml_and_a_file() -> None:
    """The environment has text, a file has a list; both give the same rows, and can be shown again."""
    expected = (
        RepairPolicy(condition="AcceleratedHardwareReady", status="False", seconds=600.0, action="Replace"),
        RepairPolicy(signal="GpuGone", seconds=90.0, action="Wait", agreement="GpuCount"),
        RepairPolicy(condition="XIDErrors", seconds=600.0, action="Replace", pods_seconds=3600.0),
        RepairPolicy(condition="IBLinkFlapping", seconds=600.0, action="Cordon"),
    )
    rows = [
        GOOD,
        {"signal": "GpuGone", "toleration": "1m30s", "action": "Wait", "agreement": "GpuCount"},
        {"condition": "XIDErrors", "toleration": "10m", "action": "Replace", "waitForPods": "1h"},
        {"condition": "IBLinkFlapping", "toleration": "10m", "action": "Cordon"},
    ]
    text = json.dumps(rows)
    assert loaded(REPAIR_POLICIES=text).repair_policies == expected
    assert loaded(file={"repair-policies": rows}).repair_policies == expected
    assert loaded(REPAIR_POLICIES="[]").repair_policies == ()
    assert repair_policies.read(repair_policies.text_of(expected)) == expected
    assert repair_policies.read("- {condition: A, status: false, toleration: 0, action: Wait}")[0].status == "False"


WRONG: list[tuple[Any, str]] = [
    ({"toleration": "5m", "action": "Wait"}, "[0]: it names no signal"),
    ({**GOOD, "signal": "GpuGone"}, "[0]: it names no signal: set either"),
    (
        {"signal": "GpuLost", "toleration": "5m", "action": "Wait"},
        "[0].signal: 'GpuLost' is not one of NotReady, GpuGone",
    ),
    ({**GOOD, "condition": "not a condition"}, "[0].condition: 'not a condition'"),
    ({**GOOD, "condition": "Ready"}, "[0].condition: 'Ready' has the signal NotReady"),
    ({**GOOD, "status": "Bad"}, "[0].status: 'Bad' is not one of True, False, Unknown"),
    ({**GOOD, "toleration": "-5m"}, "[0].toleration: '-5m' is not a duration"),
    ({**GOOD, "toleration": "soon"}, "[0].toleration: 'soon'"),
    ({**GOOD, "toleration": "300h"}, "[0].toleration: '300h'"),
    ({**GOOD, "toleration": None}, "[0].toleration: None"),
    ({**GOOD, "action": "Reboot"}, "[0].action: 'Reboot' is not one of Wait, Cordon, RestartPlugin, Replace"),
    ({**GOOD, "waitForPods": "soon"}, "[0].waitForPods: 'soon' is not a duration"),
    ({**GOOD, "action": "Wait", "waitForPods": "1h"}, "[0].waitForPods: it needs the action Replace"),
    (
        {"signal": "NotReady", "toleration": "5m", "action": "Replace", "waitForPods": "1h"},
        "[0].waitForPods: it needs the action Replace, and a machine that runs pods",
    ),
    ({**GOOD, "action": "RestartPlugin"}, "[0].action: 'RestartPlugin' needs the signal"),
    *(
        ({"signal": one, "toleration": "5m", "action": "Cordon"}, "[0].action: 'Cordon' needs a machine that runs pods")
        for one in ("NotReady", *STARTING)
    ),
    ({**GOOD, "agreement": "Nobody"}, "[0].agreement: 'Nobody' is not one of None, GpuCount, Diagnosis"),
    ({**GOOD, "tolerance": "5m"}, "[0].tolerance: there is no such field"),
    ({"signal": "GpuGone", "status": "True", "toleration": "5m", "action": "Wait"}, "[0].status: 'True' belongs to a"),
    ({**GOOD, "condition": 5}, "[0].condition: 5 is not a text"),
    ("GpuGone", "[0]: 'GpuGone' is not an object"),
]


@pytest.mark.parametrize(("row", "message"), WRONG, ids=[text for _, text in WRONG])
def test_a_mistake_is_named_with_its_row_field_and_value(row: Any, message: str) -> None:
    """The program does not start: a row without effect would be found only when a machine fails."""
    error = the_error(REPAIR_POLICIES=json.dumps([row]))
    assert error.message.startswith(message)
    assert error.field == "REPAIR_POLICIES"
    assert "Set it to a list of rows" in error.remedy


def test_two_rows_for_the_same_signal_and_action_are_a_mistake() -> None:
    """Only the first one would have an effect."""
    assert (
        "[1]: a second row for AcceleratedHardwareReady=False"
        in the_error(REPAIR_POLICIES=json.dumps([GOOD, GOOD])).message
    )
