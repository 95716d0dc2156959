"""Machines that have 7 of 8 GPUs from the start: pods may use the seven, so that they are not taken at once."""

import asyncio
from functools import partial

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.api.repair_policy import RepairPolicy
from tests.world.harness import Json, Sim, node_claim, simulated
from tests.world.main_job import NAME
from tests.world.transcript import FAST, MINUTE, claim_condition, events, node_name

from .common import (
    DUE,
    EIGHT,
    FIRST,
    READABLE,
    bought,
    cordoned,
    deleted,
    gone,
    kept,
    lacks_one,
    limit_nodes,
    plugin,
    replaced,
    short,
    train,
    uid_of,
    unschedulable,
)

pytestmark = pytest.mark.matrix(quick=0)


@pytest.mark.parametrize("capacity", [8, 7], ids=["unhealthy", "omitted"])
@simulated(azure=FAST)
async def test_it_is_replaced_when_no_pod_uses_it(sim: Sim, capacity: int) -> None:
    """Twenty minutes after Registered: its Node is cordoned, and then the claim is deleted, with the numbers."""
    plugin(sim)
    lacks_one(sim, capacity=capacity)
    await sim.start_controller()
    uid = await short(sim)
    await asyncio.sleep(DUE - 5)
    assert claim_condition(sim, "Initialized")[1] == "GPUCountMismatch"
    assert not unschedulable(sim)
    assert not deleted(sim)
    await sim.until(lambda: unschedulable(sim) and not deleted(sim), 15, "its Node is cordoned")
    await replaced(sim, uid, within_seconds=5 * MINUTE)
    (stated,) = events(sim, "NodeRepair")
    assert "nvidia.com/gpu: 7 of 8 allocatable" in stated["message"]
    assert "machine works; pods with GPUs: 0; place: Available" in stated["message"]


@simulated(azure=FAST)
async def test_its_pods_are_waited_for(sim: Sim) -> None:
    """They came before it was due. Others no longer do, and it is replaced when they have ended."""
    plugin(sim)
    lacks_one(sim)
    await sim.start_controller()
    uid = await short(sim)
    await asyncio.sleep(10 * MINUTE)
    train(sim, node_name(sim), 4)
    await asyncio.sleep(10 * MINUTE + 15)
    assert unschedulable(sim)
    await asyncio.sleep(3 * 60 * MINUTE)
    assert not deleted(sim)
    sim.store.delete("pods", "trains", "default")
    await replaced(sim, uid, within_seconds=10 * MINUTE)


@pytest.mark.parametrize("minutes", [0, 30])
@simulated(azure=FAST)
async def test_its_pods_are_waited_for_as_long_as_the_row_states(sim: Sim, minutes: int) -> None:
    """`waitForPods` of the row for NotInitialized."""
    row = RepairPolicy(signal="NotInitialized", seconds=DUE, action="Replace", pods_seconds=minutes * MINUTE)
    plugin(sim)
    lacks_one(sim)
    await sim.start_controller(policy=Policy(repair_policies=(row,)))
    uid = await short(sim)
    await asyncio.sleep(10 * MINUTE)
    train(sim, node_name(sim), 4)
    await asyncio.sleep((9 + minutes) * MINUTE)
    assert not deleted(sim)
    await replaced(sim, uid, within_seconds=12 * MINUTE)


@pytest.mark.parametrize("case", ["no plugin", "Wait", "configured"])
@simulated(azure=FAST)
async def test_it_is_kept_without_a_cordon(sim: Sim, case: str) -> None:
    """Where nothing lays the loss on the machine, or where a row only reports it."""
    row = RepairPolicy(signal="NotInitialized", seconds=DUE, action="Wait")
    lacks_one(sim, capacity=7 if case == "configured" else 8)
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0,1,2,3,4,5,6"}]
    container = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", "env": env}
    specs: dict[str, Json] = {
        "no plugin": {"nodeSelector": {"example.com/none": "true"}},
        "configured": {"containers": [container]},
    }
    plugin(sim, **specs.get(case, {}))
    await sim.start_controller(policy=Policy(repair_policies=(row,) if case == "Wait" else ()))
    await short(sim)
    await asyncio.sleep(90 * MINUTE)
    assert not deleted(sim)
    assert not unschedulable(sim)
    assert "overdue" in claim_condition(sim, "Initialized")[2]


@simulated(azure=FAST)
async def test_gpus_that_appear_after_the_cordon_end_it(sim: Sim) -> None:
    """A plugin that is restarted finds all of them while pods are waited for."""
    plugin(sim)
    lacks_one(sim)
    await sim.start_controller()
    await short(sim)
    train(sim, node_name(sim), 4)
    await asyncio.sleep(DUE + MINUTE)
    assert unschedulable(sim)
    sim.nodes.set_gpus(node_name(sim), 8)
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", MINUTE, "it is Ready")
    await asyncio.sleep(MINUTE)
    assert not unschedulable(sim)
    assert not deleted(sim)


