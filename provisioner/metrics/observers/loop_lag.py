"""Event loop lag: how late the loop runs a timer, while leader election, probes and reconciles wait.

The gauge is the maximum of the last minute, so that every scrape sees it; the resolution is half a second.
"""

import asyncio
from collections import deque
from typing import Never

from provisioner.metrics.definitions import own
from provisioner.runtime.metrics import Metrics

INTERVAL_SECONDS = 0.5
WINDOW_SECONDS = 60.0


class LoopLag:
    """Measures how late a sleep returns."""

    def __init__(self, metrics: Metrics) -> None:
        self._late: deque[tuple[float, float]] = deque(maxlen=int(WINDOW_SECONDS / INTERVAL_SECONDS))
        metrics.gauge(own.LOOP_LAG).set_function(self.worst_seconds)

    def worst_seconds(self) -> float:
        """The longest delay of the last minute; 0 if `run` is not running."""
        now = asyncio.get_running_loop().time()
        return max((late for at, late in self._late if now - at <= WINDOW_SECONDS), default=0.0)

    async def run(self) -> Never:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + INTERVAL_SECONDS
            await asyncio.sleep(INTERVAL_SECONDS)
            self._late.append((loop.time(), max(0.0, loop.time() - due)))
