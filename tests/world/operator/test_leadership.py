"""Leader election: a replica without the lease writes nothing; a change of leaders repeats and loses nothing.

I6 (no external write by a non-leader) is checked at every write. Without election, names and preconditions prevent two
controllers from creating two pools (I3) or leaking one (I1).
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from provisioner.runtime.leaderelection import LeadershipLost
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.faults import ALWAYS, Fault
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.world import ARM_HOST, KUBE_HOST
from tests.world.harness import SHIPPED_LEASE, Sim, node_claim, simulate, simulated
from tests.world.main_job import NAME, create_and_delete, gone, ready
from tests.world.transcript import CLAIMS, FAST, MINUTE, claim_condition, pool_calls, refuse

LEASES = "leases.coordination.k8s.io"
LEASE_SECONDS = 30.0
# A follower reads the lease every 5 s ± 20 %; leases of others run from the observed renewal.
RETRY_SECONDS = 6.5
TAKEOVER_SECONDS = LEASE_SECONDS + 2 * RETRY_SECONDS
ARM_WRITE_SECONDS, KUBE_WRITE_SECONDS = 15.0, 10.0


def writers(sim: Sim) -> list[str]:
    """The writers to either system, Leases and Events excluded, in order of the first write."""
    return list(dict.fromkeys(call.who for call in sim.audit_log.writes() if call.who.startswith("ctl")))


def holder(sim: Sim) -> str:
    """The holder of the lease; "" without one."""
    lease = sim.store.get(LEASES, "gpu-provisioner", "kube-system")
    return "" if lease is None else lease["spec"].get("holderIdentity") or ""


def renewals(sim: Sim, who: str) -> list[Call]:
    """The writes of the lease that succeeded."""
    found = sim.audit_log.calls(who=who, kind="leases")
    return [call for call in found if call.is_write and call.status in (200, 201)]


async def two(sim: Sim, **options: Any) -> None:
    """Two replicas, of which ctl0 leads."""
    await sim.start_controller("ctl0", **options)
    await sim.until(lambda: holder(sim) == "ctl0", 10, "ctl0 leads")
    await sim.start_controller("ctl1", **options)
    await asyncio.sleep(10)


async def away(sim: Sim, uid: str) -> None:
    """Delete the claim and wait until it is removed in order, with nothing left and no further writes."""
    await sim.delete_claim(NAME)
    await gone(sim)
    order = sim.audit_log.deletion_order(uid)
    assert [kind for kind in order if kind != "node"] == ["pool", "claim"], order
    assert order[-1] == "claim"
    await sim.settled(quiet_seconds=70)


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_of_two_replicas_one_acts(sim: Sim) -> None:
    """The follower keeps its caches warm, and sends neither writes nor requests to Azure."""
    await two(sim)
    await away(sim, await ready(sim))
    assert writers(sim) == ["ctl0"]
    assert not sim.audit_log.calls(who="ctl1", system="arm")
    assert not [call for call in sim.audit_log.calls(who="ctl1") if call.is_write]
    assert sim.audit_log.calls(who="ctl1", verb="WATCH", kind="nodeclaims")


MOMENTS = [
    ("when the PUT was sent", lambda sim: bool(pool_calls(sim, "PUT"))),
    ("while the pool is created", lambda sim: claim_condition(sim, "Launched")[1] == "Creating"),
    ("when the Node is registered", lambda sim: sim.condition(NAME, "Registered") == "True"),
    ("when the claim is Ready", lambda sim: sim.condition(NAME, "Ready") == "True"),
]


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_a_deleted_lease_does_not_make_two_leaders(sim: Sim) -> None:
    """A follower waits until the term of the holder ends; the holder creates the Lease again, its annotations too."""
    await two(sim, restart_on=(LeadershipLost,))
    note = {"metadata": {"annotations": {"example.com/note": "kept"}}}
    sim.store.patch(LEASES, "gpu-provisioner", note, "kube-system")
    for number in range(10):
        await asyncio.sleep(11.7)
        sim.store.delete(LEASES, "gpu-provisioner", "kube-system")
        await sim.apply(node_claim(f"c{number}"))
        await asyncio.sleep(1.1)
    await sim.until(lambda: all(sim.condition(f"c{n}", "Ready") == "True" for n in range(10)), 400, "all are Ready")
    assert writers(sim) == ["ctl0"]
    assert holder(sim) == "ctl0"
    lease = sim.store.get(LEASES, "gpu-provisioner", "kube-system")
    assert lease is not None
    assert lease["metadata"]["annotations"]["example.com/note"] == "kept"


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_a_follower_takes_a_lease_that_was_deleted_after_its_holder_died(sim: Sim) -> None:
    """The Lease is deleted with its holder dead: a follower leads once the term of the holder has ended."""
    await two(sim)
    sim.crash("ctl0")
    await asyncio.sleep(1)
    sim.store.delete(LEASES, "gpu-provisioner", "kube-system")
    deleted_at = sim.now
    await sim.until(lambda: holder(sim) == "ctl1", TAKEOVER_SECONDS, "ctl1 leads")
    assert sim.now - deleted_at >= LEASE_SECONDS - RETRY_SECONDS
    await away(sim, await ready(sim))


@pytest.mark.matrix(quick=4)
@pytest.mark.parametrize(("case", "moment"), MOMENTS, ids=[row[0] for row in MOMENTS])
@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_the_leader_dies(sim: Sim, case: str, moment: Callable[[Sim], bool], reset: bool) -> None:
    """The other replica leads once the lease has expired, continues, and repeats nothing."""
    await two(sim)
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await sim.until(lambda: moment(sim), 300, case)
    sim.crash("ctl0", reset=reset)
    died_at = sim.now
    await sim.until(lambda: holder(sim) == "ctl1", TAKEOVER_SECONDS, "ctl1 leads")
    assert sim.now - died_at >= LEASE_SECONDS - RETRY_SECONDS
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    await away(sim, uid)
    accepted = [call.status for call in pool_calls(sim, "PUT")]
    assert accepted.count(201) <= 1
    assert [change.what for change in sim.audit_log.changes(kind="pool", uid=uid)].count("Creating") == 1


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_the_leader_dies_in_a_removal(sim: Sim) -> None:
    """The new leader completes the removal in order, without a second DELETE."""
    await two(sim)
    uid = await ready(sim)
    await sim.delete_claim(NAME)
    await sim.until(lambda: claim_condition(sim, "InstanceTerminating")[0] == "True", 20, "the pool is going")
    sim.crash("ctl0")
    await gone(sim, within_seconds=4 * MINUTE)
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    assert len(pool_calls(sim, "DELETE")) == 1
    await sim.settled(quiet_seconds=70)


SLOW = AzureSettings(create_seconds=(300.0, 300.0), delete_seconds=(30.0, 60.0))


@simulated(lease=SHIPPED_LEASE, azure=SLOW)
async def test_a_leader_cut_off_from_the_api_server_stops_writing_to_azure_in_time(sim: Sim) -> None:
    """It retries a DELETE only while the lease outlives the call; its successor starts after the expiry."""
    await two(sim, restart_on=(LeadershipLost,))
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: claim_condition(sim, "Launched")[1] == "Creating", 30, "the pool is being created")
    await sim.delete_claim(NAME)
    # After the third refusal the next try is due in 20 s: when the lease is still held, but not for long enough.
    await sim.until(lambda: len(pool_calls(sim, "DELETE")) == 3, 60, "AKS refuses to delete it, again and again")
    sim.network.partition(KUBE_HOST, "ctl0")
    await sim.until(lambda: holder(sim) == "ctl1", TAKEOVER_SECONDS, "ctl1 leads")
    lapsed_at = renewals(sim, "ctl0")[-1].at + LEASE_SECONDS
    before = [call for call in pool_calls(sim, "DELETE") if call.who == "ctl0"]
    assert before[-1].at <= lapsed_at - ARM_WRITE_SECONDS
    assert renewals(sim, "ctl1")[0].at >= lapsed_at
    await gone(sim)
    assert [call for call in sim.audit_log.writes(who="ctl0") if call.system == "arm"][-1] is before[-1]
    sim.network.heal(KUBE_HOST, "ctl0")
    await sim.settled(quiet_seconds=2 * MINUTE)
    assert writers(sim) == ["ctl0", "ctl1"]


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_a_leader_that_cannot_renew_stops_writing_to_kubernetes_in_time(sim: Sim) -> None:
    """Its other requests succeed. A write that is sent late could be applied when another replica leads."""
    await two(sim, restart_on=(LeadershipLost,))
    refuse(
        sim, lambda call: call.who == "ctl0" and call.target.kind == "leases" and call.is_write, 500, "", "no leader"
    )
    for number in range(12):
        await sim.apply(node_claim(f"c{number}"))
        await asyncio.sleep(2)
    await sim.until(lambda: holder(sim) == "ctl1", TAKEOVER_SECONDS, "ctl1 leads")
    lapsed_at = renewals(sim, "ctl0")[-1].at + LEASE_SECONDS
    last = [call.at for call in sim.audit_log.writes(who="ctl0") if call.system == "kube" and call.at < lapsed_at][-1]
    assert lapsed_at - LEASE_SECONDS < last <= lapsed_at - KUBE_WRITE_SECONDS
    await sim.until(lambda: all(sim.condition(f"c{n}", "Ready") == "True" for n in range(12)), 600, "all are Ready")


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_a_leader_cut_off_from_the_api_server_creates_no_pool(sim: Sim) -> None:
    """Claims not served yet are served by the new leader: two leaders never send a PUT for one claim."""
    await two(sim, restart_on=(LeadershipLost,))
    sim.cloud.faults.append(Fault(verb="PUT", times=ALWAYS, drop="before"))
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: len(pool_calls(sim, "PUT")) >= 2, 60, "its PUTs get lost, one after the other")
    sim.network.partition(KUBE_HOST, "ctl0")
    cut_at = sim.now
    await sim.until(lambda: holder(sim) == "ctl1", TAKEOVER_SECONDS, "ctl1 leads")
    sim.cloud.faults.clear()
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 300, "the claim is Ready")
    late = [call.at - cut_at for call in pool_calls(sim, "PUT") if call.who == "ctl0" and call.at > cut_at]
    assert all(seconds <= LEASE_SECONDS - ARM_WRITE_SECONDS for seconds in late)
    assert [call.who for call in pool_calls(sim, "PUT") if call.status == 201] == ["ctl1"]


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_a_put_in_flight_when_the_lease_is_lost(sim: Sim) -> None:
    """A PUT sent before the loss completes; the new leader finds the pool and sends no second one."""
    await two(sim, restart_on=(LeadershipLost,))
    sim.cloud.faults.append(Fault(verb="PUT", slow_seconds=13.0))
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await sim.until(lambda: pool_calls(sim, "PUT"), 5, "the PUT is on its way")
    sim.network.partition(KUBE_HOST, "ctl0")
    sim.network.partition(ARM_HOST, "ctl0")
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    assert [call.who for call in pool_calls(sim, "PUT")] == ["ctl0"]
    await away(sim, uid)
    assert writers(sim) == ["ctl0", "ctl1"]


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_nobody_reaches_the_api_server_for_a_while(sim: Sim) -> None:
    """Without an API server no replica leads or writes; afterwards the claim gets one machine."""
    await two(sim, restart_on=(LeadershipLost,))
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await sim.until(lambda: claim_condition(sim, "Launched")[1] == "Creating", 30, "the pool is being created")
    for who in list(sim.controllers):
        sim.network.partition(KUBE_HOST, who)
    began = sim.now
    await asyncio.sleep(5 * MINUTE)
    late = [call for call in sim.audit_log.writes() if call.at > began + LEASE_SECONDS and call.system == "arm"]
    assert not late
    for who in list(sim.controllers):
        sim.network.heal(KUBE_HOST, who)
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    assert len(pool_calls(sim, "PUT")) == 1
    await away(sim, uid)


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_a_leader_that_is_stopped_releases_the_lease_at_once(sim: Sim) -> None:
    """SIGTERM releases the lease: the follower leads within one retry period."""
    await two(sim)
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await sim.until(lambda: claim_condition(sim, "Launched")[1] == "Creating", 30, "the pool is being created")
    await asyncio.sleep(5)
    await sim.stop_controller("ctl0")
    assert holder(sim) == ""
    await sim.until(lambda: holder(sim) == "ctl1", RETRY_SECONDS, "ctl1 leads")
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 300, "the claim is Ready")
    assert len(pool_calls(sim, "PUT")) == 1
    await away(sim, uid)


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_a_leader_stopped_in_the_middle_of_a_write_leaves_its_lease_to_lapse(sim: Sim) -> None:
    """An interrupted write may still arrive: no replica leads until the lease has expired."""
    await two(sim)
    sim.cloud.faults.append(Fault(verb="PUT", slow_seconds=12.0))
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await sim.until(lambda: pool_calls(sim, "PUT"), 5, "the PUT is on its way")
    await sim.stop_controller("ctl0")
    assert holder(sim) == "ctl0"
    stopped_at = sim.now
    await sim.until(lambda: holder(sim) == "ctl1", TAKEOVER_SECONDS, "ctl1 leads")
    assert sim.now - stopped_at > 12
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 300, "the claim is Ready")
    assert [call.who for call in pool_calls(sim, "PUT")] == ["ctl0"]
    await away(sim, uid)


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_a_wrong_clock_takes_no_lease(sim: Sim) -> None:
    """Leases are measured by each replica's own durations: a clock that is a day ahead changes nothing."""
    await two(sim)
    sim.controllers["ctl1"].clock.offset = timedelta(days=1)
    await away(sim, await ready(sim))
    assert writers(sim) == ["ctl0"]


