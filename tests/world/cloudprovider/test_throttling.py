"""Stories of throttling by AKS and ARM: which calls a 429 delays, how often pools are listed, and the metrics.

The buckets of the simulator are those of docs/references/agent-pools.md#throttling. Seconds are virtual.
"""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web

from controllers.model.policy import Policy
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import Fault
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.claims import ready, wait_for_condition
from tests.world.harness import Sim, node_claim, simulate, simulated
from tests.world.transcript import BUDGETS, claim_condition, gaps, pool_calls, run_pod

MANY = 100
NAMES = [f"many{number:03d}" for number in range(MANY)]
ROOM: dict[str, Any] = {"max_agent_pools": MANY + 10}


def lists(sim: Sim, since: float = 0.0) -> list[Call]:
    """The LISTs sent since then."""
    return [call for call in pool_calls(sim, "LIST", name=None) if call.at >= since]


def refused(sim: Sim) -> list[Call]:
    """Every 429 that was returned."""
    return [call for call in sim.audit_log.calls(system="arm") if call.status == 429]


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("page_size", [100, 15])
def test_a_hundred_pools_at_once_cause_no_429(page_size: int) -> None:
    """With a LIST of one page or of eight; every claim becomes Ready and is deleted."""

    async def story(sim: Sim) -> None:
        await sim.start_controller(policy=Policy(max_creates_per_minute=MANY, max_agent_pools=MANY))
        for name in NAMES:
            await sim.apply(node_claim(name))
        await sim.until(lambda: all(sim.condition(name, "Ready") == "True" for name in NAMES), 1800, "all are Ready")
        for name in NAMES:
            await sim.delete_claim(name)
        await sim.until(lambda: not any(sim.claim(name) for name in NAMES), 1800, "all are gone")
        await sim.settled()
        assert refused(sim) == []
        lives = {verb: len(pool_calls(sim, verb, name=None)) for verb in ("PUT", "DELETE", "GET")}
        assert lives == {"PUT": MANY, "DELETE": MANY, "GET": 0}

    simulate(story, azure=AzureSettings(page_size=page_size, **ROOM))


@pytest.mark.parametrize(
    ("share", "lists_an_hour", "noticed_seconds"), [(1.0, 60, 60.0), (0.05, 60, 60.0), (0.01, 18, 200.0)]
)
def test_idle_clusters_share_the_rate_limit(share: float, lists_an_hour: int, noticed_seconds: float) -> None:
    """Of 3,600 reads an hour, 100 idle clusters with a share of 0.01 send half; each notices a pool that is deleted."""

    async def story(sim: Sim) -> None:
        await sim.start_controller(policy=Policy(arm_share=share))
        await sim.apply(node_claim("gpu1"))
        await ready(sim, "gpu1", within_seconds=1200)
        await sim.settled()
        began = sim.now
        await asyncio.sleep(3600.0)
        assert len(lists(sim, began)) == pytest.approx(lists_an_hour, abs=2)
        sim.cloud.delete_pool_by_hand("gpu1")
        await sim.until(lambda: "gpu1" not in sim.cloud.pools, 1200.0, "the pool is gone")
        # The LIST that shows its deletion; then the pool is listed more often, and its absence is proven and settles.
        await sim.until(lambda: sim.claim("gpu1") is None, noticed_seconds + 240.0, "its claim is gone")

    simulate(story)


@pytest.mark.parametrize("waits", ["a drain", "a Node that is not Ready", "a foreign pool"])
@simulated(azure=AzureSettings(create_seconds=(60.0, 90.0), delete_seconds=(30.0, 60.0)))
async def test_what_waits_for_a_user_costs_no_reads(sim: Sim, waits: str) -> None:
    """For days a drain can be blocked, a Node be not Ready, and a foreign pool be stuck: a LIST a minute."""
    await sim.start_controller(policy=Policy(node_repair=False))
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    (node,) = sim.nodes_of("gpu1")
    if waits == "a drain":
        run_pod(sim, "app", node["metadata"]["name"])
        budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "app"}}}
        sim.store.create(BUDGETS, {"metadata": {"name": "guard"}, "spec": budget}, "default")
        await sim.delete_claim("gpu1")
    elif waits == "a foreign pool":
        sim.cloud.seed_pool("other", state="Deleting")
    else:
        sim.nodes.set_ready(node["metadata"]["name"], None)
    await asyncio.sleep(900)
    since = sim.now
    await asyncio.sleep(3600)
    assert len(lists(sim, since)) == pytest.approx(60, abs=2)
    sim.cloud.delete_pool_by_hand("gpu1")
    await sim.until(lambda: sim.claim("gpu1") is None, 300, "the claim is gone")


