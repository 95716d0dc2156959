"""A cluster as Azure/gpu-provisioner leaves it: its claims, pools and Nodes, in any phase.

They have what that program, and Karpenter inside it, write: pools without tags, identified by the labels that it forces
(`kaito.sh/creation-timestamp` is the *claim's* creation time, with dashes); Karpenter's finalizer, owner reference and
labels on Nodes; conditions with its reasons. They have no caller and exist when the new controller starts.

Source: docs/references/karpenter.md#managed-objects, docs/references/karpenter.md#condition-mechanics,
docs/references/karpenter.md#labels-annotations-and-taints, docs/references/kaito.md#what-azuregpu-provisioner-writes,
docs/references/agent-pools.md#names-and-ids.
"""

from typing import Any

from provisioner.api import labels
from provisioner.simulator.azure.agentpool import Pool

from .claims import node_is_ready
from .harness import SIZE, node_claim
from .stage import Stage
from .transcript import CLAIMS

Json = dict[str, Any]

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
# Its default name, and the one that its chart grants; both may exist after runs with several replicas.
LEASES = ("karpenter-leader-election", "gpu-provisioner-leader-election")
NO_CLASS = {"group": "", "kind": "", "name": ""}
WAITING = ("Unknown", "AwaitingReconciliation", "object is awaiting reconciliation")
REFUSED = (
    "Unknown",
    "LaunchFailed",
    'creating instance failed, agentPool.BeginCreateOrUpdate for "{name}" failed: PUT https://management.azure.com/…',
)


def wanted(name: str, *, finalizer: bool = True, own: Json | None = None, **spec: Any) -> Json:
    """A claim of that version; `own` are its labels instead of KAITO's workspace, `spec` as for `node_claim`."""
    made = node_claim(name, **spec)
    if own is not None:
        made["metadata"]["labels"] = own
    if finalizer:
        made["metadata"]["finalizers"] = [labels.FINALIZER]
    made["spec"].setdefault("expireAfter", "720h")
    return made


def lax(crd: Json) -> Json:
    """A patch for the CRD that removes its validation, as in earlier versions."""
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {"spec": {"versions": [{**version, "schema": anything} for version in crd["spec"]["versions"]]}}


def claim(sim: Stage, name: str, **of: Any) -> Json:
    """A claim as `wanted`, created by the predecessor; an empty nodeClassRef requires the CRD of that time."""
    made = wanted(name, **of)
    if made["spec"]["nodeClassRef"] != NO_CLASS:
        return sim.store.create(CLAIMS, made)
    shipped = sim.store.get(CRDS, CLAIMS)
    assert shipped is not None
    sim.store.patch(CRDS, CLAIMS, lax(shipped))
    stored = sim.store.create(CLAIMS, made)
    sim.store.patch(CRDS, CLAIMS, {"spec": {"versions": shipped["spec"]["versions"]}})
    return stored


def pool_labels(of: Json) -> dict[str, str]:
    """What it puts on the pool of this claim: its default NodePool, the claim's labels, and two that it forces."""
    stamp = of["metadata"]["creationTimestamp"].replace(":", "-")
    return {
        labels.NODEPOOL: labels.DEFAULT_NODEPOOL,
        **of["metadata"].get("labels", {}),
        labels.KAITO_MACHINE_TYPE: "gpu",
        labels.KAITO_CREATION_TIMESTAMP: stamp,
    }


def body(of: Json) -> Json:
    """The properties of its PUT: no tags, no mode, no image."""
    taints = [f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in of["spec"].get("taints") or ()]
    return {
        "type": "VirtualMachineScaleSets",
        "count": 1,
        "vmSize": SIZE,
        "osDiskSizeGB": 128,
        "nodeLabels": pool_labels(of),
        "nodeTaints": taints,
    }


def pool(sim: Stage, of: Json, **seed: Any) -> Pool:
    """A pool created for this claim, as old as the claim; `seed` as for `seed_pool` (state=, error=)."""
    return sim.cloud.seed_pool(of["metadata"]["name"], **seed, **body(of))


