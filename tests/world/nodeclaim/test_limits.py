"""Limits of a launch: quota, capacity, configured maximums, and deadlines that report without deleting."""

import asyncio
from itertools import pairwise

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.simulator.azure import faults, validation
from provisioner.simulator.azure.faults import ALWAYS, Fault
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.claims import (
    arm_calls,
    condition,
    created,
    events,
    message,
    puts,
    ready,
    removed,
    versions,
    wait_for_condition,
    word,
)
from tests.world.harness import Json, Sim, node_claim, simulated
from tests.world.metric_samples import start

from .common import STEPS, gaps

pytestmark = pytest.mark.matrix(quick=0)

HOUR_SECONDS = 3600.0


def most_pools(sim):
    """The most pools of ours that ever were at once, as a list of one that grows."""
    most = [0]

    def count(_kind, _pool) -> None:
        most[0] = max(most[0], sum(bool(pool.tags) for pool in sim.cloud.pools.values()))

    sim.cloud.subscribe(count)
    return most


# Quota and capacity


@simulated()
async def test_quota_refused_later_removes_the_failed_pool_first(sim) -> None:
    """A pool that fails for quota is removed after its cause is reported, and the next attempt backs off."""
    sim.cloud.faults.append(faults.quota())
    await sim.start_controller(elect=False)
    seen = versions(sim, "gpu1")
    most = most_pools(sim)
    claim = await sim.apply(node_claim("gpu1"))
    reported = await wait_for_condition(sim, "gpu1", "Launched", "False", "QuotaExceeded", within_seconds=60)
    assert reported["message"].startswith("OperationNotAllowed: standardNCADSA100v4Family cores quota in westeurope: ")
    assert arm_calls(sim, "gpu1").count("DELETE") == 0
    await asyncio.sleep(HOUR_SECONDS)
    assert 3 <= created(sim, "gpu1") <= len(STEPS)
    assert all(gap >= step for gap, step in zip(gaps(puts(sim, "gpu1")), STEPS, strict=False))
    assert most == [1]
    assert {word(one.obj, "Launched") for one in seen if condition(one.obj, "Launched")} == {
        ("Unknown", "Creating"),
        ("False", "QuotaExceeded"),
    }
    assert sim.claim("gpu1")["metadata"]["uid"] == claim["metadata"]["uid"]
    sim.cloud.faults.clear()
    await ready(sim, "gpu1", within_seconds=2000)
    await removed(sim, "gpu1")
    await sim.settled()


@simulated()
async def test_a_size_without_any_quota_is_retried_after_at_most_five_minutes(sim) -> None:
    """A quota of 0 is raised within minutes too: the delays are those of any shortage."""
    none = faults.quota_exceeded("standardNCADSA100v4Family Cores", limit=0)
    sim.cloud.fail_next_create(none["code"], none["message"], sync=True)
    sim.cloud.faults[0].times = ALWAYS
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    await asyncio.sleep(HOUR_SECONDS)
    assert gaps(puts(sim, "gpu1")) == pytest.approx(STEPS, abs=1.0)


@pytest.mark.parametrize("code", ["AllocationFailed", "ZonalAllocationFailed", "SkuNotAvailable"])
@simulated()
async def test_capacity_that_comes_back_is_taken(sim, code) -> None:
    """A claim without capacity states Azure's code, and gets a machine once there is capacity."""
    sim.cloud.faults.append(faults.capacity(code, times=2))
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    reported = await wait_for_condition(sim, "gpu1", "Launched", "False", code)
    assert reported["message"].startswith(f"{code}: ")
    await ready(sim, "gpu1", within_seconds=1800)
    assert created(sim, "gpu1") == 3
    await removed(sim, "gpu1")
    await sim.settled()


@simulated()
async def test_a_failed_pool_can_be_left_by_its_claim(sim) -> None:
    """A claim that is deleted while its attempts fail is removed at once, with the failed pool."""
    sim.cloud.faults.append(faults.quota())
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    await wait_for_condition(sim, "gpu1", "Launched", "False", "QuotaExceeded", within_seconds=60)
    await removed(sim, "gpu1", within_seconds=400)
    await sim.settled()
    assert "gpu1" not in sim.cloud.pools


# Our own caps


