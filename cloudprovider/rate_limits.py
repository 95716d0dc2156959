"""Client-side rate limits for AKS and ARM: token buckets that each call of a CloudProvider draws on.

The buckets are slightly smaller than the published ones, so that AKS and ARM do not return 429. A write never waits:
its Lease may expire meanwhile. It fails with the `Retry-After` at which to retry; the times of several failed calls
differ. A GET waits up to `GET_MAX_WAIT_SECONDS`, a LIST and each of its pages without limit. DELETE has priority over
LIST, and LIST over GET: the lower one leaves some tokens (`*_HEADROOM`). A page of a LIST each `LIST_PAGE_SECONDS`
(half as often after a 429) and a GET each `GET_MAX_INTERVAL_SECONDS` are guaranteed: all inferred removals need the
LIST, which also shows the end of all removals at once, while other DELETEs still wait; some removals end with a GET. A
429 throttles the bucket of AKS that it is about; a 429 with reason SubscriptionThrottled throttles the one of ARM.

Source: docs/references/agent-pools.md#throttling, docs/references/rules.md#arm-request-budget,
docs/references/rules.md#leader-election.
"""

import asyncio
import builtins
import math
from collections.abc import Awaitable, Mapping
from typing import NamedTuple, TypeVar

from prometheus_client import Counter

from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass

from .errors import SUBSCRIPTION_THROTTLED, CloudError, Retryable
from .interface import BeforePage, CloudProvider, Cluster, Failure, Instance, Offering, ResourceSku, Usage, immediately
from .token_bucket import MIN_WAIT_SECONDS, LowPriorityFlow, TokenBucket

# Slightly below the published limits: Azure counts a call on arrival, and latencies differ.
READ_BURST, READS_PER_SECOND = 58.0, 1.0
PUT_BURST, PUTS_PER_SECOND = 19.0, 1.0 / 60.0
AKS, CLUSTER, OPERATIONS, PUTS = "aks", "aks-cluster", "aks-operations", "aks-put"
# The list of usages is read once a minute, that of sizes once a day; their limit is not documented.
COMPUTE = "compute"
ARM_READS, ARM_WRITES, ARM_DELETES = "arm-reads", "arm-writes", "arm-deletes"
LIMITS = {
    AKS: (READ_BURST, READS_PER_SECOND),
    CLUSTER: (READ_BURST, READS_PER_SECOND),
    OPERATIONS: (190.0, 2.0),
    COMPUTE: (5.0, 0.1),
    ARM_READS: (240.0, 25.0),
    ARM_WRITES: (190.0, 10.0),
    ARM_DELETES: (190.0, 10.0),
}
BUCKETS = (*LIMITS, PUTS)
LIST_HEADROOM, GET_HEADROOM = 8.0, 12.0
# A fifth of the rate.
LIST_PAGE_SECONDS = 5.0
# Half the rate of a throttled bucket: DELETEs that AKS refuses are retried, and use most of the other half.
GET_MAX_INTERVAL_SECONDS = 4.0
GET_MAX_WAIT_SECONDS = 5.0
MAX_PUT_BUCKETS = 256

T = TypeVar("T")


class Call(NamedTuple):
    """A call, its bucket of AKS and its bucket of ARM. `flow` is None for calls of high priority."""

    description: str
    aks: str
    arm: str
    pool: str = ""
    max_wait_seconds: float = 0.0
    flow: LowPriorityFlow | None = None


