"""Removals nobody asked for: pools, Nodes and claims whose counterparts are gone.

An inference is acted on only after it has stood for a while, with reads of claim, pool and cluster that are
newer than the first sight, within the circuit breaker, and never while the cluster is not running, while AKS itself
works on that pool, or while an API cannot be read: what looks lost then comes back. A Node of a live claim that
others delete in such a time is let go and its pool kept.

Source: docs/references/rules.md#absence-needs-proof, docs/references/rules.md#every-removal-has-a-cause,
docs/references/karpenter.md#garbage-collection.
"""

from datetime import datetime, timedelta

from cloudprovider.interface import Instance, InstanceState
from controllers.model.adoption import collected
from controllers.model.facts import Facts
from controllers.model.ownership import Verdict, belongs, held_by, holds_finalizer, marked, marks, verdict
from controllers.model.steps import (
    Cause,
    DeleteClaim,
    DeleteInstance,
    DeleteNode,
    Event,
    LookUpClaim,
    LookUpCluster,
    LookUpPool,
    ReleaseFinalizer,
    Step,
    Wait,
)
from controllers.node.termination.finalize import prove_gone
from controllers.node.termination.instance_delete import wait_to_delete
from controllers.node.termination.termination import drain_node
from controllers.nodeclaim import interruption
from controllers.nodeclaim.consistency import scaled_to_zero
from controllers.nodeclaim.lifecycle.launch import pool_missing
from controllers.nodeclaim.lifecycle.launch_failure import failed_launch_remains, launched
from provisioner.api import labels, reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from .circuit_breaker import counts_toward_limit

# Why a live claim goes, as its Event says it; any other cause: its Node was deleted.
_EVENT_REASONS: dict[Cause, str] = {"missing-pool": reasons.INSTANCE_GONE, "spot-evicted": reasons.SPOT_EVICTED}


def candidate_cause(f: Facts) -> Cause | None:
    """Why this key's pool, claim or Node looks like garbage, by the caches alone."""
    if not (f.kube_synced and f.inventory_synced):
        return None
    claim, instance = f.claim, f.instance
    if instance is not None and _orphaned(f, instance):
        return "orphan-pool" if instance.state is not InstanceState.DELETING else None
    if claim is not None and claim.deleting and f.crd_deleting:
        return "crd-deleted"
    if claim is not None and not claim.deleting:
        if interruption.is_evicted(f, claim):
            return "spot-evicted"
        if _node_deleted(f, claim) is not None and not failed_launch_remains(f, claim):
            return "node-deleted"
        if instance is None and (launched(claim) or (pool_missing(f, claim) and f.absence == "absent")):
            return "missing-pool"
    if instance is None and any(_leftover(f, node) for node in f.nodes):
        return "leftover-node"
    return None


def claim_uid(f: Facts) -> str:
    """The UID of the claim that this key's machine was made for, "" if nothing says it."""
    named = [*sorted(marks(f.instance))] if f.instance is not None else []
    named += [uid for node in f.nodes if (uid := node.metadata.labels.get(labels.CLAIM_UID, ""))]
    return next(iter(named), f.claim.uid if f.claim is not None else "")


def _orphaned(f: Facts, instance: Instance) -> bool:
    match verdict(instance, f.claim):
        case Verdict.PREVIOUS:
            return True
        case Verdict.ORPHANED_LEGACY:
            return f.policy.legacy_pools == "collect"
        case _:
            return False


def _node_deleted(f: Facts, claim: NodeClaim) -> Node | None:
    """A Node of this live claim that somebody asked to go and our finalizer keeps.

    One that was or is another claim's may have been asked to go by nobody: Kubernetes deletes what has lost its owner.
    """
    going = (n for n in f.nodes if belongs(n, claim) and n.deleting and holds_finalizer(n))
    return next((n for n in going if not collected(n, claim)), None)


def _leftover(f: Facts, node: Node) -> bool:
    """A Node born from a pool of ours whose claim is gone. A Ready one proves that its machine is not."""
    stray = f.claim is None or not belongs(node, f.claim)
    return stray and marked(node) and (holds_finalizer(node) or not node.deleting) and not node.ready


