"""What people do: they delete, edit, cordon, drain, scale and restore."""

import asyncio
import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from provisioner.api import labels
from provisioner.simulator.snapshot import condition
from tests.swarm.objects import made, staged
from tests.swarm.plan import Event, NodePool
from tests.world.demand import T4, node_class
from tests.world.harness import Json, node_claim

from .base import one_of, verb

if TYPE_CHECKING:
    from tests.swarm.run import Run

CLAIMS, NODE_POOLS, NODE_CLASSES = (
    "nodeclaims.karpenter.sh",
    "nodepools.karpenter.sh",
    "agentpoolnodeclasses.gpu-provisioner.sh",
)
DEVICES: tuple[Json, ...] = ({"sharedReplicas": 4}, {"migProfile": "MIG1g"}, {"mode": "DRA"})
NODE_POOLS_PATH = "/apis/karpenter.sh/v1/nodepools"
# The faults of all others last meanwhile.
GONE_SECONDS = 14_400.0
# More than the circuit breaker lets go at the same time, and for how long they stay so.
FLEET, FLEET_SECONDS = 6, 300.0


# deletions


@verb("delete-claim")
async def delete_claim(run: "Run", event: Event) -> None:
    """A user deletes a NodeClaim."""
    claim = run.claim(event)
    if claim is not None:
        run.injected(event)
        await run.sim.delete_claim(claim["metadata"]["name"])


@verb("delete-creating")
async def delete_creating(run: "Run", event: Event) -> None:
    """A user deletes a NodeClaim while Azure creates its pool."""
    creating = {
        pool.tags.get(labels.TAG_CLAIM_UID) for pool in run.sim.cloud.pools.values() if pool.state == "Creating"
    }
    found = [one for one in run.claims() if one["metadata"]["uid"] in creating]
    claim = run.chosen(event.pick, found)
    if claim is not None:
        run.injected(event)
        await run.sim.delete_claim(claim["metadata"]["name"])


@verb("brief-claim")
async def brief_claim(run: "Run", event: Event) -> None:
    """A NodeClaim is deleted before the controller has seen it, or just after."""
    name = f"brief{int(event.pick * 1e9)}"
    run.injected(event)
    await run.apply(node_claim(name, size=run.size()))
    await asyncio.sleep(int(event.pick * 3) * 0.5)
    if run.sim.claim(name) is not None:
        await run.sim.delete_claim(name)


@verb("recreate-claim")
async def recreate_claim(run: "Run", event: Event) -> None:
    """A NodeClaim without a NodePool is deleted, and created again under its name as soon as it is gone."""
    claim = run.workspace_claim(event)
    if claim is None:
        return
    run.injected(event)
    name = claim["metadata"]["name"]
    await run.sim.delete_claim(name)
    await run.sim.until(lambda: run.sim.claim(name) is None, GONE_SECONDS, f"{name} is gone")
    await run.apply({**claim, "metadata": {"name": name, "labels": claim["metadata"]["labels"]}, "status": None})


@verb("delete-pool")
async def delete_pool(run: "Run", event: Event) -> None:
    """A user deletes an agent pool in the portal."""
    name = run.pool(event)
    if name:
        run.injected(event)
        run.sim.cloud.delete_pool_by_hand(name)


@verb("delete-node")
async def delete_node(run: "Run", event: Event) -> None:
    """A user deletes a Node."""
    name = run.node(event)
    if name:
        run.injected(event)
        await run.sim.delete_node(name)


@verb("delete-fleet-nodes")
async def delete_fleet_nodes(run: "Run", event: Event) -> None:
    """A user deletes all Nodes of a fleet of Ready machines at once, and the NodeClaims when it ends."""
    names = [f"fleet{int(event.pick * 1e6)}-{number}" for number in range(FLEET)]
    ends = run.sim.now + event.seconds
    for name in names:
        await run.apply(node_claim(name, size=run.size()))
    up = lambda: all(condition(run.sim.claim(name) or {}, "Ready") == "True" for name in names)  # noqa: E731
    with suppress(AssertionError):
        await run.sim.until(up, max(0.0, ends - run.sim.now - FLEET_SECONDS), "the fleet is Ready")
        run.injected(event)
        # The circuit breaker keeps also what else is to be removed, until that is confirmed after the faults.
        run.sim.invariants.gc_bound_seconds = math.inf
        for name in names:
            await run.sim.delete_node(run.sim.claim(name)["status"]["nodeName"])
    await asyncio.sleep(max(0.0, ends - run.sim.now))
    for name in names:
        if run.sim.claim(name) is not None:
            await run.sim.delete_claim(name)


