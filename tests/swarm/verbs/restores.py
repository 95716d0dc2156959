"""What people do to whole kinds: they delete a CRD and install it again, and restore objects from a backup.

A restored object has another UID and no status. Users adopt the machines of restored NodeClaims, see
docs/how-to/restore-backup.md.
"""

import asyncio
import contextvars
import math
from typing import TYPE_CHECKING, Any

from aiohttp import web

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.kube.resources import CRD_KEY
from tests.swarm.plan import Event
from tests.world.commands import command
from tests.world.harness import Json, crds

from .base import by_controller, hooked, one_of, verb
from .nodes import ready
from .truth import remains

if TYPE_CHECKING:
    from tests.swarm.run import Run

CLAIMS = "nodeclaims.karpenter.sh"
KINDS = (CLAIMS, "nodepools.karpenter.sh", "agentpoolnodeclasses.gpu-provisioner.sh")
# An agent pool without a NodeClaim is kept for a minute.
ADOPTED_SECONDS = 30.0
# Until the node controller and then the cloud node manager have noticed that a Node has no machine.
NOTICED_SECONDS = 45.0


def restored(obj: Json, *, owners: bool = False) -> Json:
    """As a backup tool creates it."""
    kept = ("name", "labels", "annotations", *(("ownerReferences",) if owners else ()))
    meta = {field: obj["metadata"][field] for field in kept if field in obj["metadata"]}
    return {**{field: value for field, value in obj.items() if field != "status"}, "metadata": meta}


def adopting(claim: Json) -> Json:
    """The restored NodeClaim, annotated for the machine that it had."""
    made = restored(claim)
    notes = made["metadata"].get("annotations", {})
    return {**made, "metadata": {**made["metadata"], "annotations": {**notes, labels.ADOPT: claim["metadata"]["uid"]}}}


def stripped(run: "Run", key: str, name: str) -> None:
    """Delete it without its finalizers."""
    run.sim.store.patch(key, name, {"metadata": {"finalizers": None}})
    if run.sim.store.get(key, name) is not None:
        run.sim.store.delete(key, name)


@verb("crd-deleted")
async def crd_deleted(run: "Run", event: Event) -> None:
    """A user deletes a CRD with all its objects. When it ends, it is installed again, and the objects are restored."""
    key, store = one_of(event, KINDS), run.sim.store
    if not run.installs(key):
        return
    run.injected(event)
    # A machine that has lost its NodeClaim is kept until its removal is confirmed, which is after the faults.
    run.sim.invariants.gc_bound_seconds = math.inf
    kept = [one for one in store.list(key) if "deletionTimestamp" not in one["metadata"]]
    ours = {one["metadata"]["uid"] for one in run.claims()}
    store.delete(CRD_KEY, key)
    await run.lasts(event)
    # No await: the controller is scaled to 0 for these steps.
    for one in [*store.each_served(key)]:
        stripped(run, key, one["metadata"]["name"])
    run.sim.api.collector.collect()
    store.create(CRD_KEY, next(one for one in crds() if one["metadata"]["name"] == key))
    for one in kept:
        if one["metadata"]["uid"] in ours:
            store.create(key, adopting(one))
        else:
            made = restored(one, owners=True)
            finalizers = {"finalizers": one["metadata"].get("finalizers")} if key == CLAIMS else {}
            store.create(key, {**made, "metadata": {**made["metadata"], **finalizers}})


@verb("backup-restored")
async def backup_restored(run: "Run", event: Event) -> None:
    """NodeClaims come back under new UIDs while their machines run; a user adopts these, at once or by the command."""
    found = run.claims()
    one, by_command = run.chosen(event.pick, found), int(event.pick * 1e6) % 2
    if one is None:
        return
    run.injected(event)
    run.sim.invariants.gc_bound_seconds = math.inf
    for claim in found if int(event.pick * 1e3) % 2 else [one]:
        stripped(run, CLAIMS, claim["metadata"]["name"])
        run.sim.store.create(CLAIMS, restored(claim) if by_command else adopting(claim))
    if by_command:
        await asyncio.sleep(min(event.seconds, ADOPTED_SECONDS))
        await command(run.sim, "adopt", "--all", "--yes")


