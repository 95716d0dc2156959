"""When a static NodePool has fewer NodeClaims than its `spec.replicas`: the schedules of its node class.

Of the schedules that are active the one with the fewest replicas applies; none raises the number.

Source: docs/adr/0089-replica-schedules.md, docs/concepts/nodepools.md#schedules.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from provisioner.api.nodeclass import ReplicaSchedule
from provisioner.api.nodepool import NodePool
from provisioner.api.replica_schedules import is_active

FIELD = "spec.replicaSchedules"


class Desired(msgspec.Struct, frozen=True):
    """How many NodeClaims a static NodePool has, and the field that determines it."""

    replicas: int
    field: str = "spec.replicas"
    scheduled: bool = False

    def __str__(self) -> str:
        return f"{self.field}, which is {self.replicas}"


def desired(pool: NodePool, schedules: Iterable[ReplicaSchedule], now: datetime) -> Desired | None:
    """What applies now; None for a NodePool that is not static. `schedules`: of its node class."""
    if pool.spec.replicas is None:
        return None
    found = Desired(pool.spec.replicas)
    for index, one in enumerate(schedules):
        if one.replicas < found.replicas and is_active(one, now):
            owner = pool.spec.template.spec.node_class_ref.name
            field = f"{FIELD}[{index}].replicas of AgentPoolNodeClass {owner}"
            found = Desired(max(0, one.replicas), field, scheduled=True)
    return found
