"""Repair, the least: a Node that was usable and has stopped being Ready for good is replaced.

The claim goes, with reason and Event, and its owner makes another; its machine follows by the normal way
down, its drain bounded. The timer is our own first sight of not-Ready, whatever the reasons that take turns meanwhile;
only Ready=True clears it, and what the claim has said since survives a restart. AKS's own auto-repair goes first. A
Node that never came up, claims that say so (`labels.REPAIR`), and whole fleets that fail together are left alone;
`do-not-disrupt` is no reason to keep a dead Node.

Source: docs/references/karpenter.md#node-repair, docs/references/agent-pools.md#machine-interruptions-and-auto-repair.
"""

from datetime import timedelta

import msgspec

from controllers.garbagecollection.garbage import block_removal
from controllers.model.conditions import ConditionUpdate
from controllers.model.facts import Facts, Unhealthy, UnhealthyCounts
from controllers.model.node_for_claim import node_for_claim
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
from controllers.nodeclaim.lifecycle.launch_failure import was_usable
from provisioner.api import labels, reasons
from provisioner.api.conditions import INITIALIZED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.time import parse_duration, rfc3339

# AKS's remediator keeps pods off the Node it works on, by either name.
REMEDIATOR_TAINTS = ("remediator.kubernetes.azure.com/unschedulable", "remediator.aks.microsoft.com/unschedulable")


def unhealthy_node(f: Facts) -> Node | None:
    """The Node of a live claim that was usable once and is not Ready now: False, Unknown and unsaid are one."""
    claim, node = f.claim, node_for_claim(f)
    if claim is None or claim.deleting or node is None or node.ready or not was_usable(claim):
        return None
    return node


def deleted_by_repair(claim: NodeClaim) -> bool:
    """Whether this claim is on its way out because of us."""
    return claim.deleting and labels.REPAIR_DRAIN_UNTIL in claim.metadata.annotations


def reported_seconds(f: Facts, node: Node) -> float:
    """Seconds for which claim and Node both say that it is not Ready: the first sight of a process before this one.

    The claim's own word may be older than this sickness (its GPUs were lost before), the Node's may be younger (False
    and Unknown took turns): the later of the two never takes a Node too early.
    """
    said = f.claim.condition(INITIALIZED) if f.claim is not None else None
    if said is None or said.status != "False" or said.reason not in (reasons.NODE_NOT_READY, reasons.SPOT_EVICTED):
        return 0.0
    ready = node.ready_condition
    since = ready.last_transition_time if ready is not None else None
    begun = said.last_transition_time if since is None else max(said.last_transition_time, since)
    return max(0.0, (f.now - begun).total_seconds())


def step(f: Facts) -> Step | None:
    """The next step for a Node that is not Ready; None: there is none, or it is not ours to repair."""
    claim, node, unhealthy = f.claim, unhealthy_node(f), f.unhealthy
    if claim is None or claim.deleting:
        return None
    if node is None or unhealthy is None or not _enabled(f, claim):
        return _undo_drain_deadline(f, claim)
    waiting = _wait_for_node(f, unhealthy, node)
    if waiting is not None:
        return waiting
    if f.counts.restricted or blocked_by_limits(f.policy, f.counts.unhealthy_counts):
        return Wait(after=f.policy.repair_poll_seconds, why="the repair waits for others")
    return _fresh_reads(f, claim, node, unhealthy) or _remove(f, claim, node, unhealthy)


def not_yet(f: Facts) -> Step | None:
    """What keeps this Node from being repaired, the state of the fleet aside; None: nothing, its repair is due."""
    claim, node, unhealthy = f.claim, unhealthy_node(f), f.unhealthy
    if claim is None or node is None or unhealthy is None or not _enabled(f, claim):
        return Wait(after=None, why="there is nothing to repair")
    return _wait_for_node(f, unhealthy, node)


def is_due(f: Facts) -> bool:
    """Whether nothing but the state of the fleet keeps this Node from being repaired."""
    return not_yet(f) is None


def _enabled(f: Facts, claim: NodeClaim) -> bool:
    return f.policy.node_repair and claim.metadata.annotations.get(labels.REPAIR) != "disabled"


def _wait_for_node(f: Facts, unhealthy: Unhealthy, node: Node) -> Step | None:
    """What this Node's own state still asks for: time, an inference's waits, AKS's turn."""
    policy = f.policy
    left = policy.repair_seconds - unhealthy.age
    if left > 0:
        return Wait(after=left, why=f"Node {node.name} may come back by itself")
    if "DeleteClaim" in f.refused:
        return Wait(after=None, why="the API server refuses to delete the claim")
    waiting = block_removal(f, unhealthy.watched, policy.repair_watch_seconds)
    if waiting is not None and not f.counts.restricted:
        return waiting
    if unhealthy.remedies_age > policy.repair_poll_seconds:
        return ReadRemedies(node=node)
    left = _aks_repair_seconds_left(f, unhealthy, node)
    if left > 0:
        return Wait(after=min(left, policy.repair_poll_seconds), why=f"AKS repairs Node {node.name} itself")
    return None


def _aks_repair_seconds_left(f: Facts, unhealthy: Unhealthy, node: Node) -> float:
    """Seconds for which AKS's auto-repair should not be disturbed; none if it is not at work, or has given up."""
    policy, until = f.policy, 0.0
    if unhealthy.remedies is None or any(taint.key in REMEDIATOR_TAINTS for taint in node.spec.taints):
        until = policy.repair_aks_seconds
    last = unhealthy.remedies[-1] if unhealthy.remedies else None
    if last is not None:
        happened = unhealthy.age - (f.now - last.at).total_seconds()
        if last.stage == "Start":
            until = max(until, policy.repair_aks_seconds, happened + policy.repair_remedy_seconds)
        elif last.stage == "End":
            until = max(until, happened + policy.repair_remedied_seconds)
    return min(until, policy.repair_most_seconds) - unhealthy.age


