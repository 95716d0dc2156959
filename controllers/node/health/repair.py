"""Repair of a Node that was initialized and is not Ready for a long time: its claim is deleted.

The claim's owner creates a replacement; the machine is removed as usual, with a deadline for its drain. The time counts
from our first observation of the unready Node, and only Ready=True resets it; the claim's condition preserves it across
restarts. A Node that is gone while its pool is at rest is replaced later. AKS's node auto-repair takes precedence.
Nodes that were never initialized, claims with `labels.REPAIR` "disabled", and Nodes that become unhealthy together are
not repaired; `do-not-disrupt` does not prevent a repair.

Source: docs/references/karpenter.md#node-repair, docs/references/agent-pools.md#machine-interruptions-and-auto-repair.
"""

import msgspec

from cloudprovider.interface import InstanceState
from controllers.garbagecollection.garbage import block_removal
from controllers.model.conditions import ConditionUpdate, clock_text, was_usable
from controllers.model.facts import Facts, Unhealthy, UnhealthyCounts
from controllers.model.node_for_claim import node_for_claim
from controllers.model.ownership import belongs, held_by
from controllers.model.policy import Policy
from controllers.model.steps import (
    DeleteClaim,
    Event,
    LookUpClaim,
    LookUpNodes,
    LookUpPool,
    PatchClaim,
    ReadRemedies,
    Step,
    Wait,
)
from controllers.node.termination import grace_period
from controllers.nodeclaim import interruption
from provisioner.api import labels, reasons
from provisioner.api.conditions import INITIALIZED
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.time import parse_duration, rfc3339, shifted

# Taints of AKS's remediator on a Node under repair; the name differs by version.
REMEDIATOR_TAINTS = ("remediator.kubernetes.azure.com/unschedulable", "remediator.aks.microsoft.com/unschedulable")


def unhealthy_node(f: Facts) -> Node | None:
    """The Node of a live claim that was initialized, if Ready is now False, Unknown or missing.

    If the Node is gone although its pool runs, the name in the claim's status stands for it, with the claim's UID.
    """
    claim, node = f.claim, node_for_claim(f)
    if claim is None or claim.deleting or not was_usable(claim):
        return None
    if node is None:
        return _lost_node(f, claim)
    return None if node.ready else node


def _lost_node(f: Facts, claim: NodeClaim) -> Node | None:
    running = held_by(f.instance, claim) and f.instance is not None and f.instance.state is InstanceState.RUNNING
    if not running or interruption.is_evicted(f, claim) or any(belongs(node, claim) for node in f.nodes):
        return None
    return Node(metadata=ObjectMeta(name=claim.status.node_name or f.key, uid=claim.uid))


def deleted_by_repair(claim: NodeClaim) -> bool:
    """Whether a repair deleted this claim."""
    return claim.deleting and labels.REPAIR_DRAIN_UNTIL in claim.metadata.annotations


def reported_seconds(f: Facts, node: Node) -> float:
    """Seconds since claim and Node both report that the Node is not Ready, as an earlier process observed it; of a Node
    that is gone, since the claim reports it.

    The claim's condition may be older than the failure (GPUs were lost before), the Node's younger (False and Unknown
    alternate); the later of the two never repairs a Node too early.
    """
    reported = f.claim.condition(INITIALIZED) if f.claim is not None else None
    if (
        reported is None
        or reported.status != "False"
        or reported.reason not in (reasons.NODE_NOT_READY, reasons.NODE_LOST, reasons.SPOT_EVICTED)
    ):
        return 0.0
    ready = node.ready_condition
    since = ready.last_transition_time if ready is not None else None
    began = reported.last_transition_time if since is None else max(reported.last_transition_time, since)
    return max(0.0, (f.now - began).total_seconds())


def step(f: Facts) -> Step | None:
    """The next step of a repair; None if the Node is Ready, or not to be repaired."""
    claim, node, unhealthy = f.claim, unhealthy_node(f), f.unhealthy
    if claim is None or claim.deleting:
        return None
    if node is None or unhealthy is None or not _enabled(f, claim):
        return _undo_drain_deadline(f, claim)
    waiting = _wait_for_node(f, unhealthy, node)
    if waiting is not None:
        return waiting
    if f.counts.restricted or blocked_by_limits(f.policy, f.counts.unhealthy_counts):
        return Wait(after=f.policy.repair_poll_seconds, why="repair delayed by the limits on simultaneous repairs")
    return _fresh_reads(f, claim, node, unhealthy) or _remove(f, claim, node, unhealthy)


