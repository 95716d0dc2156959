"""Lost, late and contradictory responses of ARM: one pool per claim, and no claim that stops.

Times are virtual: after the result of a PUT is observed, the claim continues within one interval of the inventory.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.faults import Failure, Fault
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.claims import arm_calls, created, message, puts, ready, removed, wait_for_condition, word
from tests.world.harness import PERSON, Sim, node_claim, simulate, simulated

pytestmark = pytest.mark.matrix(quick=0)

NAME = "gpu1"
# The inventory looks every 4 s while anything is in flight, a LIST takes some of it, and a pass writes.
INTERVAL_SECONDS = 5.0
CALL_SECONDS = 15.0
SETTLE_SECONDS = 60.0


def lost(how: str) -> Fault:
    """The PUT takes effect, and its response is lost."""
    return {
        "reset": Fault(verb="PUT", drop="after"),
        "timeout": Fault(verb="PUT", slow_seconds=40.0, slow="after"),
    }[how]


def stretch_of(sim: Sim, status: str, reason: str) -> bool:
    return word(sim.claim(NAME), "Launched") == (status, reason)


async def applied(sim: Sim) -> str:
    return (await sim.apply(node_claim(NAME)))["metadata"]["uid"]


async def ends_well(sim: Sim, uid: str) -> None:
    """One pool there was; the machine comes and goes."""
    await ready(sim, NAME)
    assert [pool.name for pool in sim.pools_of(uid)] == [NAME]
    assert created(sim, NAME) == 1
    await removed(sim, NAME)
    await sim.settled()


@pytest.mark.parametrize(("how", "known_after"), [("reset", 0.5), ("timeout", CALL_SECONDS)])
@simulated()
async def test_a_put_that_took_effect_unheard_is_found_by_one_look(sim: Sim, how: str, known_after: float) -> None:
    """The response is lost: one GET finds the pool, and within an interval Launched is Creating."""
    sim.cloud.faults.append(lost(how))
    await sim.start_controller()
    uid = await applied(sim)
    await sim.until(lambda: created(sim, NAME), 5, "the pool is being made")
    began = sim.now
    await sim.until(lambda: stretch_of(sim, "Unknown", "Creating"), 60, "the condition is set")
    assert sim.now - began <= known_after + INTERVAL_SECONDS
    assert arm_calls(sim, NAME) == ["PUT", "GET"]
    await ends_well(sim, uid)
    assert len(puts(sim, NAME)) == 1


REFUSALS = {
    "throttled": Fault(verb="PUT", answer=errors.throttled("PutAgentPoolHandler.PUT", 30)),
    "forbidden": Fault(
        verb="PUT", answer=errors.forbidden("Microsoft.ContainerService/managedClusters/agentPools/write", "/x")
    ),
    "quota": faults.quota_preflight(times=1),
}


@pytest.mark.parametrize("second", REFUSALS)
@simulated(azure=AzureSettings(get_lag_seconds=45.0, list_lag_seconds=45.0))
async def test_a_rejected_put_does_not_hide_an_earlier_one_without_a_response(sim: Sim, second: str) -> None:
    """The first PUT took effect, reads lag, the second is rejected, the claim is deleted: the pool is found."""
    sim.cloud.faults += [Fault(verb="PUT", drop="after"), replace(REFUSALS[second])]
    await sim.start_controller()
    await asyncio.sleep(100)  # It leads for longer than a 404 needs to settle.
    uid = await applied(sim)
    await sim.until(lambda: len(puts(sim, NAME)) == 2, 40, "a second PUT")
    await asyncio.sleep(1)
    await removed(sim, NAME)
    assert sim.pools_of(uid) == []


@pytest.mark.matrix(quick=4)
@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
@pytest.mark.parametrize("applied_too", [True, False], ids=["applied", "not applied"])
@simulated()
async def test_an_error_response_leaves_the_result_of_the_write_open(sim: Sim, status: int, applied_too: bool) -> None:
    """A 5xx after the write, or instead of it: the pool is read, and the PUT is repeated only if it is absent."""

    async def answer_with_an_error(call: Any, response: Any) -> None:
        if call.verb == "PUT" and call.target.kind == "pools" and applied_too:
            sim_puts.append(call)
            response.set_status(status)

    sim_puts: list[Any] = []
    if applied_too:
        sim.world.after.append(answer_with_an_error)
    else:
        sim.cloud.faults.append(Fault(verb="PUT", answer=errors.html(status)))
    await sim.start_controller()
    uid = await applied(sim)
    await sim.until(lambda: created(sim, NAME), 30, "the pool is being made")
    began = sim.now
    await sim.until(lambda: stretch_of(sim, "Unknown", "Creating"), 60, "the condition is set")
    assert sim.now - began <= INTERVAL_SECONDS
    await ends_well(sim, uid)
    assert len(puts(sim, NAME)) == (1 if applied_too else 2)


@pytest.mark.matrix(quick=4)
@pytest.mark.parametrize("lag", [30.0, 60.0])
@pytest.mark.parametrize("where", ["get", "list", "both"])
@pytest.mark.parametrize("how", ["heard", "reset"])
def test_reads_that_lag_after_a_put_make_no_second_pool(how: str, where: str, lag: float) -> None:
    """GET 404 and LIST without the pool for up to a minute: it is not requested anew but where 412 answers."""
    lags: dict[str, Any] = {
        "get_lag_seconds": lag if where in ("get", "both") else 0.0,
        "list_lag_seconds": lag if where in ("list", "both") else 0.0,
    }

    async def story(sim: Sim) -> None:
        if how == "reset":
            sim.cloud.faults.append(lost("reset"))
        await sim.start_controller()
        uid = await applied(sim)
        await sim.until(lambda: created(sim, NAME), 5, "the pool is being made")
        began = sim.now
        await sim.until(lambda: stretch_of(sim, "Unknown", "Creating"), 300, "the condition is set")
        known_after = 0.0 if how == "heard" else min(lags.values()) and lag
        assert sim.now - began <= known_after + INTERVAL_SECONDS
        await ends_well(sim, uid)
        refused = [call for call in sim.audit_log.calls(verb="PUT", kind="pools", name=NAME) if call.status == 412]
        assert len(puts(sim, NAME)) == 1 + len(refused)
        assert len(refused) <= 3

    simulate(story, azure=AzureSettings(**lags))


@pytest.mark.parametrize("kill", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("lag", [0.0, 45.0])
def test_a_successor_meets_the_pool_of_a_lost_answer(lag: float, kill: float) -> None:
    """The process is killed before the response: the next one gets 412 or reads the pool, and adopts it."""

    async def story(sim: Sim) -> None:
        sim.cloud.faults.append(Fault(verb="PUT", slow_seconds=40.0, slow="after"))
        await sim.start_controller(elect=False)
        uid = await applied(sim)
        await sim.until(lambda: created(sim, NAME), 5, "the pool is being made")
        await asyncio.sleep(kill)
        sim.crash()
        await sim.start_controller("ctl1", elect=False)
        began = sim.now
        await sim.until(lambda: stretch_of(sim, "Unknown", "Creating"), 300, "the condition is set")
        assert sim.now - began <= lag + INTERVAL_SECONDS
        await ends_well(sim, uid)
        assert len(puts(sim, NAME)) <= (5 if lag else 1)

    simulate(story, azure=AzureSettings(get_lag_seconds=lag, list_lag_seconds=lag))


@pytest.mark.parametrize("how", ["seen", "unseen"])
@simulated()
async def test_a_pool_of_somebody_else_under_the_name_is_left_alone(sim: Sim, how: str) -> None:
    """After a 412 a pool without ownership tags is found: the claim states the conflict, and nothing is written."""
    await sim.start_controller()
    if how == "unseen":
        # It is made between our last look and our PUT.
        sim.cloud.faults.append(Fault(verb="PUT", slow_seconds=1.0, slow="before"))
        await applied(sim)
        await sim.until(lambda: puts(sim, NAME), 5, "the PUT is on its way")
        sim.cloud.seed_pool(NAME, vmSize="Standard_D2s_v5", count=1)
    else:
        sim.cloud.seed_pool(NAME, vmSize="Standard_D2s_v5", count=1)
        await asyncio.sleep(70)
        await applied(sim)
    theirs = sim.cloud.pools[NAME]
    await wait_for_condition(sim, NAME, "Launched", "False", "PoolNameTaken", within_seconds=10)
    assert "is not managed by this controller" in message(sim, NAME, "Launched")
    await asyncio.sleep(600)
    assert sim.cloud.pools[NAME] == theirs
    assert len(puts(sim, NAME)) == (1 if how == "unseen" else 0)
    await removed(sim, NAME, within_seconds=60)
    assert sim.cloud.pools[NAME] == theirs
    assert PERSON not in {call.who for call in sim.audit_log.calls(system="arm")}


@pytest.mark.parametrize("ttl", [0.0, 10.0, 3600.0])
def test_no_operation_is_ever_needed(ttl: float) -> None:
    """Operation URLs expire at once, soon or late: a life without failures reads none of them."""

    async def story(sim: Sim) -> None:
        await sim.start_controller()
        uid = await applied(sim)
        await ends_well(sim, uid)
        assert sim.cloud.counts["OPERATION"] == sim.cloud.counts["RESULT"] == 0

    simulate(story, azure=AzureSettings(operation_ttl_seconds=ttl))


@simulated()
async def test_a_failed_creation_with_a_lost_put_response_is_reported_and_repeated(sim: Sim) -> None:
    """The response with the operation's URL is lost: the failure is reported without a cause and the PUT repeated."""
    failure = Failure(error=faults.no_capacity(), silent=True)
    sim.cloud.faults.append(Fault(verb="PUT", drop="after", failure=failure))
    await sim.start_controller()
    uid = await applied(sim)
    await wait_for_condition(sim, NAME, "Launched", "False", "CreateFailed", within_seconds=120)
    assert await ready(sim, NAME, within_seconds=1200) == uid
    assert created(sim, NAME) == 2
    assert sim.cloud.counts["OPERATION"] == 0
