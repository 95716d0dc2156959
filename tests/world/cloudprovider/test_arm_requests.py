"""Stories of PUTs: taken names, lost responses, lagging reads, restarts."""

import asyncio

import pytest

from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import Fault, throttled
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.claims import arm_calls, created, events, puts, ready, removed, versions, wait_for_condition, word
from tests.world.harness import node_claim, simulate, simulated
from tests.world.nodeclaim.common import gaps

pytestmark = pytest.mark.matrix(quick=0)

MERGE = "application/merge-patch+json"


async def release_by_hand(sim, name) -> None:
    """Remove all finalizers of a claim, as a user should not."""
    path = f"/apis/karpenter.sh/v1/nodeclaims/{name}"
    await sim.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)


# Taken names


@simulated()
async def test_a_foreign_pool_is_never_written(sim) -> None:
    """The claim states the conflict once and can be deleted."""
    await sim.start_controller()
    pool = sim.cloud.pools["theirs"]
    await sim.apply(node_claim("theirs"))
    reported = await wait_for_condition(sim, "theirs", "Launched", "False", "PoolNameTaken", within_seconds=5)
    assert reported["message"] == (
        "agent pool theirs exists and is not managed by this controller: use another name for this claim"
    )
    await asyncio.sleep(3600)
    assert [event["count"] for event in events(sim, "theirs", "PoolNameTaken")] == [1]
    await removed(sim, "theirs", within_seconds=5)
    await sim.settled()
    assert not {"PUT", "DELETE"} & set(arm_calls(sim, "theirs"))
    assert sim.cloud.pools["theirs"] == pool


@simulated()
async def test_a_name_is_used_once_the_foreign_pool_is_deleted(sim) -> None:
    """The claim gets its pool."""
    await sim.start_controller()
    await sim.apply(node_claim("theirs"))
    await wait_for_condition(sim, "theirs", "Launched", "False", "PoolNameTaken")
    sim.cloud.delete_pool_by_hand("theirs")
    await ready(sim, "theirs")


@pytest.mark.parametrize("watched", [True, False])
@simulated()
async def test_a_claim_waits_for_the_pool_of_its_predecessor(sim, watched) -> None:
    """A claim re-created without its finalizers waits, with a message, and then gets its own pool."""
    await sim.start_controller()
    old = (await sim.apply(node_claim("gpu1")))["metadata"]["uid"]
    await ready(sim, "gpu1")
    if not watched:
        await sim.stop_controller()
    await sim.delete_claim("gpu1")
    if watched:
        await sim.until(lambda: sim.cloud.pools["gpu1"].state == "Deleting", 60, "the pool is being deleted")
    await release_by_hand(sim, "gpu1")
    new = (await sim.apply(node_claim("gpu1")))["metadata"]["uid"]
    if not watched:
        await sim.start_controller("ctl1")
    reported = await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "PreviousPoolLeft", within_seconds=120)
    assert reported["message"] == "waiting for agent pool gpu1 of a previous claim of this name to be deleted"
    assert await ready(sim, "gpu1", within_seconds=1800) == new
    assert (len(sim.pools_of(old)), len(sim.pools_of(new)), created(sim, "gpu1")) == (0, 1, 2)
    await removed(sim, "gpu1")
    await sim.settled()


# Lost responses


@pytest.mark.matrix(quick=4)
@pytest.mark.parametrize("lag", [0.0, 30.0])
@pytest.mark.parametrize(
    ("fault", "most"),
    [
        (Fault(verb="PUT", drop="before"), 2),
        (Fault(verb="PUT", drop="after"), 1),
        (Fault(verb="PUT", drop="after", times=3), 1),
        (Fault(verb="PUT", slow_seconds=40.0, slow="before"), 2),
        (Fault(verb="PUT", slow_seconds=40.0, slow="after"), 1),
        (Fault(verb="PUT", answer=errors.html(502)), 2),
    ],
    ids=["lost on the way", "lost on the way back", "always lost on the way back", "late", "answered late", "proxy"],
)
def test_a_lost_response_does_not_create_a_second_pool(fault, most, lag) -> None:
    """Whatever the result of the PUT, the claim gets one pool."""

    async def story(sim) -> None:
        sim.cloud.faults.append(Fault(**{**vars(fault), "seen": 0}))
        await sim.start_controller()
        await sim.apply(node_claim("gpu1"))
        await ready(sim, "gpu1")
        assert created(sim, "gpu1") == 1
        # A lagging read may not show the pool; then the precondition fails.
        assert len(puts(sim, "gpu1")) <= most + (lag > 0) * 3
        await removed(sim, "gpu1")
        await sim.settled()

    simulate(story, azure=AzureSettings(get_lag_seconds=lag))


