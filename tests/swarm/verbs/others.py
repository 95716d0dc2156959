"""Other controllers in the same cluster: Karpenter, KAITO, cluster-autoscaler, VPA, the GPU Operator, AKS."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from provisioner.simulator.kube.objects import rfc3339
from provisioner.simulator.snapshot import condition
from tests import nvsentinel
from tests.swarm.plan import Event
from tests.world.demand import node_pool
from tests.world.harness import EPOCH, Json, node_claim

from .base import verb
from .people import CLAIMS, GONE_SECONDS, NODE_POOLS, tainted
from .truth import claim_of, remains

if TYPE_CHECKING:
    from tests.swarm.run import Run

# What VPA recommends: less, more, and much more than the pods requested; each machine has it.
AMOUNTS = ({"cpu": "250m", "memory": "512Mi"}, {"cpu": "1500m", "memory": "2Gi"}, {"cpu": "2", "memory": "6Gi"})
OF_THEIRS = {"karpenter.sh/nodepool": "theirs"}


@verb("karpenter-node")
async def karpenter_node(run: "Run", event: Event) -> None:
    """Karpenter has a NodeClaim and a Node of its own node class, with the same finalizer."""
    name, store = f"karpenter{int(event.pick * 1e9)}", run.sim.store
    if not run.installs(CLAIMS):
        return
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
    await run.sim.until(lambda: run.installs(CLAIMS), GONE_SECONDS, "NodeClaims can be stored again")
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


@verb("karpenter-disrupts")
async def karpenter_disrupts(run: "Run", event: Event) -> None:
    """Karpenter is about to disrupt a machine of one of its NodePools: its Node has the taint, its claim the reason."""
    name, store = f"disrupts{int(event.pick * 1e9)}", run.sim.store
    crd = run.crd(CLAIMS)
    if not crd or not run.installs(NODE_POOLS):
        return
    now = rfc3339(EPOCH + timedelta(seconds=run.sim.now))
    reference = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    theirs = node_pool(name)
    theirs["spec"]["template"]["spec"]["nodeClassRef"] = reference
    uid = (await run.sim.apply(theirs))["metadata"]["uid"]
    run.injected(event)
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": name, "uid": uid}
    meta = {"name": name, "labels": {"karpenter.sh/nodepool": name, "karpenter.sh/registered": "true"}}
    provider_id = f"azure:///subscriptions/x/resourceGroups/y/providers/z/{name}"
    spec = {"providerID": provider_id, "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}
    store.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastTransitionTime": now}
    store.patch("nodes", name, {"status": {"conditions": [ready]}}, subresource="status")
    of_claim = {**meta, "ownerReferences": [owner], "finalizers": ["karpenter.sh/termination"]}
    store.create(CLAIMS, {**node_claim(name, nodeClassRef=reference), "metadata": of_claim})
    up = ("Launched", "Registered", "Initialized", "Ready", "DisruptionReason")
    conditions = [
        {"type": kind, "status": "True", "reason": "Drifted", "message": "", "lastTransitionTime": now} for kind in up
    ]
    status = {"nodeName": name, "providerID": provider_id, "conditions": conditions}
    store.patch(CLAIMS, name, {"status": status}, subresource="status")
    await run.lasts(event)
    await run.sim.until(lambda: run.installs(CLAIMS), GONE_SECONDS, "NodeClaims can be stored again")
    held, node = store.get(CLAIMS, name), store.get("nodes", name)
    # A claim that was restored with its CRD has no status.
    undone = run.crd(CLAIMS) == crd and condition(held or {}, "DisruptionReason") != "True"
    assert not undone, "a command of Karpenter was undone"
    assert (node or {"spec": {}})["spec"].get("taints"), "a Node of Karpenter lost its taint"
    store.delete(CLAIMS, name)
    store.patch(CLAIMS, name, {"metadata": {"finalizers": None}})
    for key in ("nodes", NODE_POOLS):
        if any(one["metadata"]["name"] == name for one in store.each_served(key)):
            store.delete(key, name)


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
    """VPA evicts a pod, and what its owner creates from now on requests other amounts."""
    found = [owner for owner in run.owners if owner.names]
    owner = run.chosen(event.pick, [one for one in found if one.workload.kind != "Pod"])
    if owner is not None:
        run.injected(event)
        owner.amounts = AMOUNTS[int(event.pick * 1e6) % len(AMOUNTS)]
        run.sim.store.delete("pods", owner.names[0], owner.workload.namespace)


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


@verb("terminate-nodes")
async def terminate_nodes(run: "Run", event: Event) -> None:
    """NVSentinel requests other machines for several at once, as when a rack fails; each once."""
    if not run.plan.facts.get("nvsentinel"):
        return
    machines = [one for one in run.sim.nodes.machines.values() if remains(run, one) and claim_of(run, one)]
    for number, one in enumerate(machines[: 1 + int(event.pick * 6)]):
        run.injected(event)
        claim = claim_of(run, one)
        assert claim is not None
        run.requested.add(claim["metadata"]["uid"])
        await run.apply(nvsentinel.request(one.name, name=f"t{int(event.pick * 1e9)}-{event.at:.0f}-{number}"))


@verb("record-forged")
async def record_forged(run: "Run", event: Event) -> None:
    """Somebody else writes the record of a TerminateNode: it names no NodeClaim, or one of Karpenter."""
    if not run.plan.facts.get("nvsentinel"):
        return
    run.injected(event)
    name, store = f"forged{int(event.pick * 1e9)}", run.sim.store
    reference = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    theirs = store.create(CLAIMS, {**node_claim(name, nodeClassRef=reference), "metadata": {"name": name}})
    await run.apply(nvsentinel.request("aks-x-1-vmss000000", name=name))
    named = ("a/b", "1") if event.pick < 0.5 else (name, theirs["metadata"]["uid"])
    record = {
        "type": "gpu-provisioner.sh/NodeClaim",
        "status": "True",
        "reason": "R",
        "message": f"NodeClaim {named[0]} with UID {named[1]} is deleted for this request",
        "lastTransitionTime": rfc3339(EPOCH + timedelta(seconds=run.sim.now)),
    }
    store.patch(nvsentinel.TERMINATE_NODES, name, {"status": {"conditions": [record]}}, subresource="status")
    await run.lasts(event)
    assert run.sim.claim(name) is not None, "a NodeClaim of Karpenter was removed"
    store.delete(CLAIMS, name)
    if store.get(nvsentinel.TERMINATE_NODES, name) is not None:
        store.delete(nvsentinel.TERMINATE_NODES, name)
