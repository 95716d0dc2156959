"""Pods, NodePools and Nodes as users and clusters have them, for the measurements of provisioning. Values only."""

from typing import Any

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
NODE_POOL = "gpu"
TOLERATION = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
# What kube-scheduler writes to a pod that fits no Node.
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5000 nodes are available"}
    ],
}


def node_class() -> Json:
    """The class of `node_pool`."""
    return {"apiVersion": "gpu-provisioner.sh/v1alpha1", "kind": "AgentPoolNodeClass", "metadata": {"name": "default"}}


def node_pool(**spec: Any) -> Json:
    """A NodePool of all sizes with GPUs, with a taint; `spec`: further fields."""
    template = {
        "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
        "requirements": [{"key": "karpenter.azure.com/sku-gpu-count", "operator": "Gt", "values": ["0"]}],
        "taints": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": NODE_POOL},
        "spec": {"template": {"spec": template}, **spec},
    }


def gpu_pod(name: str, gpus: int = 1) -> Json:
    """A pending pod with GPUs, and the CPU and memory that fill a small machine (3 CPU, 14 GiB for each GPU)."""
    amounts = {"cpu": f"{3 * gpus}", "memory": f"{14 * gpus}Gi", GPU: f"{gpus}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [
                {"name": "main", "image": "example.com/train", "resources": {"requests": amounts, "limits": amounts}}
            ],
            "tolerations": [TOLERATION],
            "terminationGracePeriodSeconds": 0,
        },
    }


def running_pod(number: int, node: str, workloads: int) -> Json:
    """A running pod of one of that many Deployments, of the size of pods in AKS: about 10 KB as JSON."""
    workload = f"service-{number % workloads}"
    own = {"app": workload, "pod-template-hash": f"{number % workloads:010x}", "team": f"team-{number % 20}"}
    names = (f"{workload}-{number:08x}", f"namespace-{number % 40}")
    environment = [{"name": f"SETTING_{n}", "value": f"value-of-{workload}-{n}" * 2} for n in range(40)]
    amounts = {"cpu": f"{100 + number % workloads}m", "memory": "256Mi"}
    now = "2026-01-01T00:00:00Z"
    container = {
        "name": "main",
        "image": f"example.com/{workload}:1.0",
        "env": environment,
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": [{"name": f"volume-{n}", "mountPath": f"/mnt/volume-{n}"} for n in range(4)],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
    }
    spread = {
        "labelSelector": {"matchLabels": {"app": workload}},
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
    }
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": now}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names[0],
            "namespace": names[1],
            "labels": own,
            "annotations": {f"example.com/annotation-{n}": "x" * 60 for n in range(10)},
            "managedFields": [_managed(environment, manager) for manager in ("kube-controller-manager", "kubelet")],
        },
        "spec": {
            "nodeName": node,
            "containers": [container],
            "topologySpreadConstraints": [spread],
            "volumes": [{"name": f"volume-{n}", "configMap": {"name": f"{workload}-{n}"}} for n in range(4)],
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "podIP": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
            "startTime": now,
            "containerStatuses": [{"name": "main", "image": container["image"], "ready": True, "restartCount": 0}],
        },
    }


def _managed(environment: list[Json], manager: str) -> Json:
    fields: Json = {f'k:{{"name":"{one["name"]}"}}': {".": {}, "f:name": {}, "f:value": {}} for one in environment}
    owned = {"f:spec": {"f:containers": {'k:{"name":"main"}': {"f:env": fields}}}}
    return {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": owned}
