"""Deletes NodeClaims of NodePools when they expire. A key is the name of a NodeClaim.

Nothing expires after the wall clock was set: a wrong clock would delete a fleet. A restart begins with the new time.
While a replacement of the machine is decided or under way, the NodeClaim is not deleted, and no replacement is decided
while it is.

Source: docs/references/karpenter.md#expiration.
"""

from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

from controllers.actuator.actuator import Actuator
from controllers.disruption.expiration import expires_at, why_delayed
from controllers.gate.gate import Evidence
from controllers.model.steps import Event
from provisioner.api import reasons
from provisioner.api.causes import Cause
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import why_foreign
from provisioner.api.time import rfc3339
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.clock import Clock

from .claim_creator import STALE_SECONDS
from .claim_deletion import Deletion, delete_claim
from .demand_caches import DemandCaches
from .machines import REFUSED_SECONDS, Leaving
from .wall_clock import WallClock

# A wall clock can be set: the time that is left is computed again after an hour at the latest.
RESYNC_SECONDS = 3600.0
REPLACED_SECONDS = 10.0


class ExpirationController:
    """`disrupted(claim, reason)`: metrics of removals. `wake(name)` adds a NodeClaim to the work queue."""

    name: ClassVar[Queue] = "expiration"

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        leaving: Leaving,
        disrupted: Callable[[NodeClaim, Cause], None],
        wake: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._leaving = leaving
        self._disrupted = disrupted
        self._wake = wake
        self._clock = clock
        self._wall = WallClock(clock)

    def add_event_handlers(self) -> None:
        """Subscribe to the cache of NodeClaims."""
        self._caches.claims.add_event_handler(self._claim_changed)

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """One is a machine of a NodePool from now on."""
        if new is not None and not why_foreign(new) and (old is None or why_foreign(old)):
            self._wake(new.name)

    async def reconcile(self, name: str) -> float | None:
        """Delete the NodeClaim if it has expired; returns the seconds until it may have, None: it never does.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        self._wall.jumped()
        if not self._caches.current:
            return STALE_SECONDS
        claim = self._caches.claims.get(name)
        if claim is None or claim.deleting or why_foreign(claim):
            return None
        at = expires_at(claim, self._caches.node_pool_of(claim))
        if at is None:
            return RESYNC_SECONDS
        left = (at - self._clock.now()).total_seconds()
        if left > 0:
            return min(left, RESYNC_SECONDS)
        if self._wall.jumped():
            message = "The clock of the controller was set; expiration waits until the controller is restarted"
            self._actuator.record_event(
                claim, Event(type="Warning", reason=reasons.DISRUPTION_BLOCKED, message=message)
            )
            return RESYNC_SECONDS
        if claim.uid in self._leaving or why_delayed(claim):
            return REPLACED_SECONDS
        return await self._delete(claim, at)

    async def _delete(self, claim: NodeClaim, at: datetime) -> float | None:
        message = f"Disrupting NodeClaim: Expired at {rfc3339(at)} (spec.expireAfter {claim.spec.expire_after})"
        evidence = Evidence(cause="expired", uid=claim.uid, ours=not why_foreign(claim), seen=True)
        with self._leaving.reserved([claim]):
            deletion = await delete_claim(self._actuator, claim, evidence, message)
        if deletion is Deletion.DELETED:
            self._disrupted(claim, "expired")
            return None
        if deletion is Deletion.REFUSED:
            return REFUSED_SECONDS
        return STALE_SECONDS
