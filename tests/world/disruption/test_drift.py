"""Drifted machines are replaced: the replacement is Initialized before the old one is deleted, within the budgets."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from provisioner.runtime.compute import inline
from provisioner.simulator.azure import faults
from tests.world.claims import condition
from tests.world.demand import claims_of, node_class, node_pool, pod, workload
from tests.world.harness import Sim, simulate, simulated

from .common import SIZES, budget, drift, dynamic, live, numbers, passes, ready, running, static, tainted

pytestmark = pytest.mark.matrix(quick=0)

T = TypeVar("T")

A100 = "Standard_NC24ads_A100_v4"
ZONE = "topology.kubernetes.io/zone"


@simulated()
async def test_static_machines_are_replaced_one_after_the_other(sim: Sim) -> None:
    """Budget 1: never fewer than two Ready machines, never more than one in addition besides instances that go."""
    await static(sim, 2)
    fewest, most = 2, 2

    def look(*_: object) -> None:
        nonlocal fewest, most
        counted = [one for one in claims_of(sim) if condition(one, "InstanceTerminating").get("status") != "True"]
        fewest, most = min(fewest, len(ready(sim))), max(most, len(counted))

    sim.store.subscribe(look)
    drift(sim, "gpu-1", "gpu-2")
    await sim.until(lambda: ready(sim) == ["gpu-3", "gpu-4"] and len(claims_of(sim)) == 2, 3600.0, "two others")
    assert (fewest, most) == (2, 3)
    assert not tainted(sim)
    await passes(sim, 300.0)
    assert ready(sim) == ["gpu-3", "gpu-4"]


@simulated()
async def test_a_budget_of_0_keeps_drifted_machines(sim: Sim) -> None:
    """The NodePool gets an Event; with another budget they are replaced."""
    await static(sim, 1, "0")
    drift(sim, "gpu-1")
    await passes(sim, 600.0)
    assert live(sim) == ["gpu-1"]
    events = sim.store.list("events", fields="involvedObject.kind=NodePool,reason=DisruptionBlocked")
    assert {one["message"] for one in events} == {
        "No allowed disruptions for disruption reason Drifted due to blocking budget"
    }
    sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"disruption": budget("1")}})
    await sim.until(lambda: live(sim) == ["gpu-2"] and ready(sim) == ["gpu-2"], 1800.0, "the replacement")


@simulated()
async def test_a_replacement_that_cannot_be_bought_is_undone(sim: Sim) -> None:
    """The old machine takes pods again, nothing is left of the replacement, and the next attempt waits."""
    await static(sim, 1)
    fault = faults.capacity()
    sim.cloud.faults.append(fault)
    drift(sim, "gpu-1")
    await sim.until(lambda: live(sim) == ["gpu-1", "gpu-2"] and tainted(sim), 60.0, "a replacement is created")
    await sim.until(lambda: [one["metadata"]["name"] for one in claims_of(sim)] == ["gpu-1"], 1800.0, "it is deleted")
    await sim.until(lambda: not tainted(sim), 30.0, "the taint is removed")
    (claim,) = claims_of(sim)
    assert not condition(claim, "DisruptionReason")
    assert ready(sim) == ["gpu-1"]
    await passes(sim, 300.0)
    assert live(sim) == ["gpu-1"]
    sim.cloud.faults.remove(fault)
    await sim.until(
        lambda: len(ready(sim)) == 1 and ready(sim) != ["gpu-1"] and len(claims_of(sim)) == 1, 3600.0, "it is replaced"
    )
    assert not tainted(sim)


@simulated()
async def test_a_limit_on_nodes_that_leaves_no_room_is_reported(sim: Sim) -> None:
    """`limits.nodes` equal to `replicas` permits no replacement."""
    await static(sim, 1, limits={"nodes": "1"})
    drift(sim, "gpu-1")
    await passes(sim, 120.0)
    assert live(sim) == ["gpu-1"]
    events = sim.store.list("events", fields="involvedObject.kind=NodePool,reason=DisruptionBlocked")
    assert {one["message"] for one in events} == {
        "spec.limits[nodes] allows no replacement; raise it above spec.replicas, which is 1"
    }


@pytest.mark.parametrize("why", ["Pod would not be created again elsewhere", "not all pods would schedule"])
def test_a_static_machine_whose_pods_cannot_move_costs_no_replacement(why: str) -> None:
    """A pod without a controller, or one with GPUs whose NodePool gets another model: Events of the machine say so."""

    async def story(sim: Sim) -> None:
        await static(sim, 2)
        first = {one["metadata"]["uid"] for one in claims_of(sim)}
        seen = {*first}
        sim.store.subscribe(lambda *_: seen.update(one["metadata"]["uid"] for one in claims_of(sim)))
        if why.startswith("Pod"):
            sim.store.create("pods", pod("debug", gpus=0, nodeSelector={"team": "ml"}), "default")
        else:
            workload(sim, "ReplicaSet", "serving")
        await sim.until(lambda: running(sim) == 1, 600.0, "the pod")
        (used,) = [claim for claim in numbers(1, 2) if sim.claim(claim)["status"]["nodeName"] == place(sim)]
        if why.startswith("Pod"):
            drift(sim, *numbers(1, 2))
        else:
            template = node_pool(requirements=[{**SIZES[0], "values": [A100]}])["spec"]["template"]
            sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"template": template}})
        await passes(sim, 4 * 3600.0)
        assert used in live(sim)
        assert len(live(sim)) == 2
        assert len(seen - first) == 1
        events = sim.store.list("events", fields=f"involvedObject.name={used},reason=DisruptionBlocked")
        assert any(why in one["message"] for one in events)

    simulate(story)


@simulated()
async def test_the_replacement_of_a_static_machine_is_in_the_zone_of_its_pods(sim: Sim) -> None:
    """The first zone that the template allows is sold out at first; the pod is bound to the zone of its machine."""
    fault = faults.capacity(zone="1")
    sim.cloud.faults.append(fault)
    zones = {"key": ZONE, "operator": "In", "values": ["westeurope-1", "westeurope-2"]}
    await sim.apply(node_class())
    await sim.apply(node_pool(replicas=1, requirements=[*SIZES, zones], disruption=budget("1")))
    await sim.start_controller()
    await sim.until(lambda: ready(sim), 1800.0, "the machine")
    sim.cloud.faults.remove(fault)
    workload(sim, "ReplicaSet", "serving", nodeSelector={ZONE: "westeurope-2"})
    await sim.until(lambda: running(sim) == 1, 600.0, "the pod")
    drift(sim, *live(sim))
    await sim.until(lambda: live(sim) == ["gpu-2"], 3600.0, "it is replaced")
    await sim.until(lambda: running(sim) == 1, 600.0, "the pod runs again")
    assert [put.properties["availabilityZones"] for put in sim.cloud.put_log] == [["1"], ["2"], ["2"]]


def place(sim: Sim) -> str:
    """The Node of the pod."""
    (found,) = sim.store.list("pods")
    return str(found["spec"]["nodeName"])


@simulated()
async def test_a_machine_of_a_dynamic_nodepool_is_replaced(sim: Sim) -> None:
    """Its pod runs on the replacement; the machine beside it is not touched."""
    await dynamic(sim, "a", "b")
    drift(sim, "gpu-1")
    await sim.until(lambda: ready(sim) == ["gpu-2", "gpu-3"] and len(claims_of(sim)) == 2, 1800.0, "it is replaced")
    await sim.until(lambda: running(sim) == 2, 600.0, "both pods run")
    await passes(sim, 300.0)
    assert ready(sim) == ["gpu-2", "gpu-3"]


@simulated()
async def test_the_next_machines_follow_the_first_that_works(sim: Sim) -> None:
    """One, then the others at the same time."""
    await dynamic(sim, "a", "b", "c")
    drift(sim, "gpu-1", "gpu-2", "gpu-3")
    await sim.until(lambda: len(claims_of(sim)) == 4, 60.0, "one replacement")
    await passes(sim, 60.0)
    assert len(claims_of(sim)) == 4
    await sim.until(lambda: "gpu-6" in live(sim), 1800.0, "two more")
    assert len([name for name in ready(sim) if name in numbers(1, 3)]) == 2
    await sim.until(lambda: ready(sim) == numbers(4, 6) and len(claims_of(sim)) == 3, 1800.0, "three others")
    await sim.until(lambda: running(sim) == 3, 600.0, "all pods run")


@simulated()
async def test_a_drifted_machine_that_stays_does_not_repeat_consolidation(sim: Sim) -> None:
    """Drift is decided again in each pass, consolidation only when something changed, and each minute."""
    decisions = 0

    async def counted(decide: Callable[[], T]) -> T:
        nonlocal decisions
        decisions += 1
        return await inline(decide)

    await sim.apply(node_class())
    disruption = {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}
    await sim.apply(node_pool(requirements=SIZES, disruption=disruption))
    await sim.start_controller(compute=counted)
    workload(sim, "Job", "training")
    await sim.until(lambda: ready(sim) and running(sim), 1800.0, "the machine")
    drift(sim, "gpu-1")
    await passes(sim, 300.0)
    decisions = 0
    await passes(sim, 600.0)
    assert live(sim) == ["gpu-1"]
    assert 60 <= decisions <= 75