class RateLimitedProvider:
    """A provider that takes tokens before each call. `throttled` counts rejected calls by bucket and origin."""

    def __init__(self, provider: CloudProvider, throttled: Counter | None = None) -> None:
        self._provider = provider
        self._throttled = throttled
        self._shared: dict[str, TokenBucket] = {}
        self._puts: dict[str, TokenBucket] = {}
        self._list_flow = LowPriorityFlow(LIST_HEADROOM, LIST_PAGE_SECONDS)
        self._get_flow = LowPriorityFlow(GET_HEADROOM, GET_MAX_INTERVAL_SECONDS)

    def tokens_left(self, name: str) -> float:
        """The tokens of a bucket; of PUTS, those of the pool with the fewest."""
        now = _now()
        if name == PUTS:
            return min((bucket.tokens(now) for bucket in self._puts.values()), default=PUT_BURST)
        return self._bucket(name).tokens(now)

    def wait_seconds(self, name: str) -> float:
        """Seconds that the next call would wait; of PUTS, for the pool with the longest wait."""
        now = _now()
        if name == PUTS:
            return max((bucket.delay(now, headroom=0.0) for bucket in self._puts.values()), default=0.0)
        return self._bucket(name).delay(now, headroom=0.0)

    async def create(
        self,
        claim: NodeClaim,
        name: str,
        offering: Offering | None = None,
        node_class: AgentPoolNodeClass | None = None,
    ) -> Instance:
        call = Call(f"PUT of pool {name}", PUTS, ARM_WRITES, pool=name)
        await self._acquire(call)
        return await self._send(call, self._provider.create(claim, name, offering, node_class))

    async def get(self, name: str) -> Instance:
        wait = GET_MAX_WAIT_SECONDS
        call = Call(f"GET of pool {name}", AKS, ARM_READS, max_wait_seconds=wait, flow=self._get_flow)
        await self._acquire(call)
        self._get_flow.served(_now())
        return await self._send(call, self._provider.get(name))

    async def list(self, *, before_page: BeforePage = immediately) -> builtins.list[Instance]:
        call = Call("LIST", AKS, ARM_READS, max_wait_seconds=math.inf, flow=self._list_flow)
        pages = 1

        async def acquire_page() -> None:
            nonlocal pages
            await before_page()
            await self._acquire(call)
            pages += 1

        await self._acquire(call)
        began = _now()
        try:
            listed = await self._send(call, self._provider.list(before_page=acquire_page))
        except CloudError as error:
            # A LIST that got a 429 used its guaranteed call.
            if error.status == 429:
                self._list_served(began, pages)
            raise
        self._list_served(began, pages)
        return listed

    async def delete(self, instance: Instance) -> None:
        call = Call(f"DELETE of pool {instance.name}", AKS, ARM_DELETES)
        await self._acquire(call)
        await self._send(call, self._provider.delete(instance))

    async def cause(self, instance: Instance) -> Failure | None:
        description = f"GET of the operation of pool {instance.name}"
        call = Call(description, OPERATIONS, ARM_READS, max_wait_seconds=GET_MAX_WAIT_SECONDS)
        await self._acquire(call)
        return await self._send(call, self._provider.cause(instance))

    async def cluster(self) -> Cluster:
        call = Call("GET of the managed cluster", CLUSTER, ARM_READS, max_wait_seconds=GET_MAX_WAIT_SECONDS)
        await self._acquire(call)
        return await self._send(call, self._provider.cluster())

    async def usages(self) -> Mapping[str, Usage]:
        call = Call("GET of the usage of quota", COMPUTE, ARM_READS, max_wait_seconds=GET_MAX_WAIT_SECONDS)
        await self._acquire(call)
        return await self._send(call, self._provider.usages())

    async def skus(self) -> Mapping[str, ResourceSku]:
        call = Call("GET of the VM sizes", COMPUTE, ARM_READS, max_wait_seconds=GET_MAX_WAIT_SECONDS)
        await self._acquire(call)
        return await self._send(call, self._provider.skus())

    async def latest_image(self, name: str) -> str:
        wait = GET_MAX_WAIT_SECONDS
        call = Call(
            f"GET of the newest image of pool {name}", AKS, ARM_READS, max_wait_seconds=wait, flow=self._get_flow
        )
        await self._acquire(call)
        self._get_flow.served(_now())
        return await self._send(call, self._provider.latest_image(name))

    async def close(self) -> None:
        await self._provider.close()

    def _list_served(self, began: float, pages: int) -> None:
        self._list_flow.served(began, pages / self._bucket(AKS).scale(_now()))

    def _bucket(self, name: str) -> TokenBucket:
        return self._shared.setdefault(name, TokenBucket(*LIMITS[name], _now()))

    def _put_bucket(self, pool: str) -> TokenBucket:
        now = _now()
        if len(self._puts) >= MAX_PUT_BUCKETS:
            self._puts = {name: bucket for name, bucket in self._puts.items() if not bucket.is_full(now)}
        return self._puts.setdefault(pool, TokenBucket(PUT_BURST, PUTS_PER_SECOND, now))

    def _aks_bucket(self, call: Call) -> TokenBucket:
        return self._put_bucket(call.pool) if call.aks == PUTS else self._bucket(call.aks)

    async def _acquire(self, call: Call) -> None:
        if call.flow is None:
            return await self._acquire_or_reject(call, first=False)
        call.flow.waiting += 1
        try:
            return await self._acquire_or_reject(call, first=call.flow.waiting == 1)
        finally:
            call.flow.waiting -= 1

    async def _acquire_or_reject(self, call: Call, *, first: bool) -> None:
        """Take both tokens. Raises Retryable after `max_wait_seconds`. `first`: the call is the first of its flow."""
        aks, arm = self._aks_bucket(call), self._bucket(call.arm)
        deadline = _now() + call.max_wait_seconds
        while True:
            aks_wait, arm_wait = self._delay(aks, call, first=first), arm.delay(_now(), headroom=0.0)
            wait = max(aks_wait, arm_wait)
            if wait <= 0:
                break
            if _now() + wait > deadline:
                by_arm = arm_wait > aks_wait
                after = (arm if by_arm else aks).retry_after(_now(), wait)
                self._count(call.arm if by_arm else call.aks, "budget")
                raise _rate_limited(call, "ARM" if by_arm else "AKS", after)
            await asyncio.sleep(wait)
        aks.take(_now())
        arm.take(_now())

    def _delay(self, aks: TokenBucket, call: Call, *, first: bool) -> float:
        """Seconds until a token of AKS: with headroom for other calls, or until the guaranteed call of the flow."""
        now, flow = _now(), call.flow
        reserved = self._reserved_tokens(call, now)
        wait = aks.delay(now, headroom=reserved + (flow.headroom(now) if flow is not None else 0.0))
        if flow is None or not first or not flow.seconds_until_priority(now):
            return wait
        return min(wait, max(flow.seconds_until_priority(now), aks.delay(now, headroom=reserved), MIN_WAIT_SECONDS))

    def _reserved_tokens(self, call: Call, now: float) -> float:
        """Tokens left to guaranteed calls: all other calls leave one to the LIST, DELETEs also leave one to a GET."""
        if call.aks != AKS or call.flow is self._list_flow:
            return 0.0
        for_get = self._get_flow.reserved_tokens(now) if call.flow is None else 0.0
        return self._list_flow.reserved_tokens(now) + for_get

    async def _send(self, call: Call, request: Awaitable[T]) -> T:
        try:
            answer = await request
        except CloudError as error:
            if error.status == 429:
                by_arm = error.reason == SUBSCRIPTION_THROTTLED
                bucket = self._bucket(call.arm) if by_arm else self._aks_bucket(call)
                bucket.throttle(_now(), error.after or 0.0)
                self._count(call.arm if by_arm else call.aks, "cloud")
            raise
        self._aks_bucket(call).succeeded()
        self._bucket(call.arm).succeeded()
        return answer

    def _count(self, bucket: str, by: str) -> None:
        if self._throttled is not None:
            self._throttled.labels(bucket, by).inc()


def _rate_limited(call: Call, service: str, after: float) -> Retryable:
    message = (
        f"ClientSideThrottling: {call.description} would exceed the rate limit of {service}; retried automatically"
    )
    # Status 429, as from Azure: nothing was sent, so no lookup is needed.
    return Retryable("ClientSideThrottling", message, after=after, status=429)


def _now() -> float:
    return asyncio.get_running_loop().time()
