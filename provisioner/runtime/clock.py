"""Wall-clock time. No other module of the program reads it.

`Clock.now()` is an aware datetime in UTC; tests and the simulator pass a virtual clock.
"""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of wall-clock time."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""


class SystemClock:
    """The system clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - the only use of the system clock
