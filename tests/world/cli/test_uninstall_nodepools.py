"""`gpu-provisioner uninstall` in a cluster with NodePools: nothing is bought during the drain, and nothing remains."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from provisioner.api import labels
from tests.world.commands import command, written
from tests.world.demand import claims_of, node_class, node_pool, pending, pod
from tests.world.garbagecollection.common import FOREIGN
from tests.world.harness import Sim, node_claim, simulated
from tests.world.transcript import CLAIMS, FAST, MINUTE

from .common import CLUSTER, DRAIN, lease

pytestmark = pytest.mark.matrix(quick=0)

POOLS, CLASSES = "nodepools.karpenter.sh", "agentpoolnodeclasses.gpu-provisioner.sh"


async def running(sim: Sim, *names: str) -> None:
    """Pods that run on machines of a NodePool."""
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller()
    await pending(sim, *(pod(name) for name in names))
    await sim.until(lambda: all(phase(sim, name) == "Running" for name in names), 1200, "the pods run")


async def recreate(sim: Sim, *names: str) -> None:
    """What a ReplicaSet does: each pod that is evicted is created again."""
    while True:
        await asyncio.sleep(1)
        for name in names:
            if sim.store.get("pods", name, "default") is None:
                await sim.apply(pod(name))


@asynccontextmanager
async def beside(actions: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run what others do meanwhile, until the end of the context."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(actions)
        yield
        task.cancel()


def phase(sim: Sim, name: str) -> str:
    found = sim.store.get("pods", name, "default") or {}
    return str((found.get("status") or {}).get("phase"))


def others_pool() -> Any:
    """A NodePool of node auto-provisioning."""
    body = node_pool("theirs")
    body["spec"]["template"]["spec"]["nodeClassRef"] = {
        "group": "karpenter.azure.com",
        "kind": "AKSNodeClass",
        "name": "default",
    }
    return body


@simulated(azure=FAST)
async def test_no_machine_is_bought_during_the_drain(sim: Sim) -> None:
    """NodePools are deleted before NodeClaims: the evicted pods stay pending, and no finalizer of a class remains."""
    await running(sim, "a", "b")
    await sim.apply(others_pool())
    bought = len(sim.store.list(CLAIMS))
    async with beside(recreate(sim, "a", "b")):
        first = await command(sim, *DRAIN)
        await asyncio.sleep(5 * MINUTE)
    assert first.code == 3, first.err
    assert written(sim) == [
        "DELETE nodepools/gpu",
        *(f"DELETE nodeclaims/gpu-{number + 1}" for number in range(bought)),
        "DELETE agentpoolnodeclasses/default",
    ]
    assert "agentpoolnodeclass/default deletion requested" in first.err
    assert first.out.endswith("0 NodeClaims, 0 Nodes, 0 finalizers, 0 agent pools, 1 Lease\n")
    assert [one["metadata"]["name"] for one in sim.store.list(POOLS)] == ["theirs"]
    assert not sim.store.list(CLASSES)
    assert {phase(sim, name) for name in ("a", "b")} == {"Pending"}
    assert not claims_of(sim)
    assert sorted(sim.cloud.pools) == sorted(FOREIGN)
    await sim.stop_controller()
    second = await command(sim, *DRAIN)
    assert (second.code, lease(sim)) == (0, None)


@simulated(azure=FAST)
async def test_a_static_nodepool_replaces_nothing_during_the_drain(sim: Sim) -> None:
    """Its NodeClaims would be replaced one by one if it still existed."""
    await sim.apply(node_class())
    await sim.apply(node_pool(replicas=2))
    await sim.start_controller()
    await sim.until(lambda: len(claims_of(sim)) == 2, 60, "the NodeClaims")
    names = {claim["metadata"]["name"] for claim in claims_of(sim)}
    for name in names:
        await sim.until(lambda n=name: sim.condition(n, "Ready") == "True", 900, name)  # type: ignore[misc]  # the default binds the value of this round
    ended = await command(sim, *DRAIN)
    assert ended.code == 3, ended.err
    assert not claims_of(sim)
    created = [
        call.target.name for call in sim.audit_log.calls() if (call.verb, call.target.kind) == ("POST", "nodeclaims")
    ]
    assert len(created) == 2


@simulated(azure=FAST)
async def test_a_dry_run_lists_nodepools_and_classes_first(sim: Sim) -> None:
    """As the objects that are deleted first; their NodeClaims have no owner that a user must delete."""
    await running(sim, "a")
    await sim.apply(others_pool())
    ended = await command(sim, "uninstall", "--drain", "--dry-run")
    rows = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in ended.out.splitlines()]
    assert rows[3:5] == [
        ["NodePool", "gpu", "-", "-", "delete"],
        ["AgentPoolNodeClass", "default", "-", "-", "delete"],
    ]
    assert rows[5][:2] == ["NodeClaim", "gpu-1"]
    assert rows[-1] == [
        "1 NodePool, 1 AgentPoolNodeClass, 1 NodeClaim, 1 Node, 3 finalizers, 1 agent pool, 1 Lease, 1 running pod"
    ]
    assert "theirs" not in ended.out
    assert "Delete the owners first" not in ended.err
    assert written(sim) == []
    result = json.loads((await command(sim, "uninstall", "--drain", "--dry-run", "-o", "json")).out)
    assert (result["nodePools"], result["nodeClasses"], result["nodeClaims"], result["finalizers"]) == (1, 1, 1, 3)


@simulated(azure=FAST)
async def test_the_question_names_everything_that_is_deleted(sim: Sim) -> None:
    """A user who refuses keeps NodePools, NodeClaims and classes."""
    await running(sim, "a")
    ended = await command(sim, "uninstall", "--drain", answer="no")
    what = "1 NodePool, 1 NodeClaim, 1 AgentPoolNodeClass"
    assert ended.questions == (f"Delete {what} and their machines with 1 running pod in {CLUSTER}?",)
    assert written(sim) == []


@simulated(azure=FAST)
async def test_a_nodepool_that_is_created_meanwhile_ends_the_wait(sim: Sim) -> None:
    """GitOps applies it again: the command reports it instead of deleting it in turn."""
    await running(sim, "a")

    async def apply_again() -> None:
        await sim.until(lambda: not sim.store.list(POOLS), 600, "it is deleted")
        await sim.apply(node_pool())

    async with beside(apply_again()):
        ended = await command(sim, *DRAIN)
    assert ended.code == 1
    assert "was created at" in ended.row("NodePool")
    assert len([line for line in written(sim) if "nodepools" in line]) == 1


@simulated(azure=FAST)
async def test_a_claim_of_a_deleted_nodepool_waits_for_the_garbage_collector(sim: Sim) -> None:
    """A NodeClaim that was being created when its NodePool was deleted does not need a user."""
    await running(sim, "a")
    (pool,) = sim.store.list(POOLS)
    late = node_claim("gpu-9")
    late["metadata"] |= {
        "labels": {labels.NODEPOOL: "gpu"},
        "ownerReferences": [
            {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "gpu", "uid": pool["metadata"]["uid"]}
        ],
    }
    late["spec"]["nodeClassRef"] = {"group": labels.OWN_DOMAIN, "kind": labels.NODECLASS_KIND, "name": "default"}

    async def create_late() -> None:
        await sim.until(lambda: not sim.store.list(POOLS), 600, "the NodePool is deleted")
        await sim.apply(late)

    async with beside(create_late()):
        ended = await command(sim, *DRAIN)
    assert ended.code == 3, ended.err
    assert not sim.store.list(CLAIMS)


@simulated(
    azure=FAST,
)
async def test_classes_of_a_controller_without_nodepools_need_a_user(sim: Sim) -> None:
    """With `--node-pools=false` nothing removes the finalizer: the command says so instead of waiting."""
    await sim.start_controller(node_pools=False)
    held = node_class()
    held["metadata"]["finalizers"] = [labels.NODECLASS_FINALIZER]
    await sim.apply(held)
    ended = await command(sim, *DRAIN, node_pools=False)
    assert ended.code == 1
    assert "--node-pools=true" in ended.row("AgentPoolNodeClass")
