"""When a static NodePool has fewer NodeClaims than `spec.replicas`, as tables."""

from datetime import UTC, datetime

import pytest

from controllers.nodeclass.hash import spec_hash
from controllers.nodepool.replica_schedules import desired
from controllers.nodepool.static_capacity import scale
from provisioner.api.nodeclaim import NodeClassReference
from provisioner.api.nodeclass import AgentPoolNodeClass, NodeClassSpec, ReplicaSchedule
from provisioner.api.nodepool import NodeClaimTemplate, NodePool, NodePoolSpec, TemplateSpec
from provisioner.api.replica_schedules import errors

from .replicas import replica

BERLIN = "Europe/Berlin"
NIGHT = ReplicaSchedule(schedule="0 20 * * mon-fri", duration="10h", time_zone=BERLIN)
WEEKEND = ReplicaSchedule(schedule="0 20 * * fri", duration="58h", time_zone=BERLIN, replicas=1)
# The night in which clocks go from 02:00 to 03:00, and the one in which they go from 03:00 to 02:00.
SPRING = ReplicaSchedule(schedule="0 22 28 3 *", duration="8h", time_zone=BERLIN)
AUTUMN = ReplicaSchedule(schedule="0 22 24 10 *", duration="8h", time_zone=BERLIN)


def static(replicas: int | None) -> NodePool:
    template = NodeClaimTemplate(spec=TemplateSpec(node_class_ref=NodeClassReference(name="gpu")))
    return NodePool(spec=NodePoolSpec(replicas=replicas, template=template))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedules", "now", "expected"),
    [
        ((), "2026-03-02T22:00", 4),
        # 2026-03-02 is a Monday; Berlin is UTC+1.
        ((NIGHT,), "2026-03-02T18:59", 4),
        ((NIGHT,), "2026-03-02T19:00", 0),
        ((NIGHT,), "2026-03-03T04:59", 0),
        ((NIGHT,), "2026-03-03T05:00", 4),
        ((NIGHT,), "2026-03-07T22:00", 4),
        # In summer Berlin is UTC+2.
        ((NIGHT,), "2026-06-01T18:00", 0),
        ((NIGHT,), "2026-06-01T17:59", 4),
        # A duration is of real hours, whatever the clocks do.
        ((SPRING,), "2026-03-29T04:59", 0),
        ((SPRING,), "2026-03-29T05:00", 4),
        ((AUTUMN,), "2026-10-25T03:59", 0),
        ((AUTUMN,), "2026-10-25T04:00", 4),
        # Of several the fewest.
        ((WEEKEND,), "2026-03-07T12:00", 1),
        ((NIGHT, WEEKEND), "2026-03-06T22:00", 0),
        ((WEEKEND, NIGHT), "2026-03-06T22:00", 0),
        # None raises the number.
        ((ReplicaSchedule(schedule="@daily", duration="24h", replicas=9),), "2026-03-02T12:00", 4),
        # What cannot be read lowers nothing.
        ((ReplicaSchedule(schedule="0 0 31 2 *", duration="24h"),), "2026-03-02T12:00", 4),
        ((ReplicaSchedule(schedule="every night", duration="24h"),), "2026-03-02T12:00", 4),
        ((ReplicaSchedule(schedule="@daily", duration="long"),), "2026-03-02T12:00", 4),
        ((ReplicaSchedule(schedule="@daily", duration="24h", time_zone="Mars/Olympus"),), "2026-03-02T12:00", 4),
        # A number below 0 counts as 0.
        ((ReplicaSchedule(schedule="@daily", duration="24h", replicas=-3),), "2026-03-02T12:00", 0),
    ],
)
def test_desired(schedules: tuple[ReplicaSchedule, ...], now: str, expected: int) -> None:
    found = desired(static(4), schedules, at(now))
    assert found is not None
    assert found.replicas == expected
    assert found.scheduled == (expected < 4)


def test_a_dynamic_nodepool_has_no_schedule() -> None:
    assert desired(static(None), (NIGHT,), at("2026-03-02T22:00")) is None


def test_the_field_is_named() -> None:
    night = desired(static(4), (WEEKEND, NIGHT), at("2026-03-02T22:00"))
    day = desired(static(4), (WEEKEND, NIGHT), at("2026-03-02T12:00"))
    assert str(night) == "spec.replicaSchedules[1].replicas of AgentPoolNodeClass gpu, which is 0"
    assert str(day) == "spec.replicas, which is 4"


@pytest.mark.parametrize(
    ("one", "field", "remedy"),
    [
        (ReplicaSchedule(schedule="0 25 * * *", duration="1h"), "schedule", "five fields"),
        (ReplicaSchedule(schedule="0 0 31 2 *", duration="1h"), "schedule", "five fields"),
        (ReplicaSchedule(schedule="1" * 600, duration="1h"), "schedule", "five fields"),
        (ReplicaSchedule(schedule="@daily", duration="1 hour"), "duration", "8h"),
        (ReplicaSchedule(schedule="@daily", duration="0h"), "duration", "8h"),
        (ReplicaSchedule(schedule="@daily", duration="-1h"), "duration", "8h"),
        (ReplicaSchedule(schedule="@daily", duration="1h", time_zone="Berlin"), "timeZone", "Europe/Berlin"),
        (ReplicaSchedule(schedule="@daily", duration="1h", time_zone="America"), "timeZone", "Europe/Berlin"),
        (ReplicaSchedule(schedule="@daily", duration="1h", time_zone="../../etc"), "timeZone", "Europe/Berlin"),
        (ReplicaSchedule(schedule="@daily", duration="1h", time_zone=""), "timeZone", "Europe/Berlin"),
        (ReplicaSchedule(schedule="@daily", duration="1h", replicas=-1), "replicas", "0 or more"),
    ],
)
def test_errors(one: ReplicaSchedule, field: str, remedy: str) -> None:
    (found,) = errors((NIGHT, one), "spec.replicaSchedules")
    assert found.field == f"spec.replicaSchedules[1].{field}"
    assert remedy in found.remedy


def test_a_schedule_deletes_no_protected_machine() -> None:
    """Also those that it need not delete, and in the order of a lower `spec.replicas`."""
    machines = [replica("kept", protected=True), replica("busy", cost=1.0), replica("empty")]
    for number, names in ((0, ("empty", "busy")), (1, ("empty", "busy")), (2, ("empty",))):
        active = ReplicaSchedule(schedule="@daily", duration="24h", replicas=number)
        target = desired(static(3), (active,), at("2026-03-02T12:00"))
        assert target is not None
        assert tuple(one.name for one in scale(static(3), machines, target).delete) == names


def test_schedules_are_no_drift() -> None:
    scheduled = AgentPoolNodeClass(spec=NodeClassSpec(replica_schedules=(NIGHT,)))
    assert spec_hash(scheduled) == spec_hash(AgentPoolNodeClass())
