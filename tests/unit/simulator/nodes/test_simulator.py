"""Machines and their Nodes, on virtual time, with the simulated Azure and store."""

import asyncio
from typing import Any

from provisioner.simulator.nodes.machine import NodeSettings
from tests.stories import run_by

from .stage import SIZE, Sim, pod, run_scenario, until


@run_by(run_scenario)
async def test_a_pool_becomes_a_ready_node_with_gpus(sim: Sim) -> None:
    """The Node is created with AKS's labels and taints, is initialized, becomes Ready, and shows its GPU last."""
    sim.create(nodeLabels={"kaito.sh/workspace": "w"}, nodeTaints=["sku=gpu:NoSchedule"], availabilityZones=["3"])
    await until(lambda: sim.store.get("nodes", sim.name) is not None)
    born = 180 * 0.6
    assert asyncio.get_running_loop().time() >= born
    assert "providerID" not in sim.node["spec"]
    assert sim.keys() == {"sku", "node.cloudprovider.kubernetes.io/uninitialized", "node.kubernetes.io/not-ready"}
    assert sim.ready() == "False"
    assert sim.gpus() == (None, None)

    await asyncio.sleep(5)
    digits = sim.cloud.settings.name_digits
    assert sim.node["spec"]["providerID"] == (
        "azure:///subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/mc_rg_aks_westeurope/providers"
        f"/Microsoft.Compute/virtualMachineScaleSets/aks-gpu1-{digits}-vmss/virtualMachines/0"
    )
    labels = sim.node["metadata"]["labels"]
    assert labels["kaito.sh/workspace"] == "w"
    assert (labels["agentpool"], labels["kubernetes.azure.com/agentpool"]) == ("gpu1", "gpu1")
    assert labels["topology.kubernetes.io/zone"] == "westeurope-3"
    assert labels["node.kubernetes.io/instance-type"] == SIZE
    assert labels["kubernetes.azure.com/accelerator"] == "nvidia"

    await asyncio.sleep(40)
    assert sim.ready() == "True"
    assert sim.keys() == {"sku"}
    assert sim.node["status"]["nodeInfo"]["osImage"].startswith("Ubuntu")
    assert sim.node["status"]["capacity"]["cpu"] == "24"

    await asyncio.sleep(60)
    assert sim.gpus() == ("1", "1")


def test_the_pool_may_succeed_before_or_after_its_node() -> None:
    """Share above 1: the pool is Succeeded without a Node; below 1: the Node exists while ARM returns Creating."""

    async def late(sim: Sim) -> None:
        sim.create()
        await asyncio.sleep(105)
        assert sim.cloud.pools["gpu1"].state == "Succeeded"
        assert sim.store.get("nodes", sim.name) is None
        await asyncio.sleep(10)
        assert sim.node

    async def early(sim: Sim) -> None:
        sim.create()
        await asyncio.sleep(65)
        assert sim.cloud.pools["gpu1"].state == "Creating"
        assert sim.node

    run_scenario(late, create_seconds=(100, 100), node_share=(1.1, 1.1))
    run_scenario(early, create_seconds=(100, 100), node_share=(0.6, 0.6))


@run_by(run_scenario)
async def test_the_node_of_a_deleted_pool_is_deleted(sim: Sim) -> None:
    """The machine stops, 40 s later the Node is Unknown and unreachable, then the node manager deletes it."""
    sim.cloud.seed_pool("gpu1", vmSize=SIZE)
    await asyncio.sleep(120)
    sim.cloud.delete_pool_by_hand("gpu1")
    await until(lambda: sim.name not in sim.nodes.machines)
    assert sim.ready() == "True"
    await asyncio.sleep(41)
    assert sim.ready() == "Unknown"
    assert sim.keys() == {"node.kubernetes.io/unreachable"}
    await asyncio.sleep(5)
    assert sim.store.get("nodes", sim.name) is None


@run_by(run_scenario)
async def test_a_finalizer_keeps_the_node_of_a_deleted_machine(sim: Sim) -> None:
    """It stays deleting until the finalizer is removed; a new machine of that name adopts it meanwhile."""
    sim.cloud.seed_pool("gpu1", vmSize=SIZE, nodeLabels={"mark": "old"})
    await asyncio.sleep(120)
    uid = sim.node["metadata"]["uid"]
    sim.store.patch("nodes", sim.name, {"metadata": {"finalizers": ["karpenter.sh/termination"]}})
    sim.cloud.delete_pool_by_hand("gpu1")
    await asyncio.sleep(600)
    assert "gpu1" not in sim.cloud.pools
    assert "deletionTimestamp" in sim.node["metadata"]

    assert sim.gpus() == ("1", "1")
    sim.create(nodeLabels={"mark": "new"})
    await until(lambda: sim.name in sim.nodes.machines)
    await asyncio.sleep(1)
    assert (sim.ready(), sim.gpus()) == ("False", ("0", "0"))
    await asyncio.sleep(350)
    assert sim.gpus() == ("1", "1")
    assert sim.node["metadata"]["uid"] == uid
    assert sim.node["metadata"]["labels"]["mark"] == "old"
    assert sim.ready() == "True"

    sim.store.patch("nodes", sim.name, {"metadata": {"finalizers": None}})
    await asyncio.sleep(600)
    assert sim.store.get("nodes", sim.name) is None


