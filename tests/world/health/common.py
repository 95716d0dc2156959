"""What the tests of node health share: machines with faults, and what is observed of their repair."""

import asyncio
import dataclasses
from datetime import timedelta
from functools import partial
from typing import Any

from provisioner.api import labels
from provisioner.runtime.metrics import Metrics
from tests.world.azure_role import AZURE_ACTIONS, QUOTA_ACTIONS
from tests.world.demand import node_class, node_pool
from tests.world.harness import EPOCH, Json, Sim, node_claim
from tests.world.main_job import NAME
from tests.world.transcript import FAST, MINUTE, node_name, node_of

from .plugins import TAINT, plugin_pod

READABLE = dataclasses.replace(FAST, actions=AZURE_ACTIONS | QUOTA_ACTIONS)
POOLS = "nodepools.karpenter.sh"
FIRST = "gpu-1"
NEVER = 1e6
# From Registered until the repair is due.
DUE = 20 * MINUTE
EIGHT = "Standard_ND96isr_H100_v5"
# Six minutes until missing GPUs are a loss.
LOSS = 6 * MINUTE


def node_of_first(sim: Sim) -> str:
    """The name of the Node of the NodePool's first claim, whose pool has another name than the claim."""
    return (sim.claim(FIRST) or {})["status"]["nodeName"]


def limit_nodes(sim: Sim, most: str) -> None:
    sim.store.patch(POOLS, "gpu", {"spec": {"limits": {"nodes": most}}})


def cordoned(sim: Sim) -> bool:
    """Whether the Node takes no new pods."""
    node = sim.store.get("nodes", node_of_first(sim))
    assert (labels.CORDONED_AT in node["metadata"].get("annotations", {})) is bool(node["spec"].get("unschedulable"))
    return bool(node["spec"].get("unschedulable"))


async def starting(sim: Sim, **claim: Any) -> str:
    """A claim whose Node is Ready and whose device plugin does nothing by itself; the Node's name."""
    sim.nodes.plugin_delay_seconds = NEVER
    await sim.start_controller()
    await sim.apply(node_claim(NAME, taints=[TAINT], **claim))
    await sim.until(lambda: sim.condition(NAME, "Registered") == "True", 900, "the Node is registered")
    await sim.until(lambda: is_ready(sim), 300, "the Node is Ready")
    return node_name(sim)


def is_ready(sim: Sim) -> bool:
    """Whether the claim's Node is Ready, without the taint of a Node that is not."""
    node = node_of(sim)
    ready = [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"]
    return ready == ["True"] and not any(
        one["key"] == "node.kubernetes.io/not-ready" for one in node["spec"].get("taints") or ()
    )


async def running(sim: Sim) -> None:
    """Wait until the plugin's pod runs on the Node."""

    def runs() -> bool:
        pod = plugin_pod(sim)
        return pod is not None and pod["status"].get("phase") == "Running"

    await sim.until(runs, MINUTE, "the plugin's pod runs")


def lacks_one(sim: Sim, *, capacity: int = 8, only: tuple[str, ...] = ()) -> None:
    """Each machine comes with 7 GPUs of 8; `only` those of these claims. Without the eighth in capacity, its plugin
    omits it.
    """
    sim.nodes.plugin_delay_seconds = 24 * 60 * MINUTE
    seen = set[str]()

    def look(_: str, resource: str, node: Json, __: Json | None) -> None:
        meta = node["metadata"]
        conditions = (node.get("status") or {}).get("conditions", ())
        if (
            resource != "nodes"
            or meta["uid"] in seen
            or not any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)
        ):
            return
        seen.add(meta["uid"])
        short = not only or meta["labels"].get("agentpool") in only
        given = (capacity, capacity - 7) if short else (8, 0)
        asyncio.get_running_loop().call_soon(lambda: sim.nodes.set_gpus(meta["name"], given[0], unhealthy=given[1]))

    sim.store.subscribe(look)


async def short(sim: Sim, name: str = NAME, **claim: Json) -> str:
    """A claim whose machine lacks a GPU is registered; its UID."""
    await sim.apply(node_claim(name, size=EIGHT, **claim))
    await sim.until(lambda: sim.condition(name, "Registered") == "True", 400, "its Node is here")
    return uid_of(sim, name)


async def kept(sim: Sim) -> str:
    """A machine with 7 of 8 GPUs, in whose place no other one can be had; the name of its Node."""
    lacks_one(sim)
    plugin(sim)
    await sim.start_controller()
    await sim.apply(node_class())
    sizes = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [EIGHT]}]
    await sim.apply(node_pool(requirements=sizes, replicas=1))
    await sim.until(lambda: sim.condition(FIRST, "Registered") == "True", 600, "its Node is here")
    limit_nodes(sim, "0")
    return node_of_first(sim)