@simulated()
async def test_a_429_of_one_pool_does_not_delay_others(sim: Sim) -> None:
    """AKS limits PUTs per pool: gpu1 waits five minutes, gpu2 does not, nor do LISTs."""
    sim.cloud.faults.append(Fault(verb="PUT", pool="gpu1", answer=errors.throttled("PutAgentPoolHandler.PUT", 300)))
    await sim.start_controller()
    for name in ("gpu1", "gpu2"):
        await sim.apply(node_claim(name))
    await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "Throttled", within_seconds=5)
    await sim.until(lambda: "gpu2" in sim.cloud.pools, 5, "the other pool is being made")
    since = sim.now
    await ready(sim, "gpu2", within_seconds=400)
    assert len(lists(sim, since)) >= (sim.now - since) / 5
    await ready(sim, "gpu1", within_seconds=800)
    assert gaps(pool_calls(sim, "PUT", "gpu1")) == [300]


@simulated()
async def test_a_429_of_arm_for_writes_delays_all_writes(sim: Sim) -> None:
    """Other PUTs wait too, and their claims state why; deletes and reads do not wait."""
    await sim.start_controller()
    await sim.apply(node_claim("old"))
    await ready(sim, "old")
    sim.cloud.faults.append(Fault(verb="PUT", pool="gpu1", answer=errors.arm_throttled("writes", 90)))
    await sim.apply(node_claim("gpu1"))
    reported = await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "SubscriptionThrottled", within_seconds=5)
    assert reported["message"].startswith("SubscriptionRequestsThrottled: ")
    since = sim.now
    await sim.apply(node_claim("gpu2"))
    await wait_for_condition(sim, "gpu2", "Launched", "Unknown", "ClientSideThrottling", within_seconds=5)
    await sim.delete_claim("old")
    await sim.until(lambda: sim.cloud.pools["old"].state == "Deleting", 20, "the old pool goes meanwhile")
    await sim.until(lambda: "gpu1" in sim.cloud.pools and "gpu2" in sim.cloud.pools, 120, "both are made")
    assert lists(sim, since)
    first = pool_calls(sim, "PUT", "gpu1")[0].at
    later = [call.at - first for name in ("gpu1", "gpu2") for call in pool_calls(sim, "PUT", name)]
    assert later[0] == 0.0
    assert all(90.0 <= at <= 91.5 for at in later[1:])
    assert len(later) == 3


@simulated()
async def test_a_429_of_arm_for_reads_delays_reads_only(sim: Sim) -> None:
    """While LISTs are throttled for a minute, pools are created and deleted."""
    await sim.start_controller()
    await sim.apply(node_claim("old"))
    await ready(sim, "old")
    sim.cloud.faults.append(Fault(verb="LIST", answer=errors.arm_throttled("reads", 60)))
    since = sim.now
    await sim.apply(node_claim("gpu1"))
    await sim.until(lambda: refused(sim), 70, "a LIST is refused")
    begun = refused(sim)[0].at
    await sim.apply(node_claim("gpu2"))
    await sim.delete_claim("old")
    await sim.until(lambda: {"gpu1", "gpu2"} <= set(sim.cloud.pools), 10, "pools are made")
    await sim.until(lambda: sim.cloud.pools["old"].state == "Deleting", 20, "another one is removed")
    assert sim.now - begun < 30
    await sim.until(lambda: len(lists(sim, begun)) > 1, 120, "the pools are listed again")
    assert 60 <= gaps(lists(sim, begun))[0] <= 76
    assert sim.now > since


