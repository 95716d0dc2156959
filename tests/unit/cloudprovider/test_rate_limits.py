"""The client-side budget: who may draw, who waits, who is told to come back, and what a 429 does to it."""

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
from cloudprovider.interface import BeforePage, Cluster, Failure, Instance, InstanceState, Offering, immediately
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

T = TypeVar("T")
READS, PUTS_AT_MOST = int(READ_BURST), int(PUT_BURST)


class Arm:
    """Notes when each call arrives, and refuses while `refusing` is set."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []
        self.refusing: CloudError | None = None
        self.pages = 1

    def _arrived(self, verb: str) -> None:
        self.calls.append((verb, now()))
        if self.refusing is not None:
            raise self.refusing

    async def create(self, claim: NodeClaim, name: str, offering: Offering | None = None) -> Instance:
        self._arrived("create")
        return pool(name)

    async def get(self, name: str) -> Instance:
        self._arrived("get")
        return pool(name)

    async def list(self, *, before_page: BeforePage = immediately) -> list[Instance]:
        for page in range(self.pages):
            if page:
                await before_page()
            self._arrived("list")
        return []

    async def delete(self, instance: Instance) -> None:
        self._arrived("delete")

    async def cause(self, instance: Instance) -> Failure | None:
        self._arrived("cause")
        return None

    async def cluster(self) -> Cluster:
        self._arrived("cluster")
        return Cluster(running=True)

    async def close(self) -> None:
        return


def now() -> float:
    return asyncio.get_running_loop().time()


def pool(name: str) -> Instance:
    return Instance(name=name, state=InstanceState.RUNNING, etag="e")


def on_budget(story: Callable[[Arm, RateLimitedProvider], Awaitable[T]]) -> T:
    async def main() -> T:
        arm = Arm()
        return await story(arm, RateLimitedProvider(arm))

    return run(main, seed=1, epoch=datetime(2026, 3, 1, tzinfo=UTC))


async def refused(call: Awaitable[object]) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await call
    return caught.value


def test_a_write_never_waits() -> None:
    """The lease was checked before: what cannot be sent at once is an error, and it took no time."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
        for number in range(READS):
            await budget.delete(pool(f"p{number}"))
        error = await refused(budget.delete(pool("late")))
        assert (error.reason, error.after, now()) == ("ThrottledByBudget", 1.0, 0.0)
        for _ in range(PUTS_AT_MOST):
            await budget.create(NodeClaim(), "a")
        error = await refused(budget.create(NodeClaim(), "a"))
        assert (error.reason, now(), len(arm.calls)) == ("ThrottledByBudget", 0.0, READS + PUTS_AT_MOST)

    on_budget(story)


def test_those_turned_away_do_not_come_back_as_a_crowd() -> None:
    """Of a hundred removals at once those that may go, go; the others are given one moment each, and come then."""

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


def test_a_refusal_by_the_budget_proves_that_nothing_was_sent() -> None:
    """It bears ARM's status for it, so that nobody looks for a pool that cannot be there."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
        for _ in range(PUTS_AT_MOST):
            await budget.create(NodeClaim(), "a")
        error = await refused(budget.create(NodeClaim(), "a"))
        assert error.status == 429
        assert error.after == pytest.approx(60.0)

    on_budget(story)


def test_each_pool_has_a_put_bucket_of_its_own() -> None:
    """One claim's retries take nothing from another's first try, and a deleted pool's bucket is not forgotten."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
        for _ in range(PUTS_AT_MOST):
            await budget.create(NodeClaim(), "a")
        await budget.create(NodeClaim(), "b")
        await budget.delete(pool("a"))
        assert (await refused(budget.create(NodeClaim(), "a"))).reason == "ThrottledByBudget"
        for number in range(2000):
            await budget.create(NodeClaim(), f"n{number}")
            await asyncio.sleep(60.0)
        assert len(budget._puts) <= 256

    on_budget(story)


def test_removal_goes_before_proof_and_proof_before_the_list() -> None:
    """A LIST leaves 20 tokens to others and a GET leaves 8; a DELETE takes the last."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
        await budget.list()
        for _ in range(READS - 21):
            await budget.delete(pool("x"))
        async with asyncio.TaskGroup() as tasks:
            listing = tasks.create_task(budget.list())
            await asyncio.sleep(0.0)
            for _ in range(12):
                await budget.get("y")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.0):
                    await budget.get("y")
            for _ in range(8):
                await budget.delete(pool("x"))
            assert (now(), listing.done()) == (0.0, False)
        assert [verb for verb, _ in arm.calls[READS - 20 :]] == ["get"] * 12 + ["delete"] * 8 + ["list"]

    on_budget(story)


def test_a_get_waits_a_little_and_a_list_until_its_turn() -> None:
    """A GET whose turn is 9 s away is told so at once, but for one every 4 s; the LIST is sent when its turn comes."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
        await budget.list()
        await budget.get("w")
        for _ in range(READS - 2):
            await budget.delete(pool("x"))
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(budget.get("y"))
            await asyncio.sleep(0.0)
            error = await refused(budget.get("z"))
            assert (error.after, now(), first.done()) == (9.0, 0.0, False)
        assert now() == pytest.approx(4.0)
        await budget.list()
        assert now() == pytest.approx(22.0)
        for _ in range(20):
            await budget.delete(pool("x"))
        await asyncio.sleep(5.0)
        await budget.get("x")
        began = now()
        await budget.get("y")
        assert now() - began == pytest.approx(4.0)

    on_budget(story)


