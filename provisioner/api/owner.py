"""The owner of a NodeClaim for people: the KAITO resource or the NodePool that it was created for.

Source: docs/references/kaito.md#the-nodeclaim-that-kaito-creates.
"""

from . import labels
from .meta import OwnerReference
from .nodeclaim import NodeClaim
from .nodeclass import is_own
from .nodepool import NodePool

_KAITO = (
    ("Workspace", labels.KAITO_WORKSPACE, labels.KAITO_WORKSPACE_NAMESPACE),
    ("RAGEngine", labels.KAITO_RAGENGINE, labels.KAITO_RAGENGINE_NAMESPACE),
)


def owner_of(claim: NodeClaim) -> str:
    """As `creator_of`, else the NodePool that the claim's label names; "" if none."""
    known = claim.metadata.labels
    return creator_of(claim) or (f"NodePool {known[labels.NODEPOOL]}" if labels.NODEPOOL in known else "")


def creator_of(claim: NodeClaim) -> str:
    """The object whose controller creates another NodeClaim when this one is deleted; "" if none.

    `Workspace namespace/name`, `RAGEngine namespace/name`, the controlling owner, or the NodePool that owns the claim.
    """
    if owner := kaito_owner(claim):
        return owner
    controller = next((one for one in claim.metadata.owner_references if one.controller), nodepool_of(claim))
    return f"{controller.kind} {controller.name}" if controller is not None else ""


def kaito_owner(claim: NodeClaim) -> str:
    """`Workspace namespace/name` or `RAGEngine namespace/name` that the machine serves; "" without one."""
    known = claim.metadata.labels
    found = ((kind, name, namespace) for kind, name, namespace in _KAITO if name in known)
    return next((f"{kind} {known.get(namespace, '')}/{known[name]}" for kind, name, namespace in found), "")


def nodepool_of(claim: NodeClaim) -> OwnerReference | None:
    """The NodePool that the claim was created for; None for a claim of KAITO or of a user."""
    owners = claim.metadata.owner_references
    return next((one for one in owners if (one.api_version, one.kind) == ("karpenter.sh/v1", "NodePool")), None)


def counted_in(claim: NodeClaim) -> str:
    """The NodePool whose status and limits count the claim, by name; "" for none.

    It is the one that the label names, as Karpenter counts: a machine whose NodePool was created again uses its limits,
    although only a machine that `is_member` is disrupted.
    """
    return claim.metadata.labels.get(labels.NODEPOOL, "") if is_own(claim.spec.node_class_ref) else ""


def is_owned_by(claim: NodeClaim, pool: NodePool) -> bool:
    """Whether the claim was created for this NodePool, and not for an earlier one of the same name."""
    owner = nodepool_of(claim)
    return owner is not None and owner.uid == pool.metadata.uid


def why_foreign(claim: NodeClaim) -> str:
    """Why the claim is no machine of a NodePool of this controller, "" if it is one.

    Only such machines are disrupted. Karpenter and node auto-provisioning have NodeClaims of the same kind, and a user
    can edit the label, which is how Karpenter assigns machines to NodePools.
    """
    reference, owner = claim.spec.node_class_ref, nodepool_of(claim)
    if not is_own(reference):
        return f"another controller serves its node class {reference.kind or 'without a kind'}"
    if owner is None:
        return "no NodePool owns it"
    named = claim.metadata.labels.get(labels.NODEPOOL, "")
    return "" if named == owner.name else f'NodePool {owner.name} owns it, but its label {labels.NODEPOOL} is "{named}"'


def is_member(claim: NodeClaim, pool: NodePool) -> bool:
    """Whether the claim is a machine of this NodePool: its node class, its owner and its label agree."""
    return not why_foreign(claim) and is_owned_by(claim, pool)
