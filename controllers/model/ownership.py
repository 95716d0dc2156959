"""Ownership of claims, agent pools and Nodes, by what is written on the objects and never by name alone.

A pool has its claim's UID twice, as an Azure tag and as a node label; either suffices
(docs/references/rules.md#ownership-marks). An empty field matches nothing. A claim owns what has its own UID, or the
UID in its annotation `labels.ADOPT`, which the rules see only if it is valid (`adoption.py`).

Source: docs/references/karpenter.md#managed-objects, docs/references/kaito.md#its-agent-pools.
"""

from collections.abc import Iterable
from enum import StrEnum

from cloudprovider.interface import Instance
from provisioner.api import labels
from provisioner.api.aks_names import pool_of
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import is_own
from provisioner.api.time import label_time

KIND = (NodeClaim().api_version, NodeClaim().kind)


class Verdict(StrEnum):
    OURS = "ours"  # has the UID of this claim
    PREVIOUS = "previous"  # has the UID of a claim that does not exist
    LEGACY = "legacy"  # created by Azure/gpu-provisioner for this claim: adopted
    ORPHANED_LEGACY = "orphaned-legacy"  # created by Azure/gpu-provisioner, its claim is gone
    FOREIGN = "foreign"  # never written to


def managed(claim: NodeClaim) -> bool:
    """Whether this controller reconciles the claim: by its node class, KAITO's or its own, or by either KAITO label."""
    ref = claim.spec.node_class_ref
    by_class = is_own(ref) or (ref.group == labels.KAITO_NODECLASS_GROUP and ref.kind == labels.KAITO_NODECLASS_KIND)
    return (
        by_class or labels.KAITO_WORKSPACE in claim.metadata.labels or labels.KAITO_RAGENGINE in claim.metadata.labels
    )


def creation_stamp(claim: NodeClaim) -> str:
    """The claim's creation time as Azure/gpu-provisioner writes it in a label (no colons allowed there)."""
    return label_time(claim.metadata.creation_timestamp)


def uids(claim: NodeClaim) -> frozenset[str]:
    """The claim's own UID, and that of the deleted claim whose machine it adopts."""
    return frozenset(uid for uid in (claim.uid, claim.metadata.annotations.get(labels.ADOPT, "")) if uid)


def verdict(instance: Instance, claim: NodeClaim | None) -> Verdict:
    """Who owns this pool, as seen from `claim` (None: no claim has this key)."""
    if instance.marks:
        return Verdict.OURS if claim is not None and instance.marks & uids(claim) else Verdict.PREVIOUS
    if instance.made_by_predecessor:
        same = claim is not None and claim.name == instance.name and instance.created_label == creation_stamp(claim)
        return Verdict.LEGACY if same else Verdict.ORPHANED_LEGACY
    return Verdict.FOREIGN


def held_by(instance: Instance | None, claim: NodeClaim | None) -> bool:
    """Whether this claim owns this pool."""
    return instance is not None and verdict(instance, claim) in (Verdict.OURS, Verdict.LEGACY)


def belongs(node: Node, claim: NodeClaim) -> bool:
    """Whether this Node was created for this claim, or for the one it adopts from; a legacy Node by creation label.

    AKS replaces a Node's labels when a user changes those of its pool; then the owner reference decides.
    """
    uid = node.metadata.labels.get(labels.CLAIM_UID, "")
    if uid:
        return uid in uids(claim)
    if any(owner in uids(claim) for owner in _owners(node)):
        return True
    stamp = node.metadata.labels.get(labels.KAITO_CREATION_TIMESTAMP, "")
    return stamp == creation_stamp(claim) and pool_of(node) == claim.name


def owned_by_another(node: Node, claim: NodeClaim) -> bool:
    """Whether a claim owns this Node, and it is not this one."""
    owners = _owners(node)
    return bool(owners) and claim.uid not in owners


def _owners(node: Node) -> list[str]:
    return [o.uid for o in node.metadata.owner_references if (o.api_version, o.kind) == KIND]


def marked(node: Node) -> bool:
    """Whether this Node was created from a pool of this controller or of Azure/gpu-provisioner."""
    created = any(node.metadata.labels.get(key) for key in (labels.CLAIM_UID, labels.KAITO_CREATION_TIMESTAMP))
    return created or bool(_owners(node))


def holds_finalizer(thing: NodeClaim | Node) -> bool:
    """Whether this object has our finalizer."""
    return labels.FINALIZER in thing.metadata.finalizers


def in_charge(claims: Iterable[NodeClaim], instance: Instance | None) -> tuple[NodeClaim, ...]:
    """All claims of one key, the one in charge first: the one that the pool was created for, else the oldest."""
    marked_for = instance.marks if instance is not None else frozenset()
    return tuple(sorted(claims, key=lambda c: (not marked_for & uids(c), c.metadata.creation_timestamp, c.uid)))
