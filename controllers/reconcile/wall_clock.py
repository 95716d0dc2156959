"""The wall clock may be set while the process runs, which must not make objects older.

`WallClock` states whether it was: ages of objects are then not known, or count from the time that it would show had it
not been set ahead; a restart begins with the new time.
`ObservedAges` are ages of NodeClaims by the clock of the event loop; only those of NodeClaims that existed when the
process began come from the wall clock.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from controllers.disruption.commands_under_way import Age
from controllers.disruption.expiration import clock_jumped
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.clock import Clock

# After its creation a NodeClaim does not show at once that its machine is being created.
SETTLING_SECONDS = 5.0


class WallClock:
    """Compares the wall clock with the clock of the event loop, from the first call on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: tuple[float, float] | None = None

    def jumped(self) -> bool:
        """Whether the wall clock was set since the first call."""
        return clock_jumped(*self._elapsed(self._clock.now()))

    def now(self) -> datetime:
        """The wall clock; if it was set ahead since the first call, what it would show otherwise."""
        wall = self._clock.now()
        by_wall, by_loop = self._elapsed(wall)
        if by_wall <= by_loop or not clock_jumped(by_wall, by_loop):
            return wall
        return wall - timedelta(seconds=by_wall - by_loop)

    def _elapsed(self, now: datetime) -> tuple[float, float]:
        """Seconds since the first call, by the wall clock and by the clock of the event loop."""
        wall, loop = now.timestamp(), asyncio.get_running_loop().time()
        if self._began is None:
            self._began = wall, loop
        return wall - self._began[0], loop - self._began[1]


class ObservedAges:
    """`all`: by the UID of the NodeClaim, as of the last look."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first: dict[str, tuple[float, float]] | None = None
        self.all: Mapping[str, Age] = {}

    def settling(self, claims: Iterable[NodeClaim]) -> float:
        """Seconds until it is known of each of these whether it has a machine."""
        ages = (self.all.get(claim.uid, Age()).observed for claim in claims if not claim.deleting)
        return max((SETTLING_SECONDS - age for age in ages if age < SETTLING_SECONDS), default=0.0)

    def look(self, claims: Iterable[NodeClaim]) -> None:
        """These exist now. Those of the first look have existed before."""
        wall, now, known = self._clock.now(), asyncio.get_running_loop().time(), self._first or {}
        began = self._first is None
        self._first = {}
        for claim in claims:
            age = (wall - claim.metadata.creation_timestamp).total_seconds() if began else 0.0
            self._first[claim.uid] = known.get(claim.uid, (max(0.0, age), now))
        self.all = {uid: Age(before=age, observed=now - since) for uid, (age, since) in self._first.items()}
