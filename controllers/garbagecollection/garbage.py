"""Garbage collection: removal of pools, Nodes and claims whose counterparts no longer exist.

A candidate is removed only after a minimum age, after reads of claim, pool and cluster that are newer than its first
observation, and within the limit of the circuit breaker. What was deleted with a CRD waits for a user. Nothing is
removed while the cluster is not running, AKS is changing the pool, or an API cannot be read. A Node of a live claim
that is deleted meanwhile, or whose machine is gone while its pool has another one, loses our finalizer, and its pool is
kept.

Source: docs/references/rules.md#absence-needs-proof, docs/references/rules.md#every-removal-has-a-cause,
docs/references/karpenter.md#garbage-collection.
"""

import re
from datetime import datetime

from cloudprovider.interface import Instance
from controllers.gate.gate import Evidence
from controllers.model.deletion import delete_claim, delete_instance
from controllers.model.facts import Facts
from controllers.model.ownership import Verdict, belongs, held_by, managed, marked, verdict
from controllers.model.steps import (
    DeleteNode,
    LookUpClaim,
    LookUpCluster,
    LookUpPool,
    ReleaseFinalizer,
    Step,
    Wait,
)
from controllers.node.termination.cordon import cordoned_at
from controllers.node.termination.finalize import prove_gone
from controllers.node.termination.instance_delete import wait_to_delete
from controllers.node.termination.termination import drain_node
from controllers.nodeclaim.consistency import scaled_to_zero
from controllers.nodeclaim.lifecycle.launch import pool_missing
from provisioner.api.causes import CAUSES, Cause
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.time import shifted

from . import candidates
from .candidates import deleted_node, is_leftover

# The Node of a machine that is gone is not Ready after so long.
SILENT_SECONDS = 60.0

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


def step(f: Facts) -> Step | None:
    """The next step for the candidate of this key; None if there is none."""
    candidate = f.candidate
    if candidate is None:
        # Reads lag behind a PUT: the absence of a pool that was just created is proven before it counts.
        return prove_gone(f) if f.claim is not None and pool_missing(f, f.claim) else None
    if candidate.cause == "node-deleted" and in_maintenance(f):
        node = deleted_node(f, f.claim) if f.claim is not None else None
        return ReleaseFinalizer(target=node, why="AKS is changing its pool or cluster") if node is not None else None
    match candidate.cause:
        case "orphan-pool":
            return _remove_orphan(f, candidate.age(f.loop_now))
        case "missing-pool":
            return _remove_claim_without_pool(f, candidate.age(f.loop_now))
        case "node-deleted":
            return _remove_claim_of_deleted_node(f, candidate.age(f.loop_now))
        case "spot-evicted":
            return _remove_claim_of_evicted(f, candidate.age(f.loop_now))
        case _:
            return _leftover_nodes(f, candidate.age(f.loop_now))


def block_crd_deletion(f: Facts) -> Step | None:
    """What blocks a claim that is deleted with a CRD: each is kept until a user confirms it. None if nothing does."""
    candidate = f.candidate
    if candidate is None or candidate.cause != "crd-deleted":
        return None
    waiting = _block_unproven(f, candidate.age(f.loop_now), f.policy.orphan_seconds)
    if waiting is None and (why := needs_confirmation(f)):
        return Wait(after=None, why=why, blocked_by="deleted_with_crd")
    return waiting


def in_maintenance(f: Facts) -> bool:
    """Whether the cluster is stopped, or the pool scaled to 0 or being changed by AKS, so that failures may pass."""
    stopped = f.cluster is not None and not f.cluster.running
    return stopped or scaled_to_zero(f.instance) or (f.instance is not None and f.instance.busy)


def block_removal(f: Facts, age: float, min_age: float) -> Step | None:
    """What blocks an inferred removal of a candidate of this age; None if nothing does."""
    waiting = _block_unproven(f, age, min_age)
    if waiting is None and f.counts.restricted and not f.counts.confirmed:
        return Wait(after=60.0, why="circuit breaker: too many inferred removals at once", blocked_by="restricted")
    return waiting


