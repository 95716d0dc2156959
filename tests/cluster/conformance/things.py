"""Creates small objects under names of their own, labelled with the test.

Each function sends one request, asserts that it was accepted, and returns the response.
"""

from typing import Any

from .server import Json, Server

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


def meta(server: Server, prefix: str, **fields: Any) -> Json:
    """Metadata with a name and the test's label."""
    labels = {"case": server.case, **fields.pop("labels", {})}
    return {"name": server.name(prefix), "labels": labels, **fields}


async def node(server: Server, *, spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
    body = {"metadata": meta(server, "node", **metadata), "spec": spec or {}, "status": status or {}}
    return await server.done("POST", NODES, {"apiVersion": "v1", "kind": "Node", **body})


def claim_body(server: Server, *, spec: Json | None = None, **metadata: Any) -> Json:
    """A valid NodeClaim, changed by `spec`."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_NC24ads_A100_v4"]}
    least = {
        "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
        "requirements": [requirement],
    }
    head = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim"}
    return {**head, "metadata": meta(server, "claim", **metadata), "spec": {**least, **(spec or {})}}


async def claim(server: Server, *, spec: Json | None = None, **metadata: Any) -> Json:
    return await server.done("POST", CLAIMS, claim_body(server, spec=spec, **metadata))


def widget_body(server: Server, *, spec: Json | None = None, **metadata: Any) -> Json:
    """A Widget of the suite's own CRD."""
    head = {"apiVersion": "conformance.example.com/v1", "kind": "Widget"}
    return {**head, "metadata": meta(server, "widget", **metadata), "spec": spec or {"size": 1}}


async def widget(server: Server, *, spec: Json | None = None, **metadata: Any) -> Json:
    return await server.done("POST", WIDGETS, widget_body(server, spec=spec, **metadata))


async def pod(server: Server, *, on: str = "", ready: bool = False, phase: str = "", **metadata: Any) -> Json:
    """A pod, bound to the node `on` if that is given; phase or readiness is written as its kubelet would."""
    spec: Json = {"containers": [{"name": "main", "image": "none"}]}
    if on:
        spec["nodeName"] = on
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(server, "pod", **metadata), "spec": spec}
    made = await server.done("POST", PODS, body)
    if not phase and not ready:
        return made
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"status": {"phase": phase or "Running", "conditions": conditions}}
    return await server.patch(at(PODS, made, "status"), status)


async def lease(server: Server, holder: str = "one", **metadata: Any) -> Json:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 30,
        "renewTime": "2026-03-01T12:00:00.123456Z",
        "acquireTime": "2026-03-01T12:00:00.123456Z",
        "leaseTransitions": 0,
    }
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta(server, "lease", **metadata)}
    return await server.done("POST", LEASES, {**body, "spec": spec})


async def budget(server: Server, selects: Json, **spec: Any) -> Json:
    """A disruption budget for the pods with these labels."""
    head = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(server, "budget")}
    return await server.done("POST", BUDGETS, {**head, "spec": {"selector": {"matchLabels": selects}, **spec}})


async def namespace(server: Server) -> str:
    """The name of a new namespace."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(server, "ns")}
    return (await server.done("POST", NAMESPACES, body))["metadata"]["name"]


async def listed(server: Server, collection: str, **query: Any) -> list[str]:
    """The names of this test's objects, in the server's order."""
    selector = ",".join(filter(None, [f"case={server.case}", query.pop("labelSelector", "")]))
    found = await server.get(collection, labelSelector=selector, **query)
    return [item["metadata"]["name"] for item in found["items"]]
