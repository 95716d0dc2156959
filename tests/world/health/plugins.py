"""Device plugins as DaemonSets of the simulated cluster: their manifests, their pods, and what these do."""

from typing import Any

from provisioner.simulator.audit_log import Call
from tests.world.harness import Json, Sim
from tests.world.main_job import NAME

DAEMON_SETS, JOBS = "daemonsets.apps", "jobs.batch"
SKU = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
PLUGIN = "nvidia-device-plugin-daemonset"
IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.18.2"


def plugin(*tolerations: Json, **spec: Any) -> Json:
    """NVIDIA's device plugin."""
    sockets = {"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    containers = [{"name": "nvidia-device-plugin-ctr", "image": IMAGE}]
    spec = {"containers": containers, "volumes": [sockets], "tolerations": [*tolerations], **spec}
    return daemon_set(PLUGIN, "kube-system", **spec)


def daemon_set(name: str, namespace: str, **spec: Any) -> Json:
    """A DaemonSet with one container."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    selector = {"matchLabels": {"app": name}}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta,
            "spec": {"selector": selector, "template": template}}  # fmt: skip


def install(sim: Sim, manifest: Json) -> None:
    """Create the object, and its namespace."""
    resource, namespace = DAEMON_SETS if manifest["kind"] == "DaemonSet" else JOBS, manifest["metadata"]["namespace"]
    if sim.store.get("namespaces", namespace) is None:
        sim.store.create("namespaces", {"metadata": {"name": namespace}})
    sim.store.create(resource, manifest, namespace)


def plugin_pod(sim: Sim, name: str = NAME) -> Json | None:
    """The plugin's pod on the claim's Node."""
    nodes = sim.nodes_of(name)
    on = nodes[0]["metadata"]["name"] if nodes else ""
    pods = sim.store.list("pods", fields=f"spec.nodeName={on}") if on else []
    return next((pod for pod in pods if pod["metadata"]["name"].startswith(PLUGIN)), None)


def fail_plugin(sim: Sim, reason: str, restarts: int) -> None:
    """The plugin's container waits for this reason."""
    pod = plugin_pod(sim)
    assert pod is not None
    state = {"waiting": {"reason": reason}}
    waiting = [{"name": "ctr", "ready": False, "restartCount": restarts, "state": state, "image": "", "imageID": ""}]
    meta = pod["metadata"]
    status = {"phase": "Running", "containerStatuses": waiting}
    sim.store.patch("pods", meta["name"], {"status": status}, meta["namespace"], subresource="status")


def message(sim: Sim, kind: str = "Initialized") -> str:
    """The message of a condition of the claim."""
    found = ((sim.claim(NAME) or {}).get("status") or {}).get("conditions") or ()
    return next((one.get("message", "") for one in found if one["type"] == kind), "")


def reads(sim: Sim, kind: str) -> list[Call]:
    """The controllers' LISTs of this kind."""
    return [one for one in sim.audit_log.calls(verb="LIST", kind=kind) if one.who.startswith("ctl")]
