"""Sequences in which each new machine is in vain: few are bought, whatever others do with pods, Nodes and restarts."""

import asyncio
import copy
from typing import Any

import pytest

from provisioner.api import labels
from tests.world.demand import T4, claims_of, pending, pod, pod_events, with_node_pool, workload
from tests.world.harness import Json, Sim, simulated

from .common import CRD, EVERYTHING, HOURS, machines, misfits, on_each_node, phase, taint_nodes, with_cpu

pytestmark = pytest.mark.matrix(quick=0)

CLASS_CRD = "agentpoolnodeclasses.gpu-provisioner.sh"
ONE_SIZE = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4]}]
SMALL = [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "500m"}}}]
OWNER = {"apiVersion": "example.com/v1", "kind": "AgentSet", "name": "agent", "uid": "agent", "controller": True}


def agent(sim: Sim, node: str, **spec: Any) -> None:
    """A pod of 500m of another controller."""
    meta = {"name": f"agent-{node}", "labels": {"app": "agent"}, "ownerReferences": [OWNER]}
    body = {"containers": SMALL, "tolerations": EVERYTHING, "priority": 2_000_000, **spec}
    sim.store.create("pods", {"metadata": meta, "spec": body}, "kube-system")


@pytest.mark.parametrize("how", ["for its Node", "apart from others"])
def test_pods_that_come_with_each_node(how: str) -> None:
    """kube-scheduler binds one to each machine before the pod that it is for: the next ones come ever later."""

    @simulated()
    async def story(sim: Sim) -> None:
        def create(name: str) -> None:
            term = {"labelSelector": {"matchLabels": {"app": "agent"}}, "topologyKey": "kubernetes.io/hostname"}
            apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            its = {"nodeSelector": {"kubernetes.io/hostname": name}}
            agent(sim, name, **(its if how == "for its Node" else {"affinity": apart}))

        on_each_node(sim, create, "kubernetes.io/hostname")
        await with_node_pool(sim, requirements=ONE_SIZE)
        await pending(sim, with_cpu("trainer", "3500m"))
        await asyncio.sleep(3 * HOURS)
        assert machines(sim) <= 2 + 4, misfits(sim)
        assert phase(sim, "trainer") == "Pending"

    story()


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("what", ["taint", "agent"])
@pytest.mark.parametrize("restart", [False, True])
def test_pods_that_are_evicted_at_once(what: str, restart: bool) -> None:
    """20 s after a pod of a ReplicaSet is bound, a NoExecute taint or an agent with its own Node takes its place."""

    @simulated()
    async def story(sim: Sim) -> None:
        seen: set[str] = set()

        def drive(name: str, node: str) -> None:
            found = sim.store.get("nodes", node)
            if sim.store.get("pods", name, "default") is None or found is None:
                return
            if what == "taint":
                taint = {"key": "health.example.com/bad", "effect": "NoExecute"}
                sim.store.patch("nodes", node, {"spec": {"taints": [*(found["spec"].get("taints") or ()), taint]}})
            else:
                agent(sim, node, nodeName=node)
            sim.store.delete("pods", name, "default")

        def changed(_: str, resource: str, obj: Json, __: object) -> None:
            meta, node = obj["metadata"], obj["spec"].get("nodeName") if resource == "pods" else None
            if node and meta["name"].startswith("web") and meta["uid"] not in seen:
                seen.add(meta["uid"])
                asyncio.get_running_loop().call_later(20.0, drive, meta["name"], node)

        sim.store.subscribe(changed)
        await with_node_pool(sim, requirements=ONE_SIZE)
        workload(sim, "ReplicaSet", "web", containers=with_cpu("x", "3500m")["spec"]["containers"])
        for number in range(4):
            await asyncio.sleep(HOURS / 2)
            if restart:
                sim.replace_controller("ctl0" + "'" * number)
        assert machines(sim) <= 8, misfits(sim)

    story()


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("life", [240.0, 600.0])
def test_restarts_and_pods_that_are_created_again(restart: bool, life: float) -> None:
    """Each pod exists for some minutes, all Nodes are tainted, and the controller is restarted meanwhile."""

    @simulated()
    async def story(sim: Sim) -> None:
        taint_nodes(sim)
        await with_node_pool(sim, requirements=ONE_SIZE)
        for number in range(int(6 * HOURS / life)):
            await pending(sim, pod(f"p{number}"))
            await asyncio.sleep(life / 2)
            if restart:
                sim.replace_controller("ctl0" + "'" * number)
            await asyncio.sleep(life / 2)
            sim.store.delete("pods", f"p{number}", "default")
        assert machines(sim) <= 8, misfits(sim)

    story()


