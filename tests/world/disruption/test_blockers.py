"""What keeps an empty machine, and what does not: pods that another machine can take, jobs, budgets and annotations."""

import asyncio
from typing import Any

import pytest

from tests.world.claims import condition
from tests.world.demand import claims_of, node_class, node_pool, pending, pod, workload
from tests.world.harness import Json, Sim, simulated
from tests.world.transcript import refuse

pytestmark = pytest.mark.matrix(quick=0)

SOON = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}
NEVER = {"consolidateAfter": "Never"}
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


async def used(sim: Sim, *pools: tuple[str, Json]) -> None:
    """A machine of each NodePool, used by a pod `on-<NodePool>`, and a monitoring pod on that of the first one."""
    await sim.apply(node_class())
    for number, (name, disruption) in enumerate(pools):
        await sim.apply(node_pool(name, disruption=disruption))
        if not number:
            await sim.start_controller()
        await pending(sim, pod(f"on-{name}", nodeSelector={"karpenter.sh/nodepool": name}))
        await runs(sim, f"on-{name}")
        if not number:
            workload(sim, "ReplicaSet", "monitoring", gpus=0, nodeSelector={"team": "ml"})
            await runs(sim, "monitoring-0")


async def runs(sim: Sim, name: str) -> None:
    await sim.until(lambda: phase(sim, name) == "Running", 1800.0, f"pod {name} runs")


def phase(sim: Sim, name: str) -> str:
    found = sim.store.get("pods", name, "default")
    return found["status"].get("phase", "") if found is not None else ""


def leaving(sim: Sim, pool: str = "gpu") -> bool:
    return not claims_of(sim, pool) or "deletionTimestamp" in claims_of(sim, pool)[0]["metadata"]


def blocked(sim: Sim, kind: str) -> set[str]:
    found = sim.store.list("events", fields=f"involvedObject.kind={kind},reason=DisruptionBlocked")
    return {event["message"] for event in found}


async def kept(sim: Sim, seconds: float) -> None:
    """The machine of the first NodePool is not removed in this time."""
    end = sim.now + seconds
    while sim.now < end:
        assert not leaving(sim)
        await asyncio.sleep(5.0)


def annotate(sim: Sim, name: str, value: str | None) -> None:
    sim.store.patch("pods", name, {"metadata": {"annotations": {DO_NOT_DISRUPT: value}}}, "default")


@simulated()
async def test_monitoring_keeps_no_machine_with_gpus(sim: Sim) -> None:
    """The pod is created again on the machine of the other NodePool, and nothing is bought for it."""
    await used(sim, ("gpu", SOON), ("other", NEVER))
    sim.store.delete("pods", "on-gpu", "default")
    await sim.until(lambda: leaving(sim), 180.0, "the machine is removed")
    await sim.until(lambda: not claims_of(sim), 1200.0, "it is gone")
    await sim.until(lambda: phase(sim, "monitoring-1") == "Running", 120.0, "the next monitoring pod runs")
    (other,) = claims_of(sim, "other")
    assert sim.store.get("pods", "monitoring-1", "default")["spec"]["nodeName"] == other["status"]["nodeName"]
    await asyncio.sleep(120.0)
    assert not claims_of(sim)


@simulated()
async def test_a_pod_without_another_place_keeps_the_machine(sim: Sim) -> None:
    """Otherwise a machine would be bought for it, which is empty again, and so on for ever."""
    await used(sim, ("gpu", SOON))
    sim.store.delete("pods", "on-gpu", "default")
    await kept(sim, 600.0)
    (claim,) = claims_of(sim)
    for kind in ("NodeClaim", "Node"):
        assert blocked(sim, kind) == {"not all pods would schedule on other machines, default/monitoring-0"}
    assert phase(sim, "monitoring-0") == "Running"
    assert sim.cloud.counts["PUT"] == 1
    assert "deletionTimestamp" not in claim["metadata"]