@verb("delete-new-node")
async def delete_new_node(run: "Run", event: Event) -> None:
    """A user deletes the next Node that registers, before it has the finalizer."""
    name, ends = "", run.sim.now + event.seconds

    def created(what: str, resource: str, obj: Json, _: object) -> None:
        nonlocal name
        fits = what == "ADDED" and resource == "nodes" and obj["metadata"]["name"] in run.sim.nodes.machines
        if fits and not name and run.sim.now < ends:
            name = obj["metadata"]["name"]
            run.injected(event)
            asyncio.get_running_loop().call_soon(delete)

    def delete() -> None:
        if run.sim.store.get("nodes", name) is not None:
            run.sim.store.delete("nodes", name)

    run.sim.store.subscribe(created)
    await run.lasts(event)


@verb("finalizer-removed")
async def finalizer_removed(run: "Run", event: Event) -> None:
    """A user deletes a NodeClaim or a Node, and removes the finalizer that it waits for."""
    claim = run.claim(event)
    if claim is None:
        return
    run.injected(event)
    name = claim["metadata"]["name"]
    await run.sim.delete_claim(name)
    if run.sim.claim(name) is not None:
        run.sim.store.patch(CLAIMS, name, {"metadata": {"finalizers": None}})


@verb("node-pool-restored")
async def node_pool_restored(run: "Run", event: Event) -> None:
    """A user deletes a NodePool, and applies it again later."""
    one = _node_pool(run, event)
    if one is None:
        return
    run.injected(event)
    await run.sim.request("DELETE", f"{NODE_POOLS_PATH}/{one.name}")
    await run.lasts(event)
    gone = lambda: not run.node_pool_exists(one.name)  # noqa: E731 - one expression
    await run.sim.until(gone, GONE_SECONDS, f"{one.name} is gone")
    await run.apply(made(staged(one, run.sim.now)))


@verb("node-pool-orphaned")
async def node_pool_orphaned(run: "Run", event: Event) -> None:
    """A user deletes a NodePool with `--cascade=orphan`, which leaves its NodeClaims, and applies it again later."""
    one = _node_pool(run, event)
    if one is None:
        return
    run.injected(event)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    await run.sim.request("DELETE", f"{NODE_POOLS_PATH}/{one.name}", options)
    await run.lasts(event)
    await run.sim.until(lambda: not run.node_pool_exists(one.name), GONE_SECONDS, f"{one.name} is gone")
    await run.apply(made(staged(one, run.sim.now)))


@verb("adopts-living")
async def adopts_living(run: "Run", event: Event) -> None:
    """A user annotates a new NodeClaim to adopt the machine of one that exists."""
    claim = run.claim(event)
    if claim is not None:
        run.injected(event)
        made, name = node_claim(f"adopts{int(event.pick * 1e9)}", size=run.size()), claim["metadata"]["uid"]
        await run.apply({**made, "metadata": {**made["metadata"], "annotations": {labels.ADOPT: name}}})


@verb("foreign-pool")
async def foreign_pool(run: "Run", event: Event) -> None:
    """An agent pool of somebody else has the name of a NodeClaim, which is deleted before it.

    In half of the cases, AKS ignores preconditions meanwhile: nobody has confirmed that it heeds them.
    """
    name = f"f{int(event.pick * 1e9)}"
    cloud = run.sim.cloud
    cloud.seed_pool(name, mode="User")
    if one_of(event, (True, False)):
        cloud.configure(ignore_preconditions=True)
    run.injected(event)
    await run.apply(node_claim(name, size=run.size()))
    await asyncio.sleep(event.seconds / 2)
    if run.sim.claim(name) is not None:
        await run.sim.delete_claim(name)
    await asyncio.sleep(event.seconds / 2)
    cloud.configure(ignore_preconditions=False)
    cloud.delete_pool_by_hand(name)


# edits of NodePools and of their class


def _node_pool(run: "Run", event: Event, *, static: bool = False) -> NodePool | None:
    """The plan's NodePool that this event strikes, which exists."""
    found = [one for one in run.plan.node_pools if run.node_pool_exists(one.name)]
    return run.chosen(event.pick, [one for one in found if one.replicas is not None or not static])


async def edited(run: "Run", event: Event, one: NodePool | None, path: str, value: Any) -> None:
    """Set one field of a NodePool's spec, and when it ends what the plan has there."""
    if one is None:
        return
    usual: Any = made(staged(one, run.sim.now))["spec"]
    for part in path.split("."):
        usual = usual.get(part) if usual is not None else None
    if usual != value:
        run.injected(event)
    await _set(run, one.name, path, value)
    await run.lasts(event)
    await _set(run, one.name, path, usual)


async def _set(run: "Run", name: str, path: str, value: Any) -> None:
    patch = value
    for part in reversed(["spec", *path.split(".")]):
        patch = {part: patch}
    if run.node_pool_exists(name):
        path, content_type = f"{NODE_POOLS_PATH}/{name}", "application/merge-patch+json"
        await run.sim.request("PATCH", path, patch, content_type=content_type)


