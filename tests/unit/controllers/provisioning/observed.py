"""Objects of a cluster as the caches hold them, for tests of the live snapshot."""

from typing import Any

import msgspec

from cloudprovider.azure.cloud import AksCloud
from controllers.provisioning.cluster import ClusterSnapshot, cluster_snapshot
from controllers.provisioning.instances import InstanceTypeCache
from controllers.provisioning.observed import Observed
from controllers.provisioning.pods import PodDigest
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.pod import Pod

REGION = "eastus"
CLOUD = AksCloud()
TYPES = InstanceTypeCache(CLOUD).in_region(REGION)
GPU = "nvidia.com/gpu"
T4 = "Standard_NC4as_T4_v3"
MOMENT = "2026-03-01T12:00:00Z"
FAILED = {"type": "Launched", "status": "False", "reason": "QuotaExceeded", "lastTransitionTime": MOMENT}
PENDING = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def pod(name: str, *, gpus: int = 1, on: str = "", meta: dict[str, Any] | None = None, **spec: Any) -> Pod:
    requests = {"cpu": "1", "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    return PodDigest()(
        msgspec.convert(
            {
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **(meta or {})},
                "spec": {"nodeName": on, "containers": [{"resources": {"requests": requests}}], **spec},
                "status": {} if on else PENDING,
            },
            Pod,
        )
    )


def node_pool(
    name: str = "gpu",
    *,
    requirements: list[Any] | None = None,
    labels: dict[str, str] | None = None,
    ready: str = "True",
    **spec: Any,
) -> NodePool:
    template = {
        "metadata": {"labels": {"team": "ml", **(labels or {})}, "annotations": {"note": "x"}},
        "spec": {
            "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
            "requirements": requirements or [],
            "taints": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}],
            "expireAfter": "720h",
        },
    }
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": MOMENT}
    body = {
        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": {"karpenter.sh/nodepool-hash": "1"}},
        "spec": {"template": template, **spec},
        "status": {"conditions": [condition]},
    }
    return msgspec.convert(body, NodePool)


OWN_CLASS = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}


def claim(name: str, *, size: str = T4, node: str = "", launched: str = "", **meta: Any) -> NodeClaim:
    """`launched`: the message of Launched=False."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [size]}
    body = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"karpenter.sh/nodepool": "gpu"}, **meta},
        "spec": {"requirements": [requirement], "nodeClassRef": OWN_CLASS},
        "status": {"nodeName": node, "conditions": [{**FAILED, "message": launched}] if launched else []},
    }
    return msgspec.convert(body, NodeClaim)


def node(name: str, *, gpus: int = 1, labels: dict[str, str] | None = None, **meta: Any) -> Node:
    amounts = {"cpu": "4", "memory": "28Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    body = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}, **meta},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    return msgspec.convert(body, Node)


CONTROLLED = {
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
}
TOLERATES = [{"key": "sku", "operator": "Exists"}]


def observe(**parts: Any) -> ClusterSnapshot:
    given: dict[str, Any] = {"node_pools": (node_pool(),), "nodes": (), "claims": (), "pods": (), "max_new": 90}
    return cluster_snapshot(Observed(**{**given, **parts}), TYPES)
