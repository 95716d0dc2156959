"""What the cases create: small objects under names of their own, labelled with the case.

Promise: each function makes one request, asserts that it was accepted, and returns what the server answered.
Left to others: removing them (`Backend.clean`), the CRDs (`conftest.py`).
"""

from typing import Any

from .backend import Backend, Json

NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
WIDGETS = "/apis/conformance.example.com/v1/widgets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def at(collection: str, obj: Json, subresource: str = "") -> str:
    """The path of an object."""
    path = f"{collection}/{obj['metadata']['name']}"
    return f"{path}/{subresource}" if subresource else path


def meta(backend: Backend, prefix: str, **fields: Any) -> Json:
    """Metadata with a name and the case's label."""
    labels = {"case": backend.case, **fields.pop("labels", {})}
    return {"name": backend.name(prefix), "labels": labels, **fields}


async def node(backend: Backend, *, spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
    body = {"metadata": meta(backend, "node", **metadata), "spec": spec or {}, "status": status or {}}
    return await backend.done("POST", NODES, {"apiVersion": "v1", "kind": "Node", **body})


def claim_body(backend: Backend, *, spec: Json | None = None, **metadata: Any) -> Json:
    """A NodeClaim that the server accepts, changed by `spec`."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_NC24ads_A100_v4"]}
    least = {
        "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
        "requirements": [requirement],
    }
    head = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim"}
    return {**head, "metadata": meta(backend, "claim", **metadata), "spec": {**least, **(spec or {})}}


async def claim(backend: Backend, *, spec: Json | None = None, **metadata: Any) -> Json:
    return await backend.done("POST", CLAIMS, claim_body(backend, spec=spec, **metadata))


def widget_body(backend: Backend, *, spec: Json | None = None, **metadata: Any) -> Json:
    """A Widget of the suite's own CRD."""
    head = {"apiVersion": "conformance.example.com/v1", "kind": "Widget"}
    return {**head, "metadata": meta(backend, "widget", **metadata), "spec": spec or {"size": 1}}


async def widget(backend: Backend, *, spec: Json | None = None, **metadata: Any) -> Json:
    return await backend.done("POST", WIDGETS, widget_body(backend, spec=spec, **metadata))


async def pod(backend: Backend, *, on: str = "", ready: bool = False, phase: str = "", **metadata: Any) -> Json:
    """A pod, bound to the node `on` if that is given; a phase or readiness is written as its kubelet would."""
    spec: Json = {"containers": [{"name": "main", "image": "none"}]}
    if on:
        spec["nodeName"] = on
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(backend, "pod", **metadata), "spec": spec}
    made = await backend.done("POST", PODS, body)
    if not phase and not ready:
        return made
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"status": {"phase": phase or "Running", "conditions": conditions}}
    return await backend.patch(at(PODS, made, "status"), status)


async def lease(backend: Backend, holder: str = "one", **metadata: Any) -> Json:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 30,
        "renewTime": "2026-03-01T12:00:00.123456Z",
        "acquireTime": "2026-03-01T12:00:00.123456Z",
        "leaseTransitions": 0,
    }
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta(backend, "lease", **metadata)}
    return await backend.done("POST", LEASES, {**body, "spec": spec})


async def budget(backend: Backend, selects: Json, **spec: Any) -> Json:
    """A disruption budget for the pods with these labels."""
    head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(backend, "budget")}
    return await backend.done("POST", BUDGETS, {**head, "spec": {"selector": {"matchLabels": selects}, **spec}})


async def namespace(backend: Backend) -> str:
    """The name of a new namespace."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(backend, "ns")}
    return (await backend.done("POST", NAMESPACES, body))["metadata"]["name"]


async def listed(backend: Backend, collection: str, **query: Any) -> list[str]:
    """The names of this case's objects, in the server's order."""
    selector = ",".join(filter(None, [f"case={backend.case}", query.pop("labelSelector", "")]))
    found = await backend.get(collection, labelSelector=selector, **query)
    return [item["metadata"]["name"] for item in found["items"]]