@simulated(azure=READABLE)
async def test_it_is_kept_while_no_other_can_be_had(sim: Sim) -> None:
    """Seven GPUs beat none: it takes pods, and the condition names the obstacle, until that ends."""
    await kept(sim)
    uid = uid_of(sim, FIRST)
    await asyncio.sleep(90 * MINUTE)
    assert not deleted(sim, FIRST)
    assert not cordoned(sim)
    stated = claim_condition(sim, "Initialized", FIRST)[2]
    assert "repair delayed: no other machine can be had now (NodePool gpu: limit nodes: 0, needed 1" in stated
    limit_nodes(sim, "1")
    await replaced(sim, uid, FIRST, within_seconds=15 * MINUTE)


def ready(sim: Sim, name: str) -> bool:
    return sim.condition(name, "Ready") == "True"


@pytest.mark.parametrize("releases", [False, True], ids=["one image", "new images"])
@simulated(azure=FAST)
async def test_a_size_that_always_lacks_one(sim: Sim, releases: bool) -> None:
    """Two are replaced, also if each has another node image; the third is kept, says why, and takes pods."""
    plugin(sim)
    lacks_one(sim)
    # The limit of a day would hide those of a row of failures.
    policy = Policy(repair_rollout_floor=10)
    await sim.start_controller(policy=policy)
    assert await bought(sim, 6, releases=releases) == 3
    kept = claim_condition(sim, "NodeHealthy", "gpu2")
    assert kept[1] == "RepairSuspended"
    assert f"2 machines {EIGHT} had some of their GPUs only, from the start; this one is kept" in kept[2]
    assert not unschedulable(sim, "gpu2")
    sim.crash()
    await sim.start_controller("ctl1", policy=policy)
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim, "gpu2")
    assert not unschedulable(sim, "gpu2")


@simulated(azure=FAST)
async def test_machines_whose_gpus_are_only_reported_prove_nothing(sim: Sim) -> None:
    """They are Ready with seven GPUs, before and after each replacement: the row of failures does not end."""
    plugin(sim)
    lacks_one(sim)
    await sim.start_controller(policy=Policy(repair_rollout_floor=10))
    for number in range(3):
        name = f"gpu{number}"
        await short(sim, name)
        reported = node_claim(f"report{number}", size=EIGHT)
        reported["metadata"]["annotations"] = {labels.GPU_READINESS: "report"}
        if number < 2:
            await sim.until(partial(deleted, sim, name), 40 * MINUTE, "it is replaced")
            await sim.apply(reported)
            await sim.until(partial(gone, sim, name), 30 * MINUTE, "it is gone")
            await sim.until(partial(ready, sim, f"report{number}"), 900, "the other machine is Ready")
    await asyncio.sleep(70 * MINUTE)
    assert not deleted(sim, "gpu2")


@simulated(azure=FAST)
async def test_a_machine_with_all_its_gpus_ends_a_row_of_failures(sim: Sim) -> None:
    """Also with another node image: the size has eight, so that the next one that lacks a GPU is replaced."""
    plugin(sim)
    lacks_one(sim, only=("gpu0", "gpu1", "gpu3"))
    await sim.start_controller(policy=Policy(repair_rollout_floor=10))
    for number in range(4):
        name = f"gpu{number}"
        sim.cloud.release_node_image(f"202608.{11 + number}.0")
        await short(sim, name)
        if number == 2:
            await sim.until(partial(ready, sim, name), 5 * MINUTE, "it is Ready")
            continue
        await sim.until(partial(deleted, sim, name), 40 * MINUTE, "it is replaced")
        await sim.until(partial(gone, sim, name), 30 * MINUTE, "it is gone")


@simulated(azure=FAST)
async def test_a_fleet_that_lacks_one_each_is_not_replaced(sim: Sim) -> None:
    """Six replicas of a size that always lacks one, created at once: none is taken, and none cordoned."""
    plugin(sim)
    lacks_one(sim)
    await sim.start_controller()
    names = [f"gpu{number}" for number in range(6)]
    for name in names:
        await sim.apply(node_claim(name, size=EIGHT))
    await asyncio.sleep(90 * MINUTE)
    assert not any(deleted(sim, name) for name in names)
    assert not any(unschedulable(sim, name) for name in names)
    assert "became unhealthy within 10 min" in claim_condition(sim, "Initialized", names[0])[2]
