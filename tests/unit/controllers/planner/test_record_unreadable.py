"""A NodeClaim that is read in part: its deadlines are reported, and conditions that were not read are not replaced."""

import pytest

from controllers.model.steps import Wait
from controllers.planner import status
from controllers.planner.plan import plan
from controllers.planner.record import record
from provisioner.api import labels
from provisioner.runtime.decoding import metadata_only
from provisioner.runtime.resources import NODECLAIMS
from tests.unit.builders import KEY, UID, claim, facts

from .tables import LATE, unreadable


@pytest.mark.parametrize("fields", [(), ("spec.expireAfter: invalid",)])
def test_a_deadline_is_reported(fields: tuple[str, ...]) -> None:
    """By one of the two writes."""
    going = unreadable(claim(deleting=True), *fields)
    f, updates = facts(claims=(going,)), {"VolumesDetached": LATE}
    writes = (status.report(f, going, updates), record(f, going, updates))
    assert [event.message for step in writes if step is not None for event in step.events] == ["waits; overdue: x"]


def test_a_claim_that_is_too_large_keeps_its_conditions() -> None:
    """Its machine can be in use, and a write replaces the whole list."""
    large = metadata_only({"name": KEY, "uid": UID, "finalizers": [labels.FINALIZER]}, NODECLAIMS, "list nodeclaims")
    assert isinstance(plan(facts(claims=(large,))), Wait)
