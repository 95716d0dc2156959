"""The pods of a machine that is disrupted have a place all the time, whatever others take meanwhile."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.demand import T4, claims_of, node_class, node_pool, pod, workload
from tests.world.harness import Json, Sim, simulated

from .common import SIZES, created, drift, dynamic, fleet, live, passes, ready, running, tainted

pytestmark = pytest.mark.matrix(quick=0)

T = TypeVar("T")
# A pod that is created again is bound and starts within this time if its machine is Ready.
RESTART_SECONDS = 120.0


def runs(sim: Sim, name: str) -> bool:
    """Whether a pod of this ReplicaSet runs and is not being deleted."""
    return any(
        one["metadata"]["name"].startswith(f"{name}-")
        and one["status"].get("phase") == "Running"
        and "deletionTimestamp" not in one["metadata"]
        for one in sim.store.list("pods")
    )


def observed_downs(sim: Sim, name: str) -> list[float]:
    """For how long no pod of this ReplicaSet ran, each time; filled from now on."""
    downs, since = list[float](), list[float]()

    def look(*_: object) -> None:
        if not runs(sim, name):
            if not since:
                since.append(sim.now)
        elif since:
            downs.append(sim.now - since.pop())

    sim.store.subscribe(look)
    return downs


def owned(name: str, **spec: object) -> Json:
    """A pod of a ReplicaSet that does not create it again."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    body = pod(name, **spec)  # type: ignore[arg-type]
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}


@simulated()
async def test_a_pod_that_becomes_pending_gets_a_machine_of_its_own(sim: Sim) -> None:
    """While the replacement of another one starts, which kube-scheduler gives to it."""
    await dynamic(sim, "serving")
    downs = observed_downs(sim, "serving")
    drift(sim, "gpu-1")
    await sim.until(lambda: len(claims_of(sim)) == 2, 60.0, "the replacement is created")
    workload(sim, "ReplicaSet", "other")
    await sim.until(lambda: len(live(sim)) == 3, 300.0, "another machine is bought")
    await sim.until(lambda: "gpu-1" not in live(sim), 3600.0, "it is replaced")
    await sim.until(lambda: runs(sim, "serving") and runs(sim, "other") and len(ready(sim)) == 2, 3600.0, "both run")
    assert max(downs, default=0.0) <= RESTART_SECONDS


@simulated(nodes=NodeSettings(gpu_seconds=(300.0, 300.0)))
async def test_a_second_node_of_an_agent_pool_is_no_place(sim: Sim) -> None:
    """It has no GPU yet: the other machine is kept, because its pod would wait there."""
    await fleet(sim, T4, first=1, second=1)
    claim, _ = claims_of(sim)
    (pool,) = sim.pools_of(claim["metadata"]["uid"])
    sim.cloud.add_machine(pool.name)
    await asyncio.sleep(1800.0)
    assert len(sim.nodes_of(pool.name)) == 2
    assert len(live(sim)) == 2


@simulated()
async def test_a_replacement_that_another_pod_takes_ends_the_command(sim: Sim) -> None:
    """It is bound without having been pending, so that nothing is bought for it: the old machine is kept."""
    await dynamic(sim, "serving")
    downs = observed_downs(sim, "serving")
    drift(sim, "gpu-1")
    await sim.until(lambda: live(sim) == ["gpu-1", "gpu-2"] and node(sim, "gpu-2"), 1800.0, "its Node")
    sim.store.create("pods", owned("thief", nodeName=node(sim, "gpu-2")), "default")
    about = "involvedObject.name=gpu-1,reason=ReplacementFailed"
    (event,) = await sim.until(lambda: sim.store.list("events", fields=about), 1800.0, "it is undone")
    assert event["message"].startswith("The machine is kept: not all pods would schedule, default/serving-0 => ")
    assert "gpu-2" in live(sim)
    await sim.until(lambda: node(sim, "gpu-1") not in tainted(sim), 60.0, "it takes pods again")
    await sim.until(lambda: "gpu-1" not in live(sim), 3600.0, "the next command replaces it")
    await passes(sim, 300.0)
    assert max(downs, default=0.0) <= RESTART_SECONDS


