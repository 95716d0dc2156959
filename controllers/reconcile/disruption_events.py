"""Events about machines that are not disrupted, or not yet, each at most once in a while.

Source: docs/references/karpenter.md#events.
"""

import math
from collections.abc import Callable

from controllers.model.steps import Event
from provisioner.api import reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool

# Karpenter's, but for the last two: they last until a user changes something, and are repeated like a pending pod's.
OF_NODE_POOL = {reasons.DISRUPTION_BLOCKED: 60.0}
SECONDS = {
    reasons.DISRUPTION_BLOCKED: 120.0,
    reasons.DISRUPTION_WAITING_READINESS: 120.0,
    reasons.UNCONSOLIDATABLE: 900.0,
    reasons.POOL_LIMIT_REACHED: 300.0,
    reasons.LAUNCH_FAILED: 300.0,
}


class DisruptionEvents:
    """Remembers when each message about an object was recorded last; times are loop times in seconds.

    `record_event(about, event)`: of an actuator; False if the Event was dropped.
    """

    def __init__(self, record_event: Callable[[NodePool | NodeClaim | Node, Event], bool]) -> None:
        self._record_event = record_event
        self._recorded: dict[tuple[str, str, str], float] = {}
        self._forget_at = 0.0

    def record(self, about: NodePool | NodeClaim | Node, reason: str, message: str, now: float) -> None:
        """Record an Event, unless the same was recorded shortly before."""
        if now >= self._forget_at:
            most = max(SECONDS.values())
            self._recorded = {key: at for key, at in self._recorded.items() if now - at < most}
            self._forget_at = now + most
        key = about.metadata.uid, reason, message
        seconds = OF_NODE_POOL.get(reason, SECONDS[reason]) if about.kind == "NodePool" else SECONDS[reason]
        if now - self._recorded.get(key, -math.inf) < seconds:
            return
        if self._record_event(about, Event(type="Normal", reason=reason, message=message)):
            self._recorded[key] = now
