"""The Events about machines and NodePools that are not disrupted, or not yet.

Source: docs/references/karpenter.md#events.
"""

from collections.abc import Callable
from functools import partial

from controllers.disruption.blockers import Unreported
from controllers.disruption.command import Evaluation
from controllers.disruption.methods import Method
from controllers.model.steps import Event
from provisioner.api import reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.runtime.isolation import Isolation

from .demand_caches import DemandCaches

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


class EvaluationEvents:
    """Records what a method found besides a command."""

    def __init__(self, caches: DemandCaches, record_event: RecordEvent, isolation: Isolation) -> None:
        self._caches = caches
        self._record_event = record_event
        self._isolation = isolation

    def record(self, method: Method, found: Evaluation) -> None:
        """Why machines are kept, and NodePools held; errors of NodePools are logged and counted as well."""
        for pool in self._caches.node_pools() if found.held or found.failed else ():
            if why := found.held.get(pool.name):
                self._blocked(pool, why)
            if error := found.failed.get(pool.name):
                with self._isolation.of(pool.kind, pool.name, method.name, partial(self._blocked, pool)):
                    raise error
        for name, why in found.kept.items():
            claim = None if isinstance(why, Unreported) else self._caches.claims.get(name)
            if claim is None or (method.condition and claim.condition(method.condition, "True") is None):
                continue
            self._record_event(claim, disruption_event(claim, method.event, why))
            node = self._caches.node_of(claim)
            if node is not None and method.event == reasons.DISRUPTION_BLOCKED:
                self._record_event(node, disruption_event(node, method.event, why))

    def _blocked(self, pool: NodePool, why: str) -> None:
        self._record_event(pool, disruption_event(pool, reasons.DISRUPTION_BLOCKED, why))