def step(f: Facts) -> Step | None:
    """The next step for whatever is suspected here; None: nothing is, or nothing can be done about it now."""
    candidate = f.candidate
    if candidate is None:
        # Reads lag behind a PUT: a pool that was just asked for is suspected only once its absence is proven.
        return prove_gone(f) if f.claim is not None and pool_missing(f, f.claim) else None
    if candidate.cause == "node-deleted" and in_maintenance(f):
        node = _node_deleted(f, f.claim) if f.claim is not None else None
        return ReleaseFinalizer(target=node, why="AKS works on its pool or cluster") if node is not None else None
    match candidate.cause:
        case "orphan-pool":
            return _remove_orphan(f, candidate.age)
        case "missing-pool":
            return _remove_claim_without_pool(f, candidate.age)
        case "node-deleted":
            return _remove_claim_of_deleted_node(f, candidate.age)
        case "spot-evicted":
            return _remove_claim_of_evicted(f, candidate.age)
        case _:
            return _leftover_nodes(f, candidate.age)


def block_crd_deletion(f: Facts) -> Step | None:
    """Claims that are deleting only because their CRD is: an inferred removal, so the circuit breaker applies."""
    candidate = f.candidate
    if candidate is None or candidate.cause != "crd-deleted":
        return None
    return block_removal(f, candidate.age, f.policy.orphan_seconds)


def in_maintenance(f: Facts) -> bool:
    """Whether the cluster is known to be down, the pool to be emptied or worked on: what fails now may be well then."""
    stopped = f.cluster is not None and not f.cluster.running
    return stopped or scaled_to_zero(f.instance) or (f.instance is not None and f.instance.busy)


def block_removal(f: Facts, age: float, needed: float) -> Step | None:
    """The step that every inferred removal waits for; None if nothing holds it back."""
    waiting = _block_unproven(f, age, needed)
    if waiting is None and f.counts.restricted and not f.counts.confirmed:
        return Wait(after=60.0, why="too many removals by inference at once: none is made", held="restricted")
    return waiting


def _block_unproven(f: Facts, age: float, needed: float) -> Step | None:
    """What even a proven end waits for."""
    if age < needed:
        return Wait(after=needed - age, why="a second look")
    if f.inventory_age > f.policy.stale_list_seconds:
        return Wait(after=5.0, why="the agent pools have not been listed for too long", held="pools_not_listed")
    if not f.kube_current:
        why = "claims, Nodes or CRDs cannot be read now; what is known of them may be old"
        return Wait(after=5.0, why=why, held="cache_not_current")
    if f.read_failed is not None and f.read_failed.holds_for > 0:
        why = f"the cloud does not answer: {f.read_failed.reason}"
        return Wait(after=f.read_failed.holds_for, why=why, held="pools_not_listed")
    if f.cluster_age > age:
        return LookUpCluster()
    if not f.cluster_running:
        return Wait(after=30.0, why="the managed cluster is not known to be running", held="cluster_not_running")
    if f.instance is not None and f.instance.busy:
        return Wait(after=30.0, why="AKS is working on the pool", held="pool_busy")
    return None


def needs_confirmation(f: Facts) -> str:
    """Why what is suspected here stays until people confirm it or claims return, "" if it does not wait for them."""
    if f.candidate is None or f.counts.confirmed or not counts_toward_limit(f.candidate.cause):
        return ""
    remedy = "see gpu-provisioner gc"
    if f.counts.restricted:
        return f"{f.counts.candidates} removals by inference at once are too many; none is made: {remedy}"
    if f.candidate.cause == "orphan-pool" and f.instance is not None and _older_than_crd(f, f.instance):
        return f"agent pool {f.key} is older than the NodeClaim CRD, so nobody asked its claim to go: {remedy}"
    return ""


def _fresh_reads(f: Facts, claim_name: str) -> Step | None:
    """Fresh reads of the claim and of the pool, each newer than the suspicion."""
    oldest = min(f.policy.fresh_seconds, f.candidate.age if f.candidate is not None else 0.0)
    if f.claim_read_age > oldest:
        return LookUpClaim(name=claim_name)
    if f.pool_read_age > oldest:
        return LookUpPool(name=f.key)
    return None


def _claim_name(f: Facts) -> str:
    """The claim that this key's machine was made for, by name: the pool's tag, the Node's owner, or the key."""
    owners = [o.name for n in f.nodes for o in n.metadata.owner_references if o.kind == NodeClaim().kind]
    tagged = f.instance.claim_name if f.instance is not None else ""
    return tagged or next(iter(owners), f.key)


