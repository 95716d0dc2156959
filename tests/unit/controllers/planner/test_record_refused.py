"""The Event of a passed deadline while the API server refuses the annotation that records it."""

from controllers.planner import status
from controllers.planner.record import record
from tests.unit.builders import claim, facts

from .test_record_unreadable import LATE


def test_a_deadline_is_reported_although_its_record_is_refused() -> None:
    """The condition was there before the deadline passed, with the same reason."""
    going = claim(deleting=True, down={"VolumesDetached": LATE.reason})
    f, updates = facts(claims=(going,), refused={"PatchClaim": "no"}), {"VolumesDetached": LATE}
    writes = (status.report(f, going, updates), record(f, going, updates))
    assert [event.message for step in writes if step is not None for event in step.events] == ["waits; overdue: x"]
