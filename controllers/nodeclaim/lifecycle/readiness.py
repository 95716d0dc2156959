"""Readiness rules: startup taints that a new Node bears from its registration until something else is ready.

The taints are recorded on the claim before its Node is registered, so that exactly these are put on and removed again,
and none that another client has put on. Rules are satisfied in their order; a rule that cannot be read holds its
taint, and replaces no machine. Once the Node is initialized, rules have no effect.

Source: docs/references/kubernetes.md#readiness-rules, docs/references/karpenter.md#initialization.
"""

from collections.abc import Iterator
from datetime import datetime

from controllers.model.conditions import ConditionUpdate, was_usable
from controllers.model.deadlines import overdue
from controllers.model.facts import Facts
from controllers.model.patches import replace_list
from controllers.model.readiness import AppliedRule, record_of, recorded_taints
from controllers.model.steps import Event, PatchClaim, PatchNode, Wait
from provisioner.api import labels, reasons
from provisioner.api.conditions import REGISTERED
from provisioner.api.meta import Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import is_own
from provisioner.api.readiness import FOREIGN_TAINTS

from .readiness_sources import missing, unreadable

# What cannot be read is looked at again, because no change of an object ends that.
UNREADABLE_SECONDS = 30.0
# The cache of node classes is filled within seconds of a start; a Node is NotReady for longer.
NODE_CLASS_SECONDS = 60.0


def wait_for_rules(f: Facts) -> Wait | None:
    """Delay the registration until the rules of the claim's node class are known; not for long."""
    claim, node = f.claim, f.node
    if claim is None or node is None or not is_own(claim.spec.node_class_ref) or f.node_class_known:
        return None
    left = NODE_CLASS_SECONDS - (f.now - node.metadata.creation_timestamp).total_seconds()
    registered = labels.REGISTERED in node.metadata.labels
    return Wait(after=left, why="waiting for the readiness rules") if left > 0 and not registered else None


def record(f: Facts) -> PatchClaim | None:
    """Write the taints of the rules on the claim, before its Node is registered with them."""
    claim, node = f.claim, f.node
    if claim is None or node is None or labels.REGISTERED in node.metadata.labels or was_usable(claim):
        return None
    wanted = dict.fromkeys(rule.rule.taint for rule in f.readiness if _may_hold(rule.rule.taint, claim))
    text = record_of(wanted)
    if not wanted or claim.metadata.annotations.get(labels.READINESS_TAINTS) == text or "PatchClaim" in f.refused:
        return None
    return PatchClaim(claim=claim, annotations={labels.READINESS_TAINTS: text})


def _may_hold(taint: Taint, claim: NodeClaim) -> bool:
    """Whether a rule may remove this taint: a permanent taint of the claim stays, and so do taints of others."""
    permanent = any(taint.matches(other) for other in claim.spec.taints)
    return not permanent and not taint.key.startswith(FOREIGN_TAINTS)


def held_taints(claim: NodeClaim, node: Node) -> tuple[Taint, ...]:
    """The taints of rules that the Node still has, in the order of the rules; none once it is initialized."""
    if labels.INITIALIZED in node.metadata.labels or was_usable(claim):
        return ()
    present = [taint for taint in recorded_taints(claim) if _may_hold(taint, claim)]
    return tuple(taint for taint in present if any(taint.matches(other) for other in node.spec.taints))


def step(f: Facts) -> PatchNode | None:
    """Remove the taints whose rules are satisfied, or released by their timeout."""
    claim, node = f.claim, f.node
    if claim is None or node is None or not node.ready or "PatchNode" in f.refused or not _registered(claim, node):
        return None
    free, given_up = list[Taint](), list[str]()
    for taint in held_taints(claim, node):
        pending = list(_pending(f, claim, node, taint))
        if _unknown(f, claim) or any(not released for _, _, released in pending):
            break
        free.append(taint)
        given_up += [f"{applied.source}: {why}" for applied, why, _ in pending]
    if not free:
        return None
    kept = tuple(taint for taint in node.spec.taints if not any(taint.matches(other) for other in free))
    names = ", ".join(map(str, free))
    event = None
    if given_up:
        message = f"Removed taint {names} at the timeout of its rule (onTimeout Release), still missing: "
        event = Event(type="Warning", reason=reasons.READINESS_TIMEOUT, message=message + "; ".join(given_up))
    patch = tuple(dict(operation) for operation in replace_list("/spec/taints", node.spec.taints, kept))
    return PatchNode(node=node, patch=patch, why=f"remove {names}: its readiness rule is satisfied", event=event)


