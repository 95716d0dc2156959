"""The token buckets of AKS, and of ARM in front of it.

Sizes, refill rates and scopes are those of the published table. A rejected request costs no token; Retry-After is the
time until one token is available, in whole seconds.

Source: docs/references/agent-pools.md#throttling.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Bucket:
    """`size`: the maximum number of tokens; `per_second`: the refill rate."""

    size: float
    per_second: float
    handler: str


PUT_POOL = Bucket(20, 1 / 60, "PutAgentPoolHandler.PUT")
GET_CLUSTER = Bucket(60, 1, "GetManagedClusterHandler.GET")
GET_OPERATION = Bucket(200, 2, "GetOperationStatusHandler.GET")
OTHER = Bucket(60, 1, "AgentPoolHandler")
# ARM's, per subscription, principal and region; `handler`: the kind of operation in its headers.
ARM = {kind: Bucket(*limits, kind) for kind, limits in {"reads": (250, 25), "writes": (200, 10)}.items()}
ARM["deletes"] = Bucket(200, 10, "deletes")


class Throttle:
    """The buckets' levels. Times are simulated seconds."""

    def __init__(self) -> None:
        self._levels: dict[tuple[Bucket, str], tuple[float, float]] = {}

    def take(self, bucket: Bucket, scope: str, now: float) -> float:
        """Take one token: 0.0, or the seconds until one is available."""
        tokens, since = self._levels.get((bucket, scope), (bucket.size, now))
        tokens = min(bucket.size, tokens + (now - since) * bucket.per_second)
        if tokens >= 1 - 1e-9:
            self._levels[bucket, scope] = (tokens - 1, now)
            self._drop_full(now)
            return 0.0
        return (1 - tokens) / bucket.per_second

    def left(self, bucket: Bucket, scope: str, now: float) -> int:
        """The number of whole tokens."""
        tokens, since = self._levels.get((bucket, scope), (bucket.size, now))
        return int(min(bucket.size, tokens + (now - since) * bucket.per_second) + 1e-9)

    def _drop_full(self, now: float) -> None:
        """Drop full buckets, so that the table does not grow."""
        if len(self._levels) > 500:
            self._levels = {
                key: (tokens, since)
                for key, (tokens, since) in self._levels.items()
                if tokens + (now - since) * key[0].per_second < key[0].size
            }


def whole_seconds(simulated: float, speed: float) -> int:
    """Retry-After in whole real seconds, at least 1."""
    return max(1, math.ceil(simulated / speed - 1e-9))


def arm_bucket_for(verb: str) -> Bucket:
    """ARM's bucket of a request."""
    kinds = {"PUT": "writes", "ABORT": "writes", "DELETE_MACHINES": "writes", "DELETE": "deletes"}
    return ARM[kinds.get(verb, "reads")]


def bucket_for(verb: str, pool: str) -> tuple[Bucket, str]:
    """AKS's bucket of a request, and its scope ("": subscription or cluster)."""
    if verb == "PUT":
        return PUT_POOL, pool
    if verb == "CLUSTER":
        return GET_CLUSTER, ""
    if verb == "OPERATION":
        return GET_OPERATION, ""
    return OTHER, ""
