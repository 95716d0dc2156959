"""Timers of the simulated Azure and its machines.

Actions run one at a time inside `run()`, in the order of their due times, and of their scheduling for equal times. An
exception of an action ends `run()`. All arguments and results are simulated seconds: real seconds of the running loop
times `speed`.
"""

import asyncio
import heapq
from collections.abc import Callable

Action = Callable[[], object]


class Scheduler:
    """`after()` schedules actions, `run()` runs them. Needs a running loop."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self._timers: list[tuple[float, int, Action]] = []
        self._count = 0
        self._changed = asyncio.Event()

    def time(self) -> float:
        """Simulated seconds on the running loop's clock."""
        return asyncio.get_running_loop().time() * self.speed

    def after(self, seconds: float, action: Action) -> None:
        """Run `action` once, `seconds` (simulated) from now."""
        self._count += 1
        # In the loop's seconds: converted back and forth, a due time could stay one ulp in the future forever.
        due = asyncio.get_running_loop().time() + max(0.0, seconds) / self.speed
        heapq.heappush(self._timers, (due, self._count, action))
        self._changed.set()

    async def sleep(self, seconds: float) -> None:
        """Wait for simulated seconds."""
        await asyncio.sleep(seconds / self.speed)

    async def run(self) -> None:
        """Run the scheduled actions until cancelled. Raises the exception of an action."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            while self._timers and self._timers[0][0] <= loop.time():
                heapq.heappop(self._timers)[2]()
            try:
                async with asyncio.timeout_at(self._timers[0][0] if self._timers else None):
                    await self._changed.wait()
            except TimeoutError:
                continue
