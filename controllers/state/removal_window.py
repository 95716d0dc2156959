"""The inferred removals of the circuit breaker's window: those of this process, and those that former leaders left.

A removal is recorded before it is sent, so that a leader that is killed in between has counted it.
"""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from controllers.model.recent_removals import RecentRemoval

# A key, and the UID of the claim that the machine under it was created for.
Machine = tuple[str, str]
# A removal that is sent again within this time is recorded once.
REPEAT_SECONDS = 60.0


class RemovalWindow:
    """Times are loop times in seconds; wall clocks date only what passes from one process to another."""

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._times: dict[Machine, float] = {}

    def started(self, machine: Machine, now: float) -> bool:
        """A removal of this machine is about to be sent. Whether that is news to other processes."""
        known = now - self._times.get(machine, -math.inf) < REPEAT_SECONDS
        if not known:
            self._times[machine] = now
        return not known

    def not_sent(self, machine: Machine) -> None:
        """The removal could not be recorded, and was not sent."""
        self._times.pop(machine, None)

    def machines(self, now: float) -> frozenset[Machine]:
        """The machines that were removed within the window."""
        self._times = {machine: at for machine, at in self._times.items() if now - at < self._window_seconds}
        return frozenset(self._times)

    def entries(self, wall: datetime, now: float) -> tuple[RecentRemoval, ...]:
        """The removals within the window, with their times on the wall clock."""
        self.machines(now)
        return tuple(
            RecentRemoval(pool=key, claim_uid=uid, at=(wall - timedelta(seconds=now - at)).replace(microsecond=0))
            for (key, uid), at in self._times.items()
        )

    def restore(self, removals: Iterable[RecentRemoval], wall: datetime, now: float) -> None:
        """Count removals of former leaders. One dated in the future, by another clock, counts as made now."""
        for removal in removals:
            machine = removal.pool, removal.claim_uid
            at = now - max(0.0, (wall - removal.at).total_seconds())
            self._times[machine] = max(at, self._times.get(machine, at))
