"""NodePools, their class and pending pods, as users create them, for stories of provisioning."""

import asyncio
from typing import Any

from .harness import Json, Sim

T4 = "Standard_NC4as_T4_v3"
GPU = "nvidia.com/gpu"
TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
TOLERATION = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}


def node_class(name: str = "default") -> Json:
    return {"apiVersion": "gpu-provisioner.sh/v1alpha1", "kind": "AgentPoolNodeClass", "metadata": {"name": name}}


def node_pool(name: str = "gpu", **spec: Any) -> Json:
    """A NodePool of GPU machines with a taint."""
    template = {
        "metadata": {"labels": {"team": "ml"}},
        "spec": {
            "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
            "requirements": [
                {"key": "karpenter.azure.com/sku-gpu-count", "operator": "Gt", "values": ["0"]},
                *spec.pop("requirements", ()),
            ],
            "taints": [TAINT],
        },
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def pod(name: str, *, gpus: int = 1, tolerates: bool = True, **spec: Any) -> Json:
    """A pod that requests GPUs."""
    amounts = {"cpu": "1", "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "trainer", "resources": {"requests": amounts, "limits": amounts}}],
            "tolerations": [TOLERATION] if tolerates else [],
            **spec,
        },
    }


async def pending(sim: Sim, *pods: Json) -> None:
    """Create pods; kube-scheduler finds them unschedulable as no Node takes them."""
    for one in pods:
        await sim.apply(one)


def workload(sim: Sim, kind: str, name: str, **spec: Any) -> None:
    """A pod `name-0` of a ReplicaSet or StatefulSet, which creates the next one as soon as it may."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    replaced: set[str] = set()

    def create(number: int) -> None:
        body = pod(f"{name}-{number}", **spec)
        sim.store.create("pods", {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}, "default")

    def changed(event: str, resource: str, obj: Json, _: object) -> None:
        meta = obj["metadata"]
        if resource != "pods" or owner not in meta.get("ownerReferences", ()) or meta["uid"] in replaced:
            return
        stateful = kind == "StatefulSet"
        if event == "DELETED" or ("deletionTimestamp" in meta and not stateful):
            replaced.add(meta["uid"])
            number = 0 if stateful else int(meta["name"].rpartition("-")[2]) + 1
            asyncio.get_running_loop().call_soon(create, number)

    sim.store.subscribe(changed)
    create(0)


def claims_of(sim: Sim, pool: str = "gpu") -> list[Json]:
    """The NodeClaims of a NodePool."""
    return sim.store.list("nodeclaims.karpenter.sh", labels=f"karpenter.sh/nodepool={pool}")


def pod_events(sim: Sim, name: str) -> list[tuple[str, str]]:
    """Reason and message of the controller's Events of a pod, the oldest first."""
    found = sim.store.list("events", fields=f"involvedObject.kind=Pod,involvedObject.name={name}")
    return [
        (event["reason"], event["message"])
        for event in sorted(found, key=lambda event: str(event["metadata"]["creationTimestamp"]))
        if event.get("reportingComponent") != "default-scheduler"
    ]


async def with_node_pool(sim: Sim, **spec: Any) -> None:
    """A controller, a NodePool and its class."""
    await sim.apply(node_class())
    await sim.apply(node_pool(**spec))
    await sim.start_controller()
    await sim.until(lambda: watches_pods(sim), 60.0, "pods are watched")


def watches_pods(sim: Sim) -> bool:
    return any(call.verb == "WATCH" and call.target.kind == "pods" for call in sim.audit_log.calls())


def sizes(sim: Sim) -> list[str]:
    """The first instance type of each NodeClaim."""
    found = []
    for claim in claims_of(sim):
        required = {one["key"]: one for one in claim["spec"]["requirements"]}
        found.append(required["node.kubernetes.io/instance-type"]["values"][0])
    return found