@pytest.mark.parametrize(
    ("waits", "since", "leaves", "held"),
    [
        (False, 0.0, 20.0, 0.0),
        (True, 0.0, 20.0, 0.0),
        (True, 59.9, 20.0, 0.0),
        (True, 60.0, 0.0, 1.0),
        (True, 600.0, 0.0, 1.0),
        # Nobody holds a token back for one that does not ask.
        (False, 600.0, 0.0, 0.0),
    ],
)
def test_who_goes_last_goes_first_in_the_end(waits: bool, since: float, leaves: float, held: float) -> None:
    """It leaves 20 tokens to the others for 60 s after it was last served; from then on they headroom it one."""
    last = LowPriorityFlow(20.0, 60.0)
    last.served(1000.0)
    last.waiting = int(waits)
    now = 1000.0 + since
    assert (last.headroom(now), last.reserved_tokens(now)) == (leaves, held)
    assert last.seconds_until_priority(now) == pytest.approx(max(0.0, 60.0 - since))


def test_who_was_never_served_waits_for_nobody() -> None:
    """A process that has listed nothing yet can do nothing else."""
    assert LowPriorityFlow(20.0, 60.0).headroom(5.0) == 0.0


@pytest.mark.parametrize(("pages", "after"), [(1, None), (8, None), (1, 40.0), (8, 40.0)])
def test_whatever_goes_before_it_the_list_comes_once_a_minute(pages: int, after: float | None) -> None:
    """Removals and proofs that never end, in a bucket that AKS has shrunk or not, hold up the LIST for 60 s at most."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
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
        # Its pages cost a token each, of half a token a second at the least; a Retry-After is obeyed.
        gaps = [later - sooner for sooner, later in itertools.pairwise((*whole, 1000.0))]
        assert max(gaps) <= 64.0 + 2.0 * pages + (after or 0.0)
        verbs = Counter(verb for verb, _ in arm.calls)
        assert verbs["delete"] > 4 * verbs["list"] / pages

    on_budget(story)


def test_deletes_that_are_sent_again_and_again_hold_up_no_proof() -> None:
    """DELETEs that AKS rejects and that are retried leave a GET every few seconds, in a throttled bucket too."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
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

    on_budget(story)


def test_a_list_that_was_refused_had_its_turn() -> None:
    """A LIST that AKS has throttled goes last again, and first once more a minute later; other failures change nothing.

    What AKS refuses to a list that goes first it would refuse to all that wait behind it.
    """

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
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
        assert await next_list() > 30.0

    on_budget(story)


def test_after_a_429_nothing_is_drawn_until_arm_said_then_one_and_then_half_as_fast() -> None:
    """Retry-After holds every caller of that bucket, not only the one that was refused; then ARM has one token."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
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

    on_budget(story)


def test_a_refused_put_is_sent_again_when_arm_said() -> None:
    """A pool's bucket refills once a minute, yet a 429 that asks for five seconds costs five and no more."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
        arm.refusing = Retryable("Throttled", "Throttled: slow down", after=5.0, status=429)
        await refused(budget.create(NodeClaim(), "a"))
        arm.refusing = None
        await asyncio.sleep(5.0)
        await budget.create(NodeClaim(), "a")
        assert arm.calls == [("create", 0.0), ("create", 5.0)]

    on_budget(story)


def test_other_errors_leave_the_budget_alone() -> None:
    """Only ARM's own 429 says that others draw on it too."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
        arm.refusing = Retryable("ServiceUnavailable", "ServiceUnavailable", after=40.0, status=503)
        await refused(budget.list())
        assert budget.tokens_left(AKS) == READS - 1

    on_budget(story)


def test_every_page_of_a_list_is_a_call() -> None:
    """Eight pages draw eight tokens, and a page whose turn has not come waits for it."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
        arm.pages = 8
        for _ in range(4):
            await budget.list()
        assert (len(arm.calls), budget.tokens_left(AKS), now()) == (32, READS - 32.0, 0.0)
        await budget.list()
        assert len(arm.calls) == 40
        assert now() == pytest.approx(2.0)
        assert budget.tokens_left(ARM_READS) == 239.0

    on_budget(story)


def test_a_429_in_front_of_aks_is_about_its_kind_of_call() -> None:
    """ARM counts all writes, all reads and all deletes of a subscription, whatever pool they are about."""
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


def test_a_pools_429_is_about_that_pool() -> None:
    """AKS has a bucket of PUTs for each pool; the reads have one for all, the managed cluster its own."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
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

    on_budget(story)


def test_a_bucket_is_never_overdrawn() -> None:
    """Takers in all strides get no more than AKS's burst and refill, as counted where their calls arrive."""

    async def story(arm: Arm, budget: RateLimitedProvider) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(30):
                tasks.create_task(budget.list())
            for _ in range(300):
                try:
                    await budget.delete(pool("x"))
                except Retryable:
                    await asyncio.sleep(0.7)
        # A call counts when it arrives: these first ones take long on their way, the later ones do not.
        times = [at + (0.9 if at < 1.0 else 0.0) for _, at in arm.calls]
        for start, end in itertools.combinations(sorted(times), 2):
            within = sum(start <= at <= end for at in times)
            assert within <= 60 + (end - start) + 1e-6

    on_budget(story)


def test_who_sleeps_the_wait_then_has_the_token() -> None:
    """Rounding never leaves a wait that is too small to move the clock: a LIST would spin instead of sleeping."""
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


def test_the_bucket_alone() -> None:
    """Tokens grow with time, up to the burst."""
    bucket = TokenBucket(2.0, 0.5, 0.0)
    bucket.take(0.0)
    bucket.take(0.0)
    assert bucket.delay(0.0, headroom=0.0) == 2.0
    assert bucket.delay(1.0, headroom=1.0) == 3.0
    assert bucket.tokens(100.0) == 2.0