@verb("collected-at-hand-over")
async def collected_at_hand_over(run: "Run", event: Event) -> None:
    """A restored NodeClaim adopts its machine; Kubernetes' garbage collector deletes the Node just before its owner is
    changed, because the former one is gone.
    """
    store = run.sim.store
    nodes = {one["metadata"]["uid"]: (one.get("status") or {}).get("nodeName", "") for one in run.claims()}
    # The agent pools of the others are named after their UIDs, and nobody can adopt them.
    named = [one for one in run.claims() if labels.KAITO_WORKSPACE in one["metadata"].get("labels", {})]
    found = [one for one in named if store.get("nodes", nodes[one["metadata"]["uid"]])]
    claim: Json | None = run.chosen(event.pick, found)
    if claim is None:
        return
    node = nodes[claim["metadata"]["uid"]]
    run.sim.invariants.gc_bound_seconds = math.inf
    collected = False

    async def before(call: Call, _: web.Request) -> web.StreamResponse | None:
        nonlocal collected
        here = store.get("nodes", node)
        hands_over = by_controller(run, call) and call.is_write and call.target[:2] == ("nodes", node)
        if hands_over and not collected and here is not None and "deletionTimestamp" not in here["metadata"]:
            collected = True
            run.injected(event)
            # Outside of the request.
            contextvars.Context().run(store.delete, "nodes", node)
        return None

    stripped(run, CLAIMS, claim["metadata"]["name"])
    store.create(CLAIMS, adopting(claim))
    with hooked(run, before=before):
        await run.lasts(event)


@verb("old-backup-restored")
async def old_backup_restored(run: "Run", event: Event) -> None:
    """NodeClaims come back that were removed since the backup, with their machines; with their old status, too."""
    before = run.claims()
    await run.lasts(event)
    if not run.installs(CLAIMS):
        return
    gone = [one for one in before if run.sim.claim(one["metadata"]["name"]) is None]
    for claim in gone:
        run.injected(event)
        run.sim.store.create(CLAIMS, restored(claim, owners=event.pick < 0.5))
        if int(event.pick * 1e3) % 2:
            name, status = claim["metadata"]["name"], claim.get("status") or {}
            run.sim.store.patch(CLAIMS, name, {"status": status}, subresource="status")


@verb("node-restored")
async def node_restored(run: "Run", event: Event) -> None:
    """The Node of a running machine comes back under a new UID, with or without the finalizer."""
    machine = ready(run, event)
    if not machine or not remains(run, machine):
        return
    run.injected(event)
    node = run.sim.store.get("nodes", machine.name)
    assert node is not None
    stripped(run, "nodes", machine.name)
    made = restored(node, owners=True)
    if event.pick < 0.5:
        made["metadata"]["finalizers"] = node["metadata"].get("finalizers")
    run.sim.store.create("nodes", made)
    await asyncio.sleep(min(event.seconds, 10.0))
    # The kubelet posts the whole status.
    if remains(run, machine):
        run.sim.store.patch("nodes", machine.name, {"status": node["status"]}, subresource="status")
        run.sim.nodes.set_ready(machine.name, True)


@verb("old-node-restored")
async def old_node_restored(run: "Run", event: Event) -> None:
    """The Node of a machine that is gone comes back, until the cloud node manager finds that it has none."""
    ours = {claim["metadata"]["uid"] for claim in run.claims()}
    before = [one for one in run.sim.store.list("nodes") if one["metadata"]["labels"].get(labels.CLAIM_UID) in ours]
    await run.lasts(event)
    gone = [one for one in before if run.sim.store.get("nodes", one["metadata"]["name"]) is None]
    node = run.chosen(event.pick, [one for one in gone if one["metadata"]["name"] not in run.sim.nodes.machines])
    if node is None:
        return
    run.injected(event)
    name = node["metadata"]["name"]
    run.sim.store.create("nodes", restored(node, owners=True))
    await asyncio.sleep(NOTICED_SECONDS)
    found = run.sim.store.get("nodes", name)
    if found is not None and name not in run.sim.nodes.machines and "deletionTimestamp" not in found["metadata"]:
        run.sim.store.delete("nodes", name)


@verb("status-lost")
async def status_lost(run: "Run", event: Event) -> None:
    """A restored NodeClaim keeps its UID and loses its status; or each one does."""
    claim = run.claim(event)
    if claim is None:
        return
    for one in run.claims() if int(event.pick * 1e3) % 2 else [claim]:
        status: dict[str, Any] = dict.fromkeys(one.get("status") or {})
        if status:
            run.injected(event)
            run.sim.store.patch(CLAIMS, one["metadata"]["name"], {"status": status}, subresource="status")
