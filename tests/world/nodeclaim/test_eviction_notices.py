"""Notices of evictions: the pods of a spot machine move before Azure takes it, and others are bought at once."""

import asyncio
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from provisioner.api import labels
from tests.world.claims import CLAIMS, events, ready
from tests.world.demand import T4, TOLERATION, claims_of, node_class, node_pool, pod, workload
from tests.world.disruption.common import disruption
from tests.world.harness import EPOCH, Json, Sim, simulate, simulated

from .common import spot_claim, spot_fleet

SPOT = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]}
SIZE = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4]}
TOLERATES = [TOLERATION, {"key": labels.AKS_SPOT, "operator": "Exists"}]
NOTICE_SECONDS = 30.0
WHOLE = ["pool", "node", "claim"]


def running(sim: Sim, name: str) -> Json | None:
    """A pod of the workload that runs and stays."""
    found = (one for one in sim.store.list("pods") if one["metadata"]["name"].startswith(name))
    up = (one for one in found if one.get("status", {}).get("phase") == "Running")
    return next((one for one in up if "deletionTimestamp" not in one["metadata"]), None)


def buys(sim: Sim) -> int:
    return len(sim.cloud.put_log)


async def serving(sim: Sim, **spec: Any) -> tuple[str, str]:
    """A pod runs on the spot machine of a NodePool whose budgets allow no disruption: its claim's UID and its Node."""
    await sim.apply(node_class())
    await sim.apply(node_pool(requirements=[SPOT, SIZE], disruption=disruption("Never", {"nodes": "0"})))
    await sim.start_controller()
    workload(sim, "ReplicaSet", "serving", **{"tolerations": TOLERATES, **spec})
    found = await sim.until(lambda: running(sim, "serving"), 900.0, "the pod runs")
    (claim,) = claims_of(sim)
    return claim["metadata"]["uid"], found["spec"]["nodeName"]


@pytest.mark.parametrize("evicted", [True, False], ids=["evicted", "kept by Azure"])
def test_pods_move_before_the_machine_is_taken(evicted: bool) -> None:
    """No budget delays it, and one machine is bought. A machine that Azure keeps is deleted all the same."""

    async def story(sim: Sim) -> None:
        uid, node = await serving(sim)
        began = sim.now
        sim.nodes.announce_eviction(node, evicted=evicted)
        await sim.until(lambda: buys(sim) == 2, NOTICE_SECONDS, "another machine is bought")
        assert sim.now - began <= 5.0
        moved = next(one for one in sim.store.list("pods") if one["metadata"]["name"].startswith("serving"))
        assert moved["spec"].get("nodeName") != node
        await sim.until(lambda: running(sim, "serving"), 900.0, "the pod runs again")
        await sim.until(lambda: sim.audit_log.deletion_order(uid) == WHOLE, 900.0, "all of the machine is gone")
        assert len(claims_of(sim)) == 1
        messages = [one["message"] for one in sim.store.list("events", fields="reason=SpotEvicted")]
        assert any(text.startswith("Deleted NodeClaim: Azure evicts the spot VM of agent pool") for text in messages)
        await sim.settled()
        assert buys(sim) == 2

    simulate(story)


@simulated()
async def test_pods_have_the_time_of_the_notice(sim: Sim) -> None:
    """One that must not be disrupted, with a grace period of 20 s, is deleted 20 s before the eviction."""
    annotated = {"labels": {}, "annotations": {labels.DO_NOT_DISRUPT: "true"}}
    _, node = await serving(sim)
    kept = pod("kept", gpus=0, nodeName=node, tolerations=TOLERATES, terminationGracePeriodSeconds=20)
    sim.store.create("pods", {**kept, "metadata": {**kept["metadata"], **annotated}}, "default")
    await sim.until(lambda: running(sim, "kept"), 60.0, "it runs")
    began = sim.now
    sim.nodes.announce_eviction(node)
    found = await sim.until(lambda: going(sim, "kept"), NOTICE_SECONDS, "it is deleted")
    assert 8.0 <= sim.now - began <= 12.0
    assert found["metadata"]["deletionGracePeriodSeconds"] <= 20


def going(sim: Sim, name: str) -> Json | None:
    found = sim.store.get("pods", name, "default")
    return found if found is not None and "deletionTimestamp" in found["metadata"] else None


@simulated()
async def test_a_mass_eviction_passes_the_circuit_breaker(sim: Sim) -> None:
    """All claims of spot machines go at once; one on demand with the same condition stays, and so does its pool."""
    spots = await spot_fleet(sim)
    for name in spots:
        (node,) = sim.nodes_of(name)
        sim.nodes.announce_eviction(node["metadata"]["name"])
    (node,) = sim.nodes_of("steady")
    sim.nodes.announce_eviction(node["metadata"]["name"], evicted=False)
    going_seconds = 10.0
    await sim.until(lambda: all(deletes(sim, name) for name in spots), going_seconds, "all of them are being deleted")
    await sim.until(
        lambda: not any(sim.claim(name) or name in sim.cloud.pools for name in spots), 900.0, "all are gone"
    )
    assert not any(events(sim, name, "RemovalRestricted") for name in spots)
    assert sim.condition("steady", "Ready") == "True"
    await sim.settled()


def deletes(sim: Sim, name: str) -> bool:
    found = sim.store.get(CLAIMS, name)
    return found is None or "deletionTimestamp" in found["metadata"]


@pytest.mark.parametrize("message", ["SpotRebalanceRecommendation Advisory: {}.", "Reboot Scheduled: {}.", ""])
def test_what_evicts_nothing_has_no_effect(message: str) -> None:
    """A recommendation to move, another scheduled event, and a condition without a message."""

    async def story(sim: Sim) -> None:
        _, node = await serving(sim)
        text = message.format("Sun, 01 Mar 2026 12:30:00 GMT")
        sim.nodes.set_condition(node, "PreemptionScheduled", "True", "SpotEvictionIncoming", text)
        await asyncio.sleep(1800)
        found = running(sim, "serving")
        assert found is not None
        assert found["spec"]["nodeName"] == node
        assert buys(sim) == 1

    simulate(story)


@simulated()
async def test_a_notice_that_a_restart_missed(sim: Sim) -> None:
    """The next leader finds it within its time. An old one that the machine has outlived has no effect."""
    await sim.start_controller(elect=False)
    for name in ("late", "old"):
        await sim.apply(spot_claim(name))
        await ready(sim, name)
    sim.crash()
    message = "Preempt Scheduled: {}. EventId: A1"
    for name, seconds in (("late", -60.0), ("old", -700.0)):
        (node,) = sim.nodes_of(name)
        text = message.format(format_datetime(EPOCH + timedelta(seconds=sim.now + seconds), usegmt=True))
        sim.nodes.set_condition(node["metadata"]["name"], "PreemptionScheduled", "True", "SpotEvictionIncoming", text)
    await sim.start_controller("ctl1", elect=False)
    await sim.until(lambda: sim.claim("late") is None, 900.0, "its claim is gone")
    assert sim.condition("old", "Ready") == "True"
