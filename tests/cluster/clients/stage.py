"""The environment of kubectl tests: kubectl as a user runs it, and an HTTP client that writes as controllers do.

A test runs the same on both servers; no controller manages its claims, so that only the test and the server's defaults
write to them.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.backend import Backend
from tests.wire.kubectl import Kubectl

Json = dict[str, Any]

CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODES = "/api/v1/nodes"
MERGE = "application/merge-patch+json"
TERMINATION = "karpenter.sh/termination"

SPEC: Json = {
    "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
    "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_NC4as_T4_v3"]}],
    "resources": {"requests": {"storage": "128Gi"}},
}
LABELS = {
    "node.kubernetes.io/instance-type": "Standard_NC4as_T4_v3",
    "karpenter.sh/capacity-type": "on-demand",
    "topology.kubernetes.io/zone": "westeurope-1",
    "karpenter.sh/nodepool": "kaito",
}


def claim(name: str = "ws1", *, spec: Json | None = None, **metadata: Any) -> Json:
    """A NodeClaim as a user writes it; `spec` replaces or adds fields."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, **metadata},
        "spec": {**SPEC, **(spec or {})},
    }


def error_message(output: str) -> str:
    """The message of a CRD's rule; before it, 1.34 prints the type of the refused value, 1.36 the value if it is a
    string.
    """
    return re.sub(r'Invalid value: "[^"]*": ', "Invalid value: ", output)


def conditions(**statuses: str) -> list[Json]:
    """Conditions by type, as in `conditions(Launched="True", Ready="False")`."""
    common = {"lastTransitionTime": "2026-03-01T12:00:00Z", "reason": "Because", "message": ""}
    return [{"type": name, "status": status, **common} for name, status in statuses.items()]


@dataclass(frozen=True)
class Stage:
    """`kubectl` has the administrator's credentials."""

    backend: Backend
    kubectl: Kubectl = field(init=False)

    def __post_init__(self) -> None:
        home = self.backend.kubeconfig.parent
        object.__setattr__(self, "kubectl", Kubectl(home, self.backend.kubeconfig))

    async def create(self, path: str, body: Json) -> Json:
        """POST to a collection; the object as stored."""
        made: Json = await self.backend.demand("POST", path, body)
        return made

    async def get(self, path: str) -> Json:
        found: Json = await self.backend.demand("GET", path)
        return found

    async def patch(self, path: str, body: Json) -> Json:
        """A merge patch; the object as stored."""
        patched: Json = await self.backend.demand("PATCH", path, body, MERGE)
        return patched

    async def claim(self, name: str = "ws1", **metadata: Any) -> Json:
        """Create a NodeClaim; as stored."""
        return await self.create(CLAIMS, claim(name, **metadata))

    async def claims(self) -> list[Json]:
        items: list[Json] = (await self.get(CLAIMS))["items"]
        return items

    async def report(self, name: str, **status: Any) -> None:
        """Write a claim's status, as the controller does."""
        await self.patch(f"{CLAIMS}/{name}/status", {"status": status})

    async def release(self, name: str) -> None:
        """Remove all finalizers of a claim."""
        await self.patch(f"{CLAIMS}/{name}", {"metadata": {"finalizers": None}})

    async def node(self, name: str, **labels: str) -> Json:
        """A Node that its kubelet reports as Ready, with one GPU."""
        await self.create(NODES, {"metadata": {"name": name, "labels": labels}})
        known = ("machineID", "systemUUID", "bootID", "kernelVersion", "containerRuntimeVersion", "kubeProxyVersion")
        info = {"kubeletVersion": "v1.33.1", "osImage": "Ubuntu 22.04", "operatingSystem": "linux"}
        status = {
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "allocatable": {"nvidia.com/gpu": "1", "pods": "110"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.4"}],
            "nodeInfo": {**dict.fromkeys((*known, "architecture"), ""), **info},
        }
        return await self.patch(f"{NODES}/{name}/status", {"status": status})

    async def pod(self, name: str, *, node: str, namespace: str = "default", **metadata: Any) -> Json:
        """A pod that runs on that Node and is ready."""
        spec = {
            "nodeName": node,
            "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": 0,
        }
        pods = f"/api/v1/namespaces/{namespace}/pods"
        await self.create(pods, {"metadata": {"name": name, **metadata}, "spec": spec})
        container = {
            "name": "c",
            "ready": True,
            "restartCount": 0,
            "image": "i",
            "imageID": "",
            "state": {"running": {}},
        }
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [container],
        }
        return await self.patch(f"{pods}/{name}/status", {"status": status})

    async def event(self, of: Json, reason: str, message: str) -> None:
        """A warning about a claim, as the controller writes it."""
        named = {k: of[k] for k in ("apiVersion", "kind")} | {k: of["metadata"][k] for k in ("name", "uid")}
        body = {
            "metadata": {"name": f"{of['metadata']['name']}.{reason.lower()}"},
            "involvedObject": named,
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": "gpu-provisioner"},
            "count": 2,
            "firstTimestamp": of["metadata"]["creationTimestamp"],
            "lastTimestamp": of["metadata"]["creationTimestamp"],
        }
        await self.create("/api/v1/namespaces/default/events", body)
