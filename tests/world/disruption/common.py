"""What the tests of disruption share: fleets of NodePools, and what is observed of them."""

from collections.abc import Callable, Iterator
from typing import Any

from provisioner.simulator.audit_log import Call
from tests.world.claims import condition
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod, workload
from tests.world.harness import Json, Sim
from tests.world.transcript import refuse

T4_64, A100 = "Standard_NC64as_T4_v3", "Standard_NC24ads_A100_v4"
POOLS = "nodepools.karpenter.sh"
CLAIMS = "nodeclaims.karpenter.sh"
SIZES = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [T4]}]
TRUE = {"karpenter.sh/do-not-disrupt": "true"}
PROTECTED = "admission policy: this NodeClaim is protected"


def marks(sim: Sim) -> list[str]:
    """What disruption commands have left on NodeClaims that are not being deleted, and on Nodes."""
    claims = [one for one in claims_of(sim) if "deletionTimestamp" not in one["metadata"]]
    return [*_annotations([*claims, *sim.store.list("nodes")]), *_conditions(claims), *tainted(sim)]


def _annotations(objects: list[Json]) -> Iterator[str]:
    keys = ("disruption-command", "replacement-command", "replaces", "replacements")
    for one in objects:
        found = one["metadata"].get("annotations") or {}
        yield from (f"{one['metadata']['name']} {key}" for key in keys if f"gpu-provisioner.sh/{key}" in found)


def _conditions(claims: list[Json]) -> Iterator[str]:
    return (f"{one['metadata']['name']} DisruptionReason" for one in claims if condition(one, "DisruptionReason"))


def allow(sim: Sim, *names: str) -> None:
    """The sizes that the NodePool buys."""
    sim.store.patch(POOLS, "gpu", {"spec": {"template": node_pool(requirements=sizes(*names))["spec"]["template"]}})


def sizes(*names: str) -> list[dict[str, Any]]:
    return [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [*names]}]


