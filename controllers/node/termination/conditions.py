"""What is said of a removal: Drained, VolumesDetached and InstanceTerminating on a claim that is going.

Karpenter's types, values and reasons; each phase (draining, detaching, deleting, releasing) names who holds it
up, and says so once when its deadline has passed. A phase's text changes only when its holders do, not with each pod
that leaves. Nothing is said of what was not seen: after a restart a condition stands as it was until it is known anew.

Source: docs/references/karpenter.md#conditions, docs/references/karpenter.md#node-termination,
docs/references/rules.md#every-state-has-a-deadline, docs/references/rules.md#accurate-status.
"""

from datetime import datetime

from cloudprovider.interface import Instance, InstanceState
from controllers.model.conditions import ConditionUpdate, clock_text
from controllers.model.deadlines import overdue, watched
from controllers.model.facts import Drain, Facts, Held
from controllers.model.ownership import belongs, held_by, holds_finalizer
from provisioner.api import reasons
from provisioner.api.conditions import DRAINED, INSTANCE_TERMINATING, VOLUMES_DETACHED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.api.time import rfc3339

from . import drain, grace_period, volumes
from .instance_delete import refused_condition
from .pod_predicates import do_not_disrupt_until, is_do_not_disrupt_active

MOST_NAMES = 3


