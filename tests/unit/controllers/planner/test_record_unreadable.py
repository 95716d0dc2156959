"""The Event of a passed deadline comes with its record, also of a NodeClaim with a field that cannot be decoded."""

import pytest

from controllers.model.conditions import ConditionUpdate
from controllers.planner import status
from controllers.planner.record import record
from tests.unit.builders import claim, facts

from .test_plan import unreadable

LATE = ConditionUpdate(
    status="False", reason="AwaitingVolumeDetachment", message="waits", ending="; overdue: x", overdue="detaching"
)


@pytest.mark.parametrize("fields", [(), ("spec.expireAfter: invalid",)])
def test_a_deadline_is_reported(fields: tuple[str, ...]) -> None:
    """By one of the two writes."""
    going = unreadable(claim(deleting=True), *fields)
    f, updates = facts(claims=(going,)), {"VolumesDetached": LATE}
    writes = (status.report(f, going, updates), record(f, going, updates))
    assert [event.message for step in writes if step is not None for event in step.events] == ["waits; overdue: x"]
