"""Why GPUs are missing on a Ready Node, as the claim's condition reports it, and what that costs in requests."""

import asyncio

import pytest

from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.harness import Sim, node_claim, simulated
from tests.world.main_job import NAME
from tests.world.transcript import FAST, MINUTE, claim_condition, events, node_name, pool_calls, refuse

from .common import NEVER, running, starting
from .plugins import PLUGIN, SKU, TAINT, fail_plugin, install, message, plugin, reads

pytestmark = pytest.mark.matrix(quick=0)

EIGHT_GPUS = "Standard_ND96isr_H100_v5"
NOT_REGISTERED = ("Unknown", "ResourceNotRegistered")


async def reported(sim: Sim, words: str, within_seconds: float = 5 * MINUTE) -> str:
    """Wait until the condition's message has these words; the message, which KAITO shows in full."""
    await sim.until(lambda: words in message(sim), within_seconds, f"the claim reports: {words}")
    found = message(sim)
    assert len(found.encode()) <= 256
    return found


@simulated(azure=FAST)
async def test_s4_a_plugin_that_is_installed_ten_minutes_late(sim: Sim) -> None:
    """The claim is not Ready and states the cause; it opens by itself, without a repair and without a second Node."""
    node = await starting(sim)
    found = await reported(sim, "no DaemonSet of the cluster is a device plugin for nvidia.com/gpu, since ")
    assert found.startswith("nvidia.com/gpu: 0 of 1 allocatable; no DaemonSet")
    await asyncio.sleep(10 * MINUTE)
    assert claim_condition(sim, "Initialized")[:2] == NOT_REGISTERED
    assert sim.condition(NAME, "Ready") == "Unknown"
    install(sim, plugin(SKU))
    await running(sim)
    sim.nodes.start_plugin(node)
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 15, "the claim is Ready")
    assert [one["metadata"]["name"] for one in sim.nodes_of(NAME)] == [node]
    assert len(pool_calls(sim, "PUT")) == 1
    assert not pool_calls(sim, "DELETE")
    assert len(events(sim, "ResourceNotRegistered")) == 1
    await asyncio.sleep(10 * MINUTE)
    before = len(reads(sim, "daemonsets"))
    await asyncio.sleep(30 * MINUTE)
    assert len(reads(sim, "daemonsets")) == before


@simulated(azure=FAST)
async def test_s4_6_a_taint_keeps_the_plugin_away(sim: Sim) -> None:
    """DaemonSet, taint and remedy are named; with the toleration the same Node becomes Ready."""
    install(sim, plugin())
    node = await starting(sim)
    found = await reported(sim, "does not tolerate taint sku=gpu:NoSchedule, since ")
    assert found.startswith(f"nvidia.com/gpu: 0 of 1 allocatable; DaemonSet kube-system/{PLUGIN} does not")
    assert found.endswith("; add the toleration that gpu-provisioner doctor prints")
    template = {"template": {"spec": {"tolerations": [SKU]}}}
    sim.store.patch("daemonsets.apps", PLUGIN, {"spec": template}, "kube-system")
    await running(sim)
    await reported(sim, " runs and advertises no device (")
    sim.nodes.start_plugin(node)
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 15, "the claim is Ready")


@simulated(azure=FAST)
async def test_s4_6_the_pod_of_the_plugin_crashes(sim: Sim) -> None:
    """The reason and the number of restarts are named."""
    install(sim, plugin(SKU))
    await starting(sim)
    await running(sim)
    fail_plugin(sim, "CrashLoopBackOff", 7)
    found = await reported(sim, "is not running (CrashLoopBackOff, 7 restarts)")
    assert "; without a driver it ends at once; see kubectl logs --previous -n kube-system " in found


@simulated(azure=FAST)
async def test_s4_6_the_plugin_runs_without_devices(sim: Sim) -> None:
    """The driver is the cause; the Node's image and what its node problem detector says are named."""
    install(sim, plugin(SKU))
    node = await starting(sim)
    sim.nodes.set_condition(node, "GPUMissing", "True", "GPUMissing", "expected 1, found 0")
    found = await reported(sim, "runs and advertises no device (GPUMissing: expected 1, found 0), since ")
    assert "; check the driver of the Node; see the log of the Pod" in found


@simulated(azure=FAST)
async def test_s4_6_seven_of_eight(sim: Sim) -> None:
    """The numbers come first, then the pod that advertises too few."""
    install(sim, plugin(SKU))
    node = await starting(
        sim, requirements=[{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [EIGHT_GPUS]}]
    )
    await running(sim)
    sim.nodes.set_gpus(node, 8, unhealthy=1)
    found = await reported(sim, " advertises 7 of 8")
    assert found.startswith("nvidia.com/gpu: 7 of 8 allocatable; Pod kube-system/nvidia-device-plugin-daemonset-")


