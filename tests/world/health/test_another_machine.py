"""A machine with 7 of 8 GPUs is kept while nothing can be had in its place, and replaced once it can.

The machine counts out first: quota and limits that are just used up are free once it is deleted.
"""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.api.repair_policy import RepairPolicy
from tests.world.demand import node_class, node_pool
from tests.world.harness import Sim, simulated
from tests.world.transcript import FAST, MINUTE, claim_condition

from .common import (
    EIGHT,
    FIRST,
    LOSS,
    POOLS,
    READABLE,
    annotations,
    cordoned,
    deleted,
    limit_nodes,
    node_of_first,
    plugin,
    replaced,
    train,
    uid_of,
)

pytestmark = pytest.mark.matrix(quick=0)

FAMILY, CORES = "StandardNDISRH100v5Family", 96


async def machine(sim: Sim, policy: Policy | None = None, **spec: Any) -> str:
    """The machine of a static NodePool; the UID of its claim."""
    await sim.start_controller(policy=policy or Policy())
    await sim.apply(node_class())
    sizes = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [EIGHT]}]
    await sim.apply(node_pool(requirements=sizes, replicas=1, **spec))
    await sim.until(lambda: sim.condition(FIRST, "Ready") == "True", 600, "the claim is Ready")
    return uid_of(sim, FIRST)


def change_type(sim: Sim, size: str) -> None:
    """A size that does not exist makes the NodePool unready."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [size]}
    sim.store.patch(POOLS, "gpu", {"spec": {"template": {"spec": {"requirements": [requirement]}}}})


def limit_cost(sim: Sim, amount: str | None) -> None:
    """In USD an hour; None: no limit."""
    sim.store.patch(POOLS, "gpu", {"metadata": {"annotations": {labels.COST_PER_HOUR: amount}}})


Change = Callable[[Sim], object]
OBSTACLES: dict[str, tuple[Change, str, Change]] = {
    "the limit of the NodePool was lowered": (
        lambda sim: limit_nodes(sim, "0"),
        "NodePool gpu: limit nodes: 0, needed 1",
        lambda sim: limit_nodes(sim, "1"),
    ),
    "the limit on the cost was lowered": (
        lambda sim: limit_cost(sim, "1"),
        "NodePool gpu: metadata.annotations[gpu-provisioner.sh/cost-per-hour] is 1, and its machines cost",
        lambda sim: limit_cost(sim, None),
    ),
    "the NodePool is not Ready": (
        lambda sim: change_type(sim, "Standard_None"),
        "NodePool gpu: ",
        lambda sim: change_type(sim, EIGHT),
    ),
    "quota was lowered below its use": (
        lambda sim: sim.cloud.configure(family_cores={FAMILY: 0}),
        f"after its deletion, {FAMILY} cores quota",
        lambda sim: sim.cloud.configure(family_cores={FAMILY: CORES}),
    ),
}


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("case", OBSTACLES)
@simulated(azure=READABLE)
async def test_it_is_kept_while_no_other_can_be_had(sim: Sim, case: str) -> None:
    """The condition names the obstacle. It goes within minutes of the obstacle's end."""
    begin, named, end = OBSTACLES[case]
    uid = await machine(sim)
    begin(sim)
    sim.nodes.set_unhealthy_gpus(node_of_first(sim), 1)
    await asyncio.sleep(3 * 60 * MINUTE)
    assert not deleted(sim, FIRST)
    stated = claim_condition(sim, "Initialized", FIRST)[2]
    assert "repair delayed: no other machine can be had now" in stated
    assert named in stated
    end(sim)
    await replaced(sim, uid, FIRST, within_seconds=15 * MINUTE)


@simulated(azure=dataclasses.replace(READABLE, family_cores={FAMILY: CORES}))
async def test_what_its_deletion_returns_is_no_obstacle(sim: Sim) -> None:
    """Quota and a limit for just one machine: it is replaced in time."""
    uid = await machine(sim, limits={"nodes": "1"})
    sim.nodes.set_unhealthy_gpus(node_of_first(sim), 1)
    await asyncio.sleep(LOSS + 10 * MINUTE - 5)
    assert not deleted(sim, FIRST)
    await replaced(sim, uid, FIRST, within_seconds=4 * MINUTE)


@simulated(azure=FAST)
async def test_it_takes_pods_while_it_is_kept(sim: Sim) -> None:
    """The cordon before its repair is lifted when no other can be had, and returns when one can. Pods that came
    meanwhile are waited for, since the last cordon.
    """
    row = RepairPolicy(signal="GpuPartial", seconds=600.0, action="Replace", agreement="None", pods_seconds=44 * MINUTE)
    uid = await machine(sim, policy=Policy(repair_policies=(row,)))
    node = node_of_first(sim)
    sim.nodes.set_unhealthy_gpus(node, 1)
    await asyncio.sleep(LOSS + 3 * MINUTE)
    assert cordoned(sim)
    limit_nodes(sim, "0")
    await asyncio.sleep(8 * MINUTE)
    assert not cordoned(sim)
    train(sim, node, 4)
    await asyncio.sleep(2 * 60 * MINUTE)
    assert not cordoned(sim)
    limit_nodes(sim, "1")
    await asyncio.sleep(2 * MINUTE)
    assert cordoned(sim)
    await asyncio.sleep(41 * MINUTE)
    assert not deleted(sim, FIRST)
    await replaced(sim, uid, FIRST, within_seconds=20 * MINUTE)


