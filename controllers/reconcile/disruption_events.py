"""The Events about machines that are not disrupted, or not yet.

Source: docs/references/karpenter.md#events.
"""

from collections.abc import Callable

from controllers.model.steps import Event
from provisioner.api import reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool

Subject = NodePool | NodeClaim | Node
RecordEvent = Callable[[Subject, Event], bool]

# Karpenter's, but for the last two: they last until a user changes something, and are repeated like a pending pod's.
OF_NODE_POOL = {reasons.DISRUPTION_BLOCKED: 60.0}
SECONDS = {
    reasons.DISRUPTION_BLOCKED: 120.0,
    reasons.DISRUPTION_WAITING_READINESS: 120.0,
    reasons.UNCONSOLIDATABLE: 900.0,
    reasons.POOL_LIMIT_REACHED: 300.0,
    reasons.LAUNCH_FAILED: 300.0,
}


def disruption_event(about: Subject, reason: str, message: str) -> Event:
    """The Event about this object, recorded again after the time that is usual for it."""
    seconds = OF_NODE_POOL.get(reason, SECONDS[reason]) if about.kind == "NodePool" else SECONDS[reason]
    return Event(type="Normal", reason=reason, message=message, repeat_seconds=seconds)
