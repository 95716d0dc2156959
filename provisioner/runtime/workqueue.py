"""Keys that want attention, each at most once.

No two workers ever hold one key; a key added while it is worked on runs again afterwards; of several times
asked for, the earliest wins; keys come out in the order they became ready; memory is bounded by the number of keys.

The life of a key: delayed (a deadline) → waiting (in order) → working → gone, or waiting again if added meanwhile.

Source: https://pkg.go.dev/k8s.io/client-go/util/workqueue, https://docs.rs/kube-runtime/latest/kube_runtime/scheduler/
(the earliest deadline wins).
"""

import asyncio
import heapq
from collections import deque
from random import Random  # noqa: TID251 - the type; the caller seeds it

from .metrics import Metrics, QueueMetrics


class WorkQueue:
    """`base_seconds` doubling to `cap_seconds` is the delay of a key's retries, times a jitter of 0.5 to 1."""

    def __init__(
        self, rng: Random, *, base_seconds: float = 0.1, cap_seconds: float = 60.0, metrics: QueueMetrics | None = None
    ) -> None:
        self._rng = rng
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._metrics = metrics or Metrics().workqueue("queue")
        self._waiting: dict[str, float] = {}
        self._working: dict[str, float] = {}
        self._again: dict[str, float] = {}
        self._deadlines: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._entries = 0
        self._failures: dict[str, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._metrics.unfinished_seconds.set_function(lambda: sum(self._ages()))
        self._metrics.longest_seconds.set_function(lambda: max(self._ages(), default=0.0))

    def __len__(self) -> int:
        """All keys the queue knows: delayed, waiting or worked on."""
        return len({**self._waiting, **self._working, **self._deadlines})

    @property
    def depth(self) -> int:
        """Keys that wait for a worker now."""
        return len(self._waiting)

    @property
    def working(self) -> int:
        """Keys that a worker holds now."""
        return len(self._working)

    def add(self, key: str) -> None:
        """Have the key worked on as soon as a worker is free."""
        self._deadlines.pop(key, None)
        if key in self._waiting or key in self._again:
            return
        self._metrics.adds.inc()
        if key in self._working:
            self._again[key] = self._now()
        else:
            self._enqueue(key, self._now())

    def add_after(self, key: str, seconds: float) -> None:
        """Have the key worked on in `seconds`, or earlier if something asks for that."""
        if seconds <= 0:
            self.add(key)
            return
        if key in self._waiting or key in self._again:
            return
        deadline = self._now() + seconds
        if deadline >= self._deadlines.get(key, float("inf")):
            return
        self._deadlines[key] = deadline
        self._entries += 1
        heapq.heappush(self._heap, (deadline, self._entries, key))
        self._compact()
        self._arm()

    def add_rate_limited(self, key: str, *, min_seconds: float = 0.0) -> float:
        """Have the key worked on after its own growing delay; returns that delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._metrics.retries.inc()
        # The exponent is bounded before it is used: 2.0**1024 overflows.
        grown = min(self._cap_seconds, self._base_seconds * 2.0 ** min(failures, 60))
        delay = max(min_seconds, grown * self._rng.uniform(0.5, 1.0))
        self.add_after(key, delay)
        return delay

    def forget(self, key: str) -> None:
        """The key succeeded: its next retry starts from the smallest delay."""
        self._failures.pop(key, None)

    def num_requeues(self, key: str) -> int:
        """How often the key failed since it last succeeded."""
        return self._failures.get(key, 0)

    async def get(self) -> str:
        """The key that waits longest; it is held until `done`."""
        while not self._waiting:
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # A wake-up that was meant for us must not be lost with us.
                if getter in self._getters:
                    self._getters.remove(getter)
                elif self._waiting:
                    self._wake()
                raise
        key, since = next(iter(self._waiting.items()))
        del self._waiting[key]
        now = self._now()
        self._working[key] = now
        self._metrics.wait_seconds.observe(now - since)
        self._metrics.depth.set(len(self._waiting))
        if self._waiting:
            self._wake()
        return key

    def done(self, key: str) -> None:
        """The worker lets go of the key. Raises KeyError if nobody held it."""
        self._metrics.work_seconds.observe(self._now() - self._working.pop(key))
        if (since := self._again.pop(key, None)) is not None:
            self._enqueue(key, since)

    def _enqueue(self, key: str, since: float) -> None:
        self._waiting[key] = since
        self._metrics.depth.set(len(self._waiting))
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _arm(self) -> None:
        while self._heap and self._deadlines.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if self._timer is not None:
            if self._heap and self._timer.when() == self._heap[0][0] and not self._timer.cancelled():
                return
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._timer = asyncio.get_running_loop().call_at(self._heap[0][0], self._ripen)

    def _ripen(self) -> None:
        self._timer = None
        # The loop may fire a timer up to its clock's resolution early; then _arm sets it once more.
        now = self._now()
        while self._heap and self._heap[0][0] <= now:
            deadline, _, key = heapq.heappop(self._heap)
            if self._deadlines.get(key) == deadline:
                self.add(key)
        self._arm()

    def _compact(self) -> None:
        # Entries of overtaken deadlines stay in the heap until they surface; never more of them than keys, plus a few.
        if len(self._heap) > 2 * len(self._deadlines) + 64:
            self._heap = [entry for entry in self._heap if self._deadlines.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def _ages(self) -> list[float]:
        now = self._now() if self._working else 0.0
        return [now - since for since in self._working.values()]

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
