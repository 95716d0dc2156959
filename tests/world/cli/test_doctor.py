"""`gpu-provisioner doctor` beside a running controller: the cause of missing GPUs, and the tolerations to add."""

import asyncio
import json

import pytest

from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.commands import WHO, doctor, written
from tests.world.harness import Json, Sim, node_claim, simulated
from tests.world.health.common import running, starting
from tests.world.health.plugins import PLUGIN, SKU, TAINT, daemon_set, fail_plugin, install, plugin, plugin_pod
from tests.world.main_job import NAME
from tests.world.nodeclaim.common import OF_DRA, usable
from tests.world.transcript import FAST, MINUTE, node_name, refuse

pytestmark = pytest.mark.matrix(quick=0)

TOLERATION = """\
    tolerations:
    - key: "sku"
      operator: Equal
      value: "gpu"
      effect: NoSchedule
"""
# Agents as their projects install them: GPU Kernel Manager, DCGM exporter, a log collector that tolerates everything.
GKM_AGENT = daemon_set("gkm-agent", "gkm-system", containers=[{"name": "agent", "image": "quay.io/gkm/agent:latest"}])
DCGM = daemon_set("dcgm-exporter", "monitoring", nodeSelector={"nvidia.com/gpu.present": "true"},
                  containers=[{"name": "e", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3"}])  # fmt: skip
COLLECTOR = daemon_set("collector", "logging", tolerations=[{"operator": "Exists"}])
WINDOWS = daemon_set("csi-windows", "kube-system", nodeSelector={"kubernetes.io/os": "windows"})


def cache_job(node: str, name: str = "llama-extract", **spec: Json) -> Json:
    """A Job of GPU Kernel Manager that extracts a cache on one Node; its pod does not run yet."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
                         "nodeSelector": {"kubernetes.io/hostname": node}, **spec}}  # fmt: skip
    meta = {"name": name, "namespace": "models", "labels": {"node": node, "digest": "d"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template},
            "status": {"active": 1, "ready": 0}}  # fmt: skip


def requests(sim: Sim) -> list[str]:
    """What the command has asked the API server for."""
    return [call.target.kind for call in sim.audit_log.calls(who=WHO)]


@simulated(azure=FAST)
async def test_a_plugin_that_a_taint_keeps_away(sim: Sim) -> None:
    """The first answer: no pod of the plugin is meant for the Node; the toleration can be pasted."""
    install(sim, plugin())
    node = await starting(sim)
    await asyncio.sleep(4 * MINUTE)
    ended = await doctor(sim, NAME)
    assert (ended.code, ended.err) == (3, "")
    assert ended.out.startswith(f"NodeClaim {NAME}, Node {node}\n  Initialized is Unknown: ResourceNotRegistered: ")
    why = f"PluginKeptAway: DaemonSet kube-system/{PLUGIN} does not tolerate taint sku=gpu:NoSchedule\n"
    assert f"  nvidia.com/gpu: 0 of 1 allocatable\n  cause: {why}  since: 2026-03-01T12:0" in ended.out
    assert f"  remedy: add to spec.template.spec of the DaemonSet:\n{TOLERATION}" in ended.out
    assert ended.out.endswith("\n\n1 machine lacks GPUs or is not initialized; 0 ready\n")
    assert written(sim) == []


@simulated(azure=FAST)
async def test_a_plugin_of_the_gpu_operator(sim: Sim) -> None:
    """Its ClusterPolicy owns the DaemonSet and undoes changes of it: the toleration belongs there."""
    manifest = plugin()
    owner = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": "p"}
    manifest["metadata"]["ownerReferences"] = [owner]
    install(sim, manifest)
    await starting(sim)
    ended = await doctor(sim, NAME)
    add = "  remedy: add to spec.daemonsets of ClusterPolicy cluster-policy, which owns the DaemonSet:\n"
    assert add + TOLERATION in ended.out


@simulated(azure=FAST)
async def test_a_plugin_whose_pod_does_not_run(sim: Sim) -> None:
    """The second answer: its pod is on the Node, and does not run."""
    install(sim, plugin(SKU))
    await starting(sim)
    await running(sim)
    fail_plugin(sim, "ImagePullBackOff", 0)
    ended = await doctor(sim)
    pod = plugin_pod(sim)
    assert pod is not None
    name = pod["metadata"]["name"]
    assert ended.code == 3
    assert f"  cause: PluginFailing: Pod kube-system/{name} is not running (ImagePullBackOff)\n" in ended.out
    assert f"  remedy: make its image available: kubectl describe pod -n kube-system {name}\n" in ended.out
    assert "other workloads" not in ended.out


@simulated(azure=FAST)
async def test_a_plugin_without_devices(sim: Sim) -> None:
    """The third answer: it runs and advertises nothing; all that the Node says of its GPUs is shown."""
    install(sim, plugin(SKU))
    node = await starting(sim)
    await running(sim)
    sim.nodes.set_condition(node, "GPUMissing", "True", "GPUMissing", "expected 1, found 0")
    ended = await doctor(sim, node)
    assert ended.code == 3
    assert "  cause: NoDevices: Pod kube-system/nvidia-device-plugin-daemonset-" in ended.out
    assert "  seen: GPUMissing: expected 1, found 0\n  seen: node image AKSUbuntu-2204gen2containerd-" in ended.out
    assert "  seen: plugin v0.18.2\n  remedy: check the driver of the Node; see the log of the Pod\n" in ended.out


@simulated(azure=FAST)
async def test_s3_4_the_agent_of_gpu_kernel_manager_is_kept_away(sim: Sim) -> None:
    """Its manifest has no toleration: the report names sku=gpu for the agent, its Job and DCGM exporter."""
    for manifest in (plugin(SKU), GKM_AGENT, DCGM, COLLECTOR, WINDOWS):
        install(sim, manifest)
    node = await starting(sim, startupTaints=[{"key": "gkm.io/cache-not-ready", "effect": "NoSchedule"}])
    install(sim, cache_job(node))
    await asyncio.sleep(MINUTE)
    ended = await doctor(sim, NAME)
    assert ended.code == 3
    lines = ended.out.splitlines()
    assert "  startup taint: gkm.io/cache-not-ready:NoSchedule; its owner must remove it" in lines
    taints = "taint sku=gpu:NoSchedule and startup taint gkm.io/cache-not-ready:NoSchedule"
    begin = lines.index(f"    DaemonSet gkm-system/gkm-agent does not tolerate {taints}")
    assert lines[begin + 1 : begin + 9] == [
        "      tolerations:",
        '      - key: "sku"',
        "        operator: Equal",
        '        value: "gpu"',
        "        effect: NoSchedule",
        '      - key: "gkm.io/cache-not-ready"',
        "        operator: Exists",
        "        effect: NoSchedule",
    ]
    assert f"    Job models/llama-extract does not tolerate {taints}" in lines
    lacks = "requires label nvidia.com/gpu.present=true, which the Node lacks"
    assert f"    DaemonSet monitoring/dcgm-exporter does not tolerate {taints} and {lacks}" in lines
    assert "collector" not in ended.out
    assert "csi-windows" not in ended.out


@simulated(azure=FAST)
async def test_s3_4_with_the_toleration_nothing_is_reported(sim: Sim) -> None:
    """A Job with the printed toleration, one that has ended, and one for another Node are not in the report."""
    install(sim, plugin(SKU))
    node = await starting(sim)
    ended_job = {**cache_job(node, "old"), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    for manifest in (cache_job(node, tolerations=[SKU]), ended_job, cache_job("another", "elsewhere")):  # type: ignore[arg-type]
        install(sim, manifest)
    ended = await doctor(sim, NAME)
    assert "Job " not in ended.out


@simulated(azure=FAST)
async def test_a_healthy_cluster(sim: Sim) -> None:
    """One line and exit code 0; what is kept away from a Node is shown for this Node only."""
    install(sim, plugin(SKU))
    install(sim, GKM_AGENT)
    await sim.start_controller()
    await sim.apply(node_claim(NAME, taints=[TAINT]))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 900, "the claim is Ready")
    ended = await doctor(sim)
    assert (ended.code, ended.out) == (0, "every Node has its GPUs: 1 ready\n")
    assert requests(sim) == ["nodeclaims", "nodes"]
    ended = await doctor(sim, NAME)
    assert ended.code == 0
    assert "nvidia.com/gpu: 1 of 1 allocatable" in ended.out
    assert "    DaemonSet gkm-system/gkm-agent does not tolerate taint sku=gpu:NoSchedule\n" in ended.out


@simulated(azure=FAST)
async def test_lost_gpus_are_reported_before_the_condition(sim: Sim) -> None:
    """The claim is Ready for six minutes after its plugin stopped; the command says at once what is missing."""
    install(sim, plugin(SKU))
    await sim.start_controller()
    await sim.apply(node_claim(NAME, taints=[TAINT]))
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 900, "the claim is Ready")
    sim.nodes.kill_plugin(node_name(sim))
    await asyncio.sleep(15)
    assert sim.condition(NAME, "Ready") == "True"
    ended = await doctor(sim)
    assert ended.code == 3
    assert "  nvidia.com/gpu: 0 of 1 allocatable\n  cause: NoDevices: " in ended.out


@simulated(azure=FAST)
async def test_for_programs(sim: Sim) -> None:
    """JSON has the same content, with the tolerations as objects."""
    install(sim, plugin())
    node = await starting(sim)
    ended = await doctor(sim, NAME, "-o", "json")
    assert ended.code == 3
    found = json.loads(ended.out)
    (machine,) = found["machines"]
    assert (machine["claim"], machine["node"], machine["ready"]) == (NAME, node, False)
    assert (machine["resource"], machine["allocatable"], machine["expected"]) == ("nvidia.com/gpu", 0, 1)
    assert machine["diagnosis"]["cause"] == "PluginKeptAway"
    added = [{"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]
    assert machine["diagnosis"]["tolerations"] == added
    assert machine["workloads"][0]["tolerations"] == added
    assert (found["ready"], found["withoutNode"]) == (0, 0)


@simulated(azure=FAST)
async def test_requests_do_not_grow_with_the_cluster(sim: Sim) -> None:
    """Up to five Nodes: a LIST of pods each; more: one LIST of all pods that are bound."""
    install(sim, plugin(SKU, nodeSelector={"a": "b"}))
    sim.nodes.plugin_delay_seconds = 1e6
    await sim.start_controller()
    for number in range(3):
        await sim.apply(node_claim(f"gpu{number}", taints=[TAINT]))
    await sim.until(
        lambda: all(sim.condition(f"gpu{number}", "Registered") == "True" for number in range(3)), 900, "registered"
    )
    assert (await doctor(sim)).code == 3
    assert requests(sim) == ["nodeclaims", "nodes", "pods", "pods", "pods", "daemonsets", "jobs"]
    for number in range(3, 8):
        await sim.apply(node_claim(f"gpu{number}", taints=[TAINT]))
    await sim.until(
        lambda: all(sim.condition(f"gpu{number}", "Registered") == "True" for number in range(8)), 900, "registered"
    )
    before = len(requests(sim))
    ended = await doctor(sim)
    assert requests(sim)[before:] == ["nodeclaims", "nodes", "pods", "daemonsets", "jobs"]
    assert ended.out.endswith("8 machines lack GPUs or are not initialized; 0 ready\n")


@simulated(azure=FAST)
async def test_refusals(sim: Sim) -> None:
    """An unknown name, and missing permissions: Jobs are left out, without DaemonSets there is no report."""
    await starting(sim)
    unknown = await doctor(sim, "nobody")
    assert unknown.code == 1
    assert unknown.err.startswith("no NodeClaim of this controller, and no Node of one, is named nobody\n")
    without_jobs = refuse(sim, lambda call: call.target.kind == "jobs", 403, "Forbidden")
    ended = await doctor(sim)
    assert ended.code == 3
    assert ended.err.startswith("warning: Jobs are left out: ")
    without_jobs()
    refuse(sim, lambda call: call.target.kind == "daemonsets", 403, "Forbidden")
    ended = await doctor(sim)
    assert ended.code == 1
    assert "Request this permission" in ended.err


@simulated(azure=FAST)
async def test_a_claim_without_a_node(sim: Sim) -> None:
    """Its condition is shown; without a name only its number."""
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: sim.condition(NAME, "Launched") == "Unknown", 60, "the condition is written")
    ended = await doctor(sim, NAME)
    assert ended.code == 3
    assert ended.out.startswith(f"NodeClaim {NAME}, no Node yet\n  Launched is Unknown: Creating: ")
    ended = await doctor(sim)
    assert (ended.code, ended.out) == (0, "every Node has its GPUs: 0 ready, 1 NodeClaim without a Node\n")


@simulated(nodes=NodeSettings(dra_labels=OF_DRA))
async def test_gpus_that_a_dra_driver_publishes(sim: Sim) -> None:
    """A lost one is shown before the claim reports it, and no device plugin is missed."""
    node = await usable(sim)
    ended = await doctor(sim)
    assert (ended.code, ended.out) == (0, "every Node has its GPUs: 1 ready\n")
    sim.nodes.set_unhealthy_gpus(node, 1)
    await asyncio.sleep(5.0)
    assert sim.condition("one", "Ready") == "True"
    ended = await doctor(sim)
    assert ended.code == 3
    assert ended.out.splitlines()[:2] == [
        f"NodeClaim one, Node {node}",
        "  DRA driver gpu.nvidia.com: 7 of 8 published",
    ]
    assert "  cause: PartialDevices: DRA driver gpu.nvidia.com publishes 7 of 8" in ended.out
    assert "device plugin" not in ended.out
    (shown,) = json.loads((await doctor(sim, "-o", "json")).out)["machines"]
    assert (shown["driver"], shown["allocatable"], shown["expected"]) == ("gpu.nvidia.com", 7, 8)
