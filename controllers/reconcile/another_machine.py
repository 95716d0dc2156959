"""Whether another machine can be had in the place of one that repair is about to delete.

What the program knows anyhow is asked: the offerings of the NodeClaim, quota, and the NodePool that would create the
other one. Quota is read while such a machine is there; what cannot be read within seconds is no limit.

Source: docs/reference/deletion-gate.md.
"""

from collections.abc import Callable, Sequence

from controllers.model.facts import Facts
from controllers.nodepool.cost_limit import note
from controllers.nodepool.counter import exceeded_limit
from controllers.provisioning.nodepools import why_unusable
from controllers.state.offering_tracker import OfferingTracker
from controllers.state.quota import CURRENT_SECONDS
from provisioner.api.conditions import truncate
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_owned_by, nodepool_of

from .nodepool_usage import NodePoolUsage

# For a reading of quota. The right to read it is optional, so that its lack delays a repair by this only.
READING_SECONDS = 10.0
# The cause is part of a condition's message, whose length is limited.
CAUSE_BYTES = 160


class AnotherMachine:
    """`node_pools()`: those of every controller, () if there are none, None if they are not known. `read_quota()` is
    called when quota is to be read, for as long as `asks` is true.

    Loop times in seconds.
    """

    def __init__(
        self,
        tracker: OfferingTracker,
        usage: NodePoolUsage,
        *,
        node_pools: Callable[[], Sequence[NodePool] | None],
        read_quota: Callable[[], None],
    ) -> None:
        self._tracker = tracker
        self._usage = usage
        self._node_pools = node_pools
        self._read_quota = read_quota
        self._began = 0.0
        self._requested_at: float | None = None

    def asks(self, now: float) -> bool:
        """Whether quota is to be read."""
        return self._requested_at is not None and now - self._requested_at <= CURRENT_SECONDS

    def obstacle(self, f: Facts) -> str | None:
        """Why there is none; "" if nothing is known that prevents it, None if that is not known."""
        claim, now = f.claim, f.loop_now
        if claim is None or f.instance is None:
            return None
        if not self.asks(now):
            self._began = now
        self._requested_at = now
        why = self._of_node_pool(claim) or self._tracker.scarcity(claim, f.instance.offering, now)
        if why:
            return truncate(why, CAUSE_BYTES)
        if self._tracker.reads_quota(now):
            return why
        self._read_quota()
        return None if now - self._began < READING_SECONDS else why

    def _of_node_pool(self, claim: NodeClaim) -> str | None:
        """Why its NodePool creates no other one; "" also for the NodeClaims of others."""
        owner, pools = nodepool_of(claim), self._node_pools()
        if owner is None:
            return ""
        if pools is None:
            return None
        pool = next((one for one in pools if is_owned_by(claim, one)), None)
        why = "it does not exist, or NodePools are disabled" if pool is None else why_unusable(pool)
        if pool is not None:
            why = why or exceeded_limit(pool, claim, self._usage.of(pool.name)) or note(pool, self._usage.cost(pool))
        return f"NodePool {owner.name}: {why}" if why else ""
