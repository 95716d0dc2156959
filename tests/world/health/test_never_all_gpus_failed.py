"""A machine that lacks GPUs from the start, and whose agent pool failed: it is one like others.

AKS reports a pool as Failed whose kubelet was late, or whose extension failed.
"""

import asyncio

import pytest

from controllers.model.policy import Policy
from provisioner.api.repair_policy import RepairPolicy
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.faults import Failure, Fault
from tests.world.harness import Sim, node_claim, simulated
from tests.world.main_job import NAME
from tests.world.nodeclaim.common import gpu_class
from tests.world.transcript import FAST, MINUTE, claim_condition, node_name, pool_calls

from .common import DUE, EIGHT, deleted, lacks_one, plugin, replaced, restarts, short, train, unschedulable

pytestmark = pytest.mark.matrix(quick=0)

LATE = Failure(error=faults.nodes_not_ready(), after_seconds=300.0, machine=True)
FAILS = Fault(verb="PUT", failure=LATE, times=20)
CLASS = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}


async def failed(sim: Sim, policy: Policy | None = None) -> str:
    """A claim whose pool fails although its machine has a Ready Node; the claim's UID."""
    plugin(sim)
    lacks_one(sim)
    sim.cloud.faults.append(FAILS)
    await sim.start_controller(policy=policy or Policy())
    uid = await short(sim)
    await sim.until(lambda: sim.cloud.pools[NAME].state == "Failed", 400, "its pool failed")
    return uid


@simulated(azure=FAST)
async def test_its_pods_are_waited_for(sim: Sim) -> None:
    """It is cordoned once its repair is due, and replaced when they have ended."""
    uid = await failed(sim)
    train(sim, node_name(sim), 4)
    await asyncio.sleep(DUE + MINUTE)
    assert unschedulable(sim)
    await asyncio.sleep(60 * MINUTE)
    assert not deleted(sim)
    assert not pool_calls(sim, "DELETE")
    assert claim_condition(sim, "Launched")[0] == "True"
    sim.store.delete("pods", "trains", "default")
    await replaced(sim, uid, within_seconds=10 * MINUTE)


@simulated(azure=FAST)
async def test_it_is_replaced_without_pods(sim: Sim) -> None:
    """As one whose pool runs."""
    uid = await failed(sim)
    await asyncio.sleep(DUE - 6 * MINUTE)
    assert not deleted(sim)
    await replaced(sim, uid, within_seconds=10 * MINUTE)


@pytest.mark.parametrize("seconds", [10, 120])
@simulated(azure=FAST)
async def test_its_plugin_restarts(sim: Sim, seconds: int) -> None:
    """That no GPU is there for a moment ends nothing."""
    row = RepairPolicy(signal="NotInitialized", seconds=DUE, action="Wait")
    await failed(sim, Policy(repair_policies=(row,)))
    train(sim, node_name(sim), 4)
    await asyncio.sleep(DUE + 10 * MINUTE)
    await restarts(sim, node_name(sim), seconds)
    assert not pool_calls(sim, "DELETE")
    assert claim_condition(sim, "Launched")[0] == "True"
    assert sim.store.get("pods", "trains", "default")


@simulated(azure=FAST)
async def test_gpus_that_the_node_class_states_otherwise(sim: Sim) -> None:
    """It states Mixed slices, and the plugin offers eight whole GPUs, of which a training uses four."""
    plugin(sim)
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    sim.cloud.faults.append(FAILS)
    await sim.start_controller()
    await sim.apply(gpu_class(migProfile="MIG1g", migStrategy="Mixed"))
    await sim.apply(node_claim(NAME, size=EIGHT, nodeClassRef=CLASS))
    await sim.until(lambda: sim.condition(NAME, "Registered") == "True", 2400, "its Node is here")
    status = {key: {"nvidia.com/gpu": "8"} for key in ("capacity", "allocatable")}
    sim.store.patch("nodes", node_name(sim), {"status": status}, subresource="status")
    train(sim, node_name(sim), 4)
    await asyncio.sleep(90 * MINUTE)
    assert sim.store.get("pods", "trains", "default")
    assert not pool_calls(sim, "DELETE")
    assert "MIG" in claim_condition(sim, "Initialized")[2]


@simulated(azure=FAST)
async def test_a_plugin_that_is_kept_away(sim: Sim) -> None:
    """No machine would have GPUs: it is reported, and not bought again."""
    plugin(sim, nodeSelector={"example.com/none": "true"})
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    sim.cloud.faults.append(FAILS)
    await sim.start_controller()
    await sim.apply(node_claim(NAME, size=EIGHT))
    await asyncio.sleep(4 * 60 * MINUTE)
    assert len(pool_calls(sim, "PUT")) == 1
    assert "node selector" in claim_condition(sim, "Initialized")[2]