def node(sim: Sim, claim: str) -> str:
    return str(((sim.claim(claim) or {}).get("status") or {}).get("nodeName", ""))


async def slowly(decide: Callable[[], T]) -> T:
    found = decide()
    await asyncio.sleep(4.0)
    return found


@simulated()
async def test_a_destination_that_is_removed_meanwhile(sim: Sim) -> None:
    """Emptiness takes it while the drift of the other machine is decided."""
    await sim.apply(node_class())
    disruption = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}
    await sim.apply(node_pool(requirements=SIZES, disruption=disruption))
    await sim.start_controller(compute=slowly)
    workload(sim, "ReplicaSet", "a")
    await sim.until(lambda: running(sim) == 1 and ready(sim), 1800.0, "the first machine")
    sim.store.create("pods", owned("b"), "default")
    await sim.until(lambda: running(sim) == 2 and len(ready(sim)) == 2, 1800.0, "the second machine")
    await passes(sim, 120.0)
    downs = observed_downs(sim, "a")
    sim.store.delete("pods", "b", "default")
    await sim.until(lambda: sim.store.get("pods", "b", "default") is None, 120.0, "its pod is gone")
    await asyncio.sleep(40.0)
    drift(sim, "gpu-1")
    await passes(sim, 60.0)
    assert running(sim) == 1
    await sim.until(lambda: "gpu-1" not in live(sim), 3600.0, "it is replaced")
    await passes(sim, 600.0)
    assert max(downs, default=0.0) <= RESTART_SECONDS


@simulated()
async def test_a_destination_is_kept_while_the_command_runs(sim: Sim) -> None:
    """Of two pods of a drifted machine one has room on another machine, which is empty from then on."""
    await sim.apply(node_class())
    disruption = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}
    await sim.apply(node_pool(requirements=SIZES, disruption=disruption))
    await sim.start_controller()
    workload(sim, "ReplicaSet", "a")
    await sim.until(lambda: running(sim) == 1 and ready(sim), 1800.0, "the first machine")
    sim.store.create("pods", owned("b"), "default")
    await sim.until(lambda: running(sim) == 2 and len(ready(sim)) == 2, 1800.0, "the second machine")
    sim.store.create("pods", owned("c", gpus=0, nodeSelector={"team": "ml"}, nodeName=node(sim, "gpu-1")), "default")
    await passes(sim, 120.0)
    drift(sim, "gpu-1")
    await sim.until(lambda: tainted(sim) and live(sim) == ["gpu-1", "gpu-2", "gpu-3"], 60.0, "it is being replaced")
    sim.store.delete("pods", "b", "default")
    await sim.until(lambda: "gpu-1" not in live(sim), 3600.0, "it is replaced")
    assert live(sim) == ["gpu-2", "gpu-3"]
    await sim.until(lambda: len(live(sim)) == 1, 600.0, "the empty one is removed")


@simulated()
async def test_a_machine_that_loses_its_gpus_while_others_are_replaced(sim: Sim) -> None:
    """Its pod is struck, and pods of its shape keep their places on replacements that start: one machine for each."""
    await dynamic(sim, "a", "b", "c", "d")
    sim.crash()
    await sim.start_controller("ctl1")
    drift(sim, "gpu-1")
    await sim.until(lambda: "gpu-5" in ready(sim), 1800.0, "the first replacement is Ready")
    sim.nodes.set_unhealthy_gpus(sim.claim("gpu-2")["status"]["nodeName"], 1)
    await passes(sim, 260.0)
    drift(sim, "gpu-2", "gpu-3", "gpu-4")
    await passes(sim, 3600.0)
    assert created(sim) == 8
    assert live(sim) == ready(sim) == ["gpu-5", "gpu-6", "gpu-7", "gpu-8"]
