"""Whether the wall clock was set while the process runs: ages of objects are then not known.

A restart begins with the new time.
"""

import asyncio

from controllers.disruption.expiration import clock_jumped
from provisioner.runtime.clock import Clock


class WallClock:
    """Compares the wall clock with the clock of the event loop, from the first call on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: tuple[float, float] | None = None

    def jumped(self) -> bool:
        """Whether the wall clock was set since the first call."""
        wall, loop = self._clock.now().timestamp(), asyncio.get_running_loop().time()
        if self._began is None:
            self._began = wall, loop
        return clock_jumped(wall - self._began[0], loop - self._began[1])
