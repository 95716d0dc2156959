"""When pools are listed again: the pause between two looks, and what cuts it short.

Pure but for its event; seconds of the loop. Often in flight, rarely at rest, ever more rarely while it fails,
and never sooner than the cloud asked.

Source: docs/references/rules.md#arm-request-budget, docs/references/agent-pools.md#throttling.
"""

import asyncio
from collections.abc import Callable
from random import Random  # noqa: TID251 - the type; the caller seeds it

LOOK_SECONDS = 1.0
BACKOFF_MOST_SECONDS = 120.0


class Pacing:
    """`busy()` tells whether an answer is being waited for; it is asked anew whenever somebody wakes the pause."""

    def __init__(self, *, busy: Callable[[], bool], busy_seconds: float, idle_seconds: float, rng: Random) -> None:
        self._busy = busy
        self._busy_seconds = busy_seconds
        self._idle_seconds = idle_seconds
        self._rng = rng
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Something was set in motion: the pause may be shorter now."""
        self._changed.set()

    async def pause(self, started: float, *, failures: int, after: float | None) -> None:
        """Until the next look is due: at once-ish if woken into a busy time, never sooner than the cloud asked.

        The usual second of a look is part of the interval; whatever else it waited for is not.
        """
        loop = asyncio.get_running_loop()
        began = loop.time() if failures else max(started, loop.time() - LOOK_SECONDS)
        while (left := began + self._interval(failures, after) - loop.time()) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _interval(self, failures: int, after: float | None) -> float:
        if failures:
            grown = min(self._busy_seconds * 2.0 ** (failures - 1), BACKOFF_MOST_SECONDS)
            return max(after or 0.0, grown) * self._rng.uniform(1.0, 1.25)
        return self._busy_seconds if self._busy() else self._idle_seconds
