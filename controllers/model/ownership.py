"""Whose is this claim, this pool, this Node? Judgements only, from what is written on the objects.

Ownership is read, never guessed from a name (docs/references/rules.md#ownership-marks). A pool bears its claim's mark
twice, as Azure tags and as a node label; either suffices. An empty field matches nothing. A claim answers to its own
UID and to the one that a person wrote on it (`labels.ADOPT`): the rules see that annotation only where it holds
(`adoption.py`).

Source: docs/references/karpenter.md#managed-objects, docs/references/kaito.md#its-agent-pools.
"""

from collections.abc import Iterable
from enum import StrEnum

from cloudprovider.interface import Instance
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

KIND = (NodeClaim().api_version, NodeClaim().kind)


class Verdict(StrEnum):
    OURS = "ours"  # bears the mark of this claim
    PREVIOUS = "previous"  # bears our mark, but of a claim that is not (any longer) there
    LEGACY = "legacy"  # made by Azure/gpu-provisioner for this very claim: adopted
    ORPHANED_LEGACY = "orphaned-legacy"  # made by Azure/gpu-provisioner, its claim is gone
    FOREIGN = "foreign"  # never written to


def managed(claim: NodeClaim) -> bool:
    """Whether this claim is ours to serve: by its node class, or by either KAITO label."""
    ref = claim.spec.node_class_ref
    by_class = ref.group == labels.KAITO_NODECLASS_GROUP and ref.kind == labels.KAITO_NODECLASS_KIND
    return (
        by_class or labels.KAITO_WORKSPACE in claim.metadata.labels or labels.KAITO_RAGENGINE in claim.metadata.labels
    )


def creation_stamp(claim: NodeClaim) -> str:
    """The claim's creation time as Azure/gpu-provisioner writes it in a label (no colons allowed there)."""
    return claim.metadata.creation_timestamp.strftime(labels.CREATION_LAYOUT)


def marks(instance: Instance) -> frozenset[str]:
    """The claim UIDs written on this pool."""
    return frozenset(uid for uid in (instance.claim_uid, instance.label_uid) if uid)


def uids(claim: NodeClaim) -> frozenset[str]:
    """The UIDs this claim answers to: its own, and that of the vanished claim it took over from."""
    return frozenset(uid for uid in (claim.uid, claim.metadata.annotations.get(labels.ADOPT, "")) if uid)


def made_by_predecessor(instance: Instance) -> bool:
    """Whether Azure/gpu-provisioner made this pool: it forces these three labels on each, and never a system pool."""
    forced = (labels.KAITO_CREATION_TIMESTAMP, labels.KAITO_MACHINE_TYPE, labels.NODEPOOL)
    return instance.mode != "System" and all(key in instance.labels for key in forced)


def verdict(instance: Instance, claim: NodeClaim | None) -> Verdict:
    """Whose pool this is, as seen from `claim` (None: no claim has this key)."""
    marked_for = marks(instance)
    if marked_for:
        return Verdict.OURS if claim is not None and marked_for & uids(claim) else Verdict.PREVIOUS
    if made_by_predecessor(instance):
        same = claim is not None and claim.name == instance.name and instance.created_label == creation_stamp(claim)
        return Verdict.LEGACY if same else Verdict.ORPHANED_LEGACY
    return Verdict.FOREIGN


def held_by(instance: Instance | None, claim: NodeClaim | None) -> bool:
    """Whether this pool is this claim's own, by mark or by adoption."""
    return instance is not None and verdict(instance, claim) in (Verdict.OURS, Verdict.LEGACY)


def belongs(node: Node, claim: NodeClaim) -> bool:
    """Whether this Node was born for this claim, or for the one it took over from; a legacy Node by creation label.

    AKS replaces a Node's labels when people change its pool's: then the owner says it that we wrote when it registered.
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
    """Whether this Node was born from a pool of ours or of our predecessor's."""
    born = any(node.metadata.labels.get(key) for key in (labels.CLAIM_UID, labels.KAITO_CREATION_TIMESTAMP))
    return born or bool(_owners(node))


def pool_of(node: Node) -> str:
    """The agent pool a Node belongs to, "" if it says none. AKS writes both labels; the older one may be missing."""
    own = node.metadata.labels
    return own.get(labels.AKS_AGENTPOOL, "") or own.get(labels.AGENTPOOL, "")


def holds_finalizer(thing: NodeClaim | Node) -> bool:
    """Whether our finalizer keeps this object."""
    return labels.FINALIZER in thing.metadata.finalizers


def in_charge(claims: Iterable[NodeClaim], instance: Instance | None) -> tuple[NodeClaim, ...]:
    """All claims of one key, the one in charge first: whoever the pool is marked for, else the oldest."""
    marked_for = marks(instance) if instance is not None else frozenset()
    return tuple(sorted(claims, key=lambda c: (not marked_for & uids(c), c.metadata.creation_timestamp, c.uid)))
