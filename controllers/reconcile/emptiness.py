"""Removes empty machines of NodePools, as `controllers.disruption.emptiness` decides.

A key is the name of a NodePool. Nothing is removed while pending pods wait for a decision. The pods of a machine are
listed from the API server right before its NodeClaim is deleted; the removal itself is the ordinary one. After a
restart the time without pods begins anew, so that a machine is never removed too early.

Source: docs/references/karpenter.md#emptiness.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

import structlog

from controllers.actuator.actuator import Actuator
from controllers.disruption.emptiness import Emptiness, Machine, consolidate_after, decide
from controllers.model.results import KubeFailed, ReadPods
from controllers.model.steps import DeleteClaim, Event, ReadDrain
from controllers.node.termination.pod_predicates import is_daemon_pod, is_waiting_eviction
from controllers.provisioning.nominations import Nominations
from controllers.provisioning.pods import CachedPod
from provisioner.api import labels, reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_owned_by, nodepool_of
from provisioner.api.schedulable import SchedulablePod
from provisioner.runtime.clock import Clock

from .claim_creator import FENCED_SECONDS, STALE_SECONDS
from .claim_deletion import Deletion, delete_claim
from .provisioner import DemandCaches

# Nothing changes at a time of its own but schedules of budgets.
RESYNC_SECONDS = 60.0
BUSY_SECONDS = 1.0
BLOCKED_EVENT_SECONDS = 60.0

log = structlog.get_logger("disruption")


class EmptinessController:
    """`undecided()`: whether pending pods wait for a decision. `disrupted(claim, reason)`: metrics of removals."""

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        nominations: Nominations,
        undecided: Callable[[], bool],
        disrupted: Callable[[NodeClaim, str], None],
        wake: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._nominations = nominations
        self._undecided = undecided
        self._disrupted = disrupted
        self._wake = wake
        self._clock = clock
        self._began = clock.now()
        self._synced = False
        self._pod_events: dict[str, datetime] = {}
        self._removed: set[str] = set()
        self._blocked_at: dict[str, float] = {}

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
        before, after = (one.spec.node_name if one is not None else "" for one in (old, new))
        pod = new or old
        if before == after or not isinstance(pod, CachedPod) or pod.daemon:
            return
        for name in {before, after} - {""}:
            self._pod_events[name] = self._clock.now()
            node = self._caches.nodes.get(name)
            if node is not None and (pool := node.metadata.labels.get(labels.NODEPOOL)):
                self._wake(pool)

    def pods_synced(self) -> None:
        """The pods were listed; what happened to them before is not known."""
        if not self._synced:
            self._synced, self._began = True, self._clock.now()

    async def reconcile(self, name: str) -> float | None:
        """One pass over one NodePool; returns the seconds until the next one, None: when something changes.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        pool = next((one for one in self._caches.node_pools() if one.name == name), None)
        if pool is None or consolidate_after(pool) is None:
            self._blocked_at.pop(name, None)
            return None  # nothing need be counted
        if not self._caches.current:
            return STALE_SECONDS
        found = decide(pool, self._machines(pool), self._clock.now())
        if found.remove and self._undecided():
            return BUSY_SECONDS
        for machine in found.remove:
            if (seconds := await self._remove(machine)) is not None:
                return seconds
        self._report(pool, found)
        return min(found.after, RESYNC_SECONDS)

    def _machines(self, pool: NodePool) -> tuple[Machine, ...]:
        now = _now()
        claims = [claim for claim in self._caches.claims.items() if is_owned_by(claim, pool)]
        # What the cache shows as deleting, or not at all, need not be remembered.
        shown = {claim.uid for claim in self._caches.claims.items() if not claim.deleting}
        self._removed &= shown
        count: dict[str, int] = {}
        for pod in self._caches.pods.items():
            if pod.spec.node_name and isinstance(pod, CachedPod) and not pod.daemon:
                count[pod.spec.node_name] = count.get(pod.spec.node_name, 0) + 1
        nodes = {node.name for node in self._caches.nodes.items()}
        self._pod_events = {name: at for name, at in self._pod_events.items() if name in nodes}
        return tuple(
            Machine(
                claim=claim,
                node=self._caches.nodes.get(claim.status.node_name) if claim.status.node_name else None,
                pods=count.get(claim.status.node_name, 0),
                quiet_since=self._pod_events.get(claim.status.node_name, self._began),
                nominated_seconds=max(self._nominations.left(one, now) for one in (claim.name, claim.status.node_name)),
                leaving=claim.uid in self._removed,
            )
            for claim in claims
        )

    async def _remove(self, machine: Machine) -> float | None:
        """Delete the NodeClaim of an empty machine; seconds to wait if that was not possible."""
        claim, node = machine.claim, machine.node
        if node is None:
            raise ValueError(f"{claim.name} has no Node")
        listed = await self._actuator.read(ReadDrain(node=node))
        if isinstance(listed, KubeFailed):
            raise listed.error
        if not isinstance(listed, ReadPods):
            raise TypeError(type(listed).__name__)
        now = self._clock.now()
        if any(is_waiting_eviction(pod, now) and not is_daemon_pod(pod) for pod in listed.pods):
            log.warning("the cache lacks pods of a machine that seemed empty; it is kept", Node={"name": node.name})
            self._pod_events[node.name] = now
            self._caches.pods.invalidate()
            return None
        event = Event(type="Normal", reason=reasons.DISRUPTION_TERMINATING, message="Disrupting NodeClaim: Empty")
        match await delete_claim(self._actuator, DeleteClaim(claim=claim, cause="empty", event=event)):
            case Deletion.FENCED:
                return FENCED_SECONDS
            case Deletion.CHANGED:
                return None
            case Deletion.DELETED:
                pass
        self._removed.add(claim.uid)
        self._disrupted(claim, "empty")
        message = "Disrupting Node: Empty"
        self._actuator.record_event(node, Event(type="Normal", reason=reasons.DISRUPTION_TERMINATING, message=message))
        return None

    def _report(self, pool: NodePool, found: Emptiness) -> None:
        """An Event once a minute while the budgets hold machines that could go."""
        if not found.blocked:
            self._blocked_at.pop(pool.name, None)
            return
        if _now() - self._blocked_at.get(pool.name, -BLOCKED_EVENT_SECONDS) >= BLOCKED_EVENT_SECONDS:
            message = "No allowed disruptions for disruption reason Empty due to blocking budget"
            event = Event(type="Normal", reason=reasons.DISRUPTION_BLOCKED, message=message)
            if self._actuator.record_event(pool, event):
                self._blocked_at[pool.name] = _now()


def _now() -> float:
    return asyncio.get_running_loop().time()