@simulated()
async def test_a_429_of_aks_for_a_read_delays_its_bucket(sim: Sim) -> None:
    """LIST, GET and DELETE share one bucket of AKS: none is sent before Retry-After."""
    await sim.start_controller()
    await sim.apply(node_claim("old"))
    await ready(sim, "old")
    await asyncio.sleep(120)
    sim.cloud.faults.append(Fault(verb="LIST", answer=errors.throttled("AgentPoolHandler", 45)))
    await sim.until(lambda: refused(sim), 70, "a LIST is refused")
    (received,) = refused(sim)
    await sim.delete_claim("old")
    await wait_for_condition(sim, "old", "InstanceTerminating", "Unknown", "ClientSideThrottling", within_seconds=30)
    await sim.apply(node_claim("gpu1"))
    await sim.until(lambda: "gpu1" in sim.cloud.pools, 5, "a pool has a bucket of its own")
    await sim.until(lambda: not sim.claim("old"), 600, "the old claim is gone")
    shared = [c for verb in ("LIST", "GET", "DELETE") for c in pool_calls(sim, verb, name=None)]
    after = sorted(call.at - received.at for call in shared if call.at > received.at)
    assert 45.0 <= after[0] <= 46.0
    assert len(refused(sim)) == 1


@pytest.mark.parametrize("answer", [errors.throttled, errors.arm_throttled])
@simulated()
async def test_repeated_429s_write_the_status_once(sim: Sim, answer: Callable[[str, int], errors.Answer]) -> None:
    """Each 429 has other seconds; the message does not, so that the status is not rewritten."""
    sim.cloud.faults += [Fault(verb="PUT", pool="gpu1", answer=answer("writes", 40 + n)) for n in range(5)]
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await sim.until(lambda: refused(sim), 10, "it is refused")
    await asyncio.sleep(5)
    writes, reported = len(sim.audit_log.writes()), claim_condition(sim, "Launched", "gpu1")
    await sim.until(lambda: len(refused(sim)) == 5, 600, "it is refused four times more")
    puts = len(pool_calls(sim, "PUT", "gpu1"))
    assert (claim_condition(sim, "Launched", "gpu1"), puts) == (reported, 5)
    assert len(sim.audit_log.writes()) == writes + 4, "only the PUTs themselves"
    await ready(sim, "gpu1", within_seconds=800)


@pytest.mark.parametrize("name", ["retry-after-ms", "x-ms-retry-after-ms"])
@simulated()
async def test_retry_after_in_milliseconds(sim: Sim, name: str) -> None:
    """Azure sends either; 2500 ms are 2.5 s."""
    answer = errors.throttled("PutAgentPoolHandler.PUT", 1)
    sim.cloud.faults.append(Fault(verb="PUT", answer=errors.Answer(429, answer.body, {name: "2500"})))
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await sim.until(lambda: "gpu1" in sim.cloud.pools, 10, "the pool is being made")
    first, second = pool_calls(sim, "PUT", "gpu1")
    assert second.at - first.at == pytest.approx(2.75, abs=0.25)


@simulated(azure=AzureSettings(node_share=(0.5, 0.6)))
async def test_the_interval_of_lists(sim: Sim) -> None:
    """Every four seconds with pools in flight, every minute without, none without a leader."""
    await sim.start_controller()
    await asyncio.sleep(600)
    at_rest = [round(later.at - sooner.at) for sooner, later in pairwise(lists(sim))]
    assert at_rest == [60] * len(at_rest)
    assert len(at_rest) >= 8
    await sim.apply(node_claim("gpu1"))
    await sim.until(lambda: "gpu1" in sim.cloud.pools, 10, "the pool is being made")
    await asyncio.sleep(5)
    since = sim.now
    await sim.until(lambda: sim.cloud.pools["gpu1"].state == "Succeeded", 400, "the pool runs")
    in_flight = gaps(lists(sim, since))
    assert in_flight
    assert set(in_flight) <= {4, 5}
    await ready(sim, "gpu1")
    await asyncio.sleep(90)
    since = sim.now
    await asyncio.sleep(300)
    assert len(lists(sim, since)) == 5


