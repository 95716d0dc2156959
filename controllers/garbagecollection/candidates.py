"""Candidates of garbage collection: keys whose machine, Node or claim has no counterpart, from the caches alone.

A candidate is no removal: `garbage.py` decides what it still needs.

Source: docs/references/rules.md#every-removal-has-a-cause.
"""

from cloudprovider.interface import Instance, InstanceState
from controllers.model.adoption import collected
from controllers.model.conditions import launched
from controllers.model.facts import Facts
from controllers.model.ownership import Verdict, belongs, holds_finalizer, marked, verdict
from controllers.nodeclaim import interruption
from controllers.nodeclaim.lifecycle.launch import pool_missing
from controllers.nodeclaim.lifecycle.launch_failure import failed_launch_remains
from provisioner.api import labels, reasons
from provisioner.api.causes import Cause
from provisioner.api.conditions import LAUNCHED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim


def candidate_cause(f: Facts) -> Cause | None:
    """The cause for which this key is a candidate for collection, from the caches alone; None if it is not."""
    if not (f.kube_synced and f.inventory_synced):
        return None
    claim, instance = f.claim, f.instance
    if instance is not None and _orphaned(f, instance):
        return "orphan-pool" if instance.state is not InstanceState.DELETING else None
    if claim is not None and claim.deleting and f.deleted_with_crd:
        return "crd-deleted"
    if claim is not None and claim.metadata.unreadable:
        return None
    if claim is not None and not claim.deleting:
        if interruption.is_evicted(f, claim):
            return "spot-evicted"
        if deleted_node(f, claim) is not None and not failed_launch_remains(f, claim):
            return "node-deleted"
        if instance is None and (launched(claim) or (pool_missing(f, claim) and _proven_absent(f, claim))):
            return "missing-pool"
    if instance is None and any(is_leftover(f, node) for node in f.nodes):
        return "leftover-node"
    return None


def claim_uid(f: Facts) -> str:
    """The UID of the claim that this key's machine was created for; "" if unknown."""
    uids = [*sorted(f.instance.marks)] if f.instance is not None else []
    uids += [uid for node in f.nodes if (uid := node.metadata.labels.get(labels.CLAIM_UID, ""))]
    return next(iter(uids), f.claim.uid if f.claim is not None else "")


def _orphaned(f: Facts, instance: Instance) -> bool:
    match verdict(instance, f.claim):
        case Verdict.PREVIOUS:
            return True
        case Verdict.ORPHANED_LEGACY:
            return f.policy.legacy_pools == "collect"
        case _:
            return False


def _proven_absent(f: Facts, claim: NodeClaim) -> bool:
    """Whether this process has the proof, or the condition has that of a former leader, which a command reads too."""
    stated = claim.condition(LAUNCHED, "Unknown")
    return f.absence == "absent" or (stated is not None and stated.reason == reasons.POOL_DELETED)


def deleted_node(f: Facts, claim: NodeClaim) -> Node | None:
    """A deleting Node of this live claim with our finalizer, unless Kubernetes collected it with its former owner."""
    deleting = (n for n in f.nodes if belongs(n, claim) and n.deleting and holds_finalizer(n))
    return next((n for n in deleting if not collected(n, claim)), None)


def is_leftover(f: Facts, node: Node) -> bool:
    """Whether this Node of a pool of ours has no claim. A Ready Node proves that its machine exists."""
    unclaimed = f.claim is None or not belongs(node, f.claim)
    return unclaimed and marked(node) and (holds_finalizer(node) or not node.deleting) and not node.ready
