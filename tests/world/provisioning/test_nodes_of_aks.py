"""Machines as AKS makes them: its labels, its taints, its DaemonSets, and what a Node leaves to pods."""

import asyncio
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.azure_role import AZURE_ACTIONS, QUOTA_ACTIONS
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod, pod_events, sizes, with_node_pool
from tests.world.harness import Json, Sim, simulated

from .common import machines, running

HOUR = 3600.0
EVERYTHING = [{"operator": "Exists"}]
BOTH_TERMS = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand", "spot"]}


def required(*expressions: Json) -> Json:
    terms = [{"matchExpressions": [*expressions]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def daemon_set(name: str, cpu: str, **spec: Any) -> Json:
    container = {"name": "agent", "image": "agent", "resources": {"requests": {"cpu": cpu}}}
    made = {"containers": [container], "tolerations": EVERYTHING, **spec}
    template = {"metadata": {"labels": {"app": name}}, "spec": made}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}}


def requesting(wanted: Json, **amounts: str) -> Json:
    resources = wanted["spec"]["containers"][0]["resources"]
    for kind in ("requests", "limits"):
        resources[kind] = {**resources[kind], **{name.replace("_", "-"): amount for name, amount in amounts.items()}}
    return wanted


@simulated()
async def test_a_pod_that_does_not_tolerate_spot(sim: Sim) -> None:
    """It gets one machine on demand from a NodePool with both capacity types."""
    await with_node_pool(sim, requirements=[BOTH_TERMS])
    await pending(sim, pod("p"))
    await asyncio.sleep(HOUR)
    assert (machines(sim), running(sim, "p")) == (1, ["p"])


@simulated()
async def test_daemon_sets_without_the_toleration_use_nothing_of_spot_machines(sim: Sim) -> None:
    """A DaemonSet that does not tolerate spot has no pod there: the smallest size is large enough."""
    by_sku = [{"key": "sku", "operator": "Exists"}]
    sim.store.create("daemonsets.apps", daemon_set("agent", "3", tolerations=by_sku), "kube-system")
    await with_node_pool(sim, requirements=[{**BOTH_TERMS, "values": ["spot"]}])
    await pending(sim, requesting(pod("p", tolerations=EVERYTHING), cpu="3"))
    await sim.until(lambda: running(sim, "p"), HOUR, "the pod runs")
    assert sizes(sim) == [T4]