@simulated()
async def test_claims_beyond_the_limit_wait_in_line(sim) -> None:
    """With --max-agent-pools=2 the third claim states its position, the order is kept, and free room is used."""
    names = [f"gpu{n}" for n in range(1, 6)]
    most = most_pools(sim)
    await sim.start_controller(elect=False, policy=Policy(max_agent_pools=2))
    for name in names:
        await sim.apply(node_claim(name))
        await asyncio.sleep(2)
    for name in names[:2]:
        await ready(sim, name)
    for place, name in enumerate(names[2:], start=1):
        assert word(sim.claim(name), "Launched") == ("Unknown", "PoolLimitReached")
        assert message(sim, name, "Launched").startswith(
            f"2 of 2 agent pools are in use; position {place} of 3 in the queue"
        )
    await asyncio.sleep(900)
    assert [name for name in names if puts(sim, name)] == names[:2]
    for gone, next_one in [("gpu2", "gpu3"), ("gpu1", "gpu4"), ("gpu3", "gpu5")]:
        await removed(sim, gone)
        freed = next(one.at for one in sim.audit_log.changes(kind="pool") if (one.name, one.what) == (gone, "gone"))
        await ready(sim, next_one)
        assert puts(sim, next_one)[0] - freed <= 6
    assert most == [2]
    assert [put.pool for put in sim.cloud.put_log] == names


@pytest.mark.parametrize("policy", [Policy(max_agent_pools=2), Policy(max_creates_per_minute=2)], ids=["limit", "rate"])
@simulated()
async def test_the_oldest_claims_are_served_first(sim, policy) -> None:
    """A process that finds many claims at its start serves them by age, whatever their names."""
    names = [f"gpu{n}" for n in range(9, 4, -1)]
    for name in names:
        await sim.apply(node_claim(name))
        await asyncio.sleep(2)
    await sim.start_controller(policy=policy)
    await asyncio.sleep(50)
    assert {put.pool for put in sim.cloud.put_log} == set(names[:2])
    await asyncio.sleep(60)
    later = names[2:4] if policy.max_agent_pools is None else []
    assert {put.pool for put in sim.cloud.put_log[2:]} == set(later)


