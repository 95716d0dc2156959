"""One request for all callers that need the same fresh answer.

An answer serves a caller only if its request was sent after the call, so it is as fresh as one of the caller's own.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from provisioner.runtime.kube import KubeError

T = TypeVar("T")

# An API server answers a LIST of a kind that does not change after up to 100 ms: it waits until etcd reports progress
# (https://github.com/kubernetes/kubernetes/blob/release-1.34/staging/src/k8s.io/apiserver/pkg/storage/cacher/progress/watch_progress.go).
# A second request is sent when the first one must have been answered by a server that is not busy.
INTERVAL_SECONDS = 0.1


class SharedRead(Generic[T]):
    """Sends a request at once, and the next ones at intervals, whether or not earlier ones are answered.

    `read` gets the names that all callers of the request gave. They share its error as well.
    """

    def __init__(self, read: Callable[[frozenset[str]], Awaitable[T]]) -> None:
        self._read = read
        self._sent_at = -math.inf
        self._next = _Batch[T]()

    async def fresh(self, name: str) -> T:
        """An answer to a request sent after this call. Raises KubeError."""
        batch = self._next
        batch.names.add(name)
        async with batch.lock:
            if batch.answer is None and batch.error is None:
                await self._send(batch)
        if batch.error is not None:
            raise batch.error
        if batch.answer is None:
            raise AssertionError("unreachable: the request was answered or failed")
        return batch.answer[0]

    async def _send(self, batch: "_Batch[T]") -> None:
        """Send the request of a batch. If this caller is cancelled, the next one of the batch sends it again."""
        if self._next is batch:
            now = asyncio.get_running_loop().time
            await asyncio.sleep(max(0.0, self._sent_at + INTERVAL_SECONDS - now()))
            self._sent_at = now()
            self._next = _Batch[T]()
        try:
            batch.answer = (await self._read(frozenset(batch.names)),)
        except KubeError as error:
            batch.error = error


class _Batch(Generic[T]):
    """The callers that one request serves, and its answer or error."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.names: set[str] = set()
        self.answer: tuple[T] | None = None
        self.error: KubeError | None = None
