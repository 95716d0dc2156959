"""Client-side rate limits: priorities, waits, retry times, and the effect of a 429."""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from random import Random
from typing import TypeVar

import pytest

from cloudprovider.errors import CloudError, Retryable
from cloudprovider.rate_limits import (
    AKS,
    ARM_READS,
    ARM_WRITES,
    CLUSTER,
    PUT_BURST,
    PUTS,
    READ_BURST,
    RateLimitedProvider,
)
from cloudprovider.token_bucket import LowPriorityFlow, TokenBucket
from provisioner.api.nodeclaim import NodeClaim
from provisioner.simulator.loop import run
from tests.stories import run_by

from .arm import Arm, now, pool

T = TypeVar("T")
READS, PUTS_AT_MOST = int(READ_BURST), int(PUT_BURST)


def on_budget(story: Callable[[Arm, RateLimitedProvider], Awaitable[T]]) -> T:
    async def main() -> T:
        arm = Arm()
        return await story(arm, RateLimitedProvider(arm))

    return run(main, seed=1, epoch=datetime(2026, 3, 1, tzinfo=UTC))


async def refused(call: Awaitable[object]) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await call
    return caught.value


@run_by(on_budget, given=2)
async def test_a_write_never_waits(arm: Arm, budget: RateLimitedProvider) -> None:
    """A write without a token fails at once."""
    for number in range(READS):
        await budget.delete(pool(f"p{number}"))
    error = await refused(budget.delete(pool("late")))
    assert (error.reason, error.after, now()) == ("ClientSideThrottling", 1.0, 0.0)
    for _ in range(PUTS_AT_MOST):
        await budget.create(NodeClaim(), "a")
    error = await refused(budget.create(NodeClaim(), "a"))
    assert (error.reason, now(), len(arm.calls)) == ("ClientSideThrottling", 0.0, READS + PUTS_AT_MOST)