@simulated()
async def test_owners_take_turns(sim: Sim) -> None:
    """One workspace requests 40 machines; what others request later waits only for its turns, as its position says."""

    def owned(name: str, namespace: str) -> Json:
        return node_claim(name, labels={"kaito.sh/workspace": "w", "kaito.sh/workspacenamespace": namespace})

    def position(sim: Sim, name: str) -> int:
        return int(message(sim, name, "Launched").partition("position ")[2].split()[0])

    await sim.start_controller(elect=False, policy=Policy(max_creates_per_minute=5))
    for number in range(40):
        await sim.apply(owned(f"many{number:02d}", "greedy"))
    await asyncio.sleep(20)
    assert len(sim.cloud.put_log) == 5
    for number in range(3):
        await sim.apply(owned(f"few{number}", "modest"))
    await sim.apply(node_claim("pool0", labels={"karpenter.sh/nodepool": "batch"}))
    await asyncio.sleep(5)
    positions = {name: position(sim, name) for name in ("few0", "pool0", "few1", "few2")}
    assert positions == {"few0": 2, "pool0": 3, "few1": 5, "few2": 7}
    await sim.until(lambda: puts(sim, "few2"), 180, "all four are created")
    created_in_order = list(dict.fromkeys(put.pool for put in sim.cloud.put_log))
    for name, place in positions.items():
        assert name in created_in_order[5 * ((place - 1) // 5 + 1) :][:5]


@simulated()
async def test_who_cannot_use_the_room_holds_nobody_up(sim) -> None:
    """Older claims that cannot be served, or whose offering is unavailable, do not block others in the queue."""
    sim.cloud.faults.append(faults.quota_preflight(size="Standard_NC4as_T4_v3"))
    await sim.start_controller(elect=False, policy=Policy(max_agent_pools=1))
    await sim.apply(node_claim("bad1", size="m5.large"))
    await sim.apply(node_claim("bad2", labels={"agentpool": "x"}))
    await sim.apply(node_claim("short", size="Standard_NC4as_T4_v3"))
    await wait_for_condition(sim, "short", "Launched", "False", "QuotaExceeded", within_seconds=5)
    await asyncio.sleep(5)
    await sim.apply(node_claim("good"))
    await ready(sim, "good")
    assert puts(sim, "good")[0] < 11
    sim.cloud.faults.clear()
    reported = await wait_for_condition(sim, "short", "Launched", "Unknown", "PoolLimitReached")
    assert reported["message"].startswith("1 of 1 agent pools are in use; position 1 of 1 in the queue")
    await removed(sim, "good")
    await ready(sim, "short")


@simulated(azure=AzureSettings(list_lag_seconds=20.0))
async def test_a_burst_never_exceeds_the_limit(sim) -> None:
    """Thirty claims at once, and a restart among them, create three pools and no more."""
    most = most_pools(sim)
    await sim.start_controller(elect=False, policy=Policy(max_agent_pools=3))
    for number in range(30):
        await sim.apply(node_claim(f"gpu{number}"))
    await sim.until(lambda: most[0] == 3, 5, "three pools")
    sim.crash()
    await sim.start_controller("ctl1", elect=False, policy=Policy(max_agent_pools=3))
    await asyncio.sleep(900)
    assert most == [3]
    assert len(sim.cloud.put_log) == 3


@simulated(azure=AzureSettings(max_agent_pools=13))
async def test_the_clusters_own_limit_leaves_room_for_others(sim) -> None:
    """Without --max-agent-pools ten of the cluster's pools are reserved for others."""
    most = most_pools(sim)
    await sim.start_controller(elect=False)
    for number in range(5):
        await sim.apply(node_claim(f"gpu{number}"))
    await asyncio.sleep(900)
    assert most == [3]
    assert message(sim, "gpu4", "Launched").startswith("3 of 3 agent pools are in use; position 2 of 2 in the queue")


@simulated()
async def test_an_unexpectedly_full_cluster_is_reported(sim) -> None:
    """AKS's refusal for too many pools is reported with the remedy, and retried."""
    sim.cloud.faults.append(Fault(verb="PUT", answer=validation.too_many_pools(2, AzureSettings().pool_limit_code)))
    await sim.start_controller(elect=False, policy=Policy(max_agent_pools=90))
    await sim.apply(node_claim("gpu1"))
    reported = await wait_for_condition(sim, "gpu1", "Launched", "False", "PoolLimitReached", within_seconds=5)
    assert "Delete unused agent pools" in reported["message"]
    await ready(sim, "gpu1", within_seconds=1800)
    assert len(puts(sim, "gpu1")) == 2


@simulated(azure=AzureSettings(max_agent_pools=2))
async def test_no_setting_lets_us_ask_for_more_pools_than_the_cluster_takes(sim) -> None:
    """AKS's bound is known beforehand: nothing is sent, the claim says the numbers, and others' deletion makes room."""
    await sim.start_controller(elect=False, policy=Policy(max_agent_pools=90))
    await sim.apply(node_claim("gpu1"))
    reported = await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "PoolLimitReached", within_seconds=5)
    assert reported["message"] == (
        "0 of 0 agent pools are in use; position 1 of 1 in the queue;"
        " AKS allows 2 per cluster, 2 are reserved for other pools: delete claims"
    )
    assert puts(sim, "gpu1") == []
    sim.cloud.delete_pool_by_hand("theirs")
    await ready(sim, "gpu1", within_seconds=1800)
    assert len(puts(sim, "gpu1")) == 1


@pytest.mark.matrix(quick=0)
@simulated()
async def test_a_hundred_and_ten_claims_share_what_a_cluster_of_a_hundred_pools_leaves_them(sim) -> None:
    """Five pools are others': ninety run, twenty wait by age and say their place, over a restart; removals let them in.

    A claim that waits for a person, older than nearly all, holds none of them up.
    """
    names = [f"gpu{n:03}" for n in range(110)]
    for n in range(3):
        sim.cloud.seed_pool(f"more{n}")
    assert len(sim.cloud.pools) == 5
    most = most_pools(sim)
    living = await sim.apply(node_claim(names[0]))
    await asyncio.sleep(1)
    stuck = node_claim("stuck")
    stuck["metadata"]["annotations"] = {labels.ADOPT: living["metadata"]["uid"]}
    await sim.apply(stuck)
    await asyncio.sleep(1)
    for name in names[1:]:
        await sim.apply(node_claim(name))
        await asyncio.sleep(1)
    await sim.start_controller(elect=False)
    for name in names[:90]:
        await ready(sim, name, within_seconds=3600)
    assert most == [90]
    assert word(sim.claim("stuck"), "Launched") == ("Unknown", "AdoptionRefused")
    sim.crash()
    await sim.start_controller("ctl1", elect=False)
    await asyncio.sleep(120)
    for place, name in enumerate(names[90:], start=1):
        reported = message(sim, name, "Launched")
        assert reported.startswith(
            f"90 of 90 agent pools are in use; position {place} of 20 in the queue; AKS allows 100"
        ), reported
    for gone, let_in in zip(names[:3], names[90:93], strict=True):
        await removed(sim, gone)
        await sim.until(lambda name=let_in: puts(sim, name), 30, f"{let_in} has its turn")
    assert [name for name in names[90:] if puts(sim, name)] == names[90:93]
    assert most == [90]


@simulated(azure=AzureSettings(network_plugin="kubenet"))
async def test_a_kubenet_cluster_takes_400_nodes(sim) -> None:
    """The bound of the network plugin is known beforehand too; all pools' Nodes count."""
    sim.cloud.seed_pool("big", count=399)
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    reported = await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "NodeLimitReached", within_seconds=5)
    assert reported["message"].startswith("401 of 400 Nodes, the limit of the cluster's network plugin, are in use")
    assert puts(sim, "gpu1") == []


