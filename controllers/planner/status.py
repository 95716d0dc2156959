"""Computes a claim's status: all conditions of its phase, in one write, and only if something differs.

Conditions follow Karpenter's mechanics: transition times, order, and Ready's message. A change of status or reason is
also recorded as an Event, unless it is a usual step of a healthy life. Ready and nodeName are written together.

Source: docs/references/karpenter.md#condition-mechanics, docs/references/kaito.md#what-kaito-reads,
docs/references/kaito.md#contract (K4).
"""

from collections.abc import Mapping

from controllers.model import deadlines
from controllers.model.conditions import ConditionUpdate, was_usable
from controllers.model.facts import Facts
from controllers.model.reported import reported
from controllers.model.steps import Event, PatchStatus
from controllers.node.health.repair_conditions import node_healthy, taken_back, with_blocked_repair
from controllers.node.termination.conditions import drained, instance_terminating, volumes_detached
from controllers.nodeclaim.lifecycle import dra, initialization, launch, launch_failure, offerings, registration
from controllers.nodeclaim.lifecycle.gpu_resources import allocatable, gpu_state
from provisioner.api import conditions, labels, reasons
from provisioner.api.causes import EventType
from provisioner.api.conditions import INITIALIZED, LAUNCHED, ConditionSet
from provisioner.api.nodeclaim import NodeClaim

ConditionUpdates = Mapping[str, ConditionUpdate]

# The steps of a healthy life that get no Event, unless one is a warning: later steps imply them. A machine that is not
# the first choice is not usual.
WITHOUT_EVENT = frozenset(
    {
        reasons.CREATING,
        reasons.LAUNCHED,
        reasons.NODE_NOT_FOUND,
        reasons.NODE_INITIALIZING,
        reasons.DRAINED,
        reasons.VOLUMES_DETACHED,
    }
)


def launch_conditions(f: Facts, claim: NodeClaim) -> ConditionUpdates:
    """The conditions of a live claim."""
    found = {
        conditions.LAUNCHED: launch.condition(f, claim),
        conditions.REGISTERED: with_blocked_repair(f, registration.condition(f, claim)),
        conditions.INITIALIZED: with_blocked_repair(f, taken_back(f, initialization.condition(f, claim))),
        conditions.NODE_HEALTHY: node_healthy(f, claim),
    }
    return {name: update for name, update in found.items() if update is not None}


def termination_conditions(f: Facts, claim: NodeClaim) -> ConditionUpdates:
    """The conditions of a deleting claim."""
    found = {
        conditions.DRAINED: drained(f, claim),
        conditions.VOLUMES_DETACHED: volumes_detached(f, claim),
        conditions.INSTANCE_TERMINATING: instance_terminating(f, claim),
    }
    return {name: update for name, update in found.items() if update is not None}


def unlisted_conditions(f: Facts, claim: NodeClaim) -> ConditionUpdates:
    """The conditions before the first list of agent pools: why it fails, and whether the Node is usable.

    The second needs no list, so a Node that becomes unusable is reported at once.
    """
    about = conditions.INSTANCE_TERMINATING if claim.deleting else LAUNCHED
    found = {about: _unlisted(f, claim, about)}
    if not claim.deleting and was_usable(claim):
        found[INITIALIZED] = _unless_reported(claim, initialization.condition(f, claim))
    return {name: update for name, update in found.items() if update is not None}


def _unless_reported(claim: NodeClaim, update: ConditionUpdate | None) -> ConditionUpdate | None:
    """The Initialized condition, unless the claim has it with this reason: parts of its message need the list."""
    current = claim.condition(INITIALIZED)
    known = (current.status, current.reason) if current is not None else None
    return None if update is None or known == (update.status, update.reason) else update


def _unlisted(f: Facts, claim: NodeClaim, condition: str) -> ConditionUpdate | None:
    """Why the list of agent pools fails, unless this condition has another reason already.

    That the agent pools are those of another cluster replaces each reason of an Unknown condition.
    """
    current = claim.condition(condition)
    if f.list_failed is None:
        return None
    mistaken = f.list_failed.reason == reasons.WRONG_CLUSTER
    if current is not None and (
        current.status != "Unknown" or not (mistaken or current.reason == f.list_failed.reason)
    ):
        return None
    held = ConditionUpdate(status="Unknown", reason=f.list_failed.reason, message=f.list_failed.message, warning=True)
    began, limit = claim.metadata.creation_timestamp, f.policy.launch_seconds
    if claim.deleting:
        began, limit = claim.metadata.deletion_timestamp or f.now, f.policy.deleting_seconds
    name = "deleting" if claim.deleting else "launch"
    return deadlines.watched(held, name=name, since=began, now=f.now, limit_seconds=limit)


