"""Conditions of a deleting claim: Drained, VolumesDetached and InstanceTerminating.

Types, values and reasons are Karpenter's. Each phase (draining, detaching, deleting, releasing) has a deadline, and a
message that names what it waits for and changes only when that changes. After a restart a condition stays as it is
until the Node, its volumes or the pool have been read.

Source: docs/references/karpenter.md#conditions, docs/references/karpenter.md#node-termination,
docs/references/rules.md#every-state-has-a-deadline, docs/references/rules.md#accurate-status.
"""

from datetime import datetime

from cloudprovider.interface import Instance, InstanceState
from controllers.model.conditions import ConditionUpdate, clock_text
from controllers.model.deadlines import overdue, watched
from controllers.model.drains import Drain
from controllers.model.facts import Facts
from controllers.model.failures import RequestFailure
from controllers.model.ownership import belongs, held_by, holds_finalizer
from provisioner.api import labels, reasons
from provisioner.api.conditions import DRAINED, INSTANCE_TERMINATING, VOLUMES_DETACHED, truncate
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.api.time import LATEST, rfc3339

from . import drain, grace_period, volumes
from .cordon import is_cordoned
from .instance_delete import refused_condition
from .pod_predicates import do_not_disrupt_until, is_do_not_disrupt_active, terminates_by

MAX_NAMES = 3
# Of a refused write, so that the pods have a place beside it.
CAUSE_BYTES = 80