@run_by(run_scenario)
async def test_a_recreated_pool_has_the_same_node_name_and_provider_id(sim: Sim) -> None:
    """The digits in the name belong to the cluster, and instance IDs start at 0 again."""
    sim.cloud.seed_pool("gpu1", vmSize=SIZE)
    await asyncio.sleep(60)
    first = sim.node
    sim.cloud.delete_pool_by_hand("gpu1")
    await asyncio.sleep(600)
    sim.create()
    await asyncio.sleep(400)
    assert sim.node["spec"]["providerID"] == first["spec"]["providerID"]
    assert sim.node["metadata"]["uid"] != first["metadata"]["uid"]
    assert sim.node["status"]["nodeInfo"]["bootID"] != first["status"]["nodeInfo"]["bootID"]


def test_the_kubelet_recreates_a_deleted_node_if_configured() -> None:
    """A user deletes the Node of a running machine: by default it stays deleted, with `reregister` it returns."""

    async def gone(sim: Sim) -> None:
        sim.cloud.seed_pool("gpu1", vmSize=SIZE)
        await asyncio.sleep(120)
        sim.store.delete("nodes", sim.name)
        await asyncio.sleep(600)
        assert sim.store.get("nodes", sim.name) is None

    async def back(sim: Sim) -> None:
        sim.cloud.seed_pool("gpu1", vmSize=SIZE)
        await asyncio.sleep(120)
        sim.store.delete("nodes", sim.name)
        await asyncio.sleep(120)
        assert sim.ready() == "True"
        assert sim.gpus() == ("1", "1")

    run_scenario(gone)
    run_scenario(back, NodeSettings(reregister=True))


def test_a_machine_that_comes_back_in_time_keeps_its_node() -> None:
    """A pool is deleted and created again within 40 s: the Node does not change."""

    async def scenario(sim: Sim) -> None:
        sim.cloud.seed_pool("gpu1", vmSize=SIZE)
        await asyncio.sleep(120)
        uid = sim.node["metadata"]["uid"]
        sim.cloud.delete_pool_by_hand("gpu1")
        await asyncio.sleep(11)
        sim.create()
        await asyncio.sleep(29)
        assert sim.ready() == "True"
        await asyncio.sleep(600)
        assert (sim.node["metadata"]["uid"], sim.ready()) == (uid, "True")

    run_scenario(scenario, NodeSettings(ready_seconds=(5, 5)), delete_seconds=(10, 10), create_seconds=(10, 10))


def test_a_silent_kubelet_finishes_its_pods_when_it_is_back() -> None:
    """The kubelet stops responding between the DELETE and the end of the pod: the pod waits for it."""

    async def scenario(sim: Sim) -> None:
        sim.cloud.seed_pool("gpu1", vmSize=SIZE)
        await asyncio.sleep(120)
        sim.store.create("pods", pod("a", sim.name))
        sim.store.delete("pods", "a", "default")
        await asyncio.sleep(3)
        sim.nodes.set_ready(sim.name, None)
        await asyncio.sleep(100)
        assert len(sim.store.list("pods")) == 1
        sim.nodes.set_ready(sim.name, True)
        await asyncio.sleep(6)
        assert sim.store.list("pods") == []

    run_scenario(scenario, NodeSettings(pod_stop_seconds=5))


@run_by(run_scenario)
async def test_settings_for_machines_that_fail_to_start(sim: Sim) -> None:
    """A machine may never register, register twice, or wait long for its plugin; AMD machines have AMD's resource."""
    sim.nodes.never_register("mute")
    sim.nodes.two_nodes("twins")
    sim.nodes.plugin_delay_seconds = 900
    for name in ("mute", "twins", "gpu1"):
        sim.create(name)
    sim.cloud.seed_pool("amd", vmSize="Standard_ND96isr_MI300X_v5")
    await asyncio.sleep(600)
    pools = sorted(node["metadata"]["labels"]["agentpool"] for node in sim.store.list("nodes"))
    assert pools == ["amd", "gpu1", "twins", "twins"]
    assert sim.cloud.pools["mute"].state == "Succeeded"
    assert sim.gpus() == (None, None)
    await asyncio.sleep(900)
    assert sim.gpus() == ("1", "1")
    (amd,) = sim.store.list("nodes", labels="agentpool=amd")
    assert amd["status"]["allocatable"]["amd.com/gpu"] == "8"