@simulated()
async def test_creates_are_spread_over_minutes(sim) -> None:
    """With --max-creates-per-minute=2 no minute has three PUTs, and claims are served by age."""
    names = [f"gpu{n}" for n in range(6)]
    for name in names:
        await sim.apply(node_claim(name))
    await sim.start_controller(elect=False, policy=Policy(max_creates_per_minute=2))
    await wait_for_condition(sim, "gpu5", "Launched", "Unknown", "CreateRateLimited", within_seconds=5)
    reported = message(sim, "gpu5", "Launched")
    assert reported.startswith("at most 2 agent pools are created per minute (--max-creates-per-minute); position ")
    for name in names:
        await ready(sim, name)
    sent = [put.time.timestamp() for put in sim.cloud.put_log]
    assert all(third - first >= 59.9 for first, third in zip(sent, sent[2:], strict=False))
    assert sent[-1] - sent[0] <= 123
    requested = [put.pool for put in sim.cloud.put_log]
    assert [set(requested[n : n + 2]) for n in (0, 2, 4)] == [set(names[n : n + 2]) for n in (0, 2, 4)]


@simulated()
async def test_the_queue_is_not_polled_while_creates_are_refused(sim) -> None:
    """Claims behind the rate wait for those before them, whose PUTs ARM throttles, without a pass every 50 ms."""
    sim.cloud.faults.append(faults.throttled(seconds=300, times=ALWAYS))
    numbers = await start(sim, elect=False, policy=Policy(max_creates_per_minute=2))
    for number in range(4):
        await sim.apply(node_claim(f"gpu{number}"))
    await asyncio.sleep(90)
    before = numbers.total("controller_runtime_reconcile_total")
    await asyncio.sleep(60)
    assert word(sim.claim("gpu3"), "Launched") == ("Unknown", "CreateRateLimited")
    assert numbers.total("controller_runtime_reconcile_total") - before < 60


# Deadlines


def deadline_words(sim, reason):
    """The Warnings about gpu1 that report a deadline, with their counts."""
    return [
        (one["message"][-25:], one["count"])
        for one in events(sim, "gpu1", reason)
        if one["type"] == "Warning" and "overdue" in one["message"]
    ]


@simulated(azure=AzureSettings(node_share=(1.0, 1.0)))
async def test_an_overdue_creation_is_reported_once(sim) -> None:
    """After 45 min one Event reports the pool as overdue; the pool is kept and becomes Ready."""
    sim.cloud.faults.append(Fault(verb="PUT", operation_seconds=HOUR_SECONDS))
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    await asyncio.sleep(2690)
    assert word(sim.claim("gpu1"), "Launched") == ("Unknown", "Creating")
    assert "overdue" not in message(sim, "gpu1", "Launched")
    await asyncio.sleep(20)
    assert message(sim, "gpu1", "Launched").endswith("; overdue: over 45 min")
    await asyncio.sleep(600)
    assert deadline_words(sim, "Creating") == [("min; overdue: over 45 min", 1)]
    await ready(sim, "gpu1", within_seconds=HOUR_SECONDS)
    assert arm_calls(sim, "gpu1").count("DELETE") == 0