def not_yet(f: Facts) -> Step | None:
    """What delays the repair of this Node, other Nodes aside; None if its repair is due."""
    claim, node, unhealthy = f.claim, unhealthy_node(f), f.unhealthy
    if claim is None or node is None or unhealthy is None or not _enabled(f, claim):
        return Wait(after=None, why="there is nothing to repair")
    return _wait_for_node(f, unhealthy, node)


def is_due(f: Facts) -> bool:
    """Whether the repair is due, apart from the limits on simultaneous repairs."""
    return not_yet(f) is None


def _enabled(f: Facts, claim: NodeClaim) -> bool:
    return f.policy.node_repair and claim.metadata.annotations.get(labels.REPAIR) != "disabled"


def _wait_for_node(f: Facts, unhealthy: Unhealthy, node: Node) -> Step | None:
    """What delays the repair: its minimum age, the conditions of inferred removals, or AKS's auto-repair."""
    policy = f.policy
    least = policy.node_lost_seconds if unhealthy.lost else policy.repair_seconds
    left = least - unhealthy.age(f.loop_now)
    if left > 0:
        return Wait(after=left, why=f"Node {node.name} may recover")
    if "DeleteClaim" in f.refused:
        return Wait(after=None, why="the API server rejects deleting the claim")
    watch = policy.node_lost_watch_seconds if unhealthy.lost else policy.repair_watch_seconds
    waiting = block_removal(f, unhealthy.observed_age(f.loop_now), watch)
    if waiting is not None and not f.counts.restricted:
        return waiting
    if unhealthy.remedies_age(f.loop_now) > policy.repair_poll_seconds:
        return ReadRemedies(node=node)
    left = _aks_repair_seconds_left(f, unhealthy, node)
    if left > 0:
        return Wait(after=min(left, policy.repair_poll_seconds), why=f"waiting for AKS auto-repair of Node {node.name}")
    return None


def _aks_repair_seconds_left(f: Facts, unhealthy: Unhealthy, node: Node) -> float:
    """Seconds to wait for AKS's auto-repair; 0 or less if it is not in progress, or has failed."""
    policy, until = f.policy, 0.0
    if unhealthy.remedies is None or any(taint.key in REMEDIATOR_TAINTS for taint in node.spec.taints):
        until = policy.repair_aks_seconds
    last = unhealthy.remedies[-1] if unhealthy.remedies else None
    if last is not None:
        happened = unhealthy.age(f.loop_now) - (f.now - last.at).total_seconds()
        if last.stage == "Start":
            until = max(until, policy.repair_aks_seconds, happened + policy.repair_remedy_seconds)
        elif last.stage == "End":
            until = max(until, happened + policy.repair_remedied_seconds)
    return min(until, policy.repair_most_seconds) - unhealthy.age(f.loop_now)


# Limits on simultaneous repairs


def max_concurrent(policy: Policy, nodes: int) -> int:
    """How many of `nodes` may be under repair at a time."""
    return max(1, int(policy.repair_share * nodes))


def max_simultaneous(policy: Policy, nodes: int) -> float:
    """How many of `nodes` may become unhealthy within one window; above it none is repaired."""
    return max(policy.repair_simultaneous_floor, policy.repair_simultaneous_share * nodes)


def blocked_by_limits(policy: Policy, counts: UnhealthyCounts) -> str:
    """Why the number of unhealthy Nodes delays a repair; "" if it does not."""
    if counts.simultaneous > max_simultaneous(policy, counts.nodes):
        minutes = round(policy.repair_simultaneous_seconds / 60)
        failed = f"{counts.simultaneous} of {counts.nodes} Nodes"
        return f"{failed} became unhealthy within {minutes} min; look for a common cause"
    at_once = max_concurrent(policy, counts.nodes)
    if counts.going + counts.place > at_once:
        overdue = f", {counts.overdue} overdue not counted" if counts.overdue else ""
        return f"{counts.unhealthy} of {counts.nodes} Nodes are unhealthy, repaired {at_once} at a time{overdue}"
    return ""


def blocked(f: Facts) -> str:
    """Why a repair that is due is delayed; "" if it is not due, or not delayed."""
    if not is_due(f):
        return ""
    return (
        "circuit breaker: too many inferred removals at once"
        if f.counts.restricted
        else blocked_by_limits(f.policy, f.counts.unhealthy_counts)
    )


