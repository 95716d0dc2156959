"""What is going to happen, and when: the one source of timers in the simulated cloud and its machines.

Actions run one at a time, in the order of their due times (equal times: in the order they were asked for),
inside `run()`, so that a failing action ends the world loudly instead of vanishing in a callback. All arguments and
answers are simulated seconds: real seconds of the running loop times `speed`.
"""

import asyncio
import heapq
from collections.abc import Callable

Action = Callable[[], object]


class Scheduler:
    """`after()` plans, `run()` performs. Needs a running loop."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self._planned: list[tuple[float, int, Action]] = []
        self._count = 0
        self._changed = asyncio.Event()

    def time(self) -> float:
        """Simulated seconds on the running loop's clock."""
        return asyncio.get_running_loop().time() * self.speed

    def after(self, seconds: float, action: Action) -> None:
        """Run `action` once, `seconds` (simulated) from now."""
        self._count += 1
        # In the loop's own seconds: multiplied back and forth, a due time could stay one ulp in the future for ever.
        due = asyncio.get_running_loop().time() + max(0.0, seconds) / self.speed
        heapq.heappush(self._planned, (due, self._count, action))
        self._changed.set()

    async def sleep(self, seconds: float) -> None:
        """Wait for simulated seconds."""
        await asyncio.sleep(seconds / self.speed)

    async def run(self) -> None:
        """Perform what is planned until cancelled; an action's exception ends this coroutine."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            while self._planned and self._planned[0][0] <= loop.time():
                heapq.heappop(self._planned)[2]()
            try:
                async with asyncio.timeout_at(self._planned[0][0] if self._planned else None):
                    await self._changed.wait()
            except TimeoutError:
                continue