@simulated()
async def test_daemon_sets_of_aks(sim: Sim) -> None:
    """AKS's own DaemonSets require its label of the cluster: a machine is large enough for them and the pod."""
    on_aks = required(
        {"key": "kubernetes.azure.com/cluster", "operator": "Exists"},
        {"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    )
    for name, cpu in (("kube-proxy", "100m"), ("azure-cns", "40m"), ("ama-logs", "170m"), ("csi-azuredisk", "30m")):
        sim.store.create("daemonsets.apps", daemon_set(name, cpu, affinity=on_aks), "kube-system")
    await with_node_pool(sim)
    await pending(sim, requesting(pod("trainer"), cpu="3600m"))
    await asyncio.sleep(HOUR)
    assert (machines(sim), running(sim, "trainer")) == (1, ["trainer"])


@simulated()
async def test_daemon_sets_of_the_network(sim: Sim) -> None:
    """A label of AKS that every Node of an agent pool shows is expected on a new one, with its value."""
    overlay = required({"key": "kubernetes.azure.com/azure-cni-overlay", "operator": "In", "values": ["true"]})
    other = required({"key": "kubernetes.azure.com/azure-cni-overlay", "operator": "In", "values": ["false"]})
    sim.store.create("daemonsets.apps", daemon_set("cns", "340m", affinity=overlay), "kube-system")
    sim.store.create("daemonsets.apps", daemon_set("not-here", "3", affinity=other), "kube-system")
    await with_node_pool(sim)
    await pending(sim, requesting(pod("trainer"), cpu="3600m"))
    await asyncio.sleep(HOUR)
    assert (machines(sim), running(sim, "trainer")) == (1, ["trainer"])


@pytest.mark.matrix(quick=0)
@simulated()
async def test_max_pods_of_the_node_class(sim: Sim) -> None:
    """With maxPods 10 ten DaemonSets fill each machine: none is bought, and the pod's Event states what is short."""
    for number in range(10):
        sim.store.create("daemonsets.apps", daemon_set(f"d{number}", "1m"), "kube-system")
    await sim.apply({**node_class(), "spec": {"maxPods": 10}})
    await sim.apply(node_pool())
    await sim.start_controller()
    await pending(sim, pod("p"))
    await asyncio.sleep(HOUR)
    assert machines(sim) == 0
    assert any("pods 1 requested, at most 0 on one machine" in text for _, text in pod_events(sim, "p"))


@pytest.mark.parametrize(("mode", "most"), [("", 30), ("overlay", 250)])
def test_max_pods_of_the_network(mode: str, most: int) -> None:
    """Without maxPods a machine takes what AKS sets for the network of the cluster, no pod more."""

    @simulated(azure=AzureSettings(network_plugin_mode=mode))
    async def story(sim: Sim) -> None:
        await with_node_pool(sim)
        small = [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "10m"}}}]
        await pending(sim, pod("first"), *(pod(f"p{n}", containers=small) for n in range(40)))
        await asyncio.sleep(HOUR)
        assert len(running(sim, "first", *(f"p{n}" for n in range(40)))) == 41
        assert machines(sim) == -(-41 // most)

    story()


@pytest.mark.matrix(quick=0)
@simulated()
async def test_ephemeral_storage(sim: Sim) -> None:
    """A pod gets a machine for its ephemeral-storage: of the default disk, or of a larger one that a class states."""
    await sim.apply({**node_class("large"), "spec": {"osDiskSizeGB": 512}})
    await with_node_pool(sim)
    large = node_pool("large")
    large["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "large"
    await sim.apply(large)
    await pending(sim, requesting(pod("small"), ephemeral_storage="100Gi"))
    await pending(sim, requesting(pod("large"), ephemeral_storage="400Gi"))
    await pending(sim, requesting(pod("never"), ephemeral_storage="600Gi"))
    await asyncio.sleep(HOUR)
    assert running(sim, "small", "large", "never") == ["small", "large"]
    assert (machines(sim), len(claims_of(sim, "large"))) == (2, 1)
    assert any("ephemeral-storage 600Gi requested, at most" in text for _, text in pod_events(sim, "never"))


LOCAL = AzureSettings(local_disks_gib={T4: 176}, actions=AZURE_ACTIONS | QUOTA_ACTIONS)


@pytest.mark.matrix(quick=0)
@simulated(azure=LOCAL)
async def test_default_os_disks(sim: Sim) -> None:
    """As large as the temporary disk of the size, or a managed one that the number of vCPUs determines."""
    await sim.apply({**node_class("managed"), "spec": {"osDiskType": "Managed"}})
    local = node_pool("local", requirements=[{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4]}])
    managed = node_pool(
        "managed", requirements=[{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["Standard_NC16as_T4_v3"]}]
    )
    managed["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "managed"
    for one in (node_class(), local, managed):
        await sim.apply(one)
    await sim.start_controller()
    await pending(sim, requesting(pod("temp"), ephemeral_storage="140Gi"))
    await pending(sim, requesting(pod("large"), ephemeral_storage="400Gi"))
    await pending(sim, requesting(pod("never"), ephemeral_storage="600Gi"))
    await asyncio.sleep(HOUR)
    assert running(sim, "temp", "large", "never") == ["temp", "large"]
    assert (len(claims_of(sim, "local")), len(claims_of(sim, "managed"))) == (1, 1)


@pytest.mark.matrix(quick=0)
@simulated()
async def test_labels_that_aks_sets(sim: Sim) -> None:
    """Pods can select a machine by the labels of AKS; one that no machine bears buys nothing."""
    await with_node_pool(sim)
    selectors = {
        "mode": {"kubernetes.azure.com/mode": "user"},
        "os": {"kubernetes.azure.com/os-sku": "Ubuntu"},
        "gpu": {"kubernetes.azure.com/accelerator": "nvidia"},
        "cpu": {"kubernetes.azure.com/sku-cpu": "4"},
        "cluster": {"kubernetes.azure.com/cluster": sim.cloud.settings.machine_group},
        "scope": {"karpenter.azure.com/placement-scope": "regional"},
        "disk": {"karpenter.azure.com/sku-storage-premium-capable": "true"},
        "network": {"kubernetes.azure.com/podnetwork-type": "overlay"},
    }
    others = {
        "system": {"kubernetes.azure.com/mode": "system"},
        "other": {"kubernetes.azure.com/cluster": "another"},
        "regular": {labels.AKS_SPOT: "regular"},
        "unknown": {"kubernetes.azure.com/unknown": "x"},
    }
    await pending(sim, *(pod(name, nodeSelector=one) for name, one in {**selectors, **others}.items()))
    await asyncio.sleep(HOUR)
    assert running(sim, *selectors, *others) == [*selectors]
    assert machines(sim) == len(selectors)


@simulated()
async def test_pods_that_select_spot(sim: Sim) -> None:
    """Pods that select and tolerate spot by AKS's own label and taint get one spot machine."""
    await with_node_pool(sim, requirements=[BOTH_TERMS])
    await pending(sim, pod("p", nodeSelector={labels.AKS_SPOT: "spot"}, tolerations=EVERYTHING))
    await asyncio.sleep(HOUR)
    assert (machines(sim), running(sim, "p")) == (1, ["p"])
    (put,) = sim.cloud.request_log.puts
    assert put.properties["scaleSetPriority"] == "Spot"


@simulated()
async def test_a_pod_that_avoids_machines_with_gpus(sim: Sim) -> None:
    """It requires that the label of the model is absent: a size without GPUs is bought, and the pod runs there."""
    body = node_pool()
    body["spec"]["template"]["spec"]["requirements"] = []
    await sim.apply(node_class())
    await sim.apply(body)
    await sim.start_controller()
    without = {"key": "karpenter.azure.com/sku-gpu-name", "operator": "DoesNotExist"}
    await pending(sim, pod("p", gpus=0, affinity=required(without), nodeSelector={"team": "ml"}))
    await asyncio.sleep(HOUR)
    assert (machines(sim), running(sim, "p")) == (1, ["p"])
    assert sizes(sim) == ["Standard_D2s_v5"]


@simulated()
async def test_a_label_with_several_values(sim: Sim) -> None:
    """A NodePool allows tier a or b: its Node bears one of them, and a pod that accepts both runs there."""
    tier = {"key": "example.com/tier", "operator": "In", "values": ["a", "b"]}
    await with_node_pool(sim, requirements=[tier])
    await pending(sim, pod("p", affinity=required(tier)))
    await asyncio.sleep(HOUR)
    assert (machines(sim), running(sim, "p")) == (1, ["p"])


@pytest.mark.parametrize("key", ["node-restriction.kubernetes.io/team", "node-role.kubernetes.io/gpu"])
@pytest.mark.parametrize("part", ["labels", "requirements"])
def test_a_label_that_is_never_copied(key: str, part: str) -> None:
    """A NodePool with such a label is refused with field, value and remedy; nothing is bought for pods that need it."""

    @simulated()
    async def story(sim: Sim) -> None:
        await sim.apply(node_class())
        body = node_pool()
        template = body["spec"]["template"]
        if part == "labels":
            template["metadata"]["labels"] = {key: "a"}
        else:
            template["spec"]["requirements"].append({"key": key, "operator": "In", "values": ["a"]})
        await sim.apply(body)
        await sim.start_controller()
        await pending(sim, pod("p", nodeSelector={key: "a"}))
        await asyncio.sleep(HOUR)
        found = {one["type"]: one for one in sim.store.get("nodepools.karpenter.sh", "gpu")["status"]["conditions"]}
        text = found["ValidationSucceeded"]["message"]
        assert (machines(sim), found["Ready"]["status"]) == (0, "False")
        assert key in text
        assert "use a key with another prefix" in text

    story()


@simulated(azure=AzureSettings(location="usgovvirginia"))
async def test_a_region_without_prices(sim: Sim) -> None:
    """The size that is cheapest elsewhere is bought, and an Event states that its price is not known."""
    await with_node_pool(sim)
    await pending(sim, pod("p"), pod("large", gpus=8))
    await sim.until(lambda: len(running(sim, "p", "large")) == 2, HOUR, "both pods run")
    assert T4 in sizes(sim)
    assert machines(sim) == 2
    events = sim.store.list("events", fields="involvedObject.kind=NodePool,reason=PriceUnknown")
    assert any(event["message"].startswith(f"{T4} has no list price in this region") for event in events)


@simulated()
async def test_a_node_class_with_a_subnet_of_its_own(sim: Sim) -> None:
    """Its machines bear the name of that subnet, whatever the other Nodes of the cluster show."""
    subnet, shared = "kubernetes.azure.com/network-subnet", "kubernetes.azure.com/network-name"
    group = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/v/subnets"
    await sim.apply({**node_class("own"), "spec": {"vnetSubnetID": f"{group}/gpu-subnet"}})
    own = node_pool("own")
    own["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "own"
    await sim.apply(own)
    await sim.until(lambda: sim.store.list("nodes"), 60.0, "the Nodes of the system pools")
    for node in sim.store.list("nodes"):
        others = {"metadata": {"labels": {subnet: "aks-subnet", shared: "aks-vnet"}}}
        sim.store.patch("nodes", node["metadata"]["name"], others)
    await with_node_pool(sim)
    await pending(sim, pod("p", nodeSelector={subnet: "gpu-subnet"}), pod("q", nodeSelector={subnet: "none"}))
    await sim.until(lambda: running(sim, "p"), HOUR, "the pod runs")
    assert len(claims_of(sim, "own")) == 1
    assert not claims_of(sim)
    assert running(sim, "q") == []