def with_blocked_repair(f: Facts, update: ConditionUpdate | None) -> ConditionUpdate | None:
    """The Initialized condition, with the cause appended if a repair is due and delayed."""
    if update is None or update.reason not in (reasons.NODE_NOT_READY, reasons.NODE_LOST):
        return update
    text = f"; repair delayed: {why}" if (why := blocked(f)) else _replaced_text(f)
    return msgspec.structs.replace(update, message=update.message + text) if text else update


def _replaced_text(f: Facts) -> str:
    """By when a claim whose Node is gone is replaced; "" if AKS is changing its pool."""
    unhealthy = f.unhealthy
    if f.claim is None or unhealthy is None or unhealthy.replaced_at is None:
        return ""
    if not _enabled(f, f.claim):
        return "; its repair is disabled: delete the claim to stop paying for the machine"
    return f"; the claim is deleted at {clock_text(unhealthy.replaced_at)} if no Node returns"


# The removal


def _fresh_reads(f: Facts, claim: NodeClaim, node: Node, unhealthy: Unhealthy) -> Step | None:
    """The next fresh read before the removal; None if all agree with the caches."""
    fresh = f.policy.fresh_seconds
    if unhealthy.remedies_age(f.loop_now) > fresh:
        return ReadRemedies(node=node)
    if f.claim_read_age > fresh:
        return LookUpClaim(name=claim.name)
    if f.pool_read_age > fresh:
        return LookUpPool(name=f.key)
    if f.nodes_read_age > fresh:
        return LookUpNodes(pool=f.key)
    read = f.claim_read
    if read is None or read.uid != claim.uid or read.deleting or not _enabled(f, read):
        return Wait(after=5.0, why="waiting for the cache to show the changed claim")
    if unhealthy.lost and not any(belongs(seen, claim) for seen in f.nodes_read):
        return None
    if not any(seen.uid == node.uid and not seen.ready and not seen.deleting for seen in f.nodes_read):
        return Wait(after=5.0, why="waiting for the cache to show the changed Node")
    return None


def _remove(f: Facts, claim: NodeClaim, node: Node, unhealthy: Unhealthy) -> Step:
    notes, latest = claim.metadata.annotations, shifted(f.now, _drain_seconds(f.policy, claim))
    bound = grace_period.annotated_deadline(claim)
    # An earlier deadline that another client has set is kept.
    early = bound is not None and bound <= latest
    if not (early and labels.REPAIR_DRAIN_UNTIL in notes) and "PatchClaim" not in f.refused:
        own = rfc3339(latest)
        until = notes[labels.TERMINATION_TIMESTAMP] if early else own
        return PatchClaim(
            claim=claim, annotations={labels.TERMINATION_TIMESTAMP: until, labels.REPAIR_DRAIN_UNTIL: own}
        )
    condition = node.ready_condition
    reason = condition.reason if condition is not None and condition.reason else "no reason given"
    reason = "it is deleted" if unhealthy.lost else reason
    minutes = int(unhealthy.age(f.loop_now) // 60)
    message = (
        f"Deleted NodeClaim: Node {node.name} has not been Ready ({reason}) for {minutes} min;"
        " its owner can create a new one"
    )
    event = Event(type="Warning", reason=reasons.NODE_REPAIR, message=message)
    return DeleteClaim(claim=claim, cause="unhealthy-node", event=event)


def _drain_seconds(policy: Policy, claim: NodeClaim) -> float:
    """The time limit of the drain: at most the claim's termination grace period."""
    own = parse_duration(claim.spec.termination_grace_period or "")
    return policy.repair_drain_seconds if own is None else min(own, policy.repair_drain_seconds)


def _undo_drain_deadline(f: Facts, claim: NodeClaim) -> PatchClaim | None:
    """Remove the deadline of a drain that a repair wrote before the Node recovered: a later drain must not use it."""
    notes = claim.metadata.annotations
    own = notes.get(labels.REPAIR_DRAIN_UNTIL)
    if own is None or "PatchClaim" in f.refused:
        return None
    removed: dict[str, str | None] = {labels.REPAIR_DRAIN_UNTIL: None}
    if notes.get(labels.TERMINATION_TIMESTAMP) == own:
        removed[labels.TERMINATION_TIMESTAMP] = None
    return PatchClaim(claim=claim, annotations=removed)
