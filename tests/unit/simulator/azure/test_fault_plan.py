"""Fault plans: the rules, and the messages for mistakes."""

import json

import pytest
import yaml

from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.fault_plan import InvalidFaultPlan, read
from provisioner.simulator.azure.faults import Failure, Fault

PLAN = """
- verb: PUT
  size: Standard_NC24ads_A100_v4
  times: 2
  capacity: ZonalAllocationFailed
- {verb: LIST, skip: 3, throttled_seconds: 30}
- {verb: PUT, arm_throttled_seconds: 5}
- {verb: DELETE, pool: gpu1, drop: after}
- {verb: GET, slow_seconds: 20, slow: after, html: 502}
- {verb: PUT, quota: LowPriorityCores, priority: Spot}
- {verb: PUT, failure: {code: NodesNotReady, after_seconds: 9, machine: true}}
- {verb: PUT, answer: {status: 409, code: OperationNotAllowed, message: later}}
- {verb: DELETE, operation_seconds: 3600}
- {size: Standard_NC4as_T4_v3, zone: "1", restricted: QuotaId}
"""
FAULTS = [
    Fault(
        verb="PUT",
        size="Standard_NC24ads_A100_v4",
        times=2,
        failure=Failure(error=faults.wrapped(faults.no_capacity("ZonalAllocationFailed"))),
    ),
    Fault(verb="LIST", skip=3, answer=errors.throttled("AgentPoolHandler", 30)),
    Fault(verb="PUT", answer=errors.arm_throttled("writes", 5)),
    Fault(verb="DELETE", pool="gpu1", drop="after"),
    Fault(verb="GET", slow_seconds=20.0, slow="after", answer=errors.html(502)),
    Fault(
        verb="PUT",
        priority="Spot",
        failure=Failure(error=faults.wrapped(faults.quota_exceeded("LowPriorityCores"))),
    ),
    Fault(
        verb="PUT",
        failure=Failure(
            error=faults.error("NodesNotReady", "failed by the fault plan"), after_seconds=9.0, machine=True
        ),
    ),
    Fault(verb="PUT", answer=errors.rp(409, "OperationNotAllowed", "later")),
    Fault(verb="DELETE", operation_seconds=3600.0),
    faults.restricted("Standard_NC4as_T4_v3", zone="1", reason="QuotaId"),
]


def test_a_plan_in_yaml() -> None:
    """Every kind of rule, in the order of the file."""
    assert read(yaml.safe_load(PLAN)) == FAULTS


def test_a_plan_in_json() -> None:
    """JSON is read as well."""
    assert read(json.loads('[{"verb": "LIST", "skip": 3, "throttled_seconds": 30}]')) == [FAULTS[1]]


@pytest.mark.parametrize(
    ("plan", "reported"),
    [
        ("- {verb: POST, drop: after}", "rule 1: Invalid enum value 'POST' - at `$.verb`"),
        ("- {verb: PUT, dorp: after}", "rule 1: Object contains unknown field `dorp`"),
        ("- {verb: PUT, times: many, drop: after}", "rule 1: Expected `int`, got `str` - at `$.times`"),
        ("- {verb: PUT, times: 0, drop: after}", "rule 1: `times` must be at least 1"),
        ("- {verb: PUT}", "rule 1: the rule has no effect; set answer, html,"),
        ("- {verb: PUT, html: 502, throttled_seconds: 3}", "rule 1: set at most one answer and one failure"),
        ("- {verb: GET, capacity: AllocationFailed}", "rule 1: only an accepted PUT or DELETE can fail later"),
        ("- {verb: PUT, capacity: NoRoom}", "rule 1: Invalid enum value 'NoRoom' - at `$.capacity`"),
        ("- {restricted: QuotaId}", "rule 1: `restricted` needs `size`"),
        ("- {size: Standard_D2s_v5, restricted: QuotaId, drop: after}", "rule 1: `restricted` needs `size`"),
        ("verb: PUT", "a fault plan is a list of rules"),
        ("", "a fault plan is a list of rules"),
    ],
)
def test_mistakes_are_reported(plan: str, reported: str) -> None:
    """Each message names the rule, the field and the mistake."""
    with pytest.raises(InvalidFaultPlan) as caught:
        read(yaml.safe_load(plan))
    assert str(caught.value).startswith(reported)


def test_all_mistakes_are_reported_at_once() -> None:
    """One message contains all mistakes of a plan."""
    with pytest.raises(InvalidFaultPlan) as caught:
        read([{"verb": "POST"}, {"verb": "PUT", "drop": "after"}, {"verb": "PUT"}])
    assert [line[:6] for line in str(caught.value).splitlines()] == ["rule 1", "rule 3"]