@simulated()
async def test_a_node_that_never_registers_is_reported_once(sim) -> None:
    """15 min after the pool runs one Event reports the Node as overdue; without repair the machine is kept."""
    sim.nodes.never_register("gpu1")
    await sim.start_controller(elect=False, policy=Policy(node_repair=False))
    await sim.apply(node_claim("gpu1"))
    await wait_for_condition(sim, "gpu1", "Registered", "Unknown", "NodeNotFound")
    await asyncio.sleep(880)
    assert "overdue" not in message(sim, "gpu1", "Registered")
    await asyncio.sleep(30)
    assert message(sim, "gpu1", "Registered").endswith("; overdue: over 15 min")
    assert "check the pool's provisioning state, subnet" in message(sim, "gpu1", "Registered")
    await asyncio.sleep(600)
    [(_, count)] = deadline_words(sim, "NodeNotFound")
    assert count == 1
    assert sim.cloud.pools["gpu1"].state == "Succeeded"
    await removed(sim, "gpu1")
    await sim.settled()


@simulated()
async def test_gpus_that_never_appear_are_reported_once(sim) -> None:
    """20 min after registration one Event reports the GPUs as overdue; the claim is Ready once they appear."""
    sim.nodes.plugin_delay_seconds = HOUR_SECONDS
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    await wait_for_condition(sim, "gpu1", "Initialized", "Unknown", "ResourceNotRegistered")
    await asyncio.sleep(1300)
    assert message(sim, "gpu1", "Initialized").endswith("; overdue: over 20 min")
    await asyncio.sleep(600)
    [(_, count)] = deadline_words(sim, "ResourceNotRegistered")
    assert count == 1
    await ready(sim, "gpu1", within_seconds=HOUR_SECONDS)
    assert len(puts(sim, "gpu1")) == 1


@simulated()
async def test_a_claim_that_cannot_be_launched_is_reported_once(sim) -> None:
    """A claim that waits for a stopped cluster is overdue after 5 min, by one Event, and continues after its start."""
    sim.cloud.stop_cluster()
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    reported = await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "ClusterNotRunning", within_seconds=5)
    assert reported["message"] == "the managed cluster is Stopped/Succeeded; start it with az aks start"
    await asyncio.sleep(HOUR_SECONDS)
    [(_, count)] = deadline_words(sim, "ClusterNotRunning")
    assert count == 1
    assert puts(sim, "gpu1") == []
    sim.cloud.start_cluster()
    await ready(sim, "gpu1", within_seconds=1800)


@simulated()
async def test_a_long_cause_leaves_room_for_the_deadline(sim) -> None:
    """However long Azure's message is, the passed deadline is reported once."""
    words = "The requested size is not available in this location for this subscription. " * 8
    sim.cloud.fail_next_create("SkuNotAvailable", words, sync=True)
    sim.cloud.faults[0].times = ALWAYS
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    await asyncio.sleep(HOUR_SECONDS)
    assert message(sim, "gpu1", "Launched").endswith("; overdue: over 5 min")
    assert [count for _, count in deadline_words(sim, "SkuNotAvailable")] == [1]


@simulated()
async def test_a_place_in_line_is_overdue_once(sim) -> None:
    """A claim whose position in the queue changes after its deadline is not reported again."""
    names = [f"gpu{n}" for n in range(5, 0, -1)]
    await sim.start_controller(elect=False, policy=Policy(max_agent_pools=1))
    for name in names:
        await sim.apply(node_claim(name))
        await asyncio.sleep(2)
    await ready(sim, names[0])
    await asyncio.sleep(600)
    for gone, next_one in pairwise(names[:4]):
        await removed(sim, gone)
        await ready(sim, next_one)
        await asyncio.sleep(120)
    assert message(sim, "gpu1", "Launched").startswith("1 of 1 agent pools are in use; position 1 of 1 in the queue")
    assert message(sim, "gpu1", "Launched").endswith("; overdue: over 5 min")
    assert len(deadline_words(sim, "PoolLimitReached")) == 1
