"""Our own share of Azure's patience: token buckets before each call, so that neither AKS nor ARM need refuse us.

The published buckets are never overdrawn by this process; a DELETE goes before the GET that proves an
absence, and that before the shared LIST, by how many tokens each leaves untouched; but whatever else there is to do,
the pools are listed once a minute, because every inference rests on that list, and one of them is read every four
seconds, because a removal ends with that. A LIST waits for its turn, each of its
pages too, a GET a few seconds; a write never waits, because it may only be sent while the lease outlives it, and that
was checked before. What may not wait is an error that says when, each time another moment, so that those turned away
do not return as a crowd. A 429 shrinks the bucket that it is about and no other: AKS's own that of one pool's
PUTs, of the managed cluster, of operations, or the one that all else shares; ARM's, in front of AKS, that of all reads,
writes or deletes of the subscription.

Source: docs/references/agent-pools.md#throttling, docs/references/rules.md#arm-request-budget,
docs/references/rules.md#leader-election.
"""

import asyncio
import builtins
import math
from collections.abc import Awaitable
from typing import NamedTuple, TypeVar

from prometheus_client import Counter

from provisioner.api.nodeclaim import NodeClaim

from .errors import THROTTLED_IN_FRONT, CloudError, Retryable
from .interface import CloudProvider, Cluster, Failure, Instance, NextPage, Offering, at_once
from .token_bucket import LEAST_WAIT_SECONDS, Bucket, LastInLine

# A call counts when it arrives, and not all are equally long on their way: of the published sizes a few stay unused.
READ_BURST, READS_PER_SECOND = 58.0, 1.0
PUT_BURST, PUTS_PER_SECOND = 19.0, 1.0 / 60.0
AKS, CLUSTER, OPERATIONS, PUTS = "aks", "aks-cluster", "aks-operations", "aks-put"
ARM_READS, ARM_WRITES, ARM_DELETES = "arm-reads", "arm-writes", "arm-deletes"
LIMITS = {
    AKS: (READ_BURST, READS_PER_SECOND),
    CLUSTER: (READ_BURST, READS_PER_SECOND),
    OPERATIONS: (190.0, 2.0),
    ARM_READS: (240.0, 25.0),
    ARM_WRITES: (190.0, 10.0),
    ARM_DELETES: (190.0, 10.0),
}
BUCKETS = (*LIMITS, PUTS)
LEFT_BY_LIST, LEFT_BY_GET = 20.0, 8.0
# Well below the age from which nothing is inferred from a list any more (`stale_list_seconds`).
LIST_AT_LEAST_EVERY_SECONDS = 60.0
# Half of what a bucket gives that a 429 has halved: a DELETE that AKS refuses is sent again and again.
GET_AT_LEAST_EVERY_SECONDS = 4.0
GET_PATIENCE_SECONDS = 5.0
MOST_PUT_BUCKETS = 256

T = TypeVar("T")


class Lane(NamedTuple):
    """What one call draws on: a bucket of AKS's and one of ARM's.

    `line`: whose turn it is, if it goes after others.
    """

    what: str
    aks: str
    arm: str
    pool: str = ""
    patience_seconds: float = 0.0
    line: LastInLine | None = None


