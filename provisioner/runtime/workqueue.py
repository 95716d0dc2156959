"""A work queue of keys with the semantics of client-go's rate limiting queue.

A key is queued at most once and processed by one worker at a time; a key that is added while it is processed is queued
again afterwards. Of several delays the earliest applies. Keys come out in the order in which they became ready, those
that were added as `first` before all others. Memory is bounded by the number of keys. A key is delayed, then waiting,
then being processed.

Source: https://pkg.go.dev/k8s.io/client-go/util/workqueue, https://docs.rs/kube-runtime/latest/kube_runtime/scheduler/
(the earliest deadline wins).
"""

import asyncio
import heapq
from collections import deque
from random import Random  # noqa: TID251 - the type; the caller seeds it

from .metrics import Metrics, QueueMetrics


class WorkQueue:
    """Retries of a key are delayed by `base_seconds`, doubling to `cap_seconds`, times a jitter of 0.5 to 1."""

    def __init__(
        self, rng: Random, *, base_seconds: float = 0.1, cap_seconds: float = 60.0, metrics: QueueMetrics | None = None
    ) -> None:
        self._rng = rng
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._metrics = metrics or Metrics().workqueue("nodeclaim")
        self._waiting: dict[str, float] = {}
        self._first: dict[str, None] = {}
        self._processing: dict[str, float] = {}
        self._dirty: dict[str, float] = {}
        self._deadlines: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._entries = 0
        self._failures: dict[str, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._metrics.unfinished_seconds.set_function(lambda: sum(self._ages()))
        self._metrics.longest_seconds.set_function(lambda: max(self._ages(), default=0.0))

    def __len__(self) -> int:
        """The number of keys that are delayed, waiting or being processed."""
        return len({**self._waiting, **self._processing, **self._deadlines})

    @property
    def depth(self) -> int:
        """The number of keys that wait for a worker."""
        return len(self._waiting)

    @property
    def processing(self) -> int:
        """The number of keys that are being processed."""
        return len(self._processing)

    def add(self, key: str, *, first: bool = False) -> None:
        """Queue the key; `first`: before the keys that were not added as first."""
        self._deadlines.pop(key, None)
        if first:
            self._first[key] = None
        if key in self._waiting or key in self._dirty:
            return
        self._metrics.adds.inc()
        if key in self._processing:
            self._dirty[key] = self._now()
        else:
            self._enqueue(key, self._now())

    def add_after(self, key: str, seconds: float) -> None:
        """Queue the key after `seconds`, or at an earlier time that is already set."""
        if seconds <= 0:
            self.add(key)
            return
        if key in self._waiting or key in self._dirty:
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
        """Queue the key after its backoff, and at least after `min_seconds`; returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._metrics.retries.inc()
        # 2.0**1024 overflows, so the exponent is bounded.
        grown = min(self._cap_seconds, self._base_seconds * 2.0 ** min(failures, 60))
        delay = max(min_seconds, grown * self._rng.uniform(0.5, 1.0))
        self.add_after(key, delay)
        return delay

    def forget(self, key: str) -> None:
        """Reset the backoff of the key."""
        self._failures.pop(key, None)

    def num_requeues(self, key: str) -> int:
        """How often the key was added with backoff since `forget`."""
        return self._failures.get(key, 0)

    async def get(self) -> str:
        """The key that has waited longest; it is being processed until `done`."""
        while not self._waiting:
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # A wake-up that this getter received must go to another one.
                if getter in self._getters:
                    self._getters.remove(getter)
                elif self._waiting:
                    self._wake()
                raise
        key = next((key for key in self._first if key in self._waiting), None) or next(iter(self._waiting))
        self._first.pop(key, None)
        since = self._waiting.pop(key)
        now = self._now()
        self._processing[key] = now
        self._metrics.wait_seconds.observe(now - since)
        self._metrics.depth.set(len(self._waiting))
        if self._waiting:
            self._wake()
        return key

    def done(self, key: str) -> None:
        """Processing of the key has ended. Raises KeyError if it was not being processed."""
        self._metrics.work_seconds.observe(self._now() - self._processing.pop(key))
        if (since := self._dirty.pop(key, None)) is not None:
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
            self._timer = asyncio.get_running_loop().call_at(self._heap[0][0], self._queue_due)

    def _queue_due(self) -> None:
        self._timer = None
        # The loop may run a timer early by its clock resolution; then `_arm` sets it again.
        now = self._now()
        while self._heap and self._heap[0][0] <= now:
            deadline, _, key = heapq.heappop(self._heap)
            if self._deadlines.get(key) == deadline:
                self.add(key)
        self._arm()

    def _compact(self) -> None:
        # Outdated entries stay in the heap until they reach the top; their number is bounded by the number of keys.
        if len(self._heap) > 2 * len(self._deadlines) + 64:
            self._heap = [entry for entry in self._heap if self._deadlines.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def _ages(self) -> list[float]:
        now = self._now() if self._processing else 0.0
        return [now - since for since in self._processing.values()]

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