# The fleet


def max_concurrent(policy: Policy, nodes: int) -> int:
    """How many of so many Nodes may be under repair at one time."""
    return max(1, int(policy.repair_share * nodes))


def max_simultaneous(policy: Policy, nodes: int) -> float:
    """How many of so many Nodes may fall sick within one window before none is repaired."""
    return max(policy.repair_simultaneous_floor, policy.repair_simultaneous_share * nodes)


def blocked_by_limits(policy: Policy, unhealthy_counts: UnhealthyCounts) -> str:
    """Why the state of the ward holds a repair back, in words for people; "" if it does not."""
    if unhealthy_counts.simultaneous > max_simultaneous(policy, unhealthy_counts.nodes):
        minutes = round(policy.repair_simultaneous_seconds / 60)
        failed = f"{unhealthy_counts.simultaneous} of {unhealthy_counts.nodes} Nodes"
        return f"{failed} became unhealthy within {minutes} min; look for a common cause"
    at_once = max_concurrent(policy, unhealthy_counts.nodes)
    if unhealthy_counts.going + unhealthy_counts.place > at_once:
        return (
            f"{unhealthy_counts.unhealthy} of {unhealthy_counts.nodes} Nodes are sick, {at_once} at a time is repaired"
        )
    return ""


def blocked(f: Facts) -> str:
    """Why a repair that is due is held back, in words for people; "" if it is not due, or not held back."""
    if not is_due(f):
        return ""
    return (
        "too many removals by inference at once"
        if f.counts.restricted
        else blocked_by_limits(f.policy, f.counts.unhealthy_counts)
    )


def with_blocked_repair(f: Facts, updates: ConditionUpdate | None) -> ConditionUpdate | None:
    """The Initialized condition of a Node whose repair waits for others says so, and for what."""
    if updates is None or updates.reason != reasons.NODE_NOT_READY:
        return updates
    why = blocked(f)
    return msgspec.structs.replace(updates, message=f"{updates.message}; its repair waits: {why}") if why else updates


# The removal


def _fresh_reads(f: Facts, claim: NodeClaim, node: Node, unhealthy: Unhealthy) -> Step | None:
    """Fresh reads of everything the removal rests on; None: they all agree."""
    fresh = f.policy.fresh_seconds
    if unhealthy.remedies_age > fresh:
        return ReadRemedies(node=node)
    if f.claim_read_age > fresh:
        return LookUpClaim(name=claim.name)
    if f.pool_read_age > fresh:
        return LookUpPool(name=f.key)
    if f.nodes_read_age > fresh:
        return LookUpNodes(pool=f.key)
    read = f.claim_read
    if read is None or read.uid != claim.uid or read.deleting or not _enabled(f, read):
        return Wait(after=5.0, why="the claim changed; the cache will follow")
    if not any(seen.uid == node.uid and not seen.ready and not seen.deleting for seen in f.nodes_read):
        return Wait(after=5.0, why="the Node changed; the cache will follow")
    return None


def _remove(f: Facts, claim: NodeClaim, node: Node, unhealthy: Unhealthy) -> Step:
    notes, latest = claim.metadata.annotations, f.now + timedelta(seconds=_drain_seconds(f.policy, claim))
    bound = grace_period.annotated_deadline(claim)
    # An earlier end that somebody else has set stands.
    early = bound is not None and bound <= latest
    if not (early and labels.REPAIR_DRAIN_UNTIL in notes) and "PatchClaim" not in f.refused:
        own = rfc3339(latest)
        until = notes[labels.TERMINATION_TIMESTAMP] if early else own
        return PatchClaim(
            claim=claim, annotations={labels.TERMINATION_TIMESTAMP: until, labels.REPAIR_DRAIN_UNTIL: own}
        )
    condition = node.ready_condition
    reason = condition.reason if condition is not None and condition.reason else "no cause given"
    message = (
        f"Node {node.name} has not been Ready ({reason}) for {int(unhealthy.age // 60)} min:"
        " its NodeClaim is deleted, for its owner to make a new one"
    )
    event = Event(type="Warning", reason=reasons.NODE_REPAIR, message=message)
    return DeleteClaim(claim=claim, cause="unhealthy-node", event=event)


def _drain_seconds(policy: Policy, claim: NodeClaim) -> float:
    """What the claim itself grants its pods is not lengthened."""
    granted = parse_duration(claim.spec.termination_grace_period or "")
    return policy.repair_drain_seconds if granted is None else min(granted, policy.repair_drain_seconds)


def _undo_drain_deadline(f: Facts, claim: NodeClaim) -> PatchClaim | None:
    """A Node that came back at the last moment is not going: the end of its drain would be a trap for a later one."""
    notes = claim.metadata.annotations
    own = notes.get(labels.REPAIR_DRAIN_UNTIL)
    if own is None or "PatchClaim" in f.refused:
        return None
    gone: dict[str, str | None] = {labels.REPAIR_DRAIN_UNTIL: None}
    if notes.get(labels.TERMINATION_TIMESTAMP) == own:
        gone[labels.TERMINATION_TIMESTAMP] = None
    return PatchClaim(claim=claim, annotations=gone)
