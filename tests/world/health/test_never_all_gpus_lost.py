"""A machine that never had all its GPUs, and loses the others for a moment or for good.

The kubelet offers no GPU while it or the device plugin restarts. That is another loss, which begins then: what keeps
the machine with its other GPUs does not end by one report.
"""

import asyncio
from functools import partial

import pytest

from controllers.model.policy import Policy
from provisioner.api.repair_policy import RepairPolicy
from tests.world.harness import Sim, simulated
from tests.world.transcript import FAST, MINUTE, claim_condition, node_name

from .common import (
    DUE,
    FIRST,
    READABLE,
    bought,
    deleted,
    gone,
    kept,
    lacks_one,
    plugin,
    restarts,
    short,
    train,
    unschedulable,
)

pytestmark = pytest.mark.matrix(quick=0)

HOUR = 60 * MINUTE


@pytest.mark.parametrize("seconds", [10, 120])
@pytest.mark.parametrize("trained", [False, True])
@simulated(azure=READABLE)
async def test_a_machine_that_is_kept(sim: Sim, seconds: int, *, trained: bool) -> None:
    """It stays, idle after 90 minutes, and with a training after more than a day."""
    node = await kept(sim)
    await asyncio.sleep(30 * MINUTE)
    if trained:
        train(sim, node, 4)
    await asyncio.sleep(25 * HOUR if trained else HOUR)
    await restarts(sim, node, seconds)
    assert not deleted(sim, FIRST)


@simulated(azure=FAST)
async def test_a_machine_whose_repair_is_suspended(sim: Sim) -> None:
    """The third machine of a size that always lacks one GPU is not replaced because of a restart."""
    plugin(sim)
    lacks_one(sim)
    await sim.start_controller(policy=Policy(repair_rollout_floor=10))
    assert await bought(sim, 6) == 3
    await restarts(sim, node_name(sim, "gpu2"), 20)
    assert not deleted(sim, "gpu2")


@simulated(azure=FAST)
async def test_a_machine_that_the_limit_on_rollouts_keeps(sim: Sim) -> None:
    """Four machines lack a GPU; one of them is idle, and its plugin restarts."""
    plugin(sim)
    lacks_one(sim)
    await sim.start_controller()
    for name in (names := [f"gpu{number}" for number in range(4)]):
        await short(sim, name)
        train(sim, node_name(sim, name), 4, pod=f"trains-{name}")
        await asyncio.sleep(15 * MINUTE)
    await asyncio.sleep(HOUR)
    sim.store.delete("pods", f"trains-{names[3]}", "default")
    await asyncio.sleep(5 * MINUTE)
    await restarts(sim, node_name(sim, names[3]), 15)
    assert not deleted(sim, names[3])


@simulated(azure=FAST)
async def test_a_fleet_that_lacked_them_before(sim: Sim) -> None:
    """Six machines have served for a day when a controller with this row starts: they have a common cause."""
    plugin(sim)
    lacks_one(sim)
    before = RepairPolicy(signal="NotInitialized", seconds=DUE, action="Wait")
    await sim.start_controller(policy=Policy(repair_policies=(before,)))
    for name in (names := [f"gpu{number}" for number in range(6)]):
        await short(sim, name)
        train(sim, node_name(sim, name), 4, pod=f"trains-{name}")
        await asyncio.sleep(30 * MINUTE)
    await asyncio.sleep(25 * HOUR)
    sim.crash()
    await sim.start_controller("ctl1")
    await asyncio.sleep(30 * MINUTE)
    assert not [name for name in names if unschedulable(sim, name)]


@simulated(azure=FAST)
async def test_a_suspension_for_another_failure(sim: Sim) -> None:
    """Two machines without any GPU were replaced, and the third is kept; its plugin then offers 7 of 8."""
    plugin(sim)
    sim.nodes.plugin_delay_seconds = 24 * HOUR
    await sim.start_controller(policy=Policy(repair_rollout_floor=10))
    for number in range(3):
        name = f"gpu{number}"
        await short(sim, name)
        if number < 2:
            await sim.until(partial(deleted, sim, name), 70 * MINUTE, "it is replaced")
            await sim.until(partial(gone, sim, name), 30 * MINUTE, "it is gone")
    await asyncio.sleep(HOUR)
    assert not deleted(sim, "gpu2")
    sim.nodes.set_gpus(node_name(sim, "gpu2"), 8, unhealthy=1)
    await asyncio.sleep(HOUR)
    assert "had some of their GPUs only" not in claim_condition(sim, "NodeHealthy", "gpu2")[2]
