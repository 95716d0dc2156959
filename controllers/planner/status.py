"""Putting judgements on a claim: one status write, only when something differs.

Conditions keep Karpenter's mechanics (transition times, order, Ready's message); a change of status or reason
speaks as an Event; Ready and nodeName are written together; nothing equal is ever written again.

Source: docs/references/karpenter.md#condition-mechanics, docs/references/kaito.md#what-kaito-reads,
docs/references/kaito.md#contract (K4).
"""

from collections.abc import Mapping

from cloudprovider.interface import InstanceState
from controllers.model import deadlines
from controllers.model.conditions import ConditionUpdate, was_usable
from controllers.model.facts import Facts
from controllers.model.node_for_claim import node_for_claim
from controllers.model.steps import Event, EventType, PatchStatus
from controllers.node.health import repair
from controllers.node.termination.conditions import drained, instance_terminating, volumes_detached
from controllers.nodeclaim.lifecycle import initialization, launch, offerings, registration
from controllers.nodeclaim.lifecycle.gpu_resources import expected_gpus
from provisioner.api import conditions, labels
from provisioner.api.conditions import INITIALIZED, LAUNCHED, ConditionSet, truncate
from provisioner.api.nodeclaim import NodeClaim

ConditionUpdates = Mapping[str, ConditionUpdate]


def launch_conditions(f: Facts, claim: NodeClaim) -> ConditionUpdates:
    """What is said of a live claim."""
    found = {
        conditions.LAUNCHED: launch.condition(f, claim),
        conditions.REGISTERED: registration.condition(f, claim),
        conditions.INITIALIZED: repair.with_blocked_repair(f, initialization.condition(f, claim)),
    }
    return {name: updates for name, updates in found.items() if updates is not None}


def termination_conditions(f: Facts, claim: NodeClaim) -> ConditionUpdates:
    """What is said of a deleting claim."""
    found = {
        conditions.DRAINED: drained(f, claim),
        conditions.VOLUMES_DETACHED: volumes_detached(f, claim),
        conditions.INSTANCE_TERMINATING: instance_terminating(f, claim),
    }
    return {name: updates for name, updates in found.items() if updates is not None}


def blind(f: Facts, claim: NodeClaim) -> ConditionUpdates:
    """What is said while the agent pools have not been listed: why nothing happens, and what its Node alone tells.

    A Node that stops being usable is no news of the cloud's; whoever looks at the claim must not wait for a LIST.
    """
    about = conditions.INSTANCE_TERMINATING if claim.deleting else LAUNCHED
    found = {about: _unlisted(f, claim, about)}
    if not claim.deleting and was_usable(claim):
        found[INITIALIZED] = initialization.condition(f, claim)
    return {name: updates for name, updates in found.items() if updates is not None}


def _unlisted(f: Facts, claim: NodeClaim, condition: str) -> ConditionUpdate | None:
    """Why the pools cannot be listed, unless this condition says something already."""
    told = claim.condition(condition)
    if f.list_failed is None or (told is not None and (told.status, told.reason) != ("Unknown", f.list_failed.reason)):
        return None
    held = ConditionUpdate(status="Unknown", reason=f.list_failed.reason, message=f.list_failed.message, warning=True)
    began, limit = claim.metadata.creation_timestamp, f.policy.launch_seconds
    if claim.deleting:
        began, limit = claim.metadata.deletion_timestamp or f.now, f.policy.deleting_seconds
    name = "deleting" if claim.deleting else "launch"
    return deadlines.watched(held, name=name, since=began, now=f.now, limit_seconds=limit)


def report(f: Facts, claim: NodeClaim, updates: ConditionUpdates) -> PatchStatus | None:
    """The write that makes the claim say this; None if it does already, or if the API refused to take it."""
    if "PatchStatus" in f.refused or not updates:
        return None
    updated = ConditionSet.of(claim, f.now)
    events: list[Event] = []
    overdue = ""
    for name, update in updates.items():
        text = truncate(update.message)
        before = updated.get(name)
        updated = updated.set(name, update.status, reason=update.reason, message=text, now=f.now)
        unchanged = before is not None and (before.status, before.reason) == (update.status, update.reason)
        late = bool(update.overdue) and (before is None or not deadlines.told(before.message))
        if not unchanged or late:
            said = text or _plain(f, claim, name)
            kind: EventType = "Warning" if update.warning else "Normal"
            events.append(Event(type=kind, reason=update.reason, message=said))
        overdue = update.overdue if late else overdue
    fields = _fields(f, claim) if claim is f.claim else {}
    if not updated.changed(claim) and not fields:
        return None
    return PatchStatus(claim=claim, conditions=updated.items, fields=fields, events=tuple(events), overdue=overdue)


def _plain(f: Facts, claim: NodeClaim, name: str) -> str:
    """A good word has no message on the condition; as an Event it should say what happened."""
    node = node_for_claim(f)
    match name:
        case conditions.LAUNCHED if f.instance is None or f.instance.state is not InstanceState.RUNNING:
            # A Node proves its machine before ARM says that the pool is done.
            named = f" as Node {node.name}" if node is not None else ""
            return f"the machine of agent pool {f.key} is running{named}{_choice(f)}"
        case conditions.LAUNCHED:
            return f"agent pool {f.key} is running{_choice(f)}"
        case conditions.REGISTERED:
            return f"Node {node.name if node is not None else f.key} belongs to this claim"
        case conditions.INITIALIZED:
            return _initialized_text(f, claim)
        case conditions.DRAINED:
            return "no pod holds the Node any longer"
        case conditions.VOLUMES_DETACHED:
            return "no volume is attached to the Node any longer"
        case _:
            return f"agent pool {f.key} is being deleted"


def _choice(f: Facts) -> str:
    choice = offerings.fallback_message(f, f.instance) if f.instance is not None else ""
    return f"; {choice}" if choice else ""


def _initialized_text(f: Facts, claim: NodeClaim) -> str:
    if not f.gpus.known:
        return "the Node is Ready; how many GPUs this size has is not known, so they were not waited for"
    expected = expected_gpus(f, claim)
    if expected:
        return f"the Node is Ready with {expected} of {expected} {f.gpus.resource} allocatable"
    if f.gpus.count:
        node = node_for_claim(f)
        seen = node.status.allocatable.get(f.gpus.resource, "0") if node is not None else "0"
        return f"the Node is Ready with {seen} of {f.gpus.count} {f.gpus.resource} allocatable (not waited for)"
    return "the Node is Ready"


def _fields(f: Facts, claim: NodeClaim) -> Mapping[str, str]:
    """Our scalar status fields that differ. The providerID is copied from the Node, never built."""
    node = node_for_claim(f)
    if node is None or claim.deleting or labels.REGISTERED not in node.metadata.labels:
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
