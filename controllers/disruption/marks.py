"""The marks of a disruption command on a NodeClaim and its Node, which an undo removes, and no others.

Each object bears the ID of the command as an annotation. A taint that was on the Node before, or that a removal adds,
belongs to no command and stays.

Source: docs/references/karpenter.md#disruption-queue.
"""

from collections.abc import Iterable
from datetime import datetime

from controllers.model.patches import Operation, add_keys, escaped
from controllers.node.termination.cordon import is_cordoned, taint, untaint
from provisioner.api import labels
from provisioner.api.causes import Reason
from provisioner.api.conditions import DISRUPTION_REASON, DRIFTED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_member

ANNOTATIONS = "/metadata/annotations"


def new_id(claim: NodeClaim) -> str:
    """The ID of a command whose first write is one to this version of the NodeClaim; no other command can have it."""
    return f"{claim.name}-{claim.metadata.resource_version}"


def command_of(claim: NodeClaim) -> str:
    """The ID of the command that disrupts this NodeClaim, "" without one."""
    return claim.metadata.annotations.get(labels.DISRUPTION_COMMAND, "")


def is_marked(claim: NodeClaim) -> bool:
    """Whether a command disrupts this NodeClaim: it bears the ID, or the condition of one without."""
    return bool(command_of(claim)) or claim.condition(DISRUPTION_REASON, "True") is not None


def bears_marks(claim: NodeClaim) -> bool:
    """Whether a command of this controller disrupts the NodeClaim, or has created it."""
    return bool(command_of(claim)) or labels.REPLACEMENT_COMMAND in claim.metadata.annotations


def is_abandoned(claim: NodeClaim, pools: Iterable[NodePool]) -> bool:
    """Whether no controller completes or undoes the command of this NodeClaim. `pools`: all NodePools."""
    return bears_marks(claim) and not any(is_member(claim, pool) for pool in pools)


def why_outdated(claim: NodeClaim, decided: NodeClaim, command: str, reason: Reason) -> str:
    """Why a command must not mark this NodeClaim, "" if it may. `decided`: the NodeClaim when the command was decided.

    `command`: its ID, "" before it has one.
    """
    if claim.uid != decided.uid or claim.deleting:
        return f"NodeClaim {decided.name} was deleted"
    if command_of(claim) not in ("", command):
        return f"another command disrupts NodeClaim {claim.name}"
    if _is_protected(claim) and not _is_protected(decided):
        return f"NodeClaim {claim.name} has the annotation {labels.DO_NOT_DISRUPT}"
    if reason == "Drifted" and claim.condition(DRIFTED, "True") is None:
        return f"NodeClaim {claim.name} is no longer drifted"
    return ""


def why_without_id(claim: NodeClaim, command: str) -> str:
    """What happened if the NodeClaim has lost the ID of this command, "" if it has it."""
    return "" if command_of(claim) == command else f"its annotation {labels.DISRUPTION_COMMAND} was removed"


def why_unmarked(claim: NodeClaim, command: str) -> str:
    """What happened if the NodeClaim has lost the ID or the condition of this command, "" if it has both."""
    stated = claim.condition(DISRUPTION_REASON, "True") is not None
    return why_without_id(claim, command) or ("" if stated else f"its condition {DISRUPTION_REASON} was removed")


def mark_node(node: Node, command: str, now: datetime) -> tuple[Operation, ...]:
    """The JSON patch that adds the taint with the ID of the command; empty if the Node has a taint of somebody else."""
    if node.deleting or (is_cordoned(node) and labels.DISRUPTION_COMMAND not in node.metadata.annotations):
        return ()
    return (*taint(node, now), *add_keys(ANNOTATIONS, node.metadata.annotations, {labels.DISRUPTION_COMMAND: command}))


def unmark_node(node: Node, command: str) -> tuple[Operation, ...]:
    """The JSON patch that removes what `mark_node` added; empty if that is gone, or the Node is being removed.

    `command` "": a user has removed the ID from the NodeClaim; the Node still has it.
    """
    noted = node.metadata.annotations.get(labels.DISRUPTION_COMMAND, "")
    if node.deleting or (command and noted != command):
        return ()
    if not noted:
        return untaint(node)
    path = f"{ANNOTATIONS}/{escaped(labels.DISRUPTION_COMMAND)}"
    return (*untaint(node), {"op": "test", "path": path, "value": noted}, {"op": "remove", "path": path})


def _is_protected(claim: NodeClaim) -> bool:
    return claim.metadata.annotations.get(labels.DO_NOT_DISRUPT) == "true"
