"""The inventory: merging LISTs, poll interval, and when a 404 proves absence."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from cloudprovider.errors import Retryable
from cloudprovider.interface import Cluster, Failure, Instance, InstanceState, Offering, ResourceSku, Usage
from cloudprovider.inventory import Inventory
from cloudprovider.observations import Observation, merge, settles_in
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.simulator.loop import run
from tests.stories import run_by

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
POOL = Instance(name="a", state=InstanceState.CREATING, etag="e1", claim_uid="u1")
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


@pytest.mark.parametrize(("reported", "before", "listed", "lately", "expected"), MERGES, ids=[row[0] for row in MERGES])
def test_merge(reported: str, before: dict, listed: list, lately: dict, expected: Instance | None) -> None:
    """A LIST sent at t=5 is merged into the cache."""
    merged = merge(before, listed, started_at=5.0, **lately)
    after = merged.observations.get("a")
    assert (after.instance if after else None) == expected, reported
    was = before["a"].instance if before else None
    assert merged.changed == (("a",) if was != expected else ()), reported


SETTLING = [
    ("seen after the last PUT: at once", {"seen_at": 10.0, "put_at": 5.0}, 0.0),
    ("seen only before it: 60 s after it", {"seen_at": 4.0, "put_at": 95.0}, 55.0),
    ("never PUT by us: 60 s after we began to lead", {"seen_at": None, "put_at": None}, 50.0),
    ("PUT before we led counts from our lead", {"seen_at": None, "put_at": 1.0}, 50.0),
    ("long ago", {"seen_at": None, "put_at": 20.0, "leading_since": 0.0}, 0.0),
]


@pytest.mark.parametrize(("reported", "known", "expected"), SETTLING, ids=[row[0] for row in SETTLING])
def test_settles_in(reported: str, known: dict, expected: float) -> None:
    """At t=100, leading since t=90."""
    assert settles_in(**{"now": 100.0, "leading_since": 90.0, "settle_seconds": 60.0, **known}) == expected, reported


class Cloud:
    """A cloud with a given list; its other calls are not used."""

    def __init__(self) -> None:
        self.pools: list[Instance] = []
        self.failing: Retryable | None = None
        self.lists: list[float] = []
        self.began = asyncio.Event()
        self.slow = 0.0
        self.pages = 1

    async def list(self, *, before_page: Callable[[], Awaitable[None]] | None = None) -> list[Instance]:
        self.lists.append(asyncio.get_running_loop().time())
        self.began.set()
        if self.failing is not None:
            raise self.failing
        pools = list(self.pools)
        await asyncio.sleep(self.slow)
        for _ in range(1, self.pages):
            assert before_page is not None
            await before_page()
        return pools

    async def cause(self, instance: Instance) -> Failure | None:
        raise AssertionError(instance)

    async def usages(self) -> Mapping[str, Usage]:
        return {}

    async def skus(self) -> Mapping[str, ResourceSku]:
        return {}

    async def latest_image(self, name: str) -> str:
        return ""

    async def cluster(self) -> Cluster:
        return Cluster(running=True)

    async def create(
        self,
        claim: NodeClaim,
        name: str,
        offering: Offering | None = None,
        node_class: AgentPoolNodeClass | None = None,
    ) -> Instance:
        raise AssertionError(name)

    async def get(self, name: str) -> Instance:
        raise AssertionError(name)

    async def delete(self, instance: Instance) -> None:
        raise AssertionError(instance)

    async def close(self) -> None:
        return


def lived(seconds: float, prepare, *, during=None) -> tuple[Cloud, Inventory, list[str]]:
    """Run an inventory for some virtual seconds."""
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


def lives(story) -> None:
    """Run a story with the cloud and an inventory of it."""
    lived(0.0, lambda _cloud, _inventory: None, during=story)


def test_the_poll_interval() -> None:
    """Idle: about once a minute; with a pool in flight: every four seconds."""
    idle, _, _ = lived(300.0, lambda cloud, _: None)
    busy, _, _ = lived(300.0, lambda cloud, _: cloud.pools.append(POOL))
    assert len(idle.lists) in range(5, 8)
    assert len(busy.lists) in range(72, 78)


def test_a_failed_list_keeps_the_cache() -> None:
    """LISTs back off exponentially, and not before `Retry-After`."""

    async def then_fail(cloud: Cloud, inventory: Inventory) -> None:
        await asyncio.sleep(1.0)
        cloud.failing = Retryable("Throttled", "Throttled: slow down", after=40.0)
        inventory.set_in_flight("a")

    cloud, inventory, _ = lived(200.0, lambda cloud, _: cloud.pools.append(RUNNING), during=then_fail)
    assert inventory.get("a") == RUNNING
    assert inventory.list_error is cloud.failing
    assert all(later - sooner >= 40.0 for sooner, later in zip(cloud.lists[1:], cloud.lists[2:], strict=False))


def test_on_change_is_called_once_per_change() -> None:
    """An unchanged list calls nothing."""
    _, _, woken = lived(300.0, lambda cloud, _: cloud.pools.append(POOL))
    assert woken == ["a"]


@run_by(lives, given=2)
async def test_a_404_after_a_put_is_unsettled_until_the_pool_was_seen(cloud: Cloud, inventory: Inventory) -> None:
    """Read lag must not look like absence."""
    inventory.put_attempted("a")
    inventory.record_absent("a")
    assert inventory.absence("a") == "unsettled"
    inventory.record_get(POOL)
    assert inventory.absence("a") == "present"
    await asyncio.sleep(1.0)
    inventory.record_absent("a")
    assert inventory.absence("a") == "unsettled", "nothing deletes it: reads can go back in time"
    inventory.record_get(POOL)
    inventory.record_delete("a")
    inventory.record_absent("a")
    assert inventory.absence("a") == "absent"


@run_by(lives, given=2)
async def test_the_response_of_a_put_does_not_settle_a_404(cloud: Cloud, inventory: Inventory) -> None:
    """A GET may lag behind an accepted PUT or DELETE."""
    inventory.put_attempted("a")
    inventory.record_put(POOL)
    inventory.record_delete("a")
    await asyncio.sleep(1.0)
    inventory.record_absent("a")
    assert inventory.absence("a") == "unsettled"


def test_a_list_settles_a_404_once_it_omits_the_pool() -> None:
    """A pool that LISTs show and a GET does not is present; one that LISTs have shown and omit now is absent."""

    async def story(cloud: Cloud, inventory: Inventory) -> None:
        inventory.put_attempted("a")
        inventory.record_put(POOL)
        await asyncio.sleep(10.0)
        assert inventory.get("a") == POOL
        inventory.record_absent("a")
        assert inventory.absence("a") == "unsettled"
        await asyncio.sleep(10.0)
        assert inventory.absence("a") == "present"
        inventory.record_delete("a")
        cloud.pools.clear()
        await asyncio.sleep(10.0)
        inventory.record_absent("a")
        assert inventory.absence("a") == "absent"

    lived(0.0, lambda cloud, _: cloud.pools.append(POOL), during=story)


MADE = datetime(2026, 3, 1, 12, tzinfo=UTC)
EARLIER = datetime(2026, 3, 1, 11, tzinfo=UTC)


def tagged(state: InstanceState, put_time: datetime = MADE) -> Instance:
    return msgspec.structs.replace(POOL, state=state, etag=str(state), put_time=put_time)


async def listed(cloud: Cloud, *pools: Instance) -> None:
    """Wait until a LIST that begins from now on shows these pools."""
    cloud.pools[:] = pools
    cloud.began.clear()
    await cloud.began.wait()
    await asyncio.sleep(0.25)


async def put(cloud: Cloud, inventory: Inventory) -> None:
    """A PUT is accepted, and the inventory lists often."""
    await asyncio.sleep(1.0)
    inventory.put_attempted("a")
    inventory.record_put(tagged(InstanceState.CREATING))
    inventory.set_in_flight("a")


def absence_after(*lists: tuple[Instance, ...], age: float, delete_after: int | None) -> str:
    """The absence of a pool, PUT `age` seconds ago, after these LISTs; its DELETE is accepted after some of them."""
    found: list[str] = []

    async def story(cloud: Cloud, inventory: Inventory) -> None:
        await put(cloud, inventory)
        cloud.pools[:] = lists[0]
        await asyncio.sleep(age)
        for number, pools in enumerate(lists):
            if number == delete_after:
                inventory.record_delete("a")
            await listed(cloud, *pools)
        found.append(inventory.absence("a"))

    lives(story)
    return found[0]


RUNS, GOES = tagged(InstanceState.RUNNING), tagged(InstanceState.DELETING)
WAS_GOING = tagged(InstanceState.DELETING, EARLIER)
OLD = 61.0
PROOFS = [
    ("a LIST showed it Deleting, the next does not show it", ((RUNS,), (GOES,), ()), OLD, None, "absent"),
    ("our DELETE was accepted, and no LIST showed it Deleting", ((RUNS,), ()), OLD, 1, "absent"),
    ("a LIST lags behind our DELETE", ((RUNS,), (RUNS,), ()), OLD, 1, "absent"),
    ("it still is Deleting", ((RUNS,), (GOES,)), OLD, None, "present"),
    ("no LIST showed it Deleting, and we sent no DELETE", ((RUNS,), ()), OLD, None, "unknown"),
    ("the LIST can be older than its PUT", ((RUNS,), (GOES,), ()), 0.0, None, "unknown"),
    ("no LIST has shown it: the LIST lags behind PUT and DELETE", ((), ()), 0.0, 1, "present"),
    (
        "LISTs show the earlier pool of its name until that is gone",
        ((WAS_GOING,), (WAS_GOING,), ()),
        0.0,
        None,
        "present",
    ),
]


@pytest.mark.parametrize(("reported", "lists", "age", "deleted", "expected"), PROOFS, ids=[row[0] for row in PROOFS])
def test_proof_by_list(reported: str, lists: tuple, age: float, deleted: int | None, expected: str) -> None:
    """A LIST without the pool proves its absence if an earlier one showed it and it was in deletion."""
    assert absence_after(*lists, age=age, delete_after=deleted) == expected, reported


@run_by(lives, given=2)
async def test_a_new_put_ends_a_proof_by_list(cloud: Cloud, inventory: Inventory) -> None:
    """Neither a proof nor what LISTs showed before a PUT applies to the pool of that PUT."""
    await put(cloud, inventory)
    await listed(cloud, GOES)
    inventory.put_attempted("a")
    inventory.put_result_unknown("a")
    await listed(cloud)
    assert inventory.absence("a") == "present"
    inventory.record_absent("a")
    assert inventory.absence("a") == "unsettled"


LATER = msgspec.structs.replace(tagged(InstanceState.CREATING, MADE + timedelta(seconds=9)), name="b")
LATER_PUTS = [
    ("the LIST shows the pool of a PUT that was sent after the other was accepted", LATER, 1, True, "absent"),
    ("it shows an earlier pool of that name", msgspec.structs.replace(LATER, put_time=EARLIER), 1, True, "unknown"),
    ("that PUT was sent before the other was accepted", LATER, 1, False, "unknown"),
    ("one page can be older than the other", LATER, 2, True, "unknown"),
    ("no other pool is shown", None, 1, True, "unknown"),
]


@pytest.mark.parametrize(
    ("reported", "other", "pages", "later", "expected"), LATER_PUTS, ids=[row[0] for row in LATER_PUTS]
)
def test_a_list_that_is_newer_than_a_recent_put(
    reported: str, other: Instance | None, pages: int, later: bool, expected: str
) -> None:
    """A LIST within a minute of a PUT proves the absence of its pool if it shows that of a later PUT."""

    async def story(cloud: Cloud, inventory: Inventory) -> None:
        if not later:
            inventory.put_attempted("b")
        await put(cloud, inventory)
        await asyncio.sleep(1.0)
        if later:
            inventory.put_attempted("b")
        inventory.record_put(LATER)
        await listed(cloud, GOES, LATER)
        cloud.pages = pages
        await listed(cloud, *(() if other is None else (other,)))
        assert inventory.absence("a") == expected, reported

    lives(story)


def test_a_later_list_that_proves_an_absence_wakes_its_key() -> None:
    """The LIST that no longer showed the pool was too early to prove it."""

    async def story(cloud: Cloud, inventory: Inventory) -> None:
        await put(cloud, inventory)
        await listed(cloud, GOES)
        await listed(cloud)
        await asyncio.sleep(OLD)

    _, inventory, woken = lived(0.0, lambda _cloud, _inventory: None, during=story)
    assert inventory.absence("a") == "absent"
    assert woken == ["a"] * 4, "the PUT, Deleting, no longer shown, proven absent"


@run_by(lives, given=2)
async def test_a_pool_that_a_newer_get_shows_is_not_absent_by_list(cloud: Cloud, inventory: Inventory) -> None:
    """A LIST that began before the GET does not prove anything; the next one does."""
    await put(cloud, inventory)
    cloud.pools[:] = [RUNS]
    await asyncio.sleep(OLD)
    await listed(cloud, GOES)
    cloud.slow = 1.0
    await listed(cloud)
    inventory.record_get(GOES)
    await asyncio.sleep(2.0)
    assert inventory.absence("a") == "present"
    await listed(cloud)
    await asyncio.sleep(2.0)
    assert inventory.absence("a") == "absent"


@run_by(lives, given=2)
async def test_an_earlier_leaders_put_settles_before_a_list_proves_anything(cloud: Cloud, inventory: Inventory) -> None:
    """A LIST of the first minute may show the pool that existed before the PUT of an earlier leader."""
    inventory.set_in_flight("a")
    await listed(cloud, WAS_GOING)
    await listed(cloud)
    assert inventory.absence("a") == "unknown"
    await listed(cloud, GOES)
    await asyncio.sleep(OLD)
    await listed(cloud)
    assert inventory.absence("a") == "absent"


@run_by(lives, given=2)
async def test_a_list_follows_a_deletion_soon(cloud: Cloud, inventory: Inventory) -> None:
    """It is not awaited for the minute of an idle poller."""
    await listed(cloud, RUNNING)
    lists = len(cloud.lists)
    inventory.record_delete("a")
    await asyncio.sleep(10.0)
    assert len(cloud.lists) > lists


@run_by(lives, given=2)
async def test_the_age_of_a_read_of_the_cluster(cloud: Cloud, inventory: Inventory) -> None:
    """It is counted from the request."""
    assert inventory.cluster_age() == math.inf
    inventory.record_cluster(await cloud.cluster(), asyncio.get_running_loop().time() - 2.0)
    await asyncio.sleep(3.0)
    assert inventory.cluster_age() == pytest.approx(5.0)


@run_by(lives, given=2)
async def test_the_age_of_the_newest_list(cloud: Cloud, inventory: Inventory) -> None:
    """A minute after the first LIST it is that of the second one."""
    await listed(cloud, RUNNING)
    await listed(cloud, RUNNING)
    await asyncio.sleep(3.0)
    assert inventory.staleness_seconds() == pytest.approx(inventory.age()) == pytest.approx(3.25)


@run_by(lives, given=2)
async def test_a_deletion_without_effect_is_forgotten(cloud: Cloud, inventory: Inventory) -> None:
    """A pool that LISTs still show a minute after its DELETE was not deleted by it."""
    await put(cloud, inventory)
    await listed(cloud, RUNS)
    inventory.record_delete("a")
    cloud.pools[:] = [tagged(InstanceState.FAILED)]
    await asyncio.sleep(90.0)
    await listed(cloud)
    assert inventory.absence("a") == "unknown"


@run_by(lives, given=2)
async def test_a_rejected_put_does_not_unsettle_a_404(cloud: Cloud, inventory: Inventory) -> None:
    """As if no PUT had been sent."""
    await asyncio.sleep(61.0)
    inventory.put_attempted("a")
    assert inventory.settles_in("a") > 0
    inventory.put_rejected("a")
    assert inventory.settles_in("a") == 0.0


@run_by(lives, given=2)
async def test_a_rejected_put_does_not_settle_the_404s_of_an_earlier_one(cloud: Cloud, inventory: Inventory) -> None:
    """The result of the first PUT is unknown: its 404s settle 60 s after it, whatever becomes of the next one."""
    await asyncio.sleep(61.0)
    inventory.put_attempted("a")
    inventory.put_result_unknown("a")
    await asyncio.sleep(20.0)
    inventory.put_attempted("a")
    inventory.put_rejected("a")
    assert inventory.settles_in("a") == pytest.approx(40.0)
    inventory.record_absent("a")
    assert inventory.absence("a") == "unsettled"
    before = len(cloud.lists)
    await asyncio.sleep(10.0)
    assert len(cloud.lists) - before in (2, 3)
    inventory.put_attempted("a")
    inventory.put_rejected("a")
    assert inventory.settles_in("a") == pytest.approx(30.0)
    await asyncio.sleep(31.0)
    inventory.record_absent("a")
    assert inventory.absence("a") == "absent"


@pytest.mark.parametrize("instance_of", [True, False])
def test_an_unknown_put_result_polls_often(*, instance_of: bool) -> None:
    """Every few seconds until the pool is seen or a 404 is settled."""

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

    lives(story)
