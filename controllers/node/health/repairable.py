"""Which machine a repair is about, and whether the settings and its claim permit to change it."""

from controllers.model.facts import Facts
from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim


def unhealthy_node(f: Facts) -> Node | None:
    """The Node of a claim with a signal of the repair policy; None without a signal.

    If the claim has no Node, the name in its status, or of its pool, stands for it, with the claim's UID.
    """
    claim = f.claim
    if claim is None or claim.deleting or f.unhealthy is None:
        return None
    return f.node or Node(metadata=ObjectMeta(name=claim.status.node_name or f.key, uid=claim.uid))


def deleted_by_repair(claim: NodeClaim) -> bool:
    """Whether a repair deleted this claim."""
    return claim.deleting and labels.REPAIR_DRAIN_UNTIL in claim.metadata.annotations


def is_enabled(policy: Policy, claim: NodeClaim) -> bool:
    """Whether the machine of this claim is repaired at all."""
    return policy.node_repair and claim.metadata.annotations.get(labels.REPAIR) != "disabled"


def may_act(policy: Policy, claim: NodeClaim) -> bool:
    """Whether the settings and the claim allow repair to change this machine; a dry run changes nothing."""
    return is_enabled(policy, claim) and not policy.repair_dry_run