@simulated()
async def test_a_job_keeps_the_machine_until_it_ends(sim: Sim) -> None:
    """Its pod requests no GPU, but its work would be lost."""
    await used(sim, ("gpu", SOON), ("other", NEVER))
    job = sim.store.create("jobs.batch", {"metadata": {"name": "prepare"}}, "default")
    uid = job["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "prepare", "uid": uid, "controller": True}
    body = pod("prepare", gpus=0, nodeSelector={"karpenter.sh/nodepool": "gpu"})
    sim.store.create("pods", {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}, "default")
    await sim.until(lambda: phase(sim, "prepare") == "Running", 120.0, "the pod of the Job runs")
    sim.store.delete("pods", "on-gpu", "default")
    await kept(sim, 600.0)
    sim.store.patch("pods", "prepare", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    await sim.until(lambda: leaving(sim), 120.0, "the machine is removed")


@simulated()
async def test_a_pod_disruption_budget_keeps_the_machine(sim: Sim) -> None:
    """Until it allows the eviction; the Events of the machine name it."""
    await used(sim, ("gpu", SOON), ("other", NEVER))
    budget: dict[str, Any] = {"metadata": {"name": "all"}, "spec": {"maxUnavailable": 0, "selector": {}}}
    sim.store.create("poddisruptionbudgets.policy", budget, "default")
    sim.store.delete("pods", "on-gpu", "default")
    await kept(sim, 600.0)
    message = "Pdb prevents pod evictions (PodDisruptionBudget=[default/all])"
    assert blocked(sim, "Node") == blocked(sim, "NodeClaim") == {message}
    sim.store.delete("poddisruptionbudgets.policy", "all", "default")
    await sim.until(lambda: leaving(sim), 120.0, "the machine is removed")


@simulated()
async def test_do_not_disrupt_of_a_pod_ends(sim: Sim) -> None:
    """A duration counts from the start of the pod."""
    await used(sim, ("gpu", SOON), ("other", NEVER))
    began = sim.now
    annotate(sim, "monitoring-0", "20m")
    sim.store.delete("pods", "on-gpu", "default")
    await kept(sim, 600.0)
    message = 'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/monitoring-0)'
    assert blocked(sim, "Node") == blocked(sim, "NodeClaim") == {message}
    await sim.until(lambda: leaving(sim), 1200.0, "the machine is removed")
    assert sim.now - began >= 600.0


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
@simulated()
async def test_pods_that_have_ended_keep_no_machine(sim: Sim, end: str) -> None:
    """Whatever they are annotated with, and whatever budget selects them."""
    await used(sim, ("gpu", SOON), ("other", NEVER))
    sim.store.patch("pods", "on-gpu", {"status": {"phase": end}}, "default", subresource="status")
    annotate(sim, "on-gpu", "true")
    sim.store.patch("pods", "on-gpu", {"metadata": {"labels": {"app": "done"}}}, "default")
    selector = {"matchLabels": {"app": "done"}}
    budget: dict[str, Any] = {"metadata": {"name": "all"}, "spec": {"maxUnavailable": 0, "selector": selector}}
    sim.store.create("poddisruptionbudgets.policy", budget, "default")
    await sim.until(lambda: leaving(sim), 120.0, "the machine is removed")


@simulated()
async def test_without_the_right_to_read_budgets_nothing_is_disrupted(sim: Sim) -> None:
    """A ClusterRole of an earlier version does not allow it; machines are still bought."""
    refuse(sim, lambda call: call.target.kind == "poddisruptionbudgets", 403, "Forbidden")
    await used(sim, ("gpu", SOON), ("other", NEVER))
    sim.store.delete("pods", "on-gpu", "default")
    await kept(sim, 600.0)


@simulated()
async def test_pods_are_not_moved_to_another_node_of_the_same_pool(sim: Sim) -> None:
    """A pool was scaled to two machines: both go with its NodeClaim."""
    await sim.apply(node_class())
    await sim.apply(node_pool(disruption={**SOON, "consolidationPolicy": "WhenEmptyOrUnderutilized"}))
    await sim.start_controller()
    workload(sim, "ReplicaSet", "serving")
    await runs(sim, "serving-0")
    await second_node(sim)
    await kept(sim, 600.0)
    assert phase(sim, "serving-0") == "Running"
    about = "involvedObject.kind=NodeClaim,reason=Unconsolidatable"
    assert {one["message"] for one in sim.store.list("events", fields=about)} == {
        "Several Nodes belong to its agent pool"
    }


@simulated()
async def test_pods_on_another_node_of_the_same_pool_keep_the_machine(sim: Sim) -> None:
    """Nobody uses the Node that the NodeClaim states; once it is the only one, the machine is removed."""
    await used(sim, ("gpu", SOON), ("other", NEVER))
    name = await second_node(sim)
    await pending(sim, pod("second", nodeSelector={"karpenter.sh/nodepool": "gpu"}))
    await runs(sim, "second")
    sim.store.delete("pods", "on-gpu", "default")
    await kept(sim, 600.0)
    assert phase(sim, "second") == "Running"
    sim.cloud.remove_machine(name, 1)
    await sim.until(lambda: leaving(sim), 300.0, "the machine is removed")


async def second_node(sim: Sim) -> str:
    """The machine of the only NodeClaim gets a second one in its agent pool, whose name is returned."""
    (claim,) = claims_of(sim)
    (pool,) = sim.pools_of(claim["metadata"]["uid"])
    sim.cloud.add_machine(pool.name)
    both = lambda: [condition(one, "Ready").get("status") for one in sim.nodes_of(pool.name)] == ["True", "True"]  # noqa: E731
    await sim.until(both, 600.0, "both Nodes are Ready")
    return pool.name