def creating(sim: Stage, of: Json) -> Pool:
    """A pool whose PUT was just accepted; its creation completes by itself."""
    return sim.cloud.lifecycle.create(of["metadata"]["name"], body(of)).pool


async def register(sim: Stage, of: Json, *, initialized: bool = True) -> str:
    """The Node of this claim's pool, Ready and registered; returns its name."""
    name = await node_is_ready(sim, of["metadata"]["name"])
    meta = of["metadata"]
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": meta["name"], "uid": meta["uid"]}
    more = {**meta.get("labels", {}), labels.REGISTERED: "true"}
    if initialized:
        more[labels.INITIALIZED] = "true"
    change = {
        "labels": more,
        "finalizers": [labels.FINALIZER],
        "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
    }
    sim.store.patch("nodes", name, {"metadata": change})
    return name


def launched(sim: Stage, of: Json, *, node: str = "", initialized: bool = True) -> None:
    """The status of a claim with a machine: providerID from the Node, and no image, capacity or capacity type."""
    name = of["metadata"]["name"]
    found = sim.store.get("nodes", node) if node else None
    steps = {"Launched": True, "Registered": found is not None, "Initialized": found is not None and initialized}
    states = {kind: ("True", kind, "") if done else WAITING for kind, done in steps.items()}
    ready = all(steps.values())
    waits = ", ".join(f"{kind}=Unknown" for kind, done in steps.items() if not done)
    states["Ready"] = ("True", "Ready", "") if ready else ("Unknown", "ReconcilingDependents", waits)
    set_conditions(sim, of, **states)
    columns = {**pool_labels(of), labels.INSTANCE_TYPE: SIZE}
    sim.store.patch(CLAIMS, name, {"metadata": {"labels": columns}})
    if found is not None:
        status = {"providerID": found["spec"]["providerID"], "nodeName": node}
        sim.store.patch(CLAIMS, name, {"status": status}, subresource="status")


def set_conditions(sim: Stage, of: Json, **states: tuple[str, str, str]) -> None:
    """Conditions of a claim, by type: status, reason, message. Its list is a plain one, Ready last."""
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message.format(name=of["metadata"]["name"]),
            "lastTransitionTime": of["metadata"]["creationTimestamp"],
            "observedGeneration": 1,
        }
        for kind, (status, reason, message) in states.items()
    ]
    sim.store.patch(CLAIMS, of["metadata"]["name"], {"status": {"conditions": conditions}}, subresource="status")


def unlaunched(sim: Stage, of: Json, *, refused: bool = False) -> None:
    """The status of a claim whose PUT is in flight, or whose last PUT failed."""
    rest = dict.fromkeys(("Registered", "Initialized"), WAITING)
    waits = ("Unknown", "ReconcilingDependents", "Launched=Unknown, Registered=Unknown, Initialized=Unknown")
    set_conditions(sim, of, Launched=REFUSED if refused else WAITING, **rest, Ready=waits)


async def machine(sim: Stage, name: str, **of: Any) -> Json:
    """A Ready claim with its pool and its registered Node. `of` as for `claim`."""
    made = claim(sim, name, **of)
    pool(sim, made)
    launched(sim, made, node=await register(sim, made))
    return made


def drained(sim: Stage, node: str) -> None:
    """A deleted Node that has been drained as Karpenter drains it."""
    sim.store.delete("nodes", node)
    found = sim.store.get("nodes", node)
    assert found is not None
    taints = [*(found["spec"].get("taints") or ()), {"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}]
    sim.store.patch(
        "nodes",
        node,
        {"metadata": {"labels": {labels.EXCLUDE_BALANCERS: "karpenter"}}, "spec": {"taints": taints}},
    )


def leases(sim: Stage) -> None:
    """Leases of the predecessor's replicas, renewed just now."""
    now = sim.store.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    for name in LEASES:
        spec = {"holderIdentity": "gpu-provisioner-7c9f_1b2c", "leaseDurationSeconds": 15, "leaseTransitions": 0}
        times = {"acquireTime": now, "renewTime": now}
        sim.store.create(
            "leases.coordination.k8s.io", {"metadata": {"name": name}, "spec": {**spec, **times}}, "kube-system"
        )