@run_by(run_scenario)
async def test_kubelet_finishes_deleted_pods(sim: Sim) -> None:
    """A deleting pod is gone a second later; on a stopped machine it remains until its Node is deleted."""
    sim.cloud.seed_pool("gpu1", vmSize=SIZE)
    await asyncio.sleep(120)
    for name in ("a", "b"):
        sim.store.create("pods", pod(name, sim.name))
    sim.store.delete("pods", "a", "default")
    found = sim.store.get("pods", "a", "default")
    assert found is not None
    assert "deletionTimestamp" in found["metadata"]
    await asyncio.sleep(1.1)
    assert [found["metadata"]["name"] for found in sim.store.list("pods")] == ["b"]

    sim.cloud.stop_cluster()
    sim.store.delete("pods", "b", "default")
    await asyncio.sleep(44)
    assert sim.store.get("nodes", sim.name) is not None
    assert sim.store.get("pods", "b", "default") is not None
    await asyncio.sleep(42)
    assert sim.store.list("nodes") == []
    assert sim.store.list("pods") == []


@run_by(run_scenario)
async def test_readiness_can_be_set_and_its_transition_time_moves_only_with_its_status(sim: Sim) -> None:
    """set_ready writes condition and taints; setting the same value again keeps lastTransitionTime."""
    sim.cloud.seed_pool("gpu1", vmSize=SIZE)
    await asyncio.sleep(120)
    sim.nodes.set_ready(sim.name, False, "KubeletNotReady")
    assert sim.keys() == {"node.kubernetes.io/not-ready"}
    first = next(c for c in sim.node["status"]["conditions"] if c["type"] == "Ready")
    await asyncio.sleep(30)
    sim.nodes.set_ready(sim.name, False, "StillNotReady")
    second = next(c for c in sim.node["status"]["conditions"] if c["type"] == "Ready")
    assert (first["lastTransitionTime"], second["reason"]) == (second["lastTransitionTime"], "StillNotReady")
    sim.nodes.set_ready(sim.name, None)
    assert (sim.ready(), sim.keys()) == ("Unknown", {"node.kubernetes.io/unreachable"})
    sim.nodes.set_ready(sim.name, True)
    assert (sim.ready(), sim.keys()) == ("True", set())


@run_by(run_scenario)
async def test_an_idle_node_is_never_written(sim: Sim) -> None:
    """An idle Node gets no write for a day."""
    sim.cloud.seed_pool("gpu1", vmSize=SIZE)
    await asyncio.sleep(300)
    written = len(sim.writes)
    await asyncio.sleep(80_000)
    assert len(sim.writes) == written


@run_by(run_scenario)
async def test_a_stopped_cluster_loses_its_nodes_and_gets_new_ones(sim: Sim) -> None:
    """After stop and start the pool has a new instance, and with it another Node name."""
    sim.cloud.seed_pool("gpu1", vmSize=SIZE)
    await asyncio.sleep(120)
    sim.cloud.stop_cluster()
    await asyncio.sleep(60)
    assert sim.store.list("nodes") == []
    sim.cloud.start_cluster()
    await asyncio.sleep(500)
    assert [node["metadata"]["name"][-6:] for node in sim.store.list("nodes")] == ["000001"]
    assert sim.cloud.cluster_state == "Succeeded"


@run_by(run_scenario)
async def test_the_kubelet_of_a_ready_node_runs_its_pods(sim: Sim) -> None:
    """A bound pod waits for its Node to be Ready; then it is accepted, and Running and Ready two seconds later."""
    sim.cloud.seed_pool("gpu1", vmSize=SIZE)
    await until(lambda: sim.store.get("nodes", sim.name) is not None)
    sim.store.create("pods", pod("a", sim.name))
    phases = [pod_status(sim)]
    sim.store.subscribe(lambda *_: phases.append(pod_status(sim)) if pod_status(sim) != phases[-1] else None)
    await asyncio.sleep(120)
    assert phases == [("Pending", None, None), ("Pending", "False", "ContainerCreating"), ("Running", "True", None)]
    found = sim.store.get("pods", "a", "default")
    assert found is not None
    status = found["status"]
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    assert [(c["type"], c["status"]) for c in status["conditions"]] == [(kind, "True") for kind in kinds]
    times = {c["type"]: c["lastTransitionTime"] for c in status["conditions"]}
    assert times["Initialized"] == status["startTime"] < times["Ready"]


def pod_status(sim: Sim) -> tuple[str, str | None, str | None]:
    """The phase of pod `a`, its condition Ready, and why its container waits."""
    found = sim.store.get("pods", "a", "default")
    assert found is not None
    status = found["status"]
    ready = next((c["status"] for c in status.get("conditions", ()) if c["type"] == "Ready"), None)
    state: dict[str, Any] = next((one["state"] for one in status.get("containerStatuses", ())), {})
    return status["phase"], ready, state.get("waiting", {}).get("reason")
