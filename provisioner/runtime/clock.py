"""The one door for wall time.

`Clock.now()` is an aware datetime in UTC; a simulated world hands in a clock of its own.
"""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Anything that knows what time people would say it is."""

    def now(self) -> datetime:
        """The wall time, aware, in UTC."""


class SystemClock:
    """The machine's own wall clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - this is the door