@simulated(azure=FAST)
async def test_another_signal_keeps_its_cordon(sim: Sim) -> None:
    """A condition that is about all of the Node."""
    await machine(sim)
    node = node_of_first(sim)
    sim.nodes.set_unhealthy_gpus(node, 1)
    sim.nodes.set_condition(node, "KernelDeadlock", "True", "Found", "found by an agent")
    limit_nodes(sim, "0")
    await asyncio.sleep(60 * MINUTE)
    assert cordoned(sim)
    assert not deleted(sim, FIRST)
    sim.nodes.set_condition(node, "KernelDeadlock", "False", "Found", "found by an agent")
    await asyncio.sleep(5 * MINUTE)
    assert not cordoned(sim)


@pytest.mark.parametrize("succeeded", [False, True], ids=["one process", "a new leader"])
@simulated(azure=FAST)
async def test_a_cordon_of_a_user_ends_no_training(sim: Sim, *, succeeded: bool) -> None:
    """It was kept for longer than its pods are waited for, and took pods. They are waited for since the Node takes no
    more, whoever cordoned it, and the cordon remains that of the user. A new leader goes on with the wait.
    """
    row = RepairPolicy(signal="GpuPartial", seconds=600.0, action="Replace", agreement="None", pods_seconds=44 * MINUTE)
    policy = Policy(repair_policies=(row,))
    uid = await machine(sim, policy=policy)
    node = node_of_first(sim)
    limit_nodes(sim, "0")
    sim.nodes.set_unhealthy_gpus(node, 1)
    await asyncio.sleep(2 * 60 * MINUTE)
    train(sim, node, 4)
    await asyncio.sleep(60 * MINUTE)
    sim.store.patch("nodes", node, {"spec": {"unschedulable": True}})
    limit_nodes(sim, "1")
    await asyncio.sleep(20 * MINUTE)
    if succeeded:
        sim.crash()
        await sim.start_controller("ctl1", policy=policy)
    await asyncio.sleep(22 * MINUTE)
    assert not deleted(sim, FIRST)
    assert labels.CORDONED_AT not in sim.store.get("nodes", node)["metadata"].get("annotations", {})
    await replaced(sim, uid, FIRST, within_seconds=20 * MINUTE)


@pytest.mark.parametrize("minutes", [5.5, 10])
@simulated(azure=READABLE)
async def test_a_gap_of_the_plugin(sim: Sim, minutes: float) -> None:
    """It is kept with 7 of 8 GPUs for two hours, and none is shown for less than the 16 min of GpuGone."""
    plugin(sim)
    await machine(sim)
    node = node_of_first(sim)
    limit_nodes(sim, "0")
    sim.nodes.set_gpus(node, 8, unhealthy=1)
    await asyncio.sleep(2 * 60 * MINUTE)
    sim.nodes.set_gpus(node, 8, unhealthy=8)
    await asyncio.sleep(minutes * MINUTE)
    assert not deleted(sim, FIRST)
    sim.nodes.set_gpus(node, 8, unhealthy=1)
    await asyncio.sleep(30 * MINUTE)
    assert not deleted(sim, FIRST)


@pytest.mark.parametrize("change", ["no other machine can be had", "dry run"])
@simulated(azure=READABLE)
async def test_the_deadline_of_a_drain_that_is_not_made(sim: Sim, change: str) -> None:
    """The leader ends after it wrote the deadline, and its successor keeps the machine, which takes pods again. Three
    hours later a user deletes the claim: the drain waits for the budget of a training that began meanwhile.
    """
    row = RepairPolicy(signal="GpuPartial", seconds=600.0, action="Replace", agreement="None")
    await machine(sim, policy=Policy(repair_policies=(row,)))
    sim.nodes.set_unhealthy_gpus(node_of_first(sim), 1)
    await sim.until(
        lambda: labels.REPAIR_DRAIN_UNTIL in annotations(sim, FIRST), 30 * MINUTE, "the deadline is written"
    )
    sim.crash()
    if change != "dry run":
        limit_nodes(sim, "0")
    await sim.start_controller("ctl1", policy=Policy(repair_policies=(row,), repair_dry_run=change == "dry run"))
    await asyncio.sleep(3 * 60 * MINUTE)
    assert not deleted(sim, FIRST)
    assert not cordoned(sim)
    assert not {labels.REPAIR_DRAIN_UNTIL, labels.TERMINATION_TIMESTAMP} & {*annotations(sim, FIRST)}
    train(sim, node_of_first(sim), 4)
    sim.store.patch("pods", "trains", {"metadata": {"name": "trains", "labels": {"app": "trains"}}}, "default")
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "trains"}}}
    sim.store.create("poddisruptionbudgets.policy", {"metadata": {"name": "trains"}, "spec": spec}, "default")
    await asyncio.sleep(MINUTE)
    await sim.delete_claim(FIRST)
    await asyncio.sleep(3 * MINUTE)
    assert sim.store.get("pods", "trains", "default")