@simulated(azure=AzureSettings(create_seconds=(900.0, 900.0)))
async def test_failed_lists_back_off(sim: Sim) -> None:
    """Without Retry-After up to two minutes, and back to normal after a success."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await sim.until(lambda: "gpu1" in sim.cloud.pools, 20, "the pool is being made")
    answer = errors.Answer(429, errors.throttled("AgentPoolHandler", 1).body)
    sim.cloud.faults.append(Fault(verb="LIST", answer=answer, times=8))
    await sim.until(lambda: len(refused(sim)) == 8, 3000, "eight are refused")
    *growing, last_but_one, last = gaps(refused(sim))
    assert growing == sorted(growing)
    assert growing[-1] < 120
    assert all(120 <= gap <= 160 for gap in (last_but_one, last))
    await sim.until(lambda: lists(sim)[-1].status == 200, 200, "a LIST succeeds")
    since = sim.now
    await asyncio.sleep(30)
    assert set(gaps(lists(sim, since - 1))) == {4}
    await ready(sim, "gpu1")


@simulated()
async def test_a_claim_states_that_pools_cannot_be_listed(sim: Sim) -> None:
    """Before the first LIST nothing is launched or removed; the claims state why."""
    fault = Fault(verb="LIST", answer=errors.throttled("AgentPoolHandler", 20), times=4)
    sim.cloud.faults.append(fault)
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    reported = await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "Throttled", within_seconds=40)
    assert reported["message"].startswith("Throttled: ")
    writes = len(sim.audit_log.writes())
    await asyncio.sleep(30)
    assert len(sim.audit_log.writes()) == writes
    await sim.apply(node_claim("gpu2"))
    await wait_for_condition(sim, "gpu2", "Launched", "Unknown", "Throttled", within_seconds=5)
    await sim.delete_claim("gpu2")
    await wait_for_condition(sim, "gpu2", "InstanceTerminating", "Unknown", "Throttled", within_seconds=5)
    assert fault.seen < 4
    await ready(sim, "gpu1")
    await sim.until(lambda: sim.claim("gpu2") is None, 200, "the other is gone")


@simulated()
async def test_rate_limit_metrics(sim: Sim) -> None:
    """Tokens, wait time and rejections, by bucket and origin."""
    metrics = Metrics()

    def value(name: str, **labels: Any) -> float:
        found = metrics.registry.get_sample_value(f"gpu_provisioner_arm_{name}", labels)
        return -1.0 if found is None else found

    answer = errors.throttled("PutAgentPoolHandler.PUT", 100)
    sim.cloud.faults.append(Fault(verb="PUT", pool="gpu1", answer=answer))
    await sim.start_controller(metrics=metrics)
    await asyncio.sleep(60)
    for bucket, tokens in (("aks", 58.0), ("aks-put", 19.0), ("arm-reads", 240.0), ("arm-writes", 190.0)):
        assert value("rate_limit_tokens", bucket=bucket) == tokens
        assert value("rate_limit_wait_seconds", bucket=bucket) == 0.0
    await sim.apply(node_claim("gpu1"))
    await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "Throttled", within_seconds=5)
    assert value("rate_limit_tokens", bucket="aks-put") == 0.0
    assert value("rate_limit_wait_seconds", bucket="aks-put") == pytest.approx(100.0, abs=5.0)
    assert value("throttled_total", bucket="aks-put", by="cloud") == 1.0
    assert value("throttled_total", bucket="arm-writes", by="cloud") == 0.0
    sim.cloud.faults.append(Fault(verb="PUT", pool="gpu2", answer=errors.arm_throttled("writes", 100)))
    await sim.apply(node_claim("gpu2"))
    await wait_for_condition(sim, "gpu2", "Launched", "Unknown", "SubscriptionThrottled", within_seconds=5)
    assert value("throttled_total", bucket="arm-writes", by="cloud") == 1.0
    await sim.apply(node_claim("gpu3"))
    await wait_for_condition(sim, "gpu3", "Launched", "Unknown", "ClientSideThrottling", within_seconds=5)
    assert value("throttled_total", bucket="arm-writes", by="budget") >= 1.0


@simulated()
async def test_responses_of_arm_state_the_remaining_calls(sim: Sim) -> None:
    """Each response of the simulated ARM has the remaining count of its kind, as those of the real one."""
    received: list[tuple[str, str]] = []

    async def note(call: Call, response: web.StreamResponse) -> None:
        left = [(k, v) for k, v in response.headers.items() if k.startswith("x-ms-ratelimit-remaining-")]
        received.extend(left if call.system == "arm" else [])

    sim.world.after.append(note)
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await sim.until(lambda: "gpu1" in sim.cloud.pools, 10, "the pool is being made")
    kinds = {name.rpartition("-")[2] for name, _ in received}
    assert kinds == {"reads", "writes"}
    assert all(200 >= int(left) >= 190 for name, left in received if name.endswith("writes"))
