"""Expiration: when the NodeClaim of a dynamic NodePool is deleted because of its age, as a pure function.

No budget delays it and nothing is created first: its pods become pending while the machine is drained, and get another
one. A machine that is being replaced already waits for its replacement, which takes the pods. NodeClaims of static
NodePools drift when they expire, so that they are replaced before. Those that no NodePool owns do not expire: their
`expireAfter` is the default of the CRD.

Source: https://karpenter.sh/docs/concepts/disruption/#expiration, docs/references/karpenter.md#expiration.
"""

from datetime import datetime

from provisioner.api.meta import ZERO_TIME
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.time import parse_duration, shifted

from .marks import is_marked

# More than the correction of a clock that is synchronized.
CLOCK_SECONDS = 300.0


def expires_at(claim: NodeClaim, pool: NodePool | None) -> datetime | None:
    """When the NodeClaim expires; None if it does not. `pool`: the one whose machine it is."""
    return None if pool is None or pool.spec.replicas is not None or claim.deleting else expiry(claim)


def why_delayed(claim: NodeClaim) -> str:
    """Why an expired NodeClaim is not deleted yet, "" if it is. Commands end by the deadline of replacements."""
    return "its replacement is under way" if is_marked(claim) else ""


def expiry(claim: NodeClaim) -> datetime | None:
    """The time at which the NodeClaim is as old as `expireAfter`; None without one, or with one that cannot be read."""
    seconds, created = parse_duration(claim.spec.expire_after or ""), claim.metadata.creation_timestamp
    if seconds is None or seconds <= 0 or created == ZERO_TIME:
        return None
    return shifted(created, seconds)


def clock_jumped(wall_seconds: float, loop_seconds: float) -> bool:
    """Whether the wall clock was set since both began to count: ages of NodeClaims are then not known."""
    return abs(wall_seconds - loop_seconds) > CLOCK_SECONDS