@verb("edit-sizes")
async def edit_sizes(run: "Run", event: Event) -> None:
    """A user edits the instance types of a NodePool: its machines have drifted."""
    one = _node_pool(run, event)
    if one is not None:
        other = replace_sizes(one, int(event.pick * 100))
        await edited(
            run, event, one, "template.spec.requirements", made(other)["spec"]["template"]["spec"]["requirements"]
        )


def replace_sizes(one: NodePool, number: int) -> NodePool:
    """The NodePool without one of its instance types, or with another one."""
    left = tuple(size for index, size in enumerate(one.sizes) if index != number % len(one.sizes))
    other = T4 if one.sizes[0] != T4 else "Standard_NC24ads_A100_v4"
    return NodePool(name=one.name, sizes=left or (other,), capacity=one.capacity)


@verb("edit-budgets")
async def edit_budgets(run: "Run", event: Event) -> None:
    """A user edits the budget of a NodePool."""
    budgets = [{"nodes": ("0", "1", "100%")[int(event.pick * 3)]}]
    await edited(run, event, _node_pool(run, event), "disruption.budgets", budgets)


@verb("edit-limits")
async def edit_limits(run: "Run", event: Event) -> None:
    """A user limits a NodePool to what it has, or to nothing."""
    one = _node_pool(run, event)
    limits = ({"nodes": "0"}, {"nodes": "1"}, {"nvidia.com/gpu": "1"}, {"cpu": "24"})
    # A static NodePool may limit its nodes only.
    allowed = limits if one is None or one.replicas is None else limits[:2]
    await edited(run, event, one, "limits", one_of(event, allowed))


@verb("edit-taints")
async def edit_taints(run: "Run", event: Event) -> None:
    """A user edits the taints of a NodePool, which its pods do not tolerate."""
    one = _node_pool(run, event)
    if one is not None:
        taints = [
            *made(one)["spec"]["template"]["spec"]["taints"],
            {"key": "team", "value": "b", "effect": "NoSchedule"},
        ]
        await edited(run, event, one, "template.spec.taints", taints)


@verb("edit-labels")
async def edit_labels(run: "Run", event: Event) -> None:
    """A user edits the labels of a NodePool: its machines have drifted."""
    await edited(run, event, _node_pool(run, event), "template.metadata.labels", {"team": f"t{int(event.pick * 100)}"})


@verb("edit-consolidation")
async def edit_consolidation(run: "Run", event: Event) -> None:
    """A user edits when a NodePool is consolidated."""
    after = ("0s", "30s", "1h", "Never")[int(event.pick * 4)]
    await edited(run, event, _node_pool(run, event), "disruption.consolidateAfter", after)


@verb("edit-policy")
async def edit_policy(run: "Run", event: Event) -> None:
    """A user edits the consolidation policy of a NodePool."""
    one = _node_pool(run, event)
    if one is not None:
        other = {"WhenEmpty": "WhenEmptyOrUnderutilized"}.get(one.policy, "WhenEmpty")
        await edited(run, event, one, "disruption.consolidationPolicy", other)


@verb("edit-expiry")
async def edit_expiry(run: "Run", event: Event) -> None:
    """A user lets the machines of a NodePool expire."""
    await edited(run, event, _node_pool(run, event), "template.spec.expireAfter", f"{10 + int(event.pick * 50)}m")


@verb("edit-replicas")
async def edit_replicas(run: "Run", event: Event) -> None:
    """A user scales a static NodePool."""
    await edited(run, event, _node_pool(run, event, static=True), "replicas", int(event.pick * 6))


@verb("replicas-mistyped")
async def replicas_mistyped(run: "Run", event: Event) -> None:
    """A user scales a static NodePool to a number that is far too large."""
    await edited(run, event, _node_pool(run, event, static=True), "replicas", one_of(event, (300, 100_000_000)))


@verb("edit-node-class")
async def edit_node_class(run: "Run", event: Event) -> None:
    """A user edits the tags, or the OS disk, of the class of all NodePools: their machines have drifted."""
    changes: Json = ({"tags": {"cost-center": "42"}}, {"osDiskSizeGB": 256})[int(event.pick * 2)]
    name = node_class()["metadata"]["name"]
    run.injected(event)
    await run.apply({**node_class(name), "spec": changes})
    await run.lasts(event)
    await run.apply({**node_class(name), "spec": dict.fromkeys(changes)})


