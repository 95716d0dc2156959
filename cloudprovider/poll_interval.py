"""Interval between two LISTs of the agent pools: short with pools in flight, long when idle, exponential on errors.

A LIST never starts earlier than the `Retry-After` of the previous one.

Source: docs/references/rules.md#arm-request-budget, docs/references/agent-pools.md#throttling.
"""

import asyncio
from collections.abc import Callable
from random import Random  # noqa: TID251 - the type; the caller seeds it

LIST_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 120.0


class PollInterval:
    """`busy()` returns whether pools are in flight; it is evaluated again after each `wake`."""

    def __init__(self, *, busy: Callable[[], bool], busy_seconds: float, idle_seconds: float, rng: Random) -> None:
        self._busy = busy
        self._busy_seconds = busy_seconds
        self._idle_seconds = idle_seconds
        self._rng = rng
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Evaluate the interval again."""
        self._changed.set()

    async def wait(self, started: float, *, failures: int, after: float | None) -> None:
        """Return when the next LIST is due. `started` is when the previous one began, `after` its Retry-After.

        The interval includes the usual duration of a LIST (`LIST_SECONDS`), but not the time it waited for tokens.
        """
        loop = asyncio.get_running_loop()
        began = loop.time() if failures else max(started, loop.time() - LIST_SECONDS)
        while (left := began + self._interval(failures, after) - loop.time()) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _interval(self, failures: int, after: float | None) -> float:
        if failures:
            backoff = min(self._busy_seconds * 2.0 ** (failures - 1), MAX_BACKOFF_SECONDS)
            return max(after or 0.0, backoff) * self._rng.uniform(1.0, 1.25)
        return self._busy_seconds if self._busy() else self._idle_seconds
