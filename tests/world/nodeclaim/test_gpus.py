"""GPUs of a Node as allocatable shows them: when a claim waits for them, and when it has lost them.

S4 and S5 are the rows of docs/references/kubernetes.md#extended-resources-and-the-device-manager. All invariants are
checked throughout.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.claims import condition, message, node_is_ready, puts, ready, versions, wait_for_condition, word
from tests.world.demand import GPU, claims_of, node_pool, pending, pod, watches_pods, with_node_pool
from tests.world.harness import SHIPPED_LEASE, Json, Sim, node_claim, simulated
from tests.world.transcript import CLAIMS, FAST, MINUTE, node_name, run_pod

from .common import MERGE, STRATEGIC, gpu_class, label, offer

pytestmark = pytest.mark.matrix(quick=2)

EIGHT = "Standard_ND96isr_H100_v5"


def unasked(sim: Sim) -> list[str]:
    """What controllers removed, and claims that were created after the first."""
    calls = [call for call in sim.audit_log.writes() if call.who in sim.controllers]
    return [f"{one.verb} {one.target.name}" for one in calls if one.verb == "DELETE"]


def allocatable(sim: Sim, name: str, resource: str = GPU) -> int:
    [node] = sim.nodes_of(name)
    return int(node["status"]["allocatable"].get(resource, "0"))


def false_ready(sim: Sim) -> list[str]:
    """From now on: the claims that turn Ready although the devices of their machine do not work."""
    found: list[str] = []

    def note(event: str, kind: str, obj: Json, before: Json | None) -> None:
        if kind != CLAIMS or event == "DELETED" or before is None:
            return
        turned = condition(obj, "Ready").get("status") == "True" != condition(before, "Ready").get("status")
        machine = sim.nodes.machines.get(obj["status"].get("nodeName", ""))
        if turned and (machine is None or machine.devices.healthy < machine.devices.count):
            found.append(obj["metadata"]["name"])

    sim.store.subscribe(note)
    return found


@simulated(azure=FAST)
async def test_s4_a_device_plugin_that_is_installed_ten_minutes_late(sim: Sim) -> None:
    """The claim states what is missing, is Ready by itself when it is there, and keeps its one machine."""
    sim.nodes.plugin_delay_seconds = 10 * MINUTE
    await sim.start_controller()
    claim = await sim.apply(node_claim("gpu1"))
    await node_is_ready(sim, "gpu1")
    await wait_for_condition(sim, "gpu1", "Initialized", "Unknown", "ResourceNotRegistered")
    assert message(sim, "gpu1", "Initialized").startswith("nvidia.com/gpu: 0 of 1 allocatable; ")
    await asyncio.sleep(4 * MINUTE)
    assert sim.condition("gpu1", "Ready") == "Unknown"
    assert await ready(sim, "gpu1", within_seconds=7 * MINUTE) == claim["metadata"]["uid"]
    assert (len(puts(sim, "gpu1")), unasked(sim)) == (1, [])
    assert len(sim.nodes_of("gpu1")) == 1


@simulated(azure=FAST)
async def test_s5a_a_plugin_that_restarts_20_times_in_an_hour(sim: Sim) -> None:
    """No repair, no new claim, and nothing is written: no outage is longer than 6 min."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    uid = await ready(sim, "gpu1")
    node, seen = node_name(sim, "gpu1"), versions(sim, "gpu1")
    for _ in range(20):
        sim.nodes.stop_plugin(node)
        await sim.until(lambda: allocatable(sim, "gpu1") == 0, 20, "the GPU is not allocatable")
        await asyncio.sleep(60)
        sim.nodes.start_plugin(node)
        await sim.until(lambda: allocatable(sim, "gpu1") == 1, 20, "the GPU is allocatable again")
        await asyncio.sleep(90)
    assert (seen, unasked(sim), len(puts(sim, "gpu1"))) == ([], [], 1)
    assert (await ready(sim, "gpu1"), len(sim.store.list(CLAIMS))) == (uid, 1)


