"""Our own share of ARM's patience: token buckets before each call, so that ARM need not refuse us.

Promise: AKS's published buckets are never overdrawn by this process; a DELETE goes before the GET that proves an
absence, and that before the shared LIST, by how many tokens each leaves untouched. A LIST waits for its turn, a GET a
few seconds; a write never waits, because it may only be sent while the lease outlives it, and that was checked before.
What may not wait is an error that says when, each time another moment, so that those turned away do not return as a
crowd. After a 429 nothing is drawn until the time ARM asked for, then one, and then half as fast for a while: others
share it.
Left to others: obeying Retry-After (the queue, the inventory), counting calls (`metered.py`).

Source: aks-arm.md §3.6 (60 and 1/s for reads and deletes of a subscription and region; 20 and 1/min for PUTs of a
pool); DESIGN rules 10 and 11.
"""

import asyncio
import builtins
import math
from collections.abc import Awaitable
from typing import TypeVar

from provisioner.api.nodeclaim import NodeClaim

from .errors import CloudError, Retryable
from .interface import CloudProvider, Cluster, Failure, Instance, Offering

# AKS counts a call when it arrives, and not all are equally long on their way: of its 60 and 20 a few stay unused.
READ_BURST, READS_PER_SECOND = 58.0, 1.0
PUT_BURST, PUTS_PER_SECOND = 19.0, 1.0 / 60.0
LEFT_BY_LIST, LEFT_BY_GET = 20.0, 8.0
GET_PATIENCE_SECONDS = 5.0
SHRUNK_SECONDS = 300.0
MOST_PUT_BUCKETS = 256
LEAST_WAIT_SECONDS = 0.001

T = TypeVar("T")


class Bucket:
    """`burst` tokens, refilled by `per_second`; times are the loop's."""

    def __init__(self, burst: float, per_second: float, now: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._tokens = burst
        self._at = now
        self._shrunk_until = -math.inf
        self._last_turn = -math.inf

    def tokens(self, now: float) -> float:
        """What is there now."""
        if now < self._at:
            return 0.0
        self._tokens += (now - self._at) * self._rate(now)
        self._at = now
        self._tokens = min(self._tokens, self._burst * self._share(now))
        return self._tokens

    def wait_for(self, now: float, *, leave: float) -> float:
        """Seconds until a token may be taken that leaves `leave` others; 0: now."""
        held = max(0.0, self._at - now)
        missing = leave + 1.0 - (self._tokens if held else self.tokens(now))
        wait = held + max(0.0, missing) / self._rate(now)
        # A wait that rounding left over may be too small to move the clock at all: who sleeps it would spin.
        return max(wait, LEAST_WAIT_SECONDS) if wait > 0 else 0.0

    def take(self, now: float) -> None:
        """Take one that `wait_for` said is there."""
        self._tokens = self.tokens(now) - 1.0

    def turn_away(self, now: float, wait: float) -> float:
        """Seconds after which a caller whose turn is in `wait` should come back: behind those sent away before it."""
        turn = max(now + wait, min(self._last_turn + 1.0 / self._rate(now), now + wait + self._burst))
        self._last_turn = turn
        return turn - now

    def shrink(self, now: float, after: float) -> None:
        """ARM refused although we thought there was room (somebody else draws on it too), and asks for `after`.

        That is when it will have a token again: to wait for our own refill as well would cost a PUT two minutes more.
        """
        self._tokens, self._at = 1.0, max(self._at, now + after)
        self._shrunk_until = self._at + SHRUNK_SECONDS

    def full(self, now: float) -> bool:
        """Whether it remembers nothing that a new bucket would not know."""
        return now >= self._shrunk_until and self.tokens(now) >= self._burst

    def _share(self, now: float) -> float:
        return 0.5 if now < self._shrunk_until else 1.0

    def _rate(self, now: float) -> float:
        return self._per_second * self._share(now)


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

    async def create(self, claim: NodeClaim, name: str, offering: Offering | None = None) -> Instance:
        bucket = self._put_bucket(name)
        await self._draw(bucket, leave=0.0, patience_seconds=0.0, what=f"PUT of pool {name}")
        return await self._heed(bucket, self._provider.create(claim, name, offering))

    async def get(self, name: str) -> Instance:
        patience = GET_PATIENCE_SECONDS
        await self._draw(self._shared(), leave=LEFT_BY_GET, patience_seconds=patience, what=f"GET of pool {name}")
        return await self._heed(self._shared(), self._provider.get(name))

    async def list(self) -> builtins.list[Instance]:
        await self._draw(self._shared(), leave=LEFT_BY_LIST, patience_seconds=math.inf, what="LIST")
        return await self._heed(self._shared(), self._provider.list())

    async def delete(self, instance: Instance) -> None:
        what = f"DELETE of pool {instance.name}"
        await self._draw(self._shared(), leave=0.0, patience_seconds=0.0, what=what)
        await self._heed(self._shared(), self._provider.delete(instance))

    async def cause(self, instance: Instance) -> Failure | None:
        # Operations have a bucket of their own, and each is asked once at most.
        return await self._provider.cause(instance)

    async def cluster(self) -> Cluster:
        # The managed cluster has a bucket of its own, far larger than once a minute.
        return await self._provider.cluster()

    async def close(self) -> None:
        await self._provider.close()

    def _shared(self) -> Bucket:
        if self._reads is None:
            self._reads = Bucket(READ_BURST, READS_PER_SECOND, _now())
        return self._reads

    def _put_bucket(self, name: str) -> Bucket:
        now = _now()
        if len(self._puts) >= MOST_PUT_BUCKETS:
            self._puts = {pool: bucket for pool, bucket in self._puts.items() if not bucket.full(now)}
        return self._puts.setdefault(name, Bucket(PUT_BURST, PUTS_PER_SECOND, now))

    async def _draw(self, bucket: Bucket, *, leave: float, patience_seconds: float, what: str) -> None:
        deadline = _now() + patience_seconds
        while (wait := bucket.wait_for(_now(), leave=leave)) > 0:
            if _now() + wait > deadline:
                after = bucket.turn_away(_now(), wait)
                message = f"ThrottledByBudget: {what} would exceed AKS's rate; it is tried again by itself"
                # As ARM's own refusal would be: nothing was sent, so nobody need look for what became of it.
                raise Retryable("ThrottledByBudget", message, after=after, status=429)
            await asyncio.sleep(wait)
        bucket.take(_now())

    async def _heed(self, bucket: Bucket, call: Awaitable[T]) -> T:
        try:
            return await call
        except CloudError as error:
            if error.status == 429:
                bucket.shrink(_now(), error.after or 0.0)
            raise


def _now() -> float:
    return asyncio.get_running_loop().time()
