"""Removes empty machines of NodePools, as `controllers.disruption.emptiness` decides.

A key is the name of a NodePool. Nothing is removed while pending pods wait for a decision. The pods of a machine are
listed from the API server right before its NodeClaim is deleted; the removal itself is the ordinary one. After a
restart the time without pods begins anew, so that a machine is never removed too early.

Source: docs/references/karpenter.md#emptiness.
"""

import asyncio
from collections.abc import Callable, Sequence

from controllers.actuator.actuator import Actuator
from controllers.disruption.blockers import left_over
from controllers.disruption.command import Command
from controllers.disruption.emptiness import Emptiness, consolidate_after, decide
from controllers.disruption.machine import Machine
from controllers.provisioning.nodepools import why_unusable
from provisioner.api import labels, reasons
from provisioner.api.causes import Cause
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of
from provisioner.api.schedulable import SchedulablePod
from provisioner.runtime.clock import Clock

from .claim_creator import FENCED_SECONDS, STALE_SECONDS
from .claim_deletion import Deletion
from .demand_caches import DemandCaches
from .disruption_events import disruption_event
from .disruption_observer import DisruptionObserver
from .leftovers import Leftovers
from .machines import Machines, nodes_used
from .removals import Removals
from .request_errors import RequestErrors

# Nothing changes at a time of its own but schedules of budgets.
RESYNC_SECONDS = 60.0
BUSY_SECONDS = 1.0

BUDGET = "No allowed disruptions for disruption reason Empty due to blocking budget"


class EmptinessController:
    """`undecided()`: whether pending pods wait for a decision. `disrupted(claim, reason)`: metrics of removals."""

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        machines: Machines,
        leftovers: Leftovers,
        undecided: Callable[[], bool],
        disrupted: Callable[[NodeClaim, Cause], None],
        observer: DisruptionObserver,
        wake: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._machines = machines
        self._leftovers = leftovers
        self._actuator = actuator
        self._undecided = undecided
        self._removals = Removals(caches, actuator, machines=machines, disrupted=disrupted, clock=clock)
        self._observer = observer
        self._wake = wake
        self._clock = clock

    def pool_changed(self, _: NodePool | None, new: NodePool | None) -> None:
        """Subscribe this to the cache of NodePools."""
        if new is not None:
            self._wake(new.name)

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """Subscribe this to the cache of NodeClaims."""
        claim = new or old
        if claim is not None and (owner := nodepool_of(claim)) is not None:
            self._wake(owner.name)

    def node_changed(self, _: Node | None, new: Node | None) -> None:
        """Subscribe this to the cache of Nodes."""
        if new is None:
            return
        if name := new.metadata.labels.get(labels.NODEPOOL):
            self._wake(name)

    def pod_changed(self, old: SchedulablePod | None, new: SchedulablePod | None) -> None:
        """Subscribe this to the cache of pods: one was bound, or ended."""
        for name in nodes_used(old, new):
            node = self._caches.nodes.get(name)
            if node is not None and (pool := node.metadata.labels.get(labels.NODEPOOL)):
                self._wake(pool)

    async def reconcile(self, name: str) -> float | None:
        """One pass over one NodePool; returns the seconds until the next one, None: when something changes.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        pool = next((one for one in self._caches.node_pools() if one.name == name), None)
        if pool is None or consolidate_after(pool) is None:
            return None  # nothing need be counted
        if why_unusable(pool):
            return None  # what it loses it could not buy again; its conditions state the cause
        if not self._machines.current:
            return STALE_SECONDS
        began = _now()
        found = decide(pool, self._leftovers.marked(self._machines.of(pool)), self._clock.now())
        self._observer.evaluated("Empty", _now() - began)
        self._observer.candidates("Empty", len(found.remove) + found.blocked, name)
        if found.remove and self._undecided():
            return BUSY_SECONDS
        if (seconds := await self._remove_all(pool, found.remove)) is not None:
            return seconds
        self._report(pool, found)
        return min(found.after, RESYNC_SECONDS)

    async def _remove_all(self, pool: NodePool, due: Sequence[Machine]) -> float | None:
        """Remove them one by one; seconds to wait if that was not possible."""
        view = self._leftovers.view() if any(left_over(one) for one in due) else None
        errors, removed, others = RequestErrors(), list[Machine](), False
        with self._machines.leaving.reserved(one.claim for one in due):
            try:
                used = await self._leftovers.kept(view, pool, due)
                for machine in due:
                    with errors.kept():
                        if machine.claim.uid in used or await self._removals.is_used(machine):
                            self._observer.rejected(Command(reason="Empty", machines=(machine,)))
                            continue
                        match await self._removals.delete(machine.claim, "Empty"):
                            case Deletion.FENCED:
                                return FENCED_SECONDS
                            case Deletion.DELETED:
                                removed.append(machine)
                            case Deletion.REFUSED:
                                others = True
                errors.raise_first()
            finally:
                if removed:
                    self._observer.decided(Command(reason="Empty", machines=tuple(removed)))
        return BUSY_SECONDS if used or others else None  # others may go in place of these

    def _report(self, pool: NodePool, found: Emptiness) -> None:
        """Events about machines that could go but for the budgets, or but for what blocks them."""
        if found.blocked:
            self._actuator.record_event(pool, disruption_event(pool, reasons.DISRUPTION_BLOCKED, BUDGET))
        for machine in found.kept:
            for about in (machine.claim, machine.node):
                if about is not None:
                    self._actuator.record_event(
                        about, disruption_event(about, reasons.DISRUPTION_BLOCKED, machine.blocked)
                    )


def _now() -> float:
    return asyncio.get_running_loop().time()