@simulated(azure=AzureSettings(list_lag_seconds=30.0))
async def test_a_pool_that_the_list_does_not_show_is_adopted(sim) -> None:
    """A new leader whose reads lag gets 412, reads the pool and adopts it."""
    await sim.start_controller(elect=False)
    uid = (await sim.apply(node_claim("gpu1")))["metadata"]["uid"]
    await sim.until(lambda: created(sim, "gpu1"), 5, "the PUT is accepted")
    sim.crash()
    await sim.start_controller("ctl1", elect=False)
    await ready(sim, "gpu1")
    assert [pool.name for pool in sim.pools_of(uid)] == ["gpu1"]
    assert (created(sim, "gpu1"), len(puts(sim, "gpu1"))) == (1, 2)
    assert puts(sim, "gpu1")[1] < 5
    assert not [one for one in events(sim, "gpu1") if one["type"] == "Warning"]


@pytest.mark.parametrize("times", [1, 5])
@simulated()
async def test_a_put_is_retried_after_another_operation(sim, times) -> None:
    """After a 409 the pool is read and the PUT retried; the claim states the reason."""
    sim.cloud.faults.append(Fault(verb="PUT", answer=errors.cluster_busy("Updating"), times=times))
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    reported = await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "OperationInProgress", within_seconds=5)
    assert "Another operation (Updating) is in progress" in reported["message"]
    await ready(sim, "gpu1")
    assert len(puts(sim, "gpu1")) == times + 1
    assert all(later - sooner >= 4.9 for sooner, later in zip(puts(sim, "gpu1"), puts(sim, "gpu1")[1:], strict=False))


@pytest.mark.parametrize("seconds", [7, 30, 300])
@simulated()
async def test_retry_after_is_obeyed_exactly(sim, seconds) -> None:
    """After a 429 the next PUT is sent when Retry-After has passed, and not much later."""
    sim.cloud.faults.append(throttled(seconds=seconds, times=3))
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    reported = await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "Throttled", within_seconds=5)
    assert reported["message"].startswith("Throttled: ")
    await ready(sim, "gpu1", within_seconds=4000)
    assert gaps(puts(sim, "gpu1")) == [pytest.approx(seconds + 0.25, abs=0.25)] * 3


# Lagging reads


@pytest.mark.matrix(quick=3)
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize(("get", "lists"), [(0, 30), (30, 0), (30, 30), (5, 20), (20, 5)])
def test_reads_may_lag(get, lists, order) -> None:
    """With GET and LIST up to 30 s behind, claims become Ready and are deleted with one PUT each."""

    async def story(sim) -> None:
        await sim.start_controller()
        for _ in range(2):
            await sim.apply(node_claim("gpu1"))
            await ready(sim, "gpu1")
            await removed(sim, "gpu1")
        await sim.settled()
        assert (created(sim, "gpu1"), len(puts(sim, "gpu1"))) == (2, 2)

    azure = AzureSettings(get_lag_seconds=get, list_lag_seconds=lists, list_order=order, create_seconds=(60.0, 90.0))
    simulate(story, azure=azure)


@pytest.mark.parametrize("lag", [0.0, 30.0])
def test_a_service_that_ignores_preconditions(lag) -> None:
    """Without If-None-Match, a pool in the inventory is still not written unless it is owned (I4)."""

    async def story(sim) -> None:
        sim.cloud.faults.append(Fault(verb="PUT", pool="gpu1", drop="after"))
        await sim.start_controller()
        pool = sim.cloud.pools["theirs"]
        await asyncio.sleep(lag * 2)
        await sim.apply(node_claim("theirs"))
        await sim.apply(node_claim("gpu1"))
        await wait_for_condition(sim, "theirs", "Launched", "False", "PoolNameTaken", within_seconds=5)
        await ready(sim, "gpu1")
        await removed(sim, "gpu1")
        await removed(sim, "theirs")
        await sim.settled()
        assert sim.cloud.pools["theirs"] == pool

    azure = AzureSettings(ignore_preconditions=True, get_lag_seconds=lag, list_lag_seconds=lag)
    simulate(story, azure=azure)


# Restarts


@pytest.mark.matrix(quick=4)
@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("at", [0.05, 0.2, 0.44, 3.0, 60.0, 137.0, 160.0, 219.0])
@simulated()
async def test_a_restart_during_launch(sim, at, reset) -> None:
    """Killed at any time of the launch, the program continues: one pool, and a correct status."""
    seen = versions(sim, "gpu1")
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await asyncio.sleep(at - sim.now)
    sim.crash(reset=reset)
    await asyncio.sleep(2)
    await sim.start_controller("ctl1")
    await ready(sim, "gpu1")
    assert created(sim, "gpu1") == 1
    for _, claim in seen:
        assert not (claim.get("status") or {}).get("nodeName") or word(claim, "Ready")[0]
    assert [word(claim, "Ready")[0] for _, claim in seen].count("True") == 1
    await removed(sim, "gpu1")
    await sim.settled()


@simulated()
async def test_changes_during_downtime_are_observed(sim) -> None:
    """If the machine came up during a downtime, the claim is Ready within a second of leading."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await asyncio.sleep(30)
    await sim.stop_controller()
    await asyncio.sleep(1800)
    assert sim.nodes_of("gpu1")
    assert sim.condition("gpu1", "Ready") == "Unknown"
    await sim.start_controller("ctl1")
    await ready(sim, "gpu1", within_seconds=1)