# Without an election


@pytest.mark.parametrize("heedless", [False, True], ids=["AKS heeds preconditions", "AKS ignores preconditions"])
@pytest.mark.parametrize("seed", [1, 2])
def test_two_replicas_without_an_election(seed: int, heedless: bool) -> None:
    """Both replicas act: still one pool per claim, removal in order, and writes end."""

    async def story(sim: Sim) -> None:
        for who in ("ctl0", "ctl1"):
            await sim.start_controller(who, elect=False)
        names = ["gpu0", "gpu1", "gpu2"]
        uids = [(await sim.apply(node_claim(name)))["metadata"]["uid"] for name in names]
        await sim.until(lambda: all(sim.condition(n, "Ready") == "True" for n in names), 400, "all are Ready")
        assert set(writers(sim)) == {"ctl0", "ctl1"}
        assert [len(sim.pools_of(uid)) for uid in uids] == [1, 1, 1]
        await sim.settled(quiet_seconds=70)
        for name in names:
            await sim.delete_claim(name)
        await sim.until(lambda: not sim.store.list(CLAIMS), 400, "all are gone")
        for uid in uids:
            assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
            states = [change.what for change in sim.audit_log.changes(kind="pool", uid=uid)]
            assert states.count("Creating") == states.count("gone") == 1
        await sim.settled(quiet_seconds=70)
        assert len(sim.audit_log.writes()) < 40 * len(names)

    azure = AzureSettings(create_seconds=(60.0, 90.0), delete_seconds=(30.0, 60.0), ignore_preconditions=heedless)
    simulate(story, lease=SHIPPED_LEASE, seed=seed, azure=azure)


def test_the_main_job_without_an_election() -> None:
    """A single replica can run without a lease."""

    async def story(sim: Sim) -> None:
        await sim.start_controller("ctl0", elect=False)
        await away(sim, await ready(sim))
        assert not sim.audit_log.calls(kind="leases")

    simulate(story, lease=SHIPPED_LEASE, azure=FAST)
    simulate(create_and_delete, azure=FAST)