@simulated(azure=FAST)
async def test_s5c_a_kubelet_restart_on_a_full_node(sim: Sim) -> None:
    """The claim that runs a pod with all GPUs stays Ready and keeps its identity, Node and pool."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    uid = await ready(sim, "gpu1")
    node, seen = node_name(sim, "gpu1"), versions(sim, "gpu1")
    run_pod(sim, "trainer", node)
    pool = sim.cloud.pools["gpu1"].incarnation
    for _ in range(5):
        sim.nodes.restart_kubelet(node)
        await asyncio.sleep(3 * MINUTE)
    assert (seen, unasked(sim)) == ([], [])
    assert (await ready(sim, "gpu1"), node_name(sim, "gpu1"), sim.cloud.pools["gpu1"].incarnation) == (uid, node, pool)
    assert sim.store.get("pods", "trainer", "default")["status"]["phase"] == "Running"


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "the controller restarts"])
@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_1_of_8_gpus_is_lost(sim: Sim, restarts: bool) -> None:
    """The condition names both numbers within 6 min 5 s, in one write with Ready; the eighth GPU ends it at once."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1", size=EIGHT))
    await ready(sim, "gpu1")
    node, seen = node_name(sim, "gpu1"), versions(sim, "gpu1")
    sim.nodes.set_unhealthy_gpus(node, 1)
    await sim.until(lambda: allocatable(sim, "gpu1") == 7, 20, "the Node shows 7")
    lost = sim.now
    await asyncio.sleep(6 * MINUTE - 1)
    assert seen == []
    await wait_for_condition(sim, "gpu1", "Initialized", "False", "GPUUnavailable", within_seconds=6)
    assert sim.now - lost <= 365
    assert word(seen[0].obj, "Ready")[0] == "False"
    assert message(sim, "gpu1", "Initialized").startswith("nvidia.com/gpu: 7 of 8 allocatable; ")
    if restarts:
        sim.crash()
        await sim.start_controller("ctl1")
        await asyncio.sleep(MINUTE)
        assert sim.condition("gpu1", "Ready") == "False"
    sim.nodes.set_gpus(node, 8)
    await ready(sim, "gpu1", within_seconds=1)


@simulated(lease=SHIPPED_LEASE, azure=FAST)
async def test_a_controller_that_starts_while_gpus_are_missing(sim: Sim) -> None:
    """It takes nothing back before it has seen that for 6 min."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    node = node_name(sim, "gpu1")
    sim.nodes.kill_plugin(node)
    await asyncio.sleep(5 * MINUTE)
    sim.crash()
    await sim.start_controller("ctl1")
    await asyncio.sleep(5 * MINUTE)
    assert sim.condition("gpu1", "Ready") == "True"
    await wait_for_condition(sim, "gpu1", "Initialized", "False", "GPUUnavailable", within_seconds=2 * MINUTE)


async def _another_boot(sim: Sim, node: str) -> None:
    sim.nodes.set_ready(node, None)
    await asyncio.sleep(MINUTE)
    boot = {"status": {"nodeInfo": {"bootID": "another"}}}
    await sim.request("PATCH", f"/api/v1/nodes/{node}/status", boot, content_type=STRATEGIC)


async def _unreachable(sim: Sim, node: str) -> None:
    sim.nodes.set_ready(node, None)
    await asyncio.sleep(MINUTE)


def returns_with_the_old_number(sim: Sim, node: str) -> None:
    """A kubelet is Ready again and has just restarted: its plugin has to register, which the Node does not show yet."""
    sim.nodes.set_ready(node, True)
    sim.nodes.restart_kubelet(node)
    machine = sim.nodes.machines[node]
    machine.devices = machine.devices.restarted()


@pytest.mark.parametrize("outage", [_another_boot, _unreachable])
@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "the controller restarts"])
@simulated(lease=SHIPPED_LEASE, azure=FAST, nodes=NodeSettings(status_seconds=(10.0, 10.0), register_seconds=20.0))
async def test_s5_4_a_number_from_before_a_restart_is_not_believed(
    sim: Sim, outage: Callable[[Sim, str], Any], restarts: bool
) -> None:
    """Ready again, the Node shows the old number for 10 s, then none: the claim is Ready once it is published again."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    await asyncio.sleep(MINUTE)
    node, wrong = node_name(sim, "gpu1"), false_ready(sim)
    await outage(sim, node)
    returns_with_the_old_number(sim, node)
    if restarts:
        sim.crash()
        await sim.start_controller("ctl1")
    assert allocatable(sim, "gpu1") == 1
    await sim.until(lambda: allocatable(sim, "gpu1") == 0, 20, "the first status shows none")
    assert sim.condition("gpu1", "Ready") == "False"
    await sim.until(lambda: allocatable(sim, "gpu1") == 1, 90, "the plugin has registered")
    published = sim.now
    await ready(sim, "gpu1", within_seconds=30)
    assert sim.now - published <= (30 if restarts else 1)
    assert (wrong, unasked(sim)) == ([], [])


