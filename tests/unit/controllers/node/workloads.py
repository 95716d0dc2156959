"""DaemonSets, Jobs and pods as their manifests have them, for tables of what keeps them from a Node."""

from typing import Any

import msgspec

from provisioner.api.pod import Pod
from provisioner.api.workload import DaemonSet, Job
from tests.unit.builders import NODE

SOCKETS = {"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
SKU = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
PLUGIN, IMAGE = "nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.18.2"
DRA_IMAGE = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v25.12.0"
# The affinity of NVIDIA's chart (docs/references/kubernetes.md#device-plugins-in-a-cluster).
FEATURES = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
                for key, value in (
                    ("feature.node.kubernetes.io/pci-10de.present", "true"),
                    ("feature.node.kubernetes.io/cpu-model.vendor_id", "NVIDIA"),
                    ("nvidia.com/gpu.present", "true"),
                )
            ]
        }
    }
}


def plugin(name: str = PLUGIN, *, image: str = IMAGE, **spec: Any) -> DaemonSet:
    """NVIDIA's device plugin, which tolerates the taint of KAITO's claims unless `spec` says otherwise."""
    container = {"name": "ctr", "image": image, "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "false"}]}
    made = {"containers": [container], "volumes": [SOCKETS], "tolerations": [SKU], **spec}
    return daemon_set(name, **made)


def dra_driver(name: str = "dra-nvidia", *, image: str = DRA_IMAGE, **spec: Any) -> DaemonSet:
    """NVIDIA's DRA driver."""
    containers = [{"name": "compute-domains", "image": image}, {"name": "gpus", "image": image}]
    plugins = {"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/plugins"}}
    return daemon_set(name, **{"containers": containers, "volumes": [plugins], "tolerations": [SKU], **spec})


def daemon_set(name: str, *, namespace: str = "kube-system", **spec: Any) -> DaemonSet:
    """A DaemonSet whose UID is its name."""
    meta = {"name": name, "namespace": namespace, "uid": name}
    return msgspec.convert({"metadata": meta, "spec": {"template": {"spec": spec}}}, DaemonSet)


def job(name: str, *, status: dict[str, Any] | None = None, labels: dict[str, str] | None = None, **spec: Any) -> Job:
    """A Job with one active pod that is not Ready."""
    meta = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    waiting = {"active": 1, "ready": 0} if status is None else status
    return msgspec.convert({"metadata": meta, "spec": {"template": {"spec": spec}}, "status": waiting}, Job)


def pod(owner: str = PLUGIN, *, phase: str = "Running", on: str = NODE, meta: Any = None, **status: Any) -> Pod:
    """A pod of that DaemonSet on the Node; "" is a pod without a Node, created for it."""
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner, "uid": owner, "controller": True}
    head = {"name": f"{owner}-x7k2p", "namespace": "kube-system", "uid": "p", "ownerReferences": [reference]}
    selects = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [selects]}}
    made = {
        "metadata": {**head, **(meta or {})},
        "spec": {"nodeName": on, "affinity": {"nodeAffinity": required}},
        "status": {"phase": phase, **status},
    }
    return msgspec.convert(made, Pod)


def waiting(reason: str, restarts: int = 0) -> list[dict[str, Any]]:
    """The status of one container that waits for this reason."""
    return [{"name": "ctr", "restartCount": restarts, "state": {"waiting": {"reason": reason}}}]
