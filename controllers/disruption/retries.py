"""When the next replacement of a NodePool may begin after one was undone: later each time.

A machine that cannot be bought, or an image that makes machines useless, then costs one attempt every few hours.
"""

FIRST_SECONDS, MOST_SECONDS = 600.0, 43_200.0


class Retries:
    """Kept by the name of the NodePool; times are loop times in seconds."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float, str]] = {}

    def failed(self, pool: str, why: str, now: float) -> None:
        """A replacement of this NodePool was undone."""
        number = self._failures.get(pool, (0, 0.0, ""))[0] + 1
        self._failures[pool] = number, now + min(FIRST_SECONDS * 2 ** (number - 1), MOST_SECONDS), why

    def succeeded(self, pool: str) -> None:
        """A replacement of this NodePool is complete."""
        self._failures.pop(pool, None)

    def left(self, pool: str, now: float) -> float:
        """Seconds until the next replacement of this NodePool may begin."""
        return max(0.0, self._failures.get(pool, (0, now, ""))[1] - now)

    def why(self, pool: str) -> str:
        """Why the last replacement of this NodePool was undone."""
        return self._failures.get(pool, (0, 0.0, ""))[2]
