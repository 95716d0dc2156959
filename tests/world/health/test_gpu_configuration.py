"""Node classes that state other devices than the device plugin offers: reported with the setting, and kept."""

import asyncio
from typing import Any

import pytest

from provisioner.api import labels
from tests.world.claims import ready
from tests.world.commands import doctor
from tests.world.demand import claims_of, pending, pod, with_node_pool
from tests.world.harness import Sim, node_claim, simulated
from tests.world.main_job import NAME
from tests.world.nodeclaim.common import MERGE, gpu_class
from tests.world.transcript import FAST, MINUTE, claim_condition, node_name

from .common import EIGHT, deleted, plugin

EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "sharing": ({"sharedReplicas": 4}, "states sharedReplicas 4 (4 nvidia.com/gpu)"),
    "mig": ({"migProfile": "MIG1g"}, "states migProfile MIG1g, migStrategy Single (7 nvidia.com/gpu)"),
    "mixed": ({"migProfile": "MIG1g", "migStrategy": "Mixed"}, "states migProfile MIG1g, migStrategy Mixed"),
    "dra": ({"mode": "DRA"}, "states mode DRA"),
}


@pytest.mark.parametrize("edit", EDITS)
@simulated(azure=FAST)
async def test_an_edit_of_the_node_class_deletes_no_machine(sim: Sim, edit: str) -> None:
    """For four hours, with an XID and restarts of the plugin besides; budgets and the pod forbid every disruption."""
    gpu, stated = EDITS[edit]
    plugin(sim)
    await with_node_pool(sim, disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]})
    made = pod("train")
    made["metadata"]["annotations"] = {labels.DO_NOT_DISRUPT: "true"}
    await pending(sim, made)
    (claim,) = await sim.until(lambda: claims_of(sim), 60.0, "a NodeClaim")
    name = claim["metadata"]["name"]
    await ready(sim, name)
    await sim.apply(gpu_class(**gpu))
    await asyncio.sleep(10 * MINUTE)
    status, reason, message = claim_condition(sim, "Initialized", name)[:3]
    assert (status, reason) == ("False", "GPUUnavailable")
    assert f"AgentPoolNodeClass default {stated}" in message
    if edit != "dra":
        reported = (await doctor(sim)).out
        assert "AgentPoolNodeClass default states" in reported
        assert "unhealthy" not in reported
    await asyncio.sleep(50 * MINUTE)
    node = sim.claim(name)["status"]["nodeName"]
    sim.nodes.set_condition(node, "XIDErrors", "True", "Found", "found by an agent")
    for _ in range(3):
        sim.nodes.stop_plugin(node)
        await asyncio.sleep(MINUTE)
        sim.nodes.start_plugin(node)
        await asyncio.sleep(59 * MINUTE)
    assert not deleted(sim, name)
    assert not sim.store.get("nodes", node)["spec"].get("unschedulable")
    await sim.apply(gpu_class(sharedReplicas=1, migProfile=None, mode="DevicePlugin"))
    await ready(sim, name, within_seconds=10)


async def idle(sim: Sim) -> str:
    """A NodeClaim of a NodePool that disrupts nothing, whose pod has ended."""
    plugin(sim)
    await with_node_pool(sim, disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]})
    await pending(sim, pod("train"))
    (claim,) = await sim.until(lambda: claims_of(sim), 60.0, "a NodeClaim")
    name: str = claim["metadata"]["name"]
    await ready(sim, name)
    await sim.request("DELETE", "/api/v1/namespaces/default/pods/train")
    return name


@simulated(azure=FAST)
async def test_a_cordon_ends_although_the_node_class_states_other_devices(sim: Sim) -> None:
    """The condition that it was for is over: a setting that is wrong besides is no reason to keep it."""
    name = await idle(sim)
    await sim.apply(gpu_class(sharedReplicas=4))
    node = sim.claim(name)["status"]["nodeName"]

    def cordoned() -> bool:
        return bool(sim.store.get("nodes", node)["spec"].get("unschedulable"))

    sim.nodes.set_condition(node, "KubeletProblem", "True", "Found", "found by an agent")
    await sim.until(cordoned, 15 * MINUTE, "it is cordoned")
    sim.nodes.set_condition(node, "KubeletProblem", "False", "Found", "found by an agent")
    await sim.until(lambda: not cordoned(), 5 * MINUTE, "it is uncordoned")
    assert claim_condition(sim, "Initialized", name)[1] == "GPUUnavailable"


