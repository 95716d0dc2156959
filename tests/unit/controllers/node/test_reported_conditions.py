"""Which conditions of a Node are stale, as a table."""

from datetime import datetime, timedelta

import msgspec
import pytest

from controllers.node.health.reported_conditions import reported_condition
from provisioner.api.node import NodeCondition, NodeStatus
from tests.unit.builders import NOW, node

DEADLOCK = "KernelDeadlock"


def at(minutes: float | None) -> datetime | None:
    return None if minutes is None else NOW + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("kind", "changed", "refreshed", "ready", "stale"),
    [
        (DEADLOCK, 0, 30, ("True", 30), False),
        (DEADLOCK, 0, 30, ("True", 90), False),
        (DEADLOCK, 0, 30, ("True", 91), True),
        ("XIDErrors", 0, 30, ("True", 91), True),
        # The kubelet does not refresh its own condition either: the machine or the network is at fault.
        (DEADLOCK, 0, 30, ("Unknown", 91), False),
        (DEADLOCK, 0, 30, ("False", 91), False),
        (DEADLOCK, 0, 30, ("True", None), False),
        # Written once.
        (DEADLOCK, 0, 0.5, ("True", 300), False),
        (DEADLOCK, 0, None, ("True", 300), False),
        (DEADLOCK, None, 30, ("True", 300), False),
        # The clock of the machine was set back.
        (DEADLOCK, 0, 30, ("True", -300), False),
        # Other agents write changes only.
        ("kubernetes.azure.com/NodeHealthy", 0, 30, ("True", 300), False),
        ("SysLogsXIDError", 0, 30, ("True", 300), False),
        ("AcceleratedHardwareReady", 0, 30, ("True", 300), False),
    ],
)
def test_stale(
    kind: str, changed: float | None, refreshed: float | None, ready: tuple[str, float | None], stale: bool
) -> None:
    conditions = (
        NodeCondition(type="Ready", status=ready[0], last_heartbeat_time=at(ready[1]), last_transition_time=NOW),
        NodeCondition(type=kind, status="True", last_heartbeat_time=at(refreshed), last_transition_time=at(changed)),
    )
    made = msgspec.structs.replace(node(), status=NodeStatus(conditions=conditions))
    assert (reported_condition(made, kind, "True") is None) is stale
    assert reported_condition(made, kind, "False") is None
    assert reported_condition(made, "Other", "True") is None