def condition(f: Facts, claim: NodeClaim, node: Node) -> ConditionUpdate | None:
    """The Initialized condition while a rule holds a taint of the Node; None if none does."""
    for taint in held_taints(claim, node):
        exists = f'StartupTaint "{taint}" still exists'
        if _unknown(f, claim):
            message = f"{exists}; AgentPoolNodeClass {claim.spec.node_class_ref.name} with its rule cannot be read"
            return ConditionUpdate(status="Unknown", reason=reasons.STARTUP_TAINTS_EXIST, message=message)
        for applied, why, released in _pending(f, claim, node, taint):
            if not released:
                return _held(f, claim, applied, f"{exists}; {applied.source}: {why}")
    return None


def _held(f: Facts, claim: NodeClaim, applied: AppliedRule, message: str) -> ConditionUpdate:
    rule, left = applied.rule, _seconds_left(f, claim, applied)
    problem = unreadable(f, applied)
    reason, recheck = reasons.STARTUP_TAINTS_EXIST, UNREADABLE_SECONDS if problem else None
    if left > 0:
        return ConditionUpdate(status="Unknown", reason=reason, message=message, recheck=min(left, recheck or left))
    if rule.on_timeout == "Replace" and not problem:
        reason, unobserved = reasons.READINESS_TIMEOUT, _unobserved_seconds(f, applied)
        recheck = unobserved if unobserved > 0 else None
    held = ConditionUpdate(status="Unknown", reason=reason, message=message, recheck=recheck)
    minutes = round(rule.timeout_seconds / 60)
    return overdue(held, name="initialization", remedy=f"over {minutes} min (onTimeout {rule.on_timeout})")


def replacement_due(f: Facts, claim: NodeClaim, node: Node) -> tuple[str, float] | None:
    """What a rule with onTimeout Replace lacks, and for how many seconds it has been overdue; None if none is.

    A Node that is not Ready is a case of another signal, and a rule that cannot be read lacks nothing.
    """
    if not node.ready or not _registered(claim, node) or _unknown(f, claim):
        return None
    for taint in held_taints(claim, node):
        for applied, why, released in _pending(f, claim, node, taint):
            if unreadable(f, applied):
                return None
            left = max(_seconds_left(f, claim, applied), _unobserved_seconds(f, applied))
            if applied.rule.on_timeout == "Replace" and left <= 0:
                return f"{applied.source}: {why}", -left
            if not released:
                return None
    return None


def _pending(f: Facts, claim: NodeClaim, node: Node, taint: Taint) -> Iterator[tuple[AppliedRule, str, bool]]:
    """The rules of this taint that are not satisfied, what each lacks, and whether its timeout releases the taint."""
    for applied in f.readiness:
        if applied.rule.taint.matches(taint) and (why := missing(f, applied, node)):
            released = applied.rule.on_timeout == "Release" and _seconds_left(f, claim, applied) <= 0
            yield applied, why, released


def _seconds_left(f: Facts, claim: NodeClaim, applied: AppliedRule) -> float:
    return applied.rule.timeout_seconds - (f.now - _since(f, claim)).total_seconds()


def _unobserved_seconds(f: Facts, applied: AppliedRule) -> float:
    """Seconds until this process has seen the Ready Node for half of the timeout, whatever the clocks say."""
    since = f.devices.seen_since if f.devices is not None else None
    return applied.rule.timeout_seconds / 2 - (0.0 if since is None else f.loop_now - since)


def _since(f: Facts, claim: NodeClaim) -> datetime:
    began = claim.condition(REGISTERED, "True")
    return began.last_transition_time if began is not None else f.now


def _unknown(f: Facts, claim: NodeClaim) -> bool:
    """Whether the rules of the claim's node class cannot be read now: its taints stay until they can be."""
    return is_own(claim.spec.node_class_ref) and not f.node_class_known


def _registered(claim: NodeClaim, node: Node) -> bool:
    return labels.REGISTERED in node.metadata.labels and claim.condition(REGISTERED, "True") is not None