@simulated(azure=FAST)
async def test_a_loss_begins_when_no_setting_explains_it(sim: Sim) -> None:
    """A plugin that is stopped to correct it has its whole time, however long the setting was wrong before."""
    name = await idle(sim)
    await sim.apply(gpu_class(sharedReplicas=4))
    await asyncio.sleep(60 * MINUTE)
    assert claim_condition(sim, "Initialized", name)[1] == "GPUUnavailable"
    sim.nodes.stop_plugin(sim.claim(name)["status"]["nodeName"])
    await asyncio.sleep(15 * MINUTE)
    assert not deleted(sim, name)
    await sim.until(lambda: deleted(sim, name), 5 * MINUTE, "its claim is deleted")


OWN = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}
SEVEN = "0,1,2,3,4,5,6"
SETTINGS: dict[str, tuple[dict[str, Any], str, int, str]] = {
    "shared by four": ({"sharedReplicas": 4}, SEVEN, 28, "NVIDIA_VISIBLE_DEVICES"),
    "in seven slices each": ({"migProfile": "MIG1g"}, SEVEN, 49, "NVIDIA_VISIBLE_DEVICES"),
    "no GPU": ({}, "none", 0, "NVIDIA_VISIBLE_DEVICES"),
    "no driver": ({"driver": "None"}, "all", 0, "spec.gpu.driver"),
}


@pytest.mark.parametrize("setting", SETTINGS)
@simulated(azure=FAST)
async def test_a_new_machine_that_is_as_it_was_configured(sim: Sim, setting: str) -> None:
    """By the node class, or by the DaemonSet of the plugin: the condition names the setting, and the machine stays."""
    gpu, listed, offered, named = SETTINGS[setting]
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": listed}]
    plugin(sim, containers=[{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", "env": env}])
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    await sim.start_controller()
    await sim.apply(gpu_class(**gpu))
    await sim.apply(node_claim(NAME, size=EIGHT, nodeClassRef=OWN))
    await sim.until(lambda: sim.condition(NAME, "Registered") == "True", 2000, "its Node is here")
    if offered:
        sim.nodes.set_gpus(node_name(sim), offered)
    await asyncio.sleep(80 * MINUTE)
    assert not deleted(sim)
    assert named in claim_condition(sim, "Initialized")[2]


SHARED = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.replicas": "4"}
SINGLE = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
    "nvidia.com/mig.strategy": "single",
    "nvidia.com/gpu.count": "56",
}


@pytest.mark.parametrize(("found", "each"), [(SHARED, 4), (SINGLE, 7), ({}, 4)], ids=["sharing", "mig", "no labels"])
@simulated(azure=FAST)
async def test_6_of_8_divided_gpus_are_unhealthy(sim: Sim, found: dict[str, str], each: int) -> None:
    """No node class states that the plugin divides each GPU: what the Node had counts."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1", size=EIGHT))
    await ready(sim, "gpu1")
    node = node_name(sim, "gpu1")
    await sim.request("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": found}}, content_type=MERGE)
    sim.nodes.set_gpus(node, 8 * each)
    await asyncio.sleep(10 * MINUTE)
    assert sim.condition("gpu1", "Ready") == "True"
    sim.nodes.set_gpus(node, 8 * each, unhealthy=6 * each)
    await asyncio.sleep(6 * MINUTE + 5)
    status, reason, message = claim_condition(sim, "Initialized", "gpu1")[:3]
    assert (status, reason) == ("False", "GPUUnavailable")
    assert message.startswith(f"nvidia.com/gpu: {2 * each} of {8 * each} allocatable")
    sim.nodes.set_gpus(node, 8 * each)
    await ready(sim, "gpu1", within_seconds=10)
    sim.nodes.set_gpus(node, 8 * each, unhealthy=6 * each)
    await asyncio.sleep(60 * MINUTE)
    assert deleted(sim, "gpu1") or sim.nodes_of("gpu1")[0]["spec"].get("unschedulable"), "repair sees it"