@pytest.mark.parametrize("after", [200.0, 600.0])
def test_another_tool_deletes_machines_that_do_not_start(after: float) -> None:
    """No GPU ever appears, and a repair tool deletes the NodeClaim of each Node that is Ready without them."""

    @simulated()
    async def story(sim: Sim) -> None:
        def act(name: str) -> None:
            sim.nodes.kill_plugin(name)
            asyncio.get_running_loop().call_later(after, remove, name)

        def remove(name: str) -> None:
            for one in claims_of(sim):
                if (one.get("status") or {}).get("nodeName") == name:
                    sim.store.delete("nodeclaims.karpenter.sh", one["metadata"]["name"])

        on_each_node(sim, act, labels.NODEPOOL)
        await with_node_pool(sim, requirements=ONE_SIZE)
        await pending(sim, pod("p"))
        await asyncio.sleep(3 * HOURS)
        assert machines(sim) <= 2, misfits(sim)

    story()


def without_records(crd: Json) -> Json:
    """The CRD of AgentPoolNodeClass as it was before records were kept."""
    older = copy.deepcopy(crd)
    for version in older["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        for key in ("misfits", "observedTypes", "observedDaemonSets"):
            status.pop(key)
    return older


@simulated()
async def test_the_crds_are_upgraded_after_the_controller(sim: Sim) -> None:
    """The API server drops records that its CRD lacks: nothing is bought while a Node shows that, then all pods run."""
    newer = sim.store.get(CRD, CLASS_CRD)
    assert newer is not None
    sim.store.patch(CRD, CLASS_CRD, {"spec": without_records(newer)["spec"]})
    await with_node_pool(sim, disruption={"consolidateAfter": "Never"})
    await pending(sim, pod("p"))
    for number in range(3):
        await asyncio.sleep(HOURS / 2)
        sim.replace_controller("ctl0" + "'" * number)
    await pending(sim, pod("q"))
    await asyncio.sleep(HOURS / 2)
    assert machines(sim) == 1
    assert "upgrade the chart gpu-provisioner-crd" in pod_events(sim, "q")[-1][1]
    sim.store.patch(CRD, CLASS_CRD, {"spec": copy.deepcopy(newer)["spec"]})
    await sim.until(lambda: phase(sim, "q") == "Running", HOURS, "the pod runs")


@simulated()
async def test_a_person_edits_what_was_learned(sim: Sim) -> None:
    """Amounts that are no quantities count as unknown."""
    await with_node_pool(sim, requirements=ONE_SIZE)
    await pending(sim, pod("p"))
    await asyncio.sleep(HOURS / 4)
    sim.store.delete("pods", "p", "default")
    await asyncio.sleep(HOURS / 2)
    types = copy.deepcopy((sim.store.get(CLASS_CRD, "default") or {})["status"]["observedTypes"])
    for one in types:
        one["allocatable"]["cpu"] = "banana"
    sim.store.patch(CLASS_CRD, "default", {"status": {"observedTypes": types}}, subresource="status")
    sim.replace_controller()
    await asyncio.sleep(60.0)
    await pending(sim, pod("q"))
    await sim.until(lambda: phase(sim, "q") == "Running", HOURS, "the pod runs")