async def bought(sim: Sim, most: int, *, releases: bool = False) -> int:
    """An owner creates the next claim when its last one is gone: how many until one is kept for 70 min."""
    for number in range(most):
        name = f"gpu{number}"
        if releases:
            sim.cloud.release_node_image(f"202608.{11 + number}.0")
        await short(sim, name)
        try:
            await sim.until(partial(deleted, sim, name), 70 * MINUTE, "it is replaced")
        except AssertionError:
            return number + 1
        await sim.until(partial(gone, sim, name), 30 * MINUTE, "it is gone")
    return most


async def restarts(sim: Sim, node: str, seconds: float) -> None:
    """No GPU is allocatable for so long."""
    sim.nodes.set_gpus(node, 8, unhealthy=8)
    await asyncio.sleep(seconds)
    if node in sim.nodes.machines:
        sim.nodes.set_gpus(node, 8, unhealthy=1)
    await asyncio.sleep(10 * MINUTE)


def deleted(sim: Sim, name: str = NAME) -> bool:
    """Whether a controller has deleted this claim."""
    return bool([call for call in sim.audit_log.calls(verb="DELETE", kind="nodeclaims", name=name) if call.status])


def annotations(sim: Sim, name: str = NAME) -> Json:
    """A claim's annotations, without the record of the labels that the controller wrote."""
    found = (sim.claim(name) or {"metadata": {}})["metadata"].get("annotations") or {}
    return {key: value for key, value in found.items() if key != labels.INSTANCE_LABELS}


def value(metrics: Metrics, name: str, **reported: str) -> float:
    """The value of a metric, as an alert reads it."""
    return metrics.registry.get_sample_value(f"gpu_provisioner_{name}", reported) or 0.0


def report_to_node(sim: Sim, node: str, reason: str) -> None:
    """Record an Event of AKS's auto-repair about a Node, in namespace `default`."""
    moment = (EPOCH + timedelta(seconds=sim.now)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "metadata": {"name": f"{node}.{reason.lower()}"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
        "reason": reason,
        "message": f"Node auto-repair: {reason}",
        "type": "Normal",
        "source": {"component": "aks-auto-repair"},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
    sim.store.create("events", body, "default")


async def replaced(sim: Sim, uid: str, name: str = NAME, within_seconds: float = 3 * MINUTE) -> None:
    """Wait until the claim of that UID, its pool and its Node are removed, in order."""
    await sim.until(lambda: not sim.pools_of(uid), within_seconds, f"the pool of {name} is gone")
    await sim.until(lambda: sim.claim(name) is None, 30, f"claim {name} is gone")
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]


def uid_of(sim: Sim, name: str) -> str:
    return (sim.claim(name) or {})["metadata"]["uid"]


def plugin(sim: Sim, **spec: Any) -> None:
    """Install a device plugin as a DaemonSet; `spec` of its pods."""
    sockets = {"name": "sockets", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    container = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}
    tolerations = [{"key": "sku", "operator": "Exists"}, {"key": "nvidia.com/gpu", "operator": "Exists"}]
    template = {"containers": [container], "volumes": [sockets], "tolerations": tolerations, **spec}
    head: Json = {"metadata": {"labels": {"name": "nvidia-device-plugin-ds"}}, "spec": template}
    meta = {"name": "nvidia-device-plugin-daemonset", "namespace": "kube-system"}
    sim.store.create("daemonsets.apps", {"metadata": meta, "spec": {"template": head}}, "kube-system")


def set_condition(sim: Sim, condition: str, status: str, name: str = NAME) -> None:
    """Set a condition of the claim's Node, as an agent does."""
    sim.nodes.set_condition(node_name(sim, name), condition, status, "Found", "found by an agent")


def other(status: str) -> str:
    return "False" if status == "True" else "True"


def gone(sim: Sim, name: str) -> bool:
    return sim.claim(name) is None


async def annotate(sim: Sim, name: str, **notes: str | None) -> None:
    """Annotate a claim as a user does."""
    path, merge = f"/apis/karpenter.sh/v1/nodeclaims/{name}", "application/merge-patch+json"
    values = {labels.REPAIR: notes["repair"]}
    await sim.request("PATCH", path, {"metadata": {"annotations": values}}, content_type=merge)


def unschedulable(sim: Sim, name: str = NAME) -> bool:
    """Whether the claim's Node takes no new pods."""
    return bool(sim.nodes_of(name)[0]["spec"].get("unschedulable"))


def train(sim: Sim, node: str, gpus: int = 1, *, pod: str = "trains") -> None:
    """A pod that computes on GPUs of the Node."""
    resources = {key: {"nvidia.com/gpu": str(gpus)} for key in ("requests", "limits")}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": resources}]}
    sim.store.create("pods", {"metadata": {"name": pod}, "spec": spec}, "default")