def drained(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The Drained condition: Unknown while pods are there or cannot be read, True once they are gone, never False."""
    nodes, going = _draining(f, claim), _instance_deleting(f, claim)
    if not nodes:
        return None
    for node in nodes:
        known = f.drain_of(node)
        words = _draining_message(f, claim, node) if known.known else _read_failure(node, known.unread)
        if words and not going:
            waiting = ConditionUpdate(status="Unknown", reason=reasons.DRAINING, message=words)
            limit = f.policy.draining_seconds
            return watched(waiting, name="draining", since=_drained_since(claim, node), now=f.now, limit_seconds=limit)
        if words:
            return None
    return (
        ConditionUpdate(status="True", reason=reasons.DRAINED)
        if all(drain.is_drained(f, node) for node in nodes)
        else None
    )


def volumes_detached(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The VolumesDetached condition: False only if the termination time ended the wait."""
    nodes = _draining(f, claim)
    if not nodes or not all(drain.is_drained(f, node) for node in nodes):
        return None
    by, left_on = grace_period.deadline(claim), [words for node in nodes if (words := _volumes_message(f, node))]
    if not left_on:
        read = all(f.drain_of(node).volumes.known for node in nodes)
        return ConditionUpdate(status="True", reason=reasons.VOLUMES_DETACHED) if read else None
    words = left_on[0]
    if by is not None and f.now >= by:
        message = f"the termination time {rfc3339(by)} has passed, and {words}"
        return ConditionUpdate(
            status="False", reason=reasons.TERMINATION_GRACE_PERIOD_ELAPSED, message=message, warning=True
        )
    if _instance_deleting(f, claim):
        return None
    waiting = ConditionUpdate(status="Unknown", reason=reasons.AWAITING_VOLUME_DETACHMENT, message=words)
    since = _entered(f, claim, VOLUMES_DETACHED, waiting.reason)
    return watched(waiting, name="detaching", since=since, now=f.now, limit_seconds=f.policy.detaching_seconds)


def instance_terminating(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The InstanceTerminating condition: True while the pool is being deleted, False when only objects are left."""
    instance = f.instance if held_by(f.instance, claim) else None
    since, limit = _due_since(claim), f.policy.deleting_seconds
    if instance is not None and instance.state is InstanceState.DELETING:
        left = limit - (f.now - since).total_seconds()
        if left > 0:
            return ConditionUpdate(status="True", reason=reasons.INSTANCE_TERMINATING, recheck=left)
        updates = ConditionUpdate(
            status="True", reason=reasons.INSTANCE_TERMINATING, message=_deleting_message(instance, since)
        )
        return overdue(updates, name="deleting", remedy=f"see az aks nodepool show --name {instance.name}")
    failed = f.delete_failed if instance is not None else f.read_failed
    if failed is not None:
        return watched(refused_condition(failed, since), name="deleting", since=since, now=f.now, limit_seconds=limit)
    words = _remaining_finalizers(f, claim) if instance is None else ""
    if not words:
        return None
    kept = ConditionUpdate(
        status="False", reason=reasons.INSTANCE_TERMINATED, message=f"agent pool {f.key} is gone; {words}"
    )
    since = _entered(f, claim, INSTANCE_TERMINATING, reasons.INSTANCE_TERMINATED)
    return watched(kept, name="releasing", since=since, now=f.now, limit_seconds=f.policy.releasing_seconds)


def blocking_pods(f: Facts, node: Node, *, leaving: bool = False) -> str:
    """The pods that do not leave this Node by themselves, and why; `leaving`: also those that do, after them."""
    known, waiting = f.drain_of(node), drain.waiting_pods(f, node)
    told = [words for pod in waiting if (words := _blocking_reason(f, known, pod))]
    if leaving:
        told += [_terminating(pod) for pod in waiting if not _blocking_reason(f, known, pod)]
    return _first_few(told)


def attached_volumes(f: Facts, node: Node) -> str:
    """Which volumes the Node's machine waits for; "" if none, as far as was read."""
    names = volumes.attached(f, node)
    return f"volumes are attached to Node {node.name}: {_first_few(list(names))}" if names else ""


def _draining_message(f: Facts, claim: NodeClaim, node: Node) -> str:
    """Pods that merely leave are named only when they are late: else the text would change with each of them."""
    if not drain.waiting_pods(f, node):
        return ""
    if words := blocking_pods(f, node, leaving=_late(f, claim, node)):
        return f"Node {node.name} waits for {words}"
    return f"pods are being evicted from Node {node.name}"


def _blocking_reason(f: Facts, known: Drain, pod: Pod) -> str:
    held = known.held.get(pod.metadata.uid)
    if held is not None:
        return f"{pod.name}: {held.words.rstrip('.')}"
    if not pod.metadata.deleting and is_do_not_disrupt_active(pod, f.now):
        until = do_not_disrupt_until(pod)
        return f"{pod.name}: do-not-disrupt" + (f" until {clock_text(until)}" if until is not None else "")
    return ""


def _terminating(pod: Pod) -> str:
    gone_by = pod.metadata.deletion_timestamp
    return pod.name if gone_by is None else f"{pod.name}: ends by {clock_text(gone_by)}"


def _volumes_message(f: Facts, node: Node) -> str:
    if words := attached_volumes(f, node):
        return words
    known = f.drain_of(node).volumes
    return "" if known.known else _read_failure(node, known.unread)


def _read_failure(node: Node, unread: Held | None) -> str:
    return f"what is on Node {node.name} cannot be read: {unread.words}" if unread is not None else ""


def _deleting_message(instance: Instance, since: datetime) -> str:
    """What ARM is at, in its own words."""
    error = f": {instance.failure.message}" if instance.failure is not None else ""
    return f"agent pool {instance.name} is {instance.raw_state} since {clock_text(since)}{error}"


def _remaining_finalizers(f: Facts, claim: NodeClaim) -> str:
    """Who keeps the claim from going although its pool is gone: other people's finalizers, or an API that refuses."""
    if why := f.refused.get("ReleaseFinalizer"):
        return f"the API server does not let our finalizer be taken off: {why}"
    for node in f.nodes:
        if belongs(node, claim) and node.deleting and node.metadata.finalizers and not holds_finalizer(node):
            since = clock_text(node.metadata.deletion_timestamp or f.now)
            return f"Node {node.name}, deleted {since}, is kept by finalizer {', '.join(node.metadata.finalizers)}"
    return ""


def _draining(f: Facts, claim: NodeClaim) -> tuple[Node, ...]:
    mine = (node for node in f.nodes if belongs(node, claim) and holds_finalizer(node))
    return tuple(node for node in mine if node.deleting or f.drain_of(node).known)


def _instance_deleting(f: Facts, claim: NodeClaim) -> bool:
    """Whether the machine goes or is gone: then nobody drains its Node any more."""
    instance = f.instance
    return instance is None or not held_by(instance, claim) or instance.state is InstanceState.DELETING


def _drained_since(claim: NodeClaim, node: Node) -> datetime:
    asked = node.metadata.deletion_timestamp or claim.metadata.deletion_timestamp
    return asked or claim.metadata.creation_timestamp


def _late(f: Facts, claim: NodeClaim, node: Node) -> bool:
    return (f.now - _drained_since(claim, node)).total_seconds() >= f.policy.draining_seconds


def _due_since(claim: NodeClaim) -> datetime:
    """When the machine's turn came: asked for, drained, its volumes detached."""
    asked = claim.metadata.deletion_timestamp or claim.metadata.creation_timestamp
    done = (c for c in claim.status.conditions if c.type in (DRAINED, VOLUMES_DETACHED) and c.status != "Unknown")
    return max([asked, *(condition.last_transition_time for condition in done)])


def _entered(f: Facts, claim: NodeClaim, kind: str, reason: str) -> datetime:
    """Since when that condition has stood so on the claim; now, if it does not yet."""
    found = (c for c in claim.status.conditions if c.type == kind and c.reason == reason)
    return next((c.last_transition_time for c in found), f.now)


def _first_few(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return "; ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
