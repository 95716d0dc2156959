"""Exponential backoff with jitter.

Delays double from `base_seconds` to `cap_seconds`, times a factor of 0.5 to 1. A server's Retry-After is a lower bound.
"""

from random import Random  # noqa: TID251 - the type; the caller seeds it


class Backoff:
    """The delays of one operation that is retried."""

    def __init__(self, rng: Random, *, base_seconds: float, cap_seconds: float) -> None:
        self._rng = rng
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self.failures = 0

    def next_seconds(self, retry_after: float | None = None) -> float:
        """Count a failure; returns the delay before the next attempt."""
        # 2.0**1024 overflows, so the exponent is bounded.
        grown = min(self._cap_seconds, self._base_seconds * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return max(grown * self._rng.uniform(0.5, 1.0), retry_after or 0.0)

    def reset(self) -> None:
        """Count a success: the next delay is the smallest."""
        self.failures = 0