@simulated(azure=FAST)
async def test_s5_4_a_number_that_stays_is_believed_after_30_s(sim: Sim) -> None:
    """A Node that was only unreachable for a minute is not held longer."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    node, seen = node_name(sim, "gpu1"), versions(sim, "gpu1")
    await _unreachable(sim, node)
    sim.nodes.set_ready(node, True)
    began = sim.now
    await ready(sim, "gpu1", within_seconds=32)
    assert sim.now - began >= 29
    assert [word(one.obj, "Ready")[0] for one in seen] == ["False", "True"]


@pytest.mark.matrix(quick=0)
@simulated(azure=AzureSettings(create_seconds=(60.0, 90.0), max_agent_pools=120, throttle=False, arm_throttle=False))
async def test_a_storm_of_kubelet_restarts_on_100_nodes(sim: Sim) -> None:
    """Some reboot, some return with their old number: no repair, and no claim is Ready before its GPU works."""
    await sim.start_controller(policy=Policy(max_agent_pools=110))
    names = [f"gpu{number}" for number in range(100)]
    for name in names:
        await sim.apply(node_claim(name))
    for name in names:
        await ready(sim, name, within_seconds=1800)
    nodes, wrong = [node_name(sim, name) for name in names], false_ready(sim)
    uids = {name: (sim.claim(name) or {})["metadata"]["uid"] for name in names}
    restarted, rebooted, unreachable = nodes[::3], nodes[1::3], nodes[2::3]
    for _ in range(3):
        for node in restarted:
            sim.nodes.restart_kubelet(node)
        for node in rebooted:
            sim.nodes.reboot(node)
        for node in unreachable:
            sim.nodes.set_ready(node, None)
        await asyncio.sleep(MINUTE)
        for node in unreachable:
            returns_with_the_old_number(sim, node)
        await asyncio.sleep(5 * MINUTE)
    for name in names:
        assert await ready(sim, name) == uids[name]
    assert (wrong, unasked(sim)) == ([], [])


@simulated(azure=FAST)
async def test_the_mig_manager_partitions_gpus(sim: Sim) -> None:
    """While it is at work no GPU is lost, for 15 min; that it failed is named."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    node, seen = node_name(sim, "gpu1"), versions(sim, "gpu1")
    await label(sim, node, nvidia_com__mig_config="all-1g.10gb", nvidia_com__mig_config_state="pending")
    sim.nodes.kill_plugin(node)
    await asyncio.sleep(2 * MINUTE)
    await label(sim, node, nvidia_com__mig_config_state="rebooting")
    await asyncio.sleep(12 * MINUTE)
    assert seen == []
    await label(sim, node, nvidia_com__mig_config_state="failed")
    lost = await wait_for_condition(sim, "gpu1", "Initialized", "False", "GPUUnavailable", within_seconds=5)
    assert "the MIG manager failed to apply all-1g.10gb" in lost["message"]
    # The slices have their own resource, which the labels of GPU feature discovery describe.
    sliced = {"nvidia_com__mig_strategy": "mixed", "nvidia_com__mig_config_state": "success"}
    await offer(sim, node, {GPU: "0", "nvidia.com/mig-1g.10gb": "7"})
    await sim.request(
        "PATCH",
        f"/api/v1/nodes/{node}",
        {"metadata": {"labels": {"nvidia.com/mig-1g.10gb.count": "7"}}},
        content_type=MERGE,
    )
    await label(sim, node, **sliced)
    await ready(sim, "gpu1", within_seconds=1)


