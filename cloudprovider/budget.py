"""Our own share of ARM's patience: token buckets before each call, so that ARM need not refuse us.

Promise: AKS's published buckets are never overdrawn by this process; a DELETE goes before the GET that proves an
absence, and that before the shared LIST, by how many tokens each leaves untouched. A LIST waits for its turn; any other
call that would wait long is an error that says when. After a 429 the bucket is halved for a while: others share it.
Left to others: obeying Retry-After (the queue, the inventory), counting calls (`metered.py`).

Source: aks-arm.md §3.6 (60 and 1/s for reads and deletes of a subscription and region; 20 and 1/min for PUTs of a
pool); DESIGN rule 10.
"""

import asyncio
import builtins
from collections.abc import Awaitable
from typing import TypeVar

from provisioner.api.nodeclaim import NodeClaim

from .errors import CloudError, Retryable
from .interface import CloudProvider, Cluster, Instance

READ_BURST, READS_PER_SECOND = 60.0, 1.0
PUT_BURST, PUTS_PER_SECOND = 20.0, 1.0 / 60.0
LEFT_BY_LIST, LEFT_BY_GET = 20.0, 8.0
PATIENCE_SECONDS = 5.0
SHRUNK_SECONDS = 300.0

T = TypeVar("T")


class Bucket:
    """`burst` tokens, refilled by `per_second`; times are the loop's."""

    def __init__(self, burst: float, per_second: float, now: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._tokens = burst
        self._at = now
        self._shrunk_until = 0.0

    def tokens(self, now: float) -> float:
        """What is there now."""
        factor = 0.5 if now < self._shrunk_until else 1.0
        grown = self._tokens + (now - self._at) * self._per_second * factor
        self._tokens, self._at = min(grown, self._burst * factor), now
        return self._tokens

    def wait_for(self, now: float, *, leave: float) -> float:
        """Seconds until a token may be taken that leaves `leave` others; 0: now."""
        missing = leave + 1.0 - self.tokens(now)
        return max(0.0, missing / self._per_second)

    def take(self, now: float) -> None:
        """Take one; after waiting, several takers may briefly owe a token."""
        self._tokens = self.tokens(now) - 1.0

    def shrink(self, now: float) -> None:
        """ARM refused although we thought there was room: somebody else draws on it too."""
        self._shrunk_until = now + SHRUNK_SECONDS
        self._tokens = 0.0


class Budgeted:
    """A provider that asks its buckets first."""

    def __init__(self, provider: CloudProvider) -> None:
        self._provider = provider
        self._reads: Bucket | None = None
        self._puts: dict[str, Bucket] = {}

    @property
    def tokens_left(self) -> float:
        """Reads and deletes that could be sent at once."""
        return READ_BURST if self._reads is None else self._reads.tokens(_now())

    async def create(self, claim: NodeClaim, name: str) -> Instance:
        bucket = self._puts.setdefault(name, Bucket(PUT_BURST, PUTS_PER_SECOND, _now()))
        await self._draw(bucket, leave=0.0, patient=False, what=f"PUT of pool {name}")
        return await self._heed(bucket, self._provider.create(claim, name))

    async def get(self, name: str) -> Instance:
        await self._draw(self._shared(), leave=LEFT_BY_GET, patient=False, what=f"GET of pool {name}")
        return await self._heed(self._shared(), self._provider.get(name))

    async def list(self) -> builtins.list[Instance]:
        await self._draw(self._shared(), leave=LEFT_BY_LIST, patient=True, what="LIST")
        return await self._heed(self._shared(), self._provider.list())

    async def delete(self, instance: Instance) -> None:
        await self._draw(self._shared(), leave=0.0, patient=False, what=f"DELETE of pool {instance.name}")
        await self._heed(self._shared(), self._provider.delete(instance))
        self._puts.pop(instance.name, None)

    async def cluster(self) -> Cluster:
        # The managed cluster has a bucket of its own, far larger than once a minute.
        return await self._provider.cluster()

    async def close(self) -> None:
        await self._provider.close()

    def _shared(self) -> Bucket:
        if self._reads is None:
            self._reads = Bucket(READ_BURST, READS_PER_SECOND, _now())
        return self._reads

    async def _draw(self, bucket: Bucket, *, leave: float, patient: bool, what: str) -> None:
        while (wait := bucket.wait_for(_now(), leave=leave)) > 0:
            if not patient and wait > PATIENCE_SECONDS:
                message = f"ThrottledByBudget: {what} would exceed AKS's rate; it is sent in {wait:.0f} s by itself"
                raise Retryable("ThrottledByBudget", message, after=wait)
            await asyncio.sleep(wait)
        bucket.take(_now())

    async def _heed(self, bucket: Bucket, call: Awaitable[T]) -> T:
        try:
            return await call
        except CloudError as error:
            if error.status == 429:
                bucket.shrink(_now())
            raise


def _now() -> float:
    return asyncio.get_running_loop().time()