def test_rejected_calls_have_different_retry_times() -> None:
    """Of a hundred DELETEs those with tokens are sent; the others are rejected with one time each, and succeed then."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> float:
        async def remove(name: str) -> None:
            while True:
                try:
                    return await budget.delete(pool(name))
                except Retryable as error:
                    tries.append(name)
                    await asyncio.sleep(error.after or 0.0)

        tries: list[str] = []
        async with asyncio.TaskGroup() as tasks:
            for number in range(100):
                tasks.create_task(remove(f"p{number}"))
        assert len(arm.calls) == 100
        assert len(tries) == 100 - READS
        return now()

    assert on_budget(story) == pytest.approx(100.0 - READS)


@run_by(on_budget, given=2)
async def test_a_rate_limited_call_has_status_429(arm: Arm, budget: RateLimitedProvider) -> None:
    """As from ARM, so that no lookup of the pool is needed."""
    for _ in range(PUTS_AT_MOST):
        await budget.create(NodeClaim(), "a")
    error = await refused(budget.create(NodeClaim(), "a"))
    assert error.status == 429
    assert error.after == pytest.approx(60.0)


@run_by(on_budget, given=2)
async def test_each_pool_has_its_own_put_bucket(arm: Arm, budget: RateLimitedProvider) -> None:
    """Retries of one claim do not delay another; the bucket of a deleted pool is kept until it is full."""
    for _ in range(PUTS_AT_MOST):
        await budget.create(NodeClaim(), "a")
    await budget.create(NodeClaim(), "b")
    await budget.delete(pool("a"))
    assert (await refused(budget.create(NodeClaim(), "a"))).reason == "ClientSideThrottling"
    for number in range(2000):
        await budget.create(NodeClaim(), f"n{number}")
        await asyncio.sleep(60.0)
    assert len(budget._puts) <= 256


@run_by(on_budget, given=2)
async def test_delete_precedes_list_and_list_precedes_get(arm: Arm, budget: RateLimitedProvider) -> None:
    """A GET leaves 12 tokens and a LIST leaves 8; a DELETE takes the last one."""
    await budget.list()
    await budget.get("y")
    for _ in range(READS - 14):
        await budget.delete(pool("x"))
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(budget.get("y"))
        await asyncio.sleep(0.0)
        for _ in range(4):
            await budget.list()
        listing = tasks.create_task(budget.list())
        await asyncio.sleep(0.0)
        for _ in range(8):
            await budget.delete(pool("x"))
        assert (now(), reading.done(), listing.done()) == (0.0, False, False)
    assert [verb for verb, _ in arm.calls[READS - 12 :]] == ["list"] * 4 + ["delete"] * 8 + ["get", "list"]


@run_by(on_budget, given=2)
async def test_a_get_waits_shortly_and_a_list_without_limit(arm: Arm, budget: RateLimitedProvider) -> None:
    """A GET that would wait 13 s is rejected, except one every 4 s; the LIST waits for its token."""
    await budget.list()
    await budget.get("w")
    for _ in range(READS - 2):
        await budget.delete(pool("x"))
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(budget.get("y"))
        await asyncio.sleep(0.0)
        error = await refused(budget.get("z"))
        assert (error.after, now(), first.done()) == (13.0, 0.0, False)
    assert now() == pytest.approx(4.0)
    await budget.list()
    assert now() == pytest.approx(5.0)
    for _ in range(3):
        await budget.delete(pool("x"))
    await asyncio.sleep(5.0)
    await budget.get("x")
    began = now()
    await budget.get("y")
    assert now() - began == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("waits", "since", "leaves", "held"),
    [
        (False, 0.0, 20.0, 0.0),
        (True, 0.0, 20.0, 0.0),
        (True, 59.9, 20.0, 0.0),
        (True, 60.0, 0.0, 1.0),
        (True, 600.0, 0.0, 1.0),
        # No token is reserved without a waiting call.
        (False, 600.0, 0.0, 0.0),
    ],
)
def test_a_low_priority_flow_gets_priority_after_a_while(waits: bool, since: float, leaves: float, held: float) -> None:
    """It leaves 20 tokens to other calls for 60 s after its last call; then other calls leave one to it."""
    last = LowPriorityFlow(20.0, 60.0)
    last.served(1000.0)
    last.waiting = int(waits)
    now = 1000.0 + since
    assert (last.headroom(now), last.reserved_tokens(now)) == (leaves, held)
    assert last.seconds_until_priority(now) == pytest.approx(max(0.0, 60.0 - since))


def test_the_first_call_of_a_flow_has_priority() -> None:
    """A process without a LIST has nothing else to do."""
    assert LowPriorityFlow(20.0, 60.0).headroom(5.0) == 0.0


@pytest.mark.parametrize(("pages", "after"), [(1, None), (8, None), (1, 40.0), (8, 40.0)])
@run_by(on_budget, given=2)
async def test_a_list_gets_a_fifth_of_the_rate(
    arm: Arm, budget: RateLimitedProvider, pages: int, after: float | None
) -> None:
    """Continuous DELETEs and GETs, in a throttled bucket too, delay a LIST by at most 5 s a page, and 10 s after a 429.

    It leaves most of the rate to DELETEs.
    """

    async def storm(call: Callable[[], Awaitable[object]]) -> None:
        while now() < 1000.0:
            try:
                await call()
            except Retryable as error:
                await asyncio.sleep(min(error.after or 0.0, 1.0))

    arm.pages = pages
    whole: list[float] = []
    await budget.list()
    if after is not None:
        arm.refusing = Retryable("Throttled", "Throttled: slow down", after=after, status=429)
        await refused(budget.get("x"))
        arm.refusing = None
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(storm(lambda: budget.delete(pool("x"))))
        for _ in range(8):
            tasks.create_task(storm(lambda: budget.get("y")))
        while now() < 1000.0:
            began = now()
            await budget.list()
            whole.append(began)
            await asyncio.sleep(4.0)
    # Each page takes a token, at half a token per second at least, after Retry-After.
    gaps = [later - sooner for sooner, later in itertools.pairwise((*whole, 1000.0))]
    assert max(gaps) <= (5.0 if after is None else 10.0) * pages + 4.0 + 2.0 * pages + (after or 0.0)
    verbs = Counter(verb for verb, _ in arm.calls)
    assert verbs["list"] < 0.25 * verbs.total()
    assert verbs["delete"] > 0.25 * verbs.total()


@run_by(on_budget, given=2)
async def test_retried_deletes_do_not_block_gets(arm: Arm, budget: RateLimitedProvider) -> None:
    """DELETEs that AKS rejects and that are retried leave a GET every few seconds, in a throttled bucket too."""

    async def remove() -> None:
        while now() < 600.0:
            with contextlib.suppress(Retryable):
                await budget.delete(pool("x"))
            await asyncio.sleep(0.5)

    async def prove(name: str) -> None:
        while True:
            try:
                await budget.get(name)
                return proven.append(now())
            except Retryable as error:
                await asyncio.sleep(error.after or 0.0)

    proven: list[float] = []
    arm.refusing = Retryable("Throttled", "Throttled: slow down", after=10.0, status=429)
    await refused(budget.get("x"))
    arm.refusing = None
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(remove())
        for number in range(20):
            tasks.create_task(prove(f"p{number}"))
    assert len(proven) == 20
    assert max(proven) < 300.0
    assert Counter(verb for verb, _ in arm.calls)["delete"] > 100


@run_by(on_budget, given=2)
async def test_a_throttled_list_uses_its_guaranteed_call(arm: Arm, budget: RateLimitedProvider) -> None:
    """After a 429 the LIST has low priority for ten seconds; other errors do not change its priority."""

    async def next_list() -> float:
        for _ in range(READS):
            with contextlib.suppress(Retryable):
                await budget.delete(pool("x"))
        began = now()
        with contextlib.suppress(Retryable):
            await budget.list()
        return now() - began

    await asyncio.sleep(100.0)
    arm.refusing = Retryable("ServiceUnavailable", "ServiceUnavailable", status=503)
    assert await next_list() == pytest.approx(1.0)
    arm.refusing = Retryable("Throttled", "Throttled: slow down", status=429)
    with contextlib.suppress(Retryable):
        await budget.list()
    arm.refusing = None
    assert await next_list() == pytest.approx(10.0)


@run_by(on_budget, given=2)
async def test_a_429_throttles_its_bucket(arm: Arm, budget: RateLimitedProvider) -> None:
    """Retry-After applies to all calls of the bucket; then it has one token and refills at half the rate."""
    arm.refusing = Retryable("Throttled", "Throttled: slow down", after=40.0, status=429)
    await refused(budget.list())
    arm.refusing = None
    assert (await refused(budget.delete(pool("x")))).after == pytest.approx(40.0)
    await asyncio.sleep(39.0)
    assert budget.tokens_left(AKS) == 0.0
    await asyncio.sleep(1.0)
    await budget.delete(pool("x"))
    await asyncio.sleep(1.0)
    assert budget.tokens_left(AKS) == pytest.approx(0.5)
    await asyncio.sleep(200.0)
    assert budget.tokens_left(AKS) == pytest.approx(READS / 2)
    await asyncio.sleep(400.0)
    assert budget.tokens_left(AKS) == READS


@run_by(on_budget, given=2)
async def test_a_throttled_put_is_retried_at_retry_after(arm: Arm, budget: RateLimitedProvider) -> None:
    """The bucket of a pool refills once a minute, but a Retry-After of five seconds delays by five seconds."""
    arm.refusing = Retryable("Throttled", "Throttled: slow down", after=5.0, status=429)
    await refused(budget.create(NodeClaim(), "a"))
    arm.refusing = None
    await asyncio.sleep(5.0)
    await budget.create(NodeClaim(), "a")
    assert arm.calls == [("create", 0.0), ("create", 5.0)]


@run_by(on_budget, given=2)
async def test_a_put_that_is_throttled_again_waits_twice_as_long(arm: Arm, budget: RateLimitedProvider) -> None:
    """A Retry-After of a second that does not hold would otherwise be sixty PUTs a minute, each with an Event."""
    arm.refusing = Retryable("Throttled", "Throttled: slow down", after=1.0, status=429)
    for _ in range(600):
        await refused(budget.create(NodeClaim(), "a"))
        await asyncio.sleep(1.0)
    assert [at for _, at in arm.calls[:7]] == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 61.0]
    assert len(arm.calls) <= 25
    arm.refusing = None
    await asyncio.sleep(30.0)
    await budget.create(NodeClaim(), "a")
    arm.refusing = Retryable("Throttled", "Throttled: slow down", after=1.0, status=429)
    await asyncio.sleep(120.0)
    await refused(budget.create(NodeClaim(), "a"))
    await asyncio.sleep(1.0)
    arm.refusing = None
    await budget.create(NodeClaim(), "a")


@run_by(on_budget, given=2)
async def test_other_errors_do_not_throttle(arm: Arm, budget: RateLimitedProvider) -> None:
    """Only a 429 shows that other clients use the same limit."""
    arm.refusing = Retryable("ServiceUnavailable", "ServiceUnavailable", after=40.0, status=503)
    await refused(budget.list())
    assert budget.tokens_left(AKS) == READS - 1


@run_by(on_budget, given=2)
async def test_each_page_of_a_list_takes_a_token(arm: Arm, budget: RateLimitedProvider) -> None:
    """Eight pages take eight tokens, and a page waits for its token."""
    arm.pages = 8
    for _ in range(6):
        await budget.list()
    assert (len(arm.calls), budget.tokens_left(AKS), now()) == (48, READS - 48.0, 0.0)
    await budget.list()
    assert len(arm.calls) == 56
    assert now() == pytest.approx(6.0)
    assert budget.tokens_left(ARM_READS) == 239.0


def test_a_429_of_arm_throttles_its_kind_of_call() -> None:
    """ARM limits all writes, all reads and all deletes of a subscription."""
    arm_limit = "exceed the rate limit of ARM; retried automatically"
    front = Retryable("SubscriptionThrottled", "SubscriptionRequestsThrottled: slow down", after=40.0, status=429)

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
        arm.refusing = front
        await refused(budget.create(NodeClaim(), "a"))
        arm.refusing = None
        error = await refused(budget.create(NodeClaim(), "b"))
        assert error.message.split("would ")[1] == arm_limit
        assert error.after == pytest.approx(40.0)
        await budget.list()
        await budget.get("x")
        await budget.delete(pool("x"))
        await budget.cluster()
        assert (now(), budget.tokens_left(AKS), budget.tokens_left(PUTS)) == (0.0, READS - 3.0, PUTS_AT_MOST - 1.0)
        await asyncio.sleep(40.0)
        await budget.create(NodeClaim(), "b")

    on_budget(story)


@run_by(on_budget, given=2)
async def test_a_429_of_a_put_throttles_that_pool(arm: Arm, budget: RateLimitedProvider) -> None:
    """AKS has one bucket of PUTs per pool, one for reads and deletes, and one for the managed cluster."""
    arm.refusing = Retryable("Throttled", "Throttled: slow down", after=40.0, status=429)
    await refused(budget.create(NodeClaim(), "a"))
    await refused(budget.cluster())
    arm.refusing = None
    await budget.create(NodeClaim(), "b")
    await budget.delete(pool("a"))
    await budget.list()
    assert now() == 0.0
    assert (budget.wait_seconds(PUTS), budget.wait_seconds(CLUSTER)) == (40.0, 40.0)
    assert (budget.wait_seconds(AKS), budget.wait_seconds(ARM_WRITES)) == (0.0, 0.0)
    assert (await refused(budget.cluster())).after == pytest.approx(40.0)


@run_by(on_budget, given=2)
async def test_a_bucket_is_never_overdrawn(arm: Arm, budget: RateLimitedProvider) -> None:
    """Calls at any intervals do not exceed the burst and the refill of AKS, counted on arrival."""
    async with asyncio.TaskGroup() as tasks:
        for _ in range(30):
            tasks.create_task(budget.list())
        for _ in range(300):
            try:
                await budget.delete(pool("x"))
            except Retryable:
                await asyncio.sleep(0.7)
    # Azure counts a call on arrival: the first ones are slow, the later ones are not.
    times = [at + (0.9 if at < 1.0 else 0.0) for _, at in arm.calls]
    for start, end in itertools.combinations(sorted(times), 2):
        within = sum(start <= at <= end for at in times)
        assert within <= 60 + (end - start) + 1e-6


def test_the_delay_of_a_bucket_is_sufficient() -> None:
    """Rounding does not leave a delay too short to advance the clock."""
    rng = Random(1)
    for _ in range(500):
        now = rng.uniform(0.0, 3000.0)
        bucket = TokenBucket(60.0, 1.0, now)
        for _ in range(30):
            now += rng.uniform(0.0, 0.4)
            bucket.take(now)
        while (wait := bucket.delay(now, headroom=59.0)) > 0:
            assert now + wait > now
            now += wait


def test_token_bucket() -> None:
    """Tokens refill up to the burst."""
    bucket = TokenBucket(2.0, 0.5, 0.0)
    bucket.take(0.0)
    bucket.take(0.0)
    assert bucket.delay(0.0, headroom=0.0) == 2.0
    assert bucket.delay(1.0, headroom=1.0) == 3.0
    assert bucket.tokens(100.0) == 2.0