# NodePools


@pytest.mark.parametrize(
    ("gpu", "resource", "count"),
    [
        ({"migProfile": "MIG1g", "migStrategy": "Mixed"}, "nvidia.com/mig-1g.10gb", 7),
        ({"sharedReplicas": 4, "sharedResource": "nvidia.com/gpu.shared"}, "nvidia.com/gpu.shared", 4),
    ],
)
@simulated(azure=FAST)
async def test_pods_get_devices_that_a_node_class_states(
    sim: Sim, gpu: dict[str, Any], resource: str, count: int
) -> None:
    """One machine for as many pods as it has devices; it is Ready once all of them are allocatable."""
    sim.nodes.plugin_delay_seconds = 100_000.0
    await sim.apply(gpu_class(**gpu))
    a100 = {"key": "karpenter.azure.com/sku-gpu-name", "operator": "In", "values": ["A100"]}
    one_gpu = {"key": "karpenter.azure.com/sku-gpu-count", "operator": "In", "values": ["1"]}
    await sim.apply(node_pool(requirements=[a100, one_gpu]))
    await sim.start_controller()
    await sim.until(lambda: watches_pods(sim), 60.0, "pods are watched")
    amounts = {"cpu": "1", "memory": "1Gi", resource: "1"}
    containers = [{"name": "main", "image": "trainer", "resources": {"requests": amounts, "limits": amounts}}]
    await pending(sim, *(pod(f"p{number}", gpus=0, containers=containers) for number in range(count)))
    await pending(sim, pod("whole"))
    (claim,) = await sim.until(lambda: claims_of(sim), 5.0, "a NodeClaim")
    name = claim["metadata"]["name"]
    assert claim["spec"]["resources"]["requests"][resource] == str(count)
    node = (await sim.until(lambda: _nodes(sim), 900, "its Node"))[0]["metadata"]["name"]
    await offer(sim, node, {resource: str(count - 1)})
    await wait_for_condition(sim, name, "Initialized", "Unknown", "GPUCountMismatch")
    assert message(sim, name, "Initialized").startswith(f"{resource}: {count - 1} of {count} allocatable; ")
    await offer(sim, node, {resource: str(count)})
    await ready(sim, name, within_seconds=1)
    assert len(claims_of(sim)) == 1


def _nodes(sim: Sim) -> list[Json]:
    return [node for node in sim.store.list("nodes") if "karpenter.sh/nodepool" in node["metadata"]["labels"]]


@simulated(azure=FAST)
async def test_pods_that_become_pending_while_a_plugin_restarts_wait(sim: Sim) -> None:
    """No second claim within 6 min, during which the GPU is expected back."""
    await with_node_pool(sim, disruption={"consolidateAfter": "Never"})
    await pending(sim, pod("first"))
    (claim,) = await sim.until(lambda: claims_of(sim), 5.0, "a NodeClaim")
    name = claim["metadata"]["name"]
    await ready(sim, name)
    node = (await sim.until(lambda: _nodes(sim), 5, "its Node"))[0]["metadata"]["name"]
    await asyncio.sleep(MINUTE)
    await sim.request("DELETE", "/api/v1/namespaces/default/pods/first")
    sim.nodes.stop_plugin(node)
    await asyncio.sleep(30)
    await pending(sim, pod("second"))
    await asyncio.sleep(4 * MINUTE)
    assert [one["metadata"]["name"] for one in claims_of(sim)] == [name]
    sim.nodes.start_plugin(node)
    await asyncio.sleep(5 * MINUTE)
    assert [one["metadata"]["name"] for one in claims_of(sim)] == [name]
