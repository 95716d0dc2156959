"""Deletion of a claim during the creation of its pool: DELETE is sent at once and repeated until AKS accepts it.

AKS refuses it with 409 for as long as the creation lasts. The operation is not aborted, no finalizer is removed before
the pool is gone, and the claim states what it waits for.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest

from provisioner.api import labels
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.claims import Seen, condition, versions, wait_for_condition
from tests.world.harness import SHIPPED_LEASE, Sim, node_claim, simulate, simulated
from tests.world.main_job import NAME, gone
from tests.world.transcript import FAST, MINUTE, claim_condition, finalizers, gaps, pool_calls

from .common import NO_NODE, WHOLE, applied, being_created, failed, up, went

pytestmark = pytest.mark.matrix(quick=0)

SLOW = AzureSettings(create_seconds=(1200.0, 1200.0), delete_seconds=(30.0, 60.0), node_share=(0.9, 0.95))
OTHER = "ws00000other"


async def creating(sim: Sim) -> str:
    """Start a controller and wait until the pool of a claim is being created; its UID."""
    uid = await applied(sim)
    await being_created(sim)
    return uid


def words(seen: Iterable[Seen], reason: str) -> list[str]:
    """The distinct messages of InstanceTerminating with that reason, in order."""
    reported = [condition(one.obj, "InstanceTerminating") for one in seen]
    return list(dict.fromkeys(one["message"] for one in reported if one.get("reason") == reason))


def accepted(sim: Sim, name: str = NAME) -> int:
    """The number of accepted DELETEs of a pool."""
    return sum(call.status == 202 for call in pool_calls(sim, "DELETE", name))


def never_aborted(sim: Sim) -> bool:
    """Whether the only writes to ARM were PUTs and DELETEs of pools."""
    return {call.verb for call in sim.audit_log.calls(system="arm") if call.is_write} == {"PUT", "DELETE"}


@simulated(azure=SLOW)
async def test_a_creation_of_twenty_minutes_is_waited_for(sim: Sim) -> None:
    """DELETE at once, after 5, 10, 20 and then every 30 s; one write states cause, start and retry interval."""
    uid = await creating(sim)
    seen = versions(sim, NAME)
    requested_at = sim.now
    await sim.delete_claim(NAME)
    await sim.until(lambda: pool_calls(sim, "DELETE"), 1, "DELETE is sent at once")
    await wait_for_condition(sim, NAME, "InstanceTerminating", "Unknown", "OperationInProgress", within_seconds=5)
    await asyncio.sleep(15 * MINUTE)
    assert finalizers(sim.claim(NAME)) == [labels.FINALIZER]
    (reported,) = words(seen, "OperationInProgress")
    assert reported.startswith("OperationNotAllowed: ")
    assert f"({NAME} - Creating) is in progress" in reported
    assert reported.endswith("; deletion due since 12:00:00Z, next try within 30 s")
    quiet = [call for call in sim.audit_log.writes(who="ctl0") if call.system == "kube" and call.at > requested_at + 5]
    assert not quiet, "an unchanged state is never written again"
    await went(sim, uid, WHOLE)
    # A new Node changes the pool's ETag: that try is repeated at once, and counts as one with the next.
    tries = [call for call in pool_calls(sim, "DELETE") if call.status != 412]
    assert gaps(tries)[:5] == [5, 10, 20, 30, 30]
    assert set(gaps(tries)[5:]) == {30}
    assert [call.status for call in tries] == [409] * (len(tries) - 1) + [202]
    assert [call.status for call in pool_calls(sim, "PUT")] == [201]
    assert len(pool_calls(sim, "GET")) == 2, "a look at the first refusal, and one for the new ETag"
    assert never_aborted(sim)


@simulated(azure=FAST)
async def test_azures_own_wait_is_obeyed(sim: Sim) -> None:
    """A 409 with Retry-After is retried after exactly that time, and the claim states the maximum."""
    uid = await creating(sim)
    seen = versions(sim, NAME)
    busy = replace(errors.pool_busy(NAME, "Creating"), headers={"Retry-After": "180"})
    sim.cloud.faults.append(Fault(verb="DELETE", times=3, answer=busy))
    await sim.delete_claim(NAME)
    await went(sim, uid, WHOLE)
    assert gaps(pool_calls(sim, "DELETE")) == [180, 180, 180]
    # Once the Node is Ready, the deletion is due since it was drained.
    *_, reported = words(seen, "OperationInProgress")
    assert reported.endswith("next try within 3 min")
    assert never_aborted(sim)


@pytest.mark.parametrize("drop", ["before", "after"])
@pytest.mark.parametrize("preempts", [True, False], ids=["while creating", "when created"])
def test_a_lost_answer_is_looked_up(drop: str, *, preempts: bool) -> None:
    """After a lost response to DELETE the pool is read: no second DELETE is sent for a pool that is Deleting."""

    async def story(sim: Sim) -> None:
        uid = await creating(sim) if preempts else await up(sim)
        sim.cloud.faults += [
            Fault(verb="DELETE", drop=drop),
            Fault(verb="LIST", times=5, answer=errors.rp(500, "InternalServerError", "no list now")),
        ]
        await sim.delete_claim(NAME)
        await went(sim, uid, NO_NODE if preempts else WHOLE)
        tries = pool_calls(sim, "DELETE")
        assert [call.status for call in tries] == ([0] if drop == "after" else [0, 202])
        lost = tries[0].at
        looks = [call.at for call in pool_calls(sim, "GET") if lost < call.at < lost + 30]
        assert len(looks) == 1
        assert never_aborted(sim)

    simulate(story, azure=replace(FAST, delete_preempts=preempts))


@simulated(lease=SHIPPED_LEASE, azure=SLOW)
async def test_a_restart_between_two_tries(sim: Sim) -> None:
    """A new leader retries at once and reports the same message; one DELETE is accepted in all."""
    uid = await creating(sim)
    seen = versions(sim, NAME)
    await sim.delete_claim(NAME)
    await sim.until(lambda: len(pool_calls(sim, "DELETE")) == 3, 60, "it was refused three times")
    sim.crash("ctl0")
    crashed_at = sim.now
    await sim.start_controller("ctl1")
    await sim.until(lambda: len(pool_calls(sim, "DELETE")) == 4, 45, "the successor tries")
    await sim.until(lambda: len(pool_calls(sim, "DELETE")) == 6, 20, "its own patience starts anew")
    assert sim.now - crashed_at < 65
    await sim.until(lambda: accepted(sim), 25 * MINUTE, "the creation has ended")
    await asyncio.sleep(1)
    await sim.stop_controller("ctl1")
    await sim.start_controller("ctl2")
    await went(sim, uid, WHOLE)
    assert len(words(seen, "OperationInProgress")) <= 2, "one, and one more once the Node was drained"
    assert accepted(sim) == 1
    assert pool_calls(sim, "DELETE")[-1].who == "ctl1", "a pool that goes already is left alone"
    assert never_aborted(sim)


@simulated(azure=FAST)
async def test_two_claims_wait_each_for_its_own_pool(sim: Sim) -> None:
    """A pool with a slow creation does not delay the removal of others."""
    sim.cloud.faults.append(Fault(verb="PUT", pool=OTHER, operation_seconds=1200.0))
    uid = await creating(sim)
    other = (await sim.apply(node_claim(OTHER)))["metadata"]["uid"]
    await wait_for_condition(sim, OTHER, "Launched", "Unknown", "Creating", within_seconds=10)
    for name in (NAME, OTHER):
        await sim.delete_claim(name)
    await gone(sim, within_seconds=200)
    assert sim.audit_log.deletion_order(uid) == WHOLE
    assert claim_condition(sim, "InstanceTerminating", OTHER)[1] == "OperationInProgress"
    assert f"({OTHER} - Creating)" in claim_condition(sim, "InstanceTerminating", OTHER)[2]
    await gone(sim, OTHER, within_seconds=25 * MINUTE)
    assert sim.audit_log.deletion_order(other) == WHOLE
    assert accepted(sim) == accepted(sim, OTHER) == 1
    assert never_aborted(sim)
    await sim.settled(quiet_seconds=70.0)


@simulated(azure=replace(SLOW, create_seconds=(2400.0, 2400.0)))
async def test_an_overdue_removal_still_reports_its_start(sim: Sim) -> None:
    """After 30 min of refusals the claim is overdue, and still states cause, start and retry interval."""
    await creating(sim)
    await sim.delete_claim(NAME)
    await sim.until(lambda: "overdue" in claim_condition(sim, "InstanceTerminating")[2], 31 * MINUTE, "it is overdue")
    message = claim_condition(sim, "InstanceTerminating")[2]
    assert message.startswith("OperationNotAllowed: ")
    assert message.endswith("; deletion due since 12:00:00Z, next try within 30 s; overdue: over 30 min")
    await gone(sim, within_seconds=20 * MINUTE)


@simulated(azure=FAST)
async def test_a_failed_pool_that_is_not_let_go_at_once(sim: Sim) -> None:
    """A refused removal of a failed pool is retried, and a new attempt follows."""
    uid = await applied(sim)
    refusal = errors.rp(500, "InternalServerError", "not now")
    sim.cloud.faults.append(Fault(verb="DELETE", times=2, answer=refusal))
    await failed(sim)
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 10 * MINUTE, "the second attempt is Ready")
    tries = pool_calls(sim, "DELETE")
    assert [call.status for call in tries] == [500, 500, 202]
    assert gaps(tries) == [5, 10]
    assert len(sim.pools_of(uid)) == 1


@simulated(azure=FAST)
async def test_azure_refuses_for_good_and_then_does_not(sim: Sim) -> None:
    """While permission to delete is missing, the claim states ARM's code and nothing is removed; then it completes."""
    uid = await creating(sim)
    action = "Microsoft.ContainerService/managedClusters/agentPools/delete"
    denied = Fault(verb="DELETE", times=ALWAYS, answer=errors.forbidden(action, "/subscriptions/s"))
    sim.cloud.faults.append(denied)
    await sim.delete_claim(NAME)
    await sim.until(
        lambda: "AuthorizationFailed" in claim_condition(sim, "InstanceTerminating")[2], 10, "the condition is set"
    )
    message = claim_condition(sim, "InstanceTerminating")[2]
    assert message.startswith("AuthorizationFailed: missing permission agentPools/delete. Apply charts/")
    assert "it can take an hour to take effect; deletion due since 12:00:00Z, next try within 5 min" in message
    await asyncio.sleep(10 * MINUTE)
    assert sim.pools_of(uid)
    sim.cloud.faults.remove(denied)
    await went(sim, uid, WHOLE, within_seconds=30 * MINUTE)
    assert accepted(sim) == 1
