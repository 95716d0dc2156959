"""A token bucket of our own: what may be asked now, when more may be, and what a 429 does to it.

Pure but for its own level; times are the loop's, in seconds. Never more than its burst, never faster than its
refill; after a refusal nothing before the time that was asked for, then one, and then half as fast for a while. Who
goes last in a bucket goes first once it was not served for long enough.
"""

import math

SHRUNK_SECONDS = 300.0
LEAST_WAIT_SECONDS = 0.001


class Bucket:
    """`burst` tokens, refilled by `per_second`."""

    def __init__(self, burst: float, per_second: float, now: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._tokens = burst
        self._at = now
        self._shrunk_until = -math.inf
        self._last_turn = -math.inf

    def tokens(self, now: float) -> float:
        """What is there now."""
        if now < self._at:
            return 0.0
        self._tokens += (now - self._at) * self._rate(now)
        self._at = now
        self._tokens = min(self._tokens, self._burst * self._share(now))
        return self._tokens

    def wait_for(self, now: float, *, leave: float) -> float:
        """Seconds until a token may be taken that leaves `leave` others; 0: now."""
        held = max(0.0, self._at - now)
        missing = leave + 1.0 - (self._tokens if held else self.tokens(now))
        wait = held + max(0.0, missing) / self._rate(now)
        # A wait that rounding left over may be too small to move the clock at all: who sleeps it would spin.
        return max(wait, LEAST_WAIT_SECONDS) if wait > 0 else 0.0

    def take(self, now: float) -> None:
        """Take one that `wait_for` said is there."""
        self._tokens = self.tokens(now) - 1.0

    def turn_away(self, now: float, wait: float) -> float:
        """Seconds after which a caller whose turn is in `wait` should come back: behind those sent away before it."""
        turn = max(now + wait, min(self._last_turn + 1.0 / self._rate(now), now + wait + self._burst))
        self._last_turn = turn
        return turn - now

    def shrink(self, now: float, after: float) -> None:
        """We were refused although we thought there was room (somebody else draws on it too), and told `after`.

        That is when there will be a token again: to wait for our own refill as well would cost a PUT two minutes more.
        """
        self._tokens, self._at = 1.0, max(self._at, now + after)
        self._shrunk_until = self._at + SHRUNK_SECONDS

    def full(self, now: float) -> bool:
        """Whether it remembers nothing that a new bucket would not know."""
        return now >= self._shrunk_until and self.tokens(now) >= self._burst

    def _share(self, now: float) -> float:
        return 0.5 if now < self._shrunk_until else 1.0

    def _rate(self, now: float) -> float:
        return self._per_second * self._share(now)


class LastInLine:
    """Callers that leave `leave` tokens to all others, and for whom these leave one, `seconds` after they were served.

    `waiting`: how many of them ask for a token now.
    """

    def __init__(self, leave: float, seconds: float) -> None:
        self._leave = leave
        self._seconds = seconds
        self._served_at = -math.inf
        self.waiting = 0

    def served(self, at: float) -> None:
        """One of them had its turn at that moment."""
        self._served_at = at

    def first_in(self, now: float) -> float:
        """Seconds until they need leave nothing to anybody; 0: that is so now."""
        return max(0.0, self._served_at + self._seconds - now)

    def leaves(self, now: float) -> float:
        """How many tokens they leave."""
        return self._leave if self.first_in(now) > 0 else 0.0

    def held_for_them(self, now: float) -> float:
        """How many tokens all others leave them."""
        return 1.0 if self.waiting and self.first_in(now) <= 0 else 0.0
