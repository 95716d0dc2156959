"""Other controllers in the same cluster: Karpenter, KAITO, cluster-autoscaler, VPA, the GPU Operator, AKS."""

import asyncio
from typing import TYPE_CHECKING

from tests.swarm.plan import Event
from tests.world.harness import Json, node_claim

from .base import verb
from .people import tainted

if TYPE_CHECKING:
    from tests.swarm.run import Run

CLAIMS = "nodeclaims.karpenter.sh"
OF_THEIRS = {"karpenter.sh/nodepool": "theirs"}


@verb("karpenter-node")
async def karpenter_node(run: "Run", event: Event) -> None:
    """Karpenter has a NodeClaim and a Node of its own node class, with the same finalizer."""
    name, store = f"karpenter{int(event.pick * 1e9)}", run.sim.store
    reference = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    # Without KAITO's labels, by either of which a claim would be ours whatever its node class is.
    claim = {**node_claim(name, nodeClassRef=reference), "metadata": {"name": name, "labels": OF_THEIRS}}
    run.injected(event)
    made = store.create(
        CLAIMS, {**claim, "metadata": {**claim["metadata"], "finalizers": ["karpenter.sh/termination"]}}
    )
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name, "uid": made["metadata"]["uid"]}
    meta = {
        "name": f"aks-{name}",
        "labels": {**OF_THEIRS, "karpenter.sh/registered": "true"},
        "finalizers": ["karpenter.sh/termination"],
        "ownerReferences": [owner],
    }
    spec = {"providerID": f"azure:///subscriptions/x/resourceGroups/y/providers/z/{name}", "unschedulable": True}
    store.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec})
    await run.lasts(event)
    store.delete(CLAIMS, name)
    # Karpenter's own order: the machine, its Node, the claim; ours must have left both as they were.
    await asyncio.sleep(60.0)
    for key, one in (("nodes", f"aks-{name}"), (CLAIMS, name)):
        found = store.get(key, one)
        assert found is not None, f"{key} {one} of Karpenter was removed"
        assert found["metadata"]["finalizers"] == ["karpenter.sh/termination"], f"{key} {one} lost its finalizer"
        if "deletionTimestamp" not in found["metadata"]:
            store.delete(key, one)
        store.patch(key, one, {"metadata": {"finalizers": None}})


@verb("kaito-recreates")
async def kaito_recreates(run: "Run", event: Event) -> None:
    """KAITO deletes a NodeClaim, and creates another one in its place at once."""
    claim = run.workspace_claim(event)
    if claim is not None:
        run.injected(event)
        await run.sim.delete_claim(claim["metadata"]["name"])
        made = {"name": f"ws{int(event.pick * 1e9)}", "labels": claim["metadata"]["labels"]}
        await run.apply({**claim, "metadata": made, "status": None})


@verb("autoscaler-marks")
async def autoscaler_marks(run: "Run", event: Event) -> None:
    """Cluster-autoscaler marks a Node as a candidate, or to be deleted."""
    key = ("DeletionCandidateOfClusterAutoscaler", "ToBeDeletedByClusterAutoscaler")[int(event.pick * 2)]
    effect = ("PreferNoSchedule", "NoSchedule")[int(event.pick * 2)]
    await tainted(run, event, {"key": key, "value": "1767225600", "effect": effect})


@verb("gpu-operator-upgrades")
async def gpu_operator_upgrades(run: "Run", event: Event) -> None:
    """The GPU Operator upgrades the driver: the Node is cordoned, labelled, and without devices meanwhile."""
    name, store = run.node(event), run.sim.store
    if not name or name not in run.sim.nodes.machines:
        return
    run.injected(event)
    label = "nvidia.com/gpu-driver-upgrade-state"
    store.patch("nodes", name, {"metadata": {"labels": {label: "cordon-required"}}, "spec": {"unschedulable": True}})
    run.sim.nodes.stop_plugin(name)
    await run.lasts(event)
    if name in run.sim.nodes.machines and store.get("nodes", name) is not None:
        run.sim.nodes.start_plugin(name)
        done: Json = {"metadata": {"labels": {label: "upgrade-done"}}, "spec": {"unschedulable": None}}
        store.patch("nodes", name, done)


@verb("vpa-recreates")
async def vpa_recreates(run: "Run", event: Event) -> None:
    """VPA evicts a pod, and what its owner creates requests other amounts."""
    store = run.sim.store
    found = [one for one in store.list("pods", "default") if one["metadata"].get("ownerReferences")]
    pod = run.chosen(event.pick, [one for one in found if "deletionTimestamp" not in one["metadata"]])
    if pod is not None:
        run.injected(event)
        store.delete("pods", pod["metadata"]["name"], "default")


@verb("aks-repairs")
async def aks_repairs(run: "Run", event: Event) -> None:
    """AKS reboots a machine, or replaces it: its Node goes, and another one comes."""
    name = run.node(event)
    if not name:
        return
    run.injected(event)
    if event.pick < 0.5:
        run.sim.nodes.reboot(name)
    else:
        run.sim.cloud.evict(run.sim.nodes.machines[name].pool.name, refill_after_seconds=300.0)