@simulated(azure=FAST)
async def test_a_startup_taint_can_keep_the_plugin_away_for_ever(sim: Sim) -> None:
    """The plugin does not tolerate a taint that is removed only after it has run: the condition names both."""
    install(sim, plugin(SKU))
    await starting(sim, startupTaints=[{"key": "gkm.io/cache-not-ready", "effect": "NoSchedule"}])
    found = await reported(sim, "does not tolerate startup taint gkm.io/cache-not-ready:NoSchedule")
    assert claim_condition(sim, "Initialized")[:2] == ("Unknown", "StartupTaintsExist")
    assert found.startswith('StartupTaint "gkm.io/cache-not-ready:NoSchedule" still exists; DaemonSet kube-system/')


@simulated(azure=FAST)
async def test_without_the_permission_the_hint_is_general(sim: Sim) -> None:
    """The API server refuses to list DaemonSets: one attempt each ten minutes, and the claim still opens by itself."""
    refuse(sim, lambda call: call.target.kind == "daemonsets", 403, "Forbidden")
    node = await starting(sim)
    await reported(sim, "is the device plugin running and tolerating the claim's taints?")
    await asyncio.sleep(60 * MINUTE)
    assert 5 <= len(reads(sim, "daemonsets")) <= 7
    assert not reads(sim, "pods")
    sim.nodes.start_plugin(node)
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 15, "the claim is Ready")


@simulated(azure=FAST)
async def test_a_failing_read_does_not_delay_the_status(sim: Sim) -> None:
    """The API server answers LISTs of DaemonSets with an error: the condition is written, and the cause follows."""
    heal = refuse(sim, lambda call: call.target.kind == "daemonsets", 500, "InternalError")
    await starting(sim)
    await reported(sim, "is the device plugin running and tolerating the claim's taints?", 4 * MINUTE)
    heal()
    await reported(sim, "no DaemonSet of the cluster is a device plugin", 3 * MINUTE)


@simulated(azure=FAST)
async def test_a_diagnosis_costs_at_most_three_requests(sim: Sim) -> None:
    """A LIST of the Node's pods, one of DaemonSets, and one of pods without a Node if the plugin has none there."""
    install(sim, plugin(SKU, nodeSelector={"a": "b"}))
    node = await starting(sim)
    sim.store.patch("nodes", node, {"metadata": {"labels": {"a": "b"}}})
    sim.store.patch("daemonsets.apps", PLUGIN, {"spec": {"template": {"spec": {"nodeSelector": None}}}}, "kube-system")
    await reported(sim, "allocatable")
    per_minute = [len(reads(sim, kind)) for kind in ("pods", "daemonsets")]
    assert per_minute[0] <= 2 * per_minute[1]
    begin = sim.now
    await asyncio.sleep(10 * MINUTE)
    made = [one for kind in ("pods", "daemonsets") for one in reads(sim, kind) if one.at > begin]
    assert 20 <= len(made) <= 33


@simulated(azure=FAST, nodes=NodeSettings(gpu_seconds=(NEVER, NEVER)))
async def test_many_nodes_share_the_daemonsets(sim: Sim) -> None:
    """With twenty closed gates there is one LIST of DaemonSets a minute, and one of pods for each Node."""
    names = [f"gpu{number}" for number in range(20)]
    await sim.start_controller()
    for name in names:
        await sim.apply(node_claim(name, taints=[TAINT]))
    await sim.until(
        lambda: all(sim.condition(name, "Registered") == "True" for name in names), 900, "all Nodes are registered"
    )
    await asyncio.sleep(5 * MINUTE)
    begin = sim.now
    await asyncio.sleep(10 * MINUTE)
    counted = {kind: sum(one.at > begin for one in reads(sim, kind)) for kind in ("pods", "daemonsets")}
    assert counted["daemonsets"] <= 11
    assert 180 <= counted["pods"] <= 220


@simulated(azure=FAST)
async def test_a_restart_of_the_plugin_is_not_diagnosed(sim: Sim) -> None:
    """A plugin that is back within 90 s costs no request."""
    await sim.start_controller()
    await sim.apply(node_claim(NAME, taints=[TAINT]))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 900, "the claim is Ready")
    for _ in range(20):
        sim.nodes.stop_plugin(node_name(sim))
        await asyncio.sleep(60)
        sim.nodes.start_plugin(node_name(sim))
        await asyncio.sleep(120)
    assert not reads(sim, "daemonsets")
    assert sim.condition(NAME, "Ready") == "True"


@simulated(azure=FAST)
async def test_lost_gpus_have_a_cause(sim: Sim) -> None:
    """The plugin of a usable Node is deleted: after six minutes the condition is False and names the cause."""
    install(sim, plugin(SKU))
    await sim.start_controller()
    await sim.apply(node_claim(NAME, taints=[TAINT]))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 900, "the claim is Ready")
    sim.store.delete("daemonsets.apps", PLUGIN, "kube-system")
    sim.nodes.kill_plugin(node_name(sim))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "False", 7 * MINUTE, "the GPUs are gone")
    assert claim_condition(sim, "Initialized")[1] == "GPUUnavailable"
    assert "no DaemonSet of the cluster is a device plugin for nvidia.com/gpu, since " in message(sim)
