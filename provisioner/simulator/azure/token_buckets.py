"""The token buckets of AKS, and of ARM in front of it: what a fleet may ask before it hears 429.

Sizes, refills and scopes of the published table; a refused request costs no token; the answer says in whole
seconds when one token will be there.

Source: docs/references/agent-pools.md#throttling.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Bucket:
    """`size` tokens at most, `per_second` new ones."""

    size: float
    per_second: float
    handler: str


PUT_POOL = Bucket(20, 1 / 60, "PutAgentPoolHandler.PUT")
GET_CLUSTER = Bucket(60, 1, "GetManagedClusterHandler.GET")
GET_OPERATION = Bucket(200, 2, "GetOperationStatusHandler.GET")
OTHER = Bucket(60, 1, "AgentPoolHandler")
# ARM's, of a subscription, principal and region; `handler` is the kind of operation in its headers.
ARM = {kind: Bucket(*limits, kind) for kind, limits in {"reads": (250, 25), "writes": (200, 10)}.items()}
ARM["deletes"] = Bucket(200, 10, "deletes")


class Throttle:
    """The buckets' levels. Times are simulated seconds."""

    def __init__(self) -> None:
        self._levels: dict[tuple[Bucket, str], tuple[float, float]] = {}

    def take(self, bucket: Bucket, scope: str, now: float) -> float:
        """Take one token: 0.0 if there was one, else the seconds until there is."""
        tokens, since = self._levels.get((bucket, scope), (bucket.size, now))
        tokens = min(bucket.size, tokens + (now - since) * bucket.per_second)
        if tokens >= 1 - 1e-9:
            self._levels[bucket, scope] = (tokens - 1, now)
            self._forget_full(now)
            return 0.0
        return (1 - tokens) / bucket.per_second

    def left(self, bucket: Bucket, scope: str, now: float) -> int:
        """Whole tokens that are there."""
        tokens, since = self._levels.get((bucket, scope), (bucket.size, now))
        return int(min(bucket.size, tokens + (now - since) * bucket.per_second) + 1e-9)

    def _forget_full(self, now: float) -> None:
        """Keep the table as small as the set of recently used scopes."""
        if len(self._levels) > 500:
            self._levels = {
                key: (tokens, since)
                for key, (tokens, since) in self._levels.items()
                if tokens + (now - since) * key[0].per_second < key[0].size
            }


def whole_seconds(simulated: float, speed: float) -> int:
    """Retry-After as the client must wait for it: real, whole, at least 1."""
    return max(1, math.ceil(simulated / speed - 1e-9))


def arm_bucket_for(verb: str) -> Bucket:
    """Which of ARM's own buckets a call draws from."""
    kinds = {"PUT": "writes", "ABORT": "writes", "DELETE_MACHINES": "writes", "DELETE": "deletes"}
    return ARM[kinds.get(verb, "reads")]


def bucket_for(verb: str, pool: str) -> tuple[Bucket, str]:
    """Which bucket a call draws from, and the scope within it ("" = subscription or cluster)."""
    if verb == "PUT":
        return PUT_POOL, pool
    if verb == "CLUSTER":
        return GET_CLUSTER, ""
    if verb == "OPERATION":
        return GET_OPERATION, ""
    return OTHER, ""
