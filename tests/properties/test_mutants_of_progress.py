"""Mutation tests for I19 and I21: a command that leaves its pods without a place, and loops that do nothing."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.world.claims import condition
from tests.world.demand import T4, claims_of, node_class, node_pool, pod, workload
from tests.world.disruption.common import drift, dynamic, refuse_deletion
from tests.world.harness import Sim, simulated

from . import planted_in_progress as planted
from .mutation import Patch, must_fail

SIZES = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [T4]}]
SELECTED = {"karpenter.sh/nodepool": "gpu"}


@simulated()
async def a_drifted_machine(sim: Sim) -> None:
    """One of two machines has drifted, with a pod on each."""
    await sim.apply(node_class())
    await sim.apply(node_pool(requirements=SIZES, disruption={"consolidateAfter": "Never"}))
    await sim.start_controller()
    for name in ("web", "api"):
        workload(sim, "ReplicaSet", name, nodeSelector=SELECTED)
    await sim.until(lambda: running(sim) == 2, 900.0, "the pods run")
    await asyncio.sleep(60.0)
    name = claims_of(sim)[0]["metadata"]["name"]
    notes = {"metadata": {"annotations": {"karpenter.sh/nodepool-hash": "of another one"}}}
    sim.store.patch("nodeclaims.karpenter.sh", name, notes)
    await sim.until(lambda: name not in {one["metadata"]["name"] for one in claims_of(sim)}, 2400.0, "it is replaced")
    await sim.until(lambda: running(sim) == 2, 900.0, "the pods run again")


def drifted_for_hours(work: Callable[[Sim], Awaitable[None]]) -> Callable[[], object]:
    """The machine of one of two pods has drifted; `work` is what happens beside it for hours."""

    @simulated()
    async def story(sim: Sim) -> None:
        await dynamic(sim, "web", "api")
        drift(sim, "gpu-1")
        await work(sim)

    return story


async def nothing(_: Sim) -> None:
    """For as long as a replacement that stops may take."""
    await asyncio.sleep(3 * 3600.0)


async def jobs(sim: Sim) -> None:
    """A pod that comes and goes changes the condition Consolidatable of the other NodeClaim."""
    disruption = {"consolidateAfter": "1m", "consolidationPolicy": "WhenEmpty"}
    sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"disruption": disruption}})
    node = (sim.claim("gpu-2") or {})["status"]["nodeName"]
    for number in range(6):
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "job", "uid": "job", "controller": True}
        body = pod(f"job-{number}", gpus=0, nodeName=node)
        body["metadata"]["ownerReferences"] = [owner]
        sim.store.create("pods", body, "default")
        await asyncio.sleep(120.0)
        sim.store.delete("pods", f"job-{number}", "default")
        await asyncio.sleep(600.0)


async def refusals(sim: Sim) -> None:
    """An admission policy protects a machine of another NodePool, whose deletion is tried each minute."""
    await sim.apply(node_pool("other", replicas=1, requirements=SIZES))
    await sim.until(lambda: condition(sim.claim("other-1"), "Ready").get("status") == "True", 1800.0, "the other one")
    refuse_deletion(sim, "other-1")
    sim.store.patch("nodepools.karpenter.sh", "other", {"spec": {"replicas": 0}})
    await asyncio.sleep(2400.0)


@simulated()
async def a_pending_pod(sim: Sim) -> None:
    """It gets a machine."""
    await sim.apply(node_class())
    await sim.apply(node_pool(requirements=SIZES))
    await sim.start_controller()
    await sim.apply(pod("web", nodeSelector=SELECTED))
    await sim.until(lambda: running(sim) == 1, 2400.0, "the pod runs")


@simulated()
async def a_pod_at_the_limit(sim: Sim) -> None:
    """It waits for as long as its NodePool may have no machine."""
    await sim.apply(node_class())
    await sim.apply(node_pool(requirements=SIZES, limits={"nodes": "0"}))
    await sim.start_controller()
    await sim.apply(pod("web", nodeSelector=SELECTED))
    await asyncio.sleep(2400.0)


@simulated()
async def two_replicas(sim: Sim) -> None:
    """They are created."""
    await sim.apply(node_class())
    await sim.apply(node_pool(requirements=SIZES, replicas=2))
    await sim.start_controller()
    await sim.until(lambda: ready(sim) == 2, 2400.0, "the machines")


def ready(sim: Sim) -> int:
    return sum(condition(one, "Ready").get("status") == "True" for one in claims_of(sim))


def running(sim: Sim) -> int:
    found = sim.store.list("pods", "default")
    return sum(one["status"].get("phase") == "Running" and "deletionTimestamp" not in one["metadata"] for one in found)


MUTANTS: list[tuple[Callable[[Patch], None], Callable[[], object], str]] = [
    (planted.drifted_without_replacement, a_drifted_machine, "I19 violated"),
    (planted.nothing_is_bought, a_pending_pod, "I21 violated"),
    (planted.no_replicas, two_replicas, "I21 violated"),
    (planted.nothing_is_replaced, a_drifted_machine, "I21 violated"),
    (planted.a_cause_is_stated_once, a_pod_at_the_limit, "I21 violated"),
    (planted.no_command_ends, drifted_for_hours(nothing), "I21 violated"),
    (planted.no_dynamic_drift, drifted_for_hours(jobs), "I21 violated"),
    (planted.no_dynamic_drift, drifted_for_hours(refusals), "I21 violated"),
]


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize(("mutate", "story", "message"), MUTANTS, ids=[row[0].__name__ for row in MUTANTS])
def test_mutant_is_caught(mutate: Callable[[Patch], None], story: Callable[[], object], message: str) -> None:
    """The story passes with the rule in place, and violates the invariant with the rule broken."""
    story()
    must_fail(mutate, story, message)