@verb("edit-devices")
async def edit_devices(run: "Run", event: Event) -> None:
    """A user edits how the GPUs of the class of all NodePools are offered, which changes no existing machine."""
    name = node_class()["metadata"]["name"]
    run.injected(event)
    nothing = dict.fromkeys(key for one in DEVICES for key in one)
    usual = run.plan.facts.get("node_class", {}).get("gpu")
    await run.apply({**node_class(name), "spec": {"gpu": {**nothing, **one_of(event, DEVICES)}}})
    await run.lasts(event)
    await run.apply({**node_class(name), "spec": {"gpu": usual and {**nothing, **usual}}})


# Nodes


async def _node_edited(run: "Run", event: Event, patch: Json, undo: Json) -> None:
    name = run.node(event)
    if name:
        run.injected(event)
        run.sim.store.patch("nodes", name, patch)
        await run.lasts(event)
        if run.sim.store.get("nodes", name) is not None:
            run.sim.store.patch("nodes", name, undo)


@verb("cordon")
async def cordon(run: "Run", event: Event) -> None:
    """`kubectl cordon`, and `kubectl uncordon`."""
    await _node_edited(run, event, {"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}})


@verb("drain")
async def drain(run: "Run", event: Event) -> None:
    """`kubectl drain`, and `kubectl uncordon`."""
    name = run.node(event)
    if not name:
        return
    run.injected(event)
    run.sim.store.patch("nodes", name, {"spec": {"unschedulable": True}})
    for pod in run.sim.store.list("pods", fields=f"spec.nodeName={name}"):
        meta = pod["metadata"]
        owners = {owner["kind"] for owner in meta.get("ownerReferences", ())}
        if "DaemonSet" not in owners:
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta["name"]}}
            try:
                await run.sim.request("POST", path, body)
            except AssertionError as error:
                # A budget refuses, or the pod has gone.
                if ": 429 " not in str(error) and ": 404 " not in str(error):
                    raise
    await run.lasts(event)
    if run.sim.store.get("nodes", name) is not None:
        run.sim.store.patch("nodes", name, {"spec": {"unschedulable": None}})


@verb("label-node")
async def label_node(run: "Run", event: Event) -> None:
    """A user changes a label of a Node that its NodePool sets, and one of its own."""
    name = run.node(event)
    team = (run.sim.store.get("nodes", name) or {"metadata": {}})["metadata"].get("labels", {}).get("team")
    edit, undo = {"team": "other", "note": "broken"}, {"team": team, "note": None}
    await _node_edited(run, event, {"metadata": {"labels": edit}}, {"metadata": {"labels": undo}})


@verb("taint-node")
async def taint_node(run: "Run", event: Event) -> None:
    """A user taints a Node, and removes the taint."""
    await tainted(run, event, {"key": "maintenance", "effect": ("NoSchedule", "NoExecute")[int(event.pick * 2)]})


async def tainted(run: "Run", event: Event, taint: Json) -> None:
    """A Node has this taint while it lasts."""
    name = run.node(event)
    if not name:
        return
    run.injected(event)
    _taint(run, name, [taint], taint["key"])
    await run.lasts(event)
    _taint(run, name, [], taint["key"])


def _taint(run: "Run", name: str, added: list[Json], key: str) -> None:
    node = run.sim.store.get("nodes", name)
    if node is not None:
        kept = [one for one in node["spec"].get("taints") or () if one["key"] != key]
        run.sim.store.patch("nodes", name, {"spec": {"taints": [*kept, *added] or None}})


@verb("busy-writer")
async def busy_writer(run: "Run", event: Event) -> None:
    """Somebody annotates all NodeClaims and Nodes every two seconds."""
    until, count = run.sim.now + event.seconds, 0
    while run.sim.now < until:
        count += 1
        note = {"metadata": {"annotations": {"example.com/count": str(count)}}}
        for key in (CLAIMS, "nodes"):
            for one in [*run.sim.store.each_served(key)]:
                run.injected(event)
                run.sim.store.patch(key, one["metadata"]["name"], note)
        await asyncio.sleep(2.0)


# Azure


@verb("scale-pool")
async def scale_pool(run: "Run", event: Event) -> None:
    """A user scales an agent pool to 0 or 2 machines, and back."""
    name = run.pool(event)
    if name:
        run.injected(event)
        _scale(run, name, 2 * int(event.pick * 2))
        await run.lasts(event)
        pools = run.sim.cloud.pools
        await run.sim.until(lambda: name not in pools or not pools[name].busy, GONE_SECONDS, f"{name} is not busy")
        _scale(run, name, 1)


def _scale(run: "Run", name: str, count: int) -> None:
    pool = run.sim.cloud.pools.get(name)
    if pool is None or pool.busy:
        return
    if count < len(pool.machines):
        machines = pool.machines[:count]
        shrunk = replace(pool, machines=machines, properties={**pool.properties, "count": count})
        run.sim.cloud.pool_store.put("updated", shrunk)
    else:
        run.sim.cloud.lifecycle.update(name, {**pool.properties, "count": count})