class Budgeted:
    """A provider that asks its buckets first. `refused` counts 429s by bucket and by who said it (budget, cloud)."""

    def __init__(self, provider: CloudProvider, refused: Counter | None = None) -> None:
        self._provider = provider
        self._refused = refused
        self._shared: dict[str, Bucket] = {}
        self._puts: dict[str, Bucket] = {}
        self._listing = LastInLine(LEFT_BY_LIST, LIST_AT_LEAST_EVERY_SECONDS)
        self._reading = LastInLine(LEFT_BY_GET, GET_AT_LEAST_EVERY_SECONDS)

    def tokens_left(self, name: str) -> float:
        """Calls of this bucket that could be sent at once; of PUTs, for the pool that has the fewest left."""
        now = _now()
        if name == PUTS:
            return min((bucket.tokens(now) for bucket in self._puts.values()), default=PUT_BURST)
        return self._bucket(name).tokens(now)

    def wait_seconds(self, name: str) -> float:
        """How long the next call of this bucket would wait; of PUTs, for the pool that waits longest."""
        now = _now()
        if name == PUTS:
            return max((bucket.wait_for(now, leave=0.0) for bucket in self._puts.values()), default=0.0)
        return self._bucket(name).wait_for(now, leave=0.0)

    async def create(self, claim: NodeClaim, name: str, offering: Offering | None = None) -> Instance:
        lane = Lane(f"PUT of pool {name}", PUTS, ARM_WRITES, pool=name)
        await self._draw(lane)
        return await self._heed(lane, self._provider.create(claim, name, offering))

    async def get(self, name: str) -> Instance:
        patience = GET_PATIENCE_SECONDS
        lane = Lane(f"GET of pool {name}", AKS, ARM_READS, patience_seconds=patience, line=self._reading)
        await self._draw(lane)
        self._reading.served(_now())
        return await self._heed(lane, self._provider.get(name))

    async def list(self, *, next_page: NextPage = at_once) -> builtins.list[Instance]:
        lane = Lane("LIST", AKS, ARM_READS, patience_seconds=math.inf, line=self._listing)

        async def turn() -> None:
            await next_page()
            await self._draw(lane)

        await self._draw(lane)
        began = _now()
        try:
            listed = await self._heed(lane, self._provider.list(next_page=turn))
        except CloudError as error:
            # One that was refused for the rate had its turn: the next one goes last again.
            if error.status == 429:
                self._listing.served(began)
            raise
        self._listing.served(began)
        return listed

    async def delete(self, instance: Instance) -> None:
        lane = Lane(f"DELETE of pool {instance.name}", AKS, ARM_DELETES)
        await self._draw(lane)
        await self._heed(lane, self._provider.delete(instance))

    async def cause(self, instance: Instance) -> Failure | None:
        what = f"GET of the operation of pool {instance.name}"
        lane = Lane(what, OPERATIONS, ARM_READS, patience_seconds=GET_PATIENCE_SECONDS)
        await self._draw(lane)
        return await self._heed(lane, self._provider.cause(instance))

    async def cluster(self) -> Cluster:
        lane = Lane("GET of the managed cluster", CLUSTER, ARM_READS, patience_seconds=GET_PATIENCE_SECONDS)
        await self._draw(lane)
        return await self._heed(lane, self._provider.cluster())

    async def close(self) -> None:
        await self._provider.close()

    def _bucket(self, name: str) -> Bucket:
        return self._shared.setdefault(name, Bucket(*LIMITS[name], _now()))

    def _put_bucket(self, pool: str) -> Bucket:
        now = _now()
        if len(self._puts) >= MOST_PUT_BUCKETS:
            self._puts = {name: bucket for name, bucket in self._puts.items() if not bucket.full(now)}
        return self._puts.setdefault(pool, Bucket(PUT_BURST, PUTS_PER_SECOND, now))

    def _of_aks(self, lane: Lane) -> Bucket:
        return self._put_bucket(lane.pool) if lane.aks == PUTS else self._bucket(lane.aks)

    async def _draw(self, lane: Lane) -> None:
        if lane.line is None:
            return await self._draw_or_refuse(lane, ahead=False)
        lane.line.waiting += 1
        try:
            return await self._draw_or_refuse(lane, ahead=lane.line.waiting == 1)
        finally:
            lane.line.waiting -= 1

    async def _draw_or_refuse(self, lane: Lane, *, ahead: bool) -> None:
        """`ahead`: it is the first in its line, so the turn that comes is its own."""
        aks, arm = self._of_aks(lane), self._bucket(lane.arm)
        deadline = _now() + lane.patience_seconds
        while True:
            waits = (self._wait_for(aks, lane, ahead=ahead), arm.wait_for(_now(), leave=0.0))
            wait = max(waits)
            if wait <= 0:
                break
            if _now() + wait > deadline:
                in_front = waits[1] > waits[0]
                after = (arm if in_front else aks).turn_away(_now(), wait)
                self._count(lane.arm if in_front else lane.aks, "budget")
                raise _too_much(lane, "ARM's" if in_front else "AKS's", after)
            await asyncio.sleep(wait)
        aks.take(_now())
        arm.take(_now())

    def _wait_for(self, aks: Bucket, lane: Lane, *, ahead: bool) -> float:
        """Seconds until AKS's token, or until this caller need leave nothing to the others any longer."""
        now, line = _now(), lane.line
        held = self._held_for_others(lane, now)
        wait = aks.wait_for(now, leave=held + (line.leaves(now) if line is not None else 0.0))
        if line is None or not ahead or not line.first_in(now):
            return wait
        return min(wait, max(line.first_in(now), aks.wait_for(now, leave=held), LEAST_WAIT_SECONDS))

    def _held_for_others(self, lane: Lane, now: float) -> float:
        """Tokens left to those whose turn has come: the LIST's by all, a GET's by DELETEs."""
        if lane.aks != AKS or lane.line is self._listing:
            return 0.0
        read = self._reading.held_for_them(now) if lane.line is None else 0.0
        return self._listing.held_for_them(now) + read

    async def _heed(self, lane: Lane, call: Awaitable[T]) -> T:
        try:
            return await call
        except CloudError as error:
            if error.status == 429:
                in_front = error.reason == THROTTLED_IN_FRONT
                bucket = self._bucket(lane.arm) if in_front else self._of_aks(lane)
                bucket.shrink(_now(), error.after or 0.0)
                self._count(lane.arm if in_front else lane.aks, "cloud")
            raise

    def _count(self, bucket: str, by: str) -> None:
        if self._refused is not None:
            self._refused.labels(bucket, by).inc()


def _too_much(lane: Lane, whose: str, after: float) -> Retryable:
    message = f"ThrottledByBudget: {lane.what} would exceed {whose} rate; it is tried again by itself"
    # As their own refusal would be: nothing was sent, so nobody need look for what became of it.
    return Retryable("ThrottledByBudget", message, after=after, status=429)


def _now() -> float:
    return asyncio.get_running_loop().time()
