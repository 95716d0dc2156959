"""The controller of AgentPoolNodeClasses as a pure function: from one node class and its claims to the next step.

The finalizer is on a node class from the first claim that refers to it, and is removed from a deleting one when no
claim does, so that the settings of a machine exist as long as the machine.
"""

from datetime import datetime

import msgspec

from controllers.model.conditions import ConditionUpdate
from controllers.model.object_conditions import root, updated, warnings
from controllers.model.pool_steps import AnnotateNodeClaim, PatchNodeClassStatus, PoolStep, SetNodeClassFinalizers
from provisioner.api import labels, reasons
from provisioner.api.conditions import DRIFTED, READY
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass

from .hash import HASH_VERSION, hash_annotations
from .validation import errors

SHOWN_CLAIMS = 3


class NodeClassFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`claims`: all claims that refer to the node class, by name."""

    node_class: AgentPoolNodeClass
    now: datetime
    claims: tuple[NodeClaim, ...] = ()


def concerned(found: AgentPoolNodeClass, old: NodeClaim | None, new: NodeClaim | None) -> bool:
    """Whether the change of one of its claims can lead to another step."""
    if any(one is not None and _is_behind(one) for one in (old, new)):
        return True
    first = labels.NODECLASS_FINALIZER not in found.metadata.finalizers
    return (old is None and first) or ((old is None or new is None) and found.metadata.deleting)


def plan(f: NodeClassFacts) -> PoolStep | None:
    """The next step; None if the node class is as it should be."""
    found = f.node_class
    held = labels.NODECLASS_FINALIZER in found.metadata.finalizers
    if f.claims and not held and not found.metadata.deleting:
        wanted = (*found.metadata.finalizers, labels.NODECLASS_FINALIZER)
        return SetNodeClassFinalizers(node_class=found, finalizers=wanted)
    if found.metadata.deleting and not held:
        return None
    if found.metadata.deleting and not f.claims:
        kept = tuple(one for one in found.metadata.finalizers if one != labels.NODECLASS_FINALIZER)
        return SetNodeClassFinalizers(node_class=found, finalizers=kept)
    if (behind := _other_version(f)) is not None:
        kept = () if behind.condition(DRIFTED) is None else (labels.NODECLASS_HASH,)
        annotations = {key: value for key, value in hash_annotations(found).items() if key not in kept}
        if annotations:
            return AnnotateNodeClaim(claim=behind, annotations=annotations)
    conditions = updated(found.status.conditions, _updates(f), generation=found.metadata.generation, now=f.now)
    if conditions == found.status.conditions:
        return None
    events = warnings(found.status.conditions, conditions)
    return PatchNodeClassStatus(node_class=found, conditions=conditions, events=events)


def _other_version(f: NodeClassFacts) -> NodeClaim | None:
    """A claim whose hash another version computed."""
    return next(filter(_is_behind, f.claims), None)


def _is_behind(claim: NodeClaim) -> bool:
    version = claim.metadata.annotations.get(labels.NODECLASS_HASH_VERSION, HASH_VERSION)
    return version != HASH_VERSION and not claim.deleting


def _updates(f: NodeClassFacts) -> dict[str, ConditionUpdate]:
    wrong = next(errors(f.node_class.spec), None)
    if wrong is None and not f.node_class.metadata.unreadable:
        valid = ConditionUpdate(status="True", reason=reasons.VALIDATION_SUCCEEDED)
    else:
        unreadable = "; ".join(f.node_class.metadata.unreadable)
        message = str(wrong) if wrong is not None else f"cannot decode {unreadable}; correct the field"
        valid = ConditionUpdate(status="False", reason=reasons.NODECLASS_INVALID, message=message)
    updates = {reasons.VALIDATION_SUCCEEDED: valid}
    ready = root(updates, reasons.VALIDATION_SUCCEEDED)
    if f.node_class.metadata.deleting:
        names = ", ".join(claim.name for claim in f.claims[:SHOWN_CLAIMS])
        more = f" and {len(f.claims) - SHOWN_CLAIMS} more" if len(f.claims) > SHOWN_CLAIMS else ""
        message = f"waiting for NodeClaims that refer to it to be deleted: {names}{more}; delete them"
        ready = ConditionUpdate(status="False", reason=reasons.NODECLASS_IN_USE, message=message)
    return updates | {READY: ready}
