"""Token buckets for client-side rate limiting, and a low-priority flow that shares one.

Times are loop times in seconds. A bucket never exceeds its burst and its refill rate. After a 429 it is empty until the
`Retry-After`, then has one token, and refills at half its rate for five minutes. If that token gets a 429 too, the next
one takes at least twice as long, up to half a minute, until a call succeeds.
"""

import math

THROTTLED_SECONDS = 300.0
PAUSE_SECONDS_MAX = 30.0
MIN_WAIT_SECONDS = 0.001


class TokenBucket:
    """`burst` tokens, refilled at `per_second`."""

    def __init__(self, burst: float, per_second: float, now: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._tokens = burst
        self._at = now
        self._throttled_until = -math.inf
        self._pause = 0.0
        self._last_retry_at = -math.inf

    def tokens(self, now: float) -> float:
        """The tokens available now."""
        if now < self._at:
            return 0.0
        self._tokens += (now - self._at) * self._rate(now)
        self._at = now
        self._tokens = min(self._tokens, self._burst * self.scale(now))
        return self._tokens

    def delay(self, now: float, *, headroom: float) -> float:
        """Seconds until a token can be taken that leaves `headroom` others; 0 if it can be taken now."""
        held = max(0.0, self._at - now)
        missing = headroom + 1.0 - (self._tokens if held else self.tokens(now))
        wait = held + max(0.0, missing) / self._rate(now)
        # A rounding error may leave a wait too short to advance the loop clock; a caller that sleeps it would spin.
        return max(wait, MIN_WAIT_SECONDS) if wait > 0 else 0.0

    def take(self, now: float) -> None:
        """Take one token; `delay` must have returned 0."""
        self._tokens = self.tokens(now) - 1.0

    def retry_after(self, now: float, wait: float) -> float:
        """Seconds after which a rejected caller whose delay is `wait` should retry: after those rejected before it."""
        retry_at = max(now + wait, min(self._last_retry_at + 1.0 / self._rate(now), now + wait + self._burst))
        self._last_retry_at = retry_at
        return retry_at - now

    def throttle(self, now: float, after: float) -> None:
        """Apply a 429 with this `Retry-After`: other clients draw on the same limit.

        The next token is available at the `Retry-After`: waiting for the refill as well would delay a PUT by two more
        minutes.
        """
        if now >= self._at:  # calls that were sent before the last 429 arrived do not count
            self._pause = min(PAUSE_SECONDS_MAX, 2.0 * self._pause) if self._pause else 1.0
        self._tokens, self._at = 1.0, max(self._at, now + max(after, self._pause))
        self._throttled_until = self._at + THROTTLED_SECONDS

    def succeeded(self) -> None:
        """A call was not throttled: the next 429 is obeyed as it is."""
        self._pause = 0.0

    def scale(self, now: float) -> float:
        """Its rate and its burst, as a share of the usual ones: half after a 429."""
        return 0.5 if now < self._throttled_until else 1.0

    def is_full(self, now: float) -> bool:
        """Whether the bucket equals a new one."""
        return now >= self._throttled_until and self.tokens(now) >= self._burst

    def _rate(self, now: float) -> float:
        return self._per_second * self.scale(now)


class LowPriorityFlow:
    """Calls that leave `headroom` tokens to other calls, with one guaranteed call every `seconds` at the usual rate.

    `waiting` is the number of calls of this flow that wait for a token.
    """

    def __init__(self, headroom: float, seconds: float) -> None:
        self._headroom = headroom
        self._seconds = seconds
        self._guaranteed_at = -math.inf
        self.waiting = 0

    def served(self, at: float, cost: float = 1.0) -> None:
        """Record a call that was sent at this time; the next one is guaranteed `cost` times later than usual."""
        self._guaranteed_at = at + self._seconds * cost

    def seconds_until_priority(self, now: float) -> float:
        """Seconds until the next call is guaranteed; 0 if it is now."""
        return max(0.0, self._guaranteed_at - now)

    def headroom(self, now: float) -> float:
        """The tokens that this flow leaves to other calls."""
        return self._headroom if self.seconds_until_priority(now) > 0 else 0.0

    def reserved_tokens(self, now: float) -> float:
        """The tokens that other calls leave to this flow."""
        return 1.0 if self.waiting and self.seconds_until_priority(now) <= 0 else 0.0