def _block_unproven(f: Facts, age: float, min_age: float) -> Step | None:
    """What blocks a removal that does not count toward the circuit breaker's limit."""
    if age < min_age:
        return Wait(after=min_age - age, why="observed too recently")
    if f.inventory_age > f.policy.stale_list_seconds:
        return Wait(after=5.0, why="the list of agent pools is too old", blocked_by="pools_not_listed")
    if not f.kube_current:
        why = "the cache of claims, Nodes or CRDs may be stale"
        return Wait(after=5.0, why=why, blocked_by="cache_not_current")
    if f.read_failed is not None and f.read_failed.retry_in(f.loop_now) > 0:
        why = f"failed to read the agent pool: {f.read_failed.reason}"
        return Wait(after=f.read_failed.retry_in(f.loop_now), why=why, blocked_by="pools_not_listed")
    if f.cluster_age > age:
        return LookUpCluster()
    if not f.cluster_running:
        return Wait(after=30.0, why="the managed cluster is not known to be running", blocked_by="cluster_not_running")
    if not f.cluster_confirmed:
        why = "no Node proves that the managed cluster is the one of this API server"
        return Wait(after=30.0, why=why, blocked_by="cluster_not_confirmed")
    if f.instance is not None and f.instance.busy:
        return Wait(after=30.0, why="AKS is changing the pool", blocked_by="pool_busy")
    return None


def needs_confirmation(f: Facts) -> str:
    """Why the candidate is kept until a user confirms its removal or claims return; "" if it is not."""
    if f.candidate is None or f.counts.confirmed or not CAUSES[f.candidate.cause].circuit_breaker:
        return ""
    remedy = "see gpu-provisioner gc"
    if f.candidate.cause == "crd-deleted":
        return f"the NodeClaim was deleted with CRD {f.deleted_with_crd}, not by a user; its machine is kept; {remedy}"
    if f.counts.restricted:
        return f"{f.counts.candidates} inferred removals at once exceed the limit of the circuit breaker; {remedy}"
    if f.candidate.cause == "orphan-pool" and f.instance is not None and _older_than_crd(f, f.instance):
        why = "is older than the CRD of its NodeClaim or NodePool, so no user deleted its NodeClaim"
        return f"agent pool {f.key} {why}; {remedy}"
    return ""


def _fresh_reads(f: Facts, claim_name: str) -> Step | None:
    """Fresh reads of the claim and of the pool, each newer than the first observation of the candidate."""
    oldest = min(f.policy.fresh_seconds, f.candidate.age(f.loop_now) if f.candidate is not None else 0.0)
    if f.claim_read_age > oldest:
        return LookUpClaim(name=claim_name)
    if f.pool_read_age > oldest:
        return LookUpPool(name=f.key)
    return None


def _claim_name(f: Facts) -> str:
    """The name of the claim that this key's machine was created for: the pool's tag, the Node's owner, or the key."""
    owners = [o.name for n in f.nodes for o in n.metadata.owner_references if o.kind == NodeClaim().kind]
    tagged = f.instance.claim_name if f.instance is not None else ""
    # A tag can have any text. The API server refuses requests with an invalid name.
    return next((name for name in (tagged, *owners) if _NAME.fullmatch(name)), f.key)


def _remove_orphan(f: Facts, age: float) -> Step | None:
    instance = f.instance
    if instance is None:
        return None
    waiting = block_removal(f, age, f.policy.orphan_seconds) or _fresh_reads(f, _claim_name(f))
    if waiting is not None:
        return waiting
    if _older_than_crd(f, instance) and not f.counts.confirmed:
        why = "the pool is older than the CRD of its claim or NodePool, so no user deleted its claim"
        return Wait(after=None, why=why, blocked_by="older_than_crd")
    if f.claim_read is not None and (f.claim_read.uid in instance.marks or held_by(instance, f.claim_read)):
        return Wait(after=30.0, why="waiting for the cache to show the claim that a fresh read found")
    unsure = wait_to_delete(f)
    if unsure is not None:
        return unsure
    for node in f.nodes:
        if marked(node) and (f.claim is None or not belongs(node, f.claim)):
            draining = drain_node(f, node, _drain_deadline(f, node))
            if draining is not None:
                return draining
    message = f"Deleted agent pool {instance.name}: NodeClaim {_claim_name(f)} no longer exists"
    ours = verdict(instance, f.claim) in (Verdict.PREVIOUS, Verdict.ORPHANED_LEGACY)
    evidence = _evidence(f, "orphan-pool", candidates.claim_uid(f), ours=ours, min_age=f.policy.orphan_seconds)
    return delete_instance(instance, evidence, message)


def _drain_deadline(f: Facts, node: Node) -> datetime | None:
    """The deadline to drain an orphan's Node: no claim sets a termination grace period, and the machine costs money.

    It counts from the deletion of the Node, else from its taint, which outlasts a restart, else from the first read of
    its pods.
    """
    began, drain = node.metadata.deletion_timestamp or cordoned_at(node, f.now), f.drains.get(node.uid)
    if began is None and drain is not None:
        began = shifted(f.now, -drain.lasts(f.loop_now))
    return None if began is None else shifted(began, f.policy.draining_seconds)