def report(f: Facts, claim: NodeClaim, updates: ConditionUpdates) -> PatchStatus | None:
    """The write of these conditions; None if nothing differs, or if the API server refuses it."""
    # A write replaces the whole list of conditions: those that cannot be decoded would be lost.
    unreadable = any(field.startswith("status") for field in claim.metadata.unreadable)
    if "PatchStatus" in f.refused or unreadable or not updates:
        return None
    updated = ConditionSet.of(claim, f.now)
    events: list[Event] = []
    recorded = reported(claim).overdue
    for name, update in updates.items():
        text = update.text
        before = updated.get(name)
        updated = updated.set(name, update.status, reason=update.reason, message=text, now=f.now)
        unchanged = before is not None and (before.status, before.reason) == (update.status, update.reason)
        usual = (update.usual or update.reason in WITHOUT_EVENT) and not update.warning
        usual = usual and not (update.reason == reasons.LAUNCHED and _choice(f))
        # The Event of a deadline that has just passed comes with its record.
        late = update.overdue and name not in recorded
        if not (unchanged or usual or late):
            words = text or _event_message(f, claim, name)
            kind: EventType = "Warning" if update.warning else "Normal"
            events.append(Event(type=kind, reason=update.reason, message=words))
    fields = _fields(f, claim) if claim is f.claim else {}
    if not updated.changed(claim) and not fields:
        return None
    return PatchStatus(claim=claim, conditions=updated.items, fields=fields, events=tuple(events))


def _event_message(f: Facts, claim: NodeClaim, name: str) -> str:
    """The message of the Event for a condition that is True, which has no message itself."""
    node = f.node
    match name:
        case conditions.LAUNCHED:
            return f"agent pool {f.key} is running{_choice(f)}"
        case conditions.REGISTERED:
            return f"Node {node.name if node is not None else f.key} belongs to this claim"
        case conditions.NODE_HEALTHY:
            return "the Node no longer has a condition that is a signal of the repair policy"
        case conditions.INITIALIZED:
            return _initialized_text(f)
        case _:
            return f"agent pool {f.key} is being deleted"


def _choice(f: Facts) -> str:
    choice = offerings.fallback_message(f, f.instance) if f.instance is not None else ""
    return f"; {choice}" if choice else ""


def _initialized_text(f: Facts) -> str:
    if not f.gpus.known:
        return "the Node is Ready; how many GPUs this size has is not known, so they were not waited for"
    state, node = gpu_state(f), f.node
    if state is not None and state.expected:
        seen = f"{state.allocatable} of {state.expected}"
        driver = dra.gpu_driver(f)
        offered = f"GPUs published by {driver}" if driver else f"{state.resource} allocatable"
        return f"the Node is Ready with {seen} {offered}"
    if f.gpus.count and node is not None:
        seen = str(allocatable(node, f.gpus.resource))
        return f"the Node is Ready with {seen} of {f.gpus.count} {f.gpus.resource} allocatable (not waited for)"
    return "the Node is Ready"


def _fields(f: Facts, claim: NodeClaim) -> Mapping[str, str]:
    """The scalar status fields that differ. The providerID is copied from the Node, never computed."""
    node = f.node
    if node is None or claim.deleting or not registration.node_registered(claim, node):
        return {}
    if launch_failure.failed_launch_remains(f, claim):
        return {}
    image = (f.instance.image_version if f.instance is not None else "") or node.metadata.labels.get(
        labels.AKS_IMAGE_VERSION, ""
    )
    wanted = {"nodeName": node.name, "providerID": node.spec.provider_id, "imageID": image or claim.status.image_id}
    have = {
        "nodeName": claim.status.node_name,
        "providerID": claim.status.provider_id,
        "imageID": claim.status.image_id,
    }
    return {key: value for key, value in wanted.items() if value and have[key] != value}