def replica(sim: Sim, name: str, **spec: Any) -> None:
    """A pod of a ReplicaSet, which is scaled down when the pod is deleted."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    body = pod(name, **spec)
    sim.store.create("pods", {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}, "default")


def annotated(claim: Json) -> bool:
    return "gpu-provisioner.sh/disruption-command" in (claim["metadata"].get("annotations") or {})


def stated(claim: Json) -> bool:
    return condition(claim, "DisruptionReason").get("status") == "True"


async def fleet(sim: Sim, *names: str, policy: str = "WhenEmptyOrUnderutilized", **pods: int) -> None:
    """ReplicaSets, each with a pod that requests so many GPUs, on machines of these sizes."""
    await sim.apply(node_class())
    disruption = {"consolidateAfter": "30s", "consolidationPolicy": policy, "budgets": [{"nodes": "100%"}]}
    await sim.apply(node_pool(requirements=sizes(*names), disruption=disruption))
    await sim.start_controller()
    for name, gpus in pods.items():
        workload(sim, "ReplicaSet", name, gpus=gpus)
    await sim.until(lambda: running(sim) == len(pods), 1800.0, "the pods run")


def budget(nodes: str) -> dict[str, Any]:
    return {"consolidateAfter": "0s", "budgets": [{"nodes": nodes, "reasons": ["Drifted"]}]}


async def static(sim: Sim, replicas: int, nodes: str = "1", **spec: Any) -> None:
    await sim.apply(node_class())
    await sim.apply(node_pool(replicas=replicas, requirements=SIZES, disruption=budget(nodes), **spec))
    await sim.start_controller()
    await sim.until(lambda: ready(sim) == numbers(1, replicas), 1800.0, "the machines")


def numbers(first: int, last: int) -> list[str]:
    return [f"gpu-{number}" for number in range(first, last + 1)]


def ready(sim: Sim) -> list[str]:
    """The NodeClaims that are Ready and not being deleted."""
    found = [one for one in claims_of(sim) if condition(one, "Ready").get("status") == "True"]
    return sorted(one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"])


def live(sim: Sim) -> list[str]:
    return sorted(one["metadata"]["name"] for one in claims_of(sim) if "deletionTimestamp" not in one["metadata"])


def drift(sim: Sim, *names: str) -> None:
    """As if they had been created from another template."""
    for name in names:
        sim.store.patch(CLAIMS, name, {"metadata": {"annotations": {"karpenter.sh/nodepool-hash": "of another one"}}})


def tainted(sim: Sim) -> list[str]:
    found = sim.store.list("nodes")
    return [
        one["metadata"]["name"]
        for one in found
        if any(taint["key"] == "karpenter.sh/disrupted" for taint in one["spec"].get("taints", ()))
    ]


async def passes(sim: Sim, seconds: float) -> None:
    end = sim.now + seconds
    await sim.until(lambda: sim.now >= end, seconds + 60.0, "some time")


async def dynamic(sim: Sim, *pods: str, nodes: str = "100%", **spec: Any) -> None:
    """A machine for each of these pods, which ReplicaSets create again."""
    await sim.apply(node_class())
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": nodes, "reasons": ["Drifted"]}]}
    await sim.apply(node_pool(requirements=SIZES, disruption=disruption, **spec))
    await sim.start_controller()
    for name in pods:
        workload(sim, "ReplicaSet", name)
    await sim.until(lambda: len(ready(sim)) == len(pods) and running(sim) == len(pods), 1800.0, "the machines")


def running(sim: Sim) -> int:
    return sum(one["status"].get("phase") == "Running" for one in sim.store.list("pods"))


def disruption(after: str, *budgets: dict[str, Any]) -> dict[str, Any]:
    return {"consolidateAfter": after, "budgets": [*budgets] or [{"nodes": "100%"}]}


async def one_pod_each(sim: Sim, count: int, *, after: str = "30s", budget: dict[str, Any] | None = None) -> None:
    """So many pods run, each on a machine of its own."""
    await sim.apply(node_class())
    await sim.apply(node_pool(disruption=disruption(after, *([budget] if budget else []))))
    await sim.start_controller()
    await pending(sim, *(pod(name) for name in names(count)))
    await sim.until(lambda: all(phase(sim, name) == "Running" for name in names(count)), 1800.0, "the pods run")


def names(count: int) -> list[str]:
    return [f"p{number}" for number in range(count)]


def phase(sim: Sim, name: str) -> str:
    found = sim.store.get("pods", name, "default")
    return found["status"]["phase"] if found is not None else ""


def leaving(sim: Sim) -> list[str]:
    return [claim["metadata"]["name"] for claim in claims_of(sim) if "deletionTimestamp" in claim["metadata"]]


def events(sim: Sim, kind: str, reason: str) -> set[str]:
    found = sim.store.list("events", fields=f"involvedObject.kind={kind},reason={reason}")
    return {event["message"] for event in found}


def annotate_claim(sim: Sim, _: str) -> None:
    sim.store.patch(CLAIMS, "gpu-1", {"metadata": {"annotations": TRUE}})


def refuse_deletion(sim: Sim, name: str, status: int = 403) -> Callable[[], None]:
    return refuse(sim, lambda call: deletes(call, name), status, "Forbidden", PROTECTED)


def deletes(call: Call, name: str) -> bool:
    return call.verb == "DELETE" and call.target.kind == "nodeclaims" and call.target.name == name


def deletions(sim: Sim, name: str, *, dry_run: bool) -> int:
    """How many requests to delete this NodeClaim there were, or dry runs of them."""
    found = sim.audit_log.calls(verb="DELETE", kind="nodeclaims", name=name)
    return sum(call.dry_run is dry_run for call in found)


def created(sim: Sim) -> int:
    """How many requests to create a NodeClaim there were."""
    return len(sim.audit_log.calls(verb="POST", kind="nodeclaims"))