def _older_than_crd(f: Facts, instance: Instance) -> bool:
    """Whether the pool is older than the CRD of its claim or NodePool, so that its claim was deleted with it."""
    return f.crd_created is not None and instance.put_time is not None and instance.put_time < f.crd_created


def _remove_claim_without_pool(f: Facts, age: float) -> Step | None:
    claim = f.claim
    if claim is None:
        return None
    if any(belongs(n, claim) and n.ready for n in f.nodes):
        return Wait(after=30.0, why="its Node is Ready, which proves that its machine exists")
    waiting = block_removal(f, age, f.policy.missing_seconds) or _fresh_reads(f, claim.name) or prove_gone(f)
    why = f"agent pool {f.key} no longer exists"
    return waiting or _delete_claim(f, claim, "missing-pool", why, f.policy.missing_seconds)


def _remove_claim_of_deleted_node(f: Facts, age: float) -> Step | None:
    claim = f.claim
    if claim is None:
        return None
    waiting = block_removal(f, age, f.policy.node_deleted_seconds) or _fresh_reads(f, claim.name)
    waiting = waiting or _outlived(f, claim, age)
    return waiting or _delete_claim(f, claim, "node-deleted", "its Node was deleted", f.policy.node_deleted_seconds)


def _outlived(f: Facts, claim: NodeClaim, age: float) -> Step | None:
    """The step for a deleted Node whose machine another machine of its pool outlives; None if there is none.

    AKS deletes the Node of a machine that it removed when an upgrade ends or a pool is scaled back.
    """
    node, own = deleted_node(f, claim), [one for one in f.nodes if belongs(one, claim)]
    fewer = f.instance is not None and f.instance.count < len(own)
    if node is None or not fewer or not any(one.ready for one in f.live_nodes):
        return None
    if not node.ready:
        return ReleaseFinalizer(target=node, why="its machine is gone, and its agent pool has another one")
    left = SILENT_SECONDS - age
    return Wait(after=left, why=f"Node {node.name} may be that of a machine that is gone") if left > 0 else None


def _remove_claim_of_evicted(f: Facts, age: float) -> Step | None:
    claim = f.claim
    if claim is None:
        return None
    if any(belongs(n, claim) and n.ready for n in f.nodes):
        return Wait(
            after=30.0, why="its Node is still Ready; it becomes Unknown within a minute if its machine is evicted"
        )
    waiting = _block_unproven(f, age, f.policy.node_deleted_seconds) or _fresh_reads(f, claim.name)
    why = f"the spot VM of agent pool {f.key} was evicted"
    return waiting or _delete_claim(f, claim, "spot-evicted", why, f.policy.node_deleted_seconds)


def _delete_claim(f: Facts, claim: NodeClaim, cause: Cause, why: str, min_age: float) -> Step:
    """Delete the claim by UID, provided that the fresh read showed the same UID and no deletion."""
    if f.claim_read is None or f.claim_read.uid != claim.uid or f.claim_read.deleting:
        return Wait(after=5.0, why="waiting for the cache to show the changed claim")
    evidence = _evidence(f, cause, claim.uid, ours=managed(claim), min_age=min_age)
    return delete_claim(claim, evidence, f"Deleted NodeClaim: {why}")


def _evidence(f: Facts, cause: Cause, uid: str, *, ours: bool, min_age: float) -> Evidence:
    """What is known of an inferred removal; the reads are those that `_fresh_reads` demands."""
    age = f.candidate.age(f.loop_now) if f.candidate is not None else 0.0
    seen = max(f.claim_read_age, f.pool_read_age) <= age and f.cluster_confirmed and f.cluster_running
    unconfirmed = needs_confirmation(f)
    return Evidence(
        cause=cause,
        uid=uid,
        ours=ours,
        seen=True if seen else None,
        left_seconds=max(0.0, min_age - age),
        doubt="" if f.counts.restricted else unconfirmed,
        busy=unconfirmed if f.counts.restricted else "",
    )


def _leftover_nodes(f: Facts, age: float) -> Step | None:
    leftover = [node for node in f.nodes if is_leftover(f, node)]
    deleting = [node for node in leftover if node.deleting]
    # A Node that is deleting only loses our finalizer, which needs no more than the absence of its pool.
    waiting = None if deleting else block_removal(f, age, f.policy.orphan_seconds)
    waiting = waiting or _fresh_reads(f, _claim_name(f)) or prove_gone(f)
    if waiting is not None:
        return waiting
    if f.claim_read is not None and any(belongs(node, f.claim_read) for node in leftover):
        return Wait(after=30.0, why="waiting for the cache to show the claim that a fresh read found")
    if deleting:
        return ReleaseFinalizer(target=deleting[0], why="its agent pool and claim are deleted")
    return DeleteNode(node=leftover[0], cause="leftover-node") if leftover else None
