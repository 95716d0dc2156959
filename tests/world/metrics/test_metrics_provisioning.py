"""The metrics of NodePools and pending pods of a running program."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod
from tests.world.harness import Sim, simulated
from tests.world.metric_samples import Numbers, start

SCHEDULER = "karpenter_scheduler_"
ENDED = ("bound", "provisioning_bound", "startup", "provisioning_startup")


async def with_node_pool(sim: Sim) -> Numbers:
    await sim.apply(node_class())
    await sim.apply(node_pool(limits={"nvidia.com/gpu": "4"}))
    return await start(sim)


def phase(sim: Sim, name: str) -> str:
    return str((sim.store.get("pods", name, "default") or {})["status"].get("phase"))


@simulated()
async def test_the_metrics_of_a_pod_that_gets_a_machine(sim: Sim) -> None:
    """Each duration counts once; the NodePool has its usage, limit and price, and no series after its deletion."""
    numbers = await with_node_pool(sim)
    await pending(sim, pod("trainer"))
    await sim.until(lambda: phase(sim, "trainer") == "Running", 1200, "the pod runs")
    took = sim.now + 1
    await asyncio.sleep(1)
    await sim.until(lambda: numbers.total("karpenter_nodepools_usage", resource_type="nodes") == 1, 60, "usage")
    assert numbers.total("karpenter_nodeclaims_created_total", reason="provisioned", nodepool="gpu") == 1
    for name in ENDED:
        (count,) = numbers.samples(f"karpenter_pods_{name}_duration_seconds_count")
        assert count.value == 1, name
        assert 60 < numbers.total(f"karpenter_pods_{name}_duration_seconds_sum") <= took, name
    assert numbers.total(f"{SCHEDULER}scheduling_duration_seconds_count") >= 1
    assert numbers.total("karpenter_nodepools_limit", nodepool="gpu", resource_type="nvidia.com/gpu") == 4
    assert numbers.total("karpenter_nodepools_usage", nodepool="gpu", resource_type="nvidia.com/gpu") == 1
    assert numbers.one("karpenter_nodepools_cost_total", nodepool="gpu").value == pytest.approx(0.658)
    assert numbers.one("gpu_provisioner_node_cost_per_hour").labels == {
        "instance_type": T4,
        "capacity_type": "on-demand",
    }
    priced = "karpenter_cloudprovider_instance_type_offering_price_estimate"
    assert [sample.value for sample in numbers.samples(priced, instance_type=T4)] == pytest.approx([0.658])
    assert not [sample for sample in numbers.about("trainer") if sample.name.startswith("karpenter_")]

    sim.store.delete("pods", "trainer", "default")
    sim.store.delete("nodepools.karpenter.sh", "gpu")
    await sim.until(lambda: not claims_of(sim), 1200, "the claim is gone")
    await sim.settled()
    assert not list(numbers.samples("karpenter_nodepools_usage"))
    assert not list(numbers.samples("karpenter_nodepools_cost_total"))
    assert not list(numbers.samples(f"{SCHEDULER}unschedulable_pods_count"))
    assert numbers.total("gpu_provisioner_observation_errors_total") == 0


@simulated()
async def test_unschedulable_pods_count_until_they_are_deleted(sim: Sim) -> None:
    """The intruder counts while it is pending, and the pod of another scheduler is ignored."""
    numbers = await with_node_pool(sim)
    await pending(sim, pod("intruder", tolerates=False), pod("foreign", schedulerName="theirs"))
    counted = f"{SCHEDULER}unschedulable_pods_count"
    await sim.until(lambda: numbers.total(counted) == 1, 30, "it counts")
    assert numbers.total(f"{SCHEDULER}ignored_pods_count") == 1
    assert numbers.total(f"{SCHEDULER}unfinished_work_seconds") == 0
    sim.store.delete("pods", "intruder", "default")
    await sim.until(lambda: numbers.total(counted) == 0, 30, "it does not count any more")
    assert numbers.total(f"{SCHEDULER}queue_depth") == 0


@simulated()
async def test_a_decision_that_cannot_be_written_is_unfinished_work(sim: Sim) -> None:
    """While the API server fails to create NodeClaims, the time since the decision was due grows."""
    numbers = await with_node_pool(sim)
    failing = True

    async def fail(call: Any, _: Any) -> Any:
        if not failing or (call.verb, call.target.kind) != ("POST", "nodeclaims"):
            return None
        body = {"kind": "Status", "status": "Failure", "reason": "InternalError", "message": "no", "code": 500}
        return web.json_response(body, status=500)

    sim.world.before.append(fail)
    await pending(sim, pod("trainer"))
    unfinished = f"{SCHEDULER}unfinished_work_seconds"
    await sim.until(lambda: numbers.total(unfinished) > 60, 120, "nothing is written")
    failing = False
    await sim.until(lambda: claims_of(sim), 120, "the NodeClaim")
    await sim.until(lambda: numbers.total(unfinished) == 0, 5, "it is written")
