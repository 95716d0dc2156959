"""Ownership of claims, agent pools and Nodes, by what is written on the objects and never by name alone.

A pool has its claim's UID twice, as an Azure tag and as a node label; either suffices
(docs/references/rules.md#ownership-marks). An empty field matches nothing. A claim owns what has its own UID, or the
UID in its annotation `labels.ADOPT`, which the rules see only if it is valid (`adoption.py`).

Source: docs/references/karpenter.md#managed-objects, docs/references/kaito.md#its-agent-pools.
"""

import re
from collections.abc import Iterable
from enum import StrEnum

from cloudprovider.interface import Instance
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import is_own
from provisioner.api.time import label_time

KIND = (NodeClaim().api_version, NodeClaim().kind)

# docs/references/agent-pools.md#names-and-ids
_NODE_NAME = re.compile(r"(aks-([a-z0-9]+)-[0-9]+-vmss)[0-9a-z]{6,}")
_PROVIDER_ID = re.compile(r"azure:///.*/virtualMachineScaleSets/([^/]+)/virtualMachines/[0-9]+", re.IGNORECASE)
_GROUP_ID = re.compile(r"azure://(/subscriptions/[^/]+/resourceGroups/[^/]+)/", re.IGNORECASE)


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


def marks(instance: Instance) -> frozenset[str]:
    """The claim UIDs written on this pool."""
    return frozenset(uid for uid in (instance.claim_uid, instance.label_uid) if uid)


def uids(claim: NodeClaim) -> frozenset[str]:
    """The claim's own UID, and that of the deleted claim whose machine it adopts."""
    return frozenset(uid for uid in (claim.uid, claim.metadata.annotations.get(labels.ADOPT, "")) if uid)


def made_by_predecessor(instance: Instance) -> bool:
    """Whether Azure/gpu-provisioner created this pool: it sets these labels on each, and creates no system pool."""
    forced = (labels.KAITO_CREATION_TIMESTAMP, labels.KAITO_MACHINE_TYPE, labels.NODEPOOL)
    return instance.mode != "System" and all(key in instance.labels for key in forced)


def verdict(instance: Instance, claim: NodeClaim | None) -> Verdict:
    """Who owns this pool, as seen from `claim` (None: no claim has this key)."""
    marked_for = marks(instance)
    if marked_for:
        return Verdict.OURS if claim is not None and marked_for & uids(claim) else Verdict.PREVIOUS
    if made_by_predecessor(instance):
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


def pool_of(node: Node) -> str:
    """The agent pool whose scale set this Node is a machine of, "" if it is none of AKS.

    By the Node's name, which its credential proves, and by its providerID once it has one. Its labels do not count: who
    holds the credential of a kubelet can change most labels of its Node
    (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction).
    """
    named, provider_id = _NODE_NAME.fullmatch(node.name), node.spec.provider_id
    if named is None or (provider_id and _scale_set(provider_id) != named[1]):
        return ""
    return named[2]


def _scale_set(provider_id: str) -> str:
    found = _PROVIDER_ID.fullmatch(provider_id)
    return found[1].lower() if found is not None else ""


def resource_group_of(node: Node) -> str:
    """The ARM id, in lower case, of the resource group of this Node's machine; "" if its providerID names none."""
    found = _GROUP_ID.match(node.spec.provider_id)
    return found[1].lower() if found is not None else ""


def holds_finalizer(thing: NodeClaim | Node) -> bool:
    """Whether this object has our finalizer."""
    return labels.FINALIZER in thing.metadata.finalizers


def in_charge(claims: Iterable[NodeClaim], instance: Instance | None) -> tuple[NodeClaim, ...]:
    """All claims of one key, the one in charge first: the one that the pool was created for, else the oldest."""
    marked_for = marks(instance) if instance is not None else frozenset()
    return tuple(sorted(claims, key=lambda c: (not marked_for & uids(c), c.metadata.creation_timestamp, c.uid)))
