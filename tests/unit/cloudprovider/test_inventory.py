"""The inventory: what a LIST may say, what it may not, and when a 404 is proof."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec
import pytest

from cloudprovider.errors import Retryable
from cloudprovider.interface import Cluster, Failure, Instance, InstanceState, Offering
from cloudprovider.inventory import Inventory
from cloudprovider.observations import Observation, merge, settles_in
from provisioner.api.nodeclaim import NodeClaim
from provisioner.simulator.loop import run

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
POOL = Instance(name="a", state=InstanceState.CREATING, etag="e1")
RUNNING = msgspec.structs.replace(POOL, state=InstanceState.RUNNING, etag="e2")
GOING = msgspec.structs.replace(POOL, state=InstanceState.DELETING)


def answered(instance: Instance | None, at: float) -> dict[str, Observation]:
    return {"a": Observation(instance=instance, at=at)}


MERGES = [
    ("a listed pool is known", {}, [POOL], {}, POOL),
    ("a newer list replaces an older answer", answered(POOL, 1.0), [RUNNING], {}, RUNNING),
    ("an answer newer than the list's start stands", answered(RUNNING, 6.0), [POOL], {}, RUNNING),
    ("a pool missing from a newer list leaves the cache", answered(POOL, 1.0), [], {}, None),
    ("a proven absence newer than the list stands", answered(None, 6.0), [POOL], {}, None),
    ("a pool just PUT survives a list that lags", answered(POOL, 1.0), [], {"recent_puts": {"a"}}, POOL),
    (
        "a pool just deleted survives a list that lags",
        answered(GOING, 1.0),
        [POOL],
        {"recent_deletes": {"a": "e1"}},
        GOING,
    ),
    (
        "but a pool that changed since is believed",
        answered(GOING, 1.0),
        [RUNNING],
        {"recent_deletes": {"a": "e1"}},
        RUNNING,
    ),
]


@pytest.mark.parametrize(("told", "before", "listed", "lately", "expected"), MERGES, ids=[row[0] for row in MERGES])
def test_merge(told: str, before: dict, listed: list, lately: dict, expected: Instance | None) -> None:
    """A LIST sent at t=5 meets what is known."""
    merged = merge(before, listed, started_at=5.0, **lately)
    after = merged.observations.get("a")
    assert (after.instance if after else None) == expected, told
    was = before["a"].instance if before else None
    assert merged.changed == (("a",) if was != expected else ()), told


SETTLING = [
    ("seen after the last PUT: at once", {"seen_at": 10.0, "put_at": 5.0}, 0.0),
    ("seen only before it: 60 s after it", {"seen_at": 4.0, "put_at": 95.0}, 55.0),
    ("never PUT by us: 60 s after we began to lead", {"seen_at": None, "put_at": None}, 50.0),
    ("PUT before we led counts from our lead", {"seen_at": None, "put_at": 1.0}, 50.0),
    ("long ago", {"seen_at": None, "put_at": 20.0, "leading_since": 0.0}, 0.0),
]


@pytest.mark.parametrize(("told", "known", "expected"), SETTLING, ids=[row[0] for row in SETTLING])
def test_when_a_404_is_proof(told: str, known: dict, expected: float) -> None:
    """At t=100, leading since t=90."""
    assert settles_in(**{"now": 100.0, "leading_since": 90.0, "settle_seconds": 60.0, **known}) == expected, told


class Cloud:
    """A cloud that lists what it is told to; its other calls are never made by the inventory."""

    def __init__(self) -> None:
        self.pools: list[Instance] = []
        self.failing: Retryable | None = None
        self.lists: list[float] = []

    async def list(self, *, before_page: Callable[[], Awaitable[None]] | None = None) -> list[Instance]:
        self.lists.append(asyncio.get_running_loop().time())
        if self.failing is not None:
            raise self.failing
        return list(self.pools)

    async def cause(self, instance: Instance) -> Failure | None:
        raise AssertionError(instance)

    async def cluster(self) -> Cluster:
        return Cluster(running=True)

    async def create(self, claim: NodeClaim, name: str, offering: Offering | None = None) -> Instance:
        raise AssertionError(name)

    async def get(self, name: str) -> Instance:
        raise AssertionError(name)

    async def delete(self, instance: Instance) -> None:
        raise AssertionError(instance)

    async def close(self) -> None:
        return


def lived(seconds: float, prepare, *, during=None) -> tuple[Cloud, Inventory, list[str]]:
    """Let an inventory run for some virtual seconds."""
    cloud, woken = Cloud(), list[str]()

    async def main() -> Inventory:
        inventory = Inventory(cloud, rng=random.Random(1), on_change=woken.append, on_resync=lambda: None)
        prepare(cloud, inventory)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(inventory.run())
            if during is not None:
                await during(cloud, inventory)
            await asyncio.sleep(seconds)
            task.cancel()
        return inventory

    return cloud, run(main, seed=1, epoch=EPOCH), woken


def test_it_looks_often_only_while_something_is_in_flight() -> None:
    """Idle: about once a minute; a pool being created: every four seconds."""
    idle, _, _ = lived(300.0, lambda cloud, _: None)
    busy, _, _ = lived(300.0, lambda cloud, _: cloud.pools.append(POOL))
    assert len(idle.lists) in range(5, 8)
    assert len(busy.lists) in range(72, 78)


def test_a_failing_list_is_unknown_not_empty() -> None:
    """What was known stays known, and it asks ever more slowly, no sooner than told."""

    async def then_fail(cloud: Cloud, inventory: Inventory) -> None:
        await asyncio.sleep(1.0)
        cloud.failing = Retryable("Throttled", "Throttled: slow down", after=40.0)
        inventory.set_in_flight("a")

    cloud, inventory, _ = lived(200.0, lambda cloud, _: cloud.pools.append(RUNNING), during=then_fail)
    assert inventory.get("a") == RUNNING
    assert inventory.list_error is cloud.failing
    assert all(later - sooner >= 40.0 for sooner, later in zip(cloud.lists[1:], cloud.lists[2:], strict=False))


def test_changes_wake_their_keys_once() -> None:
    """An unchanged list wakes nobody."""
    _, _, woken = lived(300.0, lambda cloud, _: cloud.pools.append(POOL))
    assert woken == ["a"]


def test_a_404_right_after_a_put_is_not_proof_but_one_after_it_was_seen_is() -> None:
    """Read lag must not look like absence."""

    async def story(cloud: Cloud, inventory: Inventory) -> None:
        inventory.put_attempted("a")
        inventory.record_absent("a")
        assert inventory.absence("a") == "unsettled"
        inventory.record_get(POOL)
        assert inventory.absence("a") == "present"
        await asyncio.sleep(1.0)
        inventory.record_absent("a")
        assert inventory.absence("a") == "absent"

    lived(0.0, lambda _cloud, _inventory: None, during=story)


def test_what_a_put_answers_is_no_sight_of_the_pool() -> None:
    """An accepted PUT or DELETE shows that writes know the pool; a lagging GET may deny it all the same."""

    async def story(_: Cloud, inventory: Inventory) -> None:
        inventory.put_attempted("a")
        inventory.record_put(POOL)
        inventory.record_delete("a")
        await asyncio.sleep(1.0)
        inventory.record_absent("a")
        assert inventory.absence("a") == "unsettled"

    lived(0.0, lambda _cloud, _inventory: None, during=story)


def test_a_list_settles_a_404_only_once_it_agrees() -> None:
    """A pool that lists show and a GET denies is not gone; one that lists have instance_of and show no more is."""

    async def story(cloud: Cloud, inventory: Inventory) -> None:
        inventory.put_attempted("a")
        inventory.record_put(POOL)
        await asyncio.sleep(10.0)
        assert inventory.get("a") == POOL
        inventory.record_absent("a")
        assert inventory.absence("a") == "unsettled"
        await asyncio.sleep(10.0)
        assert inventory.absence("a") == "present"
        cloud.pools.clear()
        await asyncio.sleep(10.0)
        assert inventory.absence("a") == "unknown"
        inventory.record_absent("a")
        assert inventory.absence("a") == "absent"

    lived(0.0, lambda cloud, _: cloud.pools.append(POOL), during=story)


def test_a_refused_put_leaves_nothing_to_wait_for() -> None:
    """After a clear no, absence settles as if nothing had been sent."""

    async def story(_: Cloud, inventory: Inventory) -> None:
        await asyncio.sleep(61.0)
        inventory.put_attempted("a")
        assert inventory.settles_in("a") > 0
        inventory.put_rejected("a")
        assert inventory.settles_in("a") == 0.0

    lived(0.0, lambda _cloud, _inventory: None, during=story)


@pytest.mark.parametrize("instance_of", [True, False])
def test_an_unheard_put_is_looked_for_often(*, instance_of: bool) -> None:
    """From the lost answer on it lists every few seconds: until the pool is seen, or a 404 could be believed."""

    async def story(cloud: Cloud, inventory: Inventory) -> None:
        await asyncio.sleep(20.0)
        inventory.put_attempted("a")
        before = len(cloud.lists)
        inventory.put_result_unknown("a")
        await asyncio.sleep(10.0)
        assert len(cloud.lists) - before in (2, 3)
        if instance_of:
            cloud.pools.append(RUNNING)
            await asyncio.sleep(5.0)
            assert inventory.get("a") == RUNNING
        else:
            await asyncio.sleep(55.0)
        before = len(cloud.lists)
        await asyncio.sleep(50.0)
        assert len(cloud.lists) - before <= 1

    lived(0.0, lambda _cloud, _inventory: None, during=story)
