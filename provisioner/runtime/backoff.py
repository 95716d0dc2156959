"""How long to wait after something failed, and failed again.

Delays double from `base_seconds` to `cap_seconds`, times a jitter of 0.5 to 1; a server's Retry-After is a
lower bound.
"""

from random import Random  # noqa: TID251 - the type; the caller seeds it


class Backoff:
    """The delays of one thing that is tried again and again."""

    def __init__(self, rng: Random, *, base_seconds: float, cap_seconds: float) -> None:
        self._rng = rng
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self.failures = 0

    def next_seconds(self, retry_after: float | None = None) -> float:
        """One more failure: the delay before the next try."""
        # The exponent is bounded before it is used: 2.0**1024 overflows.
        grown = min(self._cap_seconds, self._base_seconds * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return max(grown * self._rng.uniform(0.5, 1.0), retry_after or 0.0)

    def reset(self) -> None:
        """It went well: the next failure waits least."""
        self.failures = 0