def _remove_orphan(f: Facts, age: float) -> Step | None:
    instance = f.instance
    if instance is None:
        return None
    waiting = block_removal(f, age, f.policy.orphan_seconds) or _fresh_reads(f, _claim_name(f))
    if waiting is not None:
        return waiting
    if _older_than_crd(f, instance) and not f.counts.confirmed:
        why = "the CRD is younger than this pool: its claim was not asked to go by anybody"
        return Wait(after=None, why=why, held="older_than_crd")
    if f.claim_read is not None and (f.claim_read.uid in marks(instance) or held_by(instance, f.claim_read)):
        return Wait(after=30.0, why="the API server still has the claim; the cache will follow")
    unsure = wait_to_delete(f)
    if unsure is not None:
        return unsure
    for node in f.nodes:
        if marked(node) and node.deleting and holds_finalizer(node):
            emptying = drain_node(f, node, _drain_deadline(f, node))
            if emptying is not None:
                return emptying
    message = f"agent pool {instance.name} has no NodeClaim (was {instance.claim_name or 'unknown'}) and is deleted"
    return DeleteInstance(
        instance=instance,
        cause="orphan-pool",
        event=Event(type="Warning", reason=reasons.LEAKED_POOL_DELETED, message=message),
    )


def _drain_deadline(f: Facts, node: Node) -> datetime | None:
    """By when an orphan's Node is empty: no claim speaks for its pods' time any longer, and each hour is billed."""
    began = node.metadata.deletion_timestamp
    return None if began is None else began + timedelta(seconds=f.policy.draining_seconds)


def _older_than_crd(f: Facts, instance: Instance) -> bool:
    """Whether the pool is older than the NodeClaim CRD: then its claim went with the one before, which asks nothing."""
    return f.crd_created is not None and instance.put_time is not None and instance.put_time < f.crd_created


def _remove_claim_without_pool(f: Facts, age: float) -> Step | None:
    claim = f.claim
    if claim is None:
        return None
    if any(belongs(n, claim) and n.ready for n in f.nodes):
        return Wait(after=30.0, why="its Node is Ready, so its machine cannot be gone")
    waiting = block_removal(f, age, f.policy.missing_seconds) or _fresh_reads(f, claim.name) or prove_gone(f)
    return waiting or _delete_claim(f, claim, "missing-pool", f"agent pool {f.key} is gone from the cluster")


def _remove_claim_of_deleted_node(f: Facts, age: float) -> Step | None:
    claim = f.claim
    if claim is None:
        return None
    waiting = block_removal(f, age, f.policy.node_deleted_seconds) or _fresh_reads(f, claim.name)
    return waiting or _delete_claim(f, claim, "node-deleted", "its Node was deleted, so its machine goes too")


def _remove_claim_of_evicted(f: Facts, age: float) -> Step | None:
    claim = f.claim
    if claim is None:
        return None
    if any(belongs(n, claim) and n.ready for n in f.nodes):
        return Wait(after=30.0, why="its Node is still Ready; it turns Unknown within a minute if its machine is gone")
    waiting = _block_unproven(f, age, f.policy.node_deleted_seconds) or _fresh_reads(f, claim.name)
    why = f"Azure took the spot machine of agent pool {f.key} back: the pool and this claim go, for a new one"
    return waiting or _delete_claim(f, claim, "spot-evicted", why)


def _delete_claim(f: Facts, claim: NodeClaim, cause: Cause, why: str) -> Step:
    """By UID, and only if the fresh read showed this very claim, alive."""
    if f.claim_read is None or f.claim_read.uid != claim.uid or f.claim_read.deleting:
        return Wait(after=5.0, why="the claim changed; the cache will follow")
    reason = _EVENT_REASONS.get(cause, reasons.NODE_DELETED)
    event = Event(type="Warning", reason=reason, message=why)
    return DeleteClaim(claim=claim, cause=cause, event=event)


def _leftover_nodes(f: Facts, age: float) -> Step | None:
    strays = [node for node in f.nodes if _leftover(f, node)]
    going = [node for node in strays if node.deleting]
    # One that goes already is only let go: for that, a proof that its pool is gone is enough.
    waiting = None if going else block_removal(f, age, f.policy.orphan_seconds)
    waiting = waiting or _fresh_reads(f, _claim_name(f)) or prove_gone(f)
    if waiting is not None:
        return waiting
    if f.claim_read is not None and any(belongs(node, f.claim_read) for node in strays):
        return Wait(after=30.0, why="the API server still has the claim; the cache will follow")
    if going:
        return ReleaseFinalizer(target=going[0], why="its agent pool and claim are proven gone")
    return DeleteNode(node=strays[0], cause="leftover-node") if strays else None