def drained(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The Drained condition: Unknown while pods remain or cannot be listed, then True; never False."""
    nodes, deleting = _draining(f, claim), _instance_deleting(f, claim)
    if not nodes:
        return None
    for node in nodes:
        known = f.drain_of(node)
        unread = known.read_failure is not None and (not known.known or _ended(f, claim))
        message = _read_failure("pods", node, known.read_failure) if unread else ""
        message = message or (_draining_message(f, claim, node) if known.known else "")
        if message and not deleting:
            usual = known.known and not blocking_pods(f, node)
            waiting = ConditionUpdate(status="Unknown", reason=reasons.DRAINING, message=message, usual=usual)
            limit = f.policy.draining_seconds
            return watched(waiting, name="draining", since=_drained_since(claim, node), now=f.now, limit_seconds=limit)
        if message:
            return None
    return (
        ConditionUpdate(status="True", reason=reasons.DRAINED)
        if all(drain.is_drained(f, node) for node in nodes)
        else None
    )


def volumes_detached(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The VolumesDetached condition: False only if the termination grace period ended the wait."""
    nodes = _draining(f, claim)
    if not nodes or not all(drain.is_drained(f, node) for node in nodes):
        return None
    by, messages = grace_period.deadline(claim), [text for node in nodes if (text := _volumes_message(f, node))]
    if not messages:
        read = all(f.drain_of(node).volumes.known for node in nodes)
        return ConditionUpdate(status="True", reason=reasons.VOLUMES_DETACHED) if read else None
    if by is not None and f.now >= by:
        message = f"termination grace period expired at {rfc3339(by)}; {messages[0]}"
        return ConditionUpdate(
            status="False", reason=reasons.TERMINATION_GRACE_PERIOD_ELAPSED, message=message, warning=True
        )
    if _instance_deleting(f, claim):
        return None
    waiting = ConditionUpdate(status="Unknown", reason=reasons.AWAITING_VOLUME_DETACHMENT, message=messages[0])
    since = _entered(f, claim, VOLUMES_DETACHED, waiting.reason)
    return watched(waiting, name="detaching", since=since, now=f.now, limit_seconds=f.policy.detaching_seconds)


def instance_terminating(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The InstanceTerminating condition: True while the pool is being deleted, False while finalizers remain."""
    instance = f.instance if held_by(f.instance, claim) else None
    since, limit = _due_since(claim), f.policy.deleting_seconds
    if instance is not None and instance.state is InstanceState.DELETING:
        left = limit - (f.now - since).total_seconds()
        if left > 0:
            return ConditionUpdate(status="True", reason=reasons.INSTANCE_TERMINATING, recheck=left)
        message = _deleting_message(instance, since)
        update = ConditionUpdate(status="True", reason=reasons.INSTANCE_TERMINATING, message=message)
        return overdue(update, name="deleting", remedy=f"see az aks nodepool show --name {instance.name}")
    failed = f.delete_failed if instance is not None else f.read_failed
    if failed is not None:
        return watched(
            refused_condition(f, failed, since), name="deleting", since=since, now=f.now, limit_seconds=limit
        )
    remaining = _remaining_finalizers(f, claim) if instance is None else ""
    if not remaining:
        return None
    message = f"agent pool {f.key} is deleted; {remaining}"
    terminated = ConditionUpdate(status="False", reason=reasons.INSTANCE_TERMINATED, message=message)
    since = _entered(f, claim, INSTANCE_TERMINATING, reasons.INSTANCE_TERMINATED)
    return watched(terminated, name="releasing", since=since, now=f.now, limit_seconds=f.policy.releasing_seconds)


def blocking_pods(f: Facts, node: Node, *, terminating: bool = False) -> str:
    """The pods that block the drain, and why; with `terminating`, followed by the other remaining pods."""
    known, waiting = f.drain_of(node), drain.waiting_pods(f, node)
    pods = [text for pod in waiting if (text := _blocking_reason(f, known, pod))]
    if terminating:
        pods += [_terminating(pod) for pod in waiting if not _blocking_reason(f, known, pod)]
    return _first_few(pods)


def attached_volumes(f: Facts, node: Node) -> str:
    """The volumes to be detached from the Node; "" if there are none, as last read."""
    names = volumes.attached(f, node)
    return f"volumes are attached to Node {node.name}: {_first_few(list(names))}" if names else ""


def _draining_message(f: Facts, claim: NodeClaim, node: Node) -> str:
    """Terminating pods are named only after the deadline; else the message would change with each of them."""
    if not drain.waiting_pods(f, node):
        return ""
    if cause := _refused_text(f, node):
        return f"{cause}; {_pods_message(f, claim, node)}"
    return _pods_message(f, claim, node)


def _refused_text(f: Facts, node: Node) -> str:
    """Which write to the draining Node the API server refuses, and why; the drain continues without it."""
    if holds_finalizer(node) and not node.deleting and (why := f.refused.get("DeleteNode")):
        return f"failed to delete Node {node.name}: {truncate(why, CAUSE_BYTES)}"
    if node in f.nodes and not is_cordoned(node) and (why := f.refused.get("PatchNode")):
        return f"failed to taint Node {node.name}: {truncate(why, CAUSE_BYTES)}"
    return ""


def _pods_message(f: Facts, claim: NodeClaim, node: Node) -> str:
    if pods := blocking_pods(f, node, terminating=_late(f, claim, node)):
        return f"waiting for pods on Node {node.name}: {pods}"
    return f"evicting pods from Node {node.name}"


def _blocking_reason(f: Facts, known: Drain, pod: Pod) -> str:
    held = known.failures.get(pod.metadata.uid)
    if held is not None:
        return f"{pod.name}: {held.message.rstrip('.')}"
    if not pod.metadata.deleting and is_do_not_disrupt_active(pod, f.now):
        until = do_not_disrupt_until(pod)
        return f"{pod.name}: do-not-disrupt" + (f" until {clock_text(until)}" if until is not None else "")
    return ""


def _terminating(pod: Pod) -> str:
    ends_by = terminates_by(pod)
    return pod.name if ends_by in (None, LATEST) else f"{pod.name}: terminates by {clock_text(ends_by)}"


def _volumes_message(f: Facts, node: Node) -> str:
    if volumes_left := attached_volumes(f, node):
        return volumes_left
    known = f.drain_of(node).volumes
    return "" if known.known else _read_failure("volumes", node, known.read_failure)


def _read_failure(what: str, node: Node, failure: RequestFailure | None) -> str:
    return f"failed to read the {what} of Node {node.name}: {failure.message}" if failure is not None else ""


def _deleting_message(instance: Instance, since: datetime) -> str:
    """The pool's provisioning state and error, as ARM returned them."""
    error = f": {instance.failure.message}" if instance.failure is not None else ""
    return f"agent pool {instance.name} is {instance.raw_state} since {clock_text(since)}{error}"


def _remaining_finalizers(f: Facts, claim: NodeClaim) -> str:
    """Why the claim remains after its pool: finalizers of other controllers, or a rejected patch of ours."""
    if why := f.refused.get("ReleaseFinalizer"):
        return f"failed to remove finalizer {labels.FINALIZER}: {why}"
    for node in f.nodes:
        if belongs(node, claim) and node.deleting and node.metadata.finalizers and not holds_finalizer(node):
            since = clock_text(node.metadata.deletion_timestamp or f.now)
            return f"Node {node.name}, deleted {since}, still has finalizer {', '.join(node.metadata.finalizers)}"
    return ""


def _draining(f: Facts, claim: NodeClaim) -> tuple[Node, ...]:
    return tuple(n for n in drain.nodes_to_drain(f, claim) if n.deleting or f.drain_of(n).known)


def _instance_deleting(f: Facts, claim: NodeClaim) -> bool:
    """Whether the machine is being deleted or absent, so that its Node is no longer drained."""
    instance = f.instance
    return instance is None or not held_by(instance, claim) or instance.state is InstanceState.DELETING


def _drained_since(claim: NodeClaim, node: Node) -> datetime:
    deleted = node.metadata.deletion_timestamp or claim.metadata.deletion_timestamp
    return deleted or claim.metadata.creation_timestamp


def _ended(f: Facts, claim: NodeClaim) -> bool:
    """Whether the deadline of the drain has passed."""
    by = grace_period.deadline(claim)
    return by is not None and f.now >= by


def _late(f: Facts, claim: NodeClaim, node: Node) -> bool:
    return (f.now - _drained_since(claim, node)).total_seconds() >= f.policy.draining_seconds


def _due_since(claim: NodeClaim) -> datetime:
    """When the pool was due to be deleted: the claim deleted, the Node drained, its volumes detached."""
    deleted = claim.metadata.deletion_timestamp or claim.metadata.creation_timestamp
    done = (c for c in claim.status.conditions if c.type in (DRAINED, VOLUMES_DETACHED) and c.status != "Unknown")
    return max([deleted, *(condition.last_transition_time for condition in done)])


def _entered(f: Facts, claim: NodeClaim, kind: str, reason: str) -> datetime:
    """The transition time of the claim's condition if it has this reason, else now."""
    found = (c for c in claim.status.conditions if c.type == kind and c.reason == reason)
    return next((c.last_transition_time for c in found), f.now)


def _first_few(names: list[str]) -> str:
    more = len(names) - MAX_NAMES
    return "; ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
