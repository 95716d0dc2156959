"""Repair of an unhealthy machine: its claim is deleted, and the claim's owner creates a replacement.

Which signals make a machine unhealthy, for how long each is tolerated, and what has to confirm it, is the repair policy
(`repair_policy.py`). The time counts from our first observation of the signals of a group (`observation.py`). A Node
that is gone while its pool is at rest is replaced later. AKS's node auto-repair takes precedence. The machine is
removed as usual, with a deadline for its drain.

Claims with `labels.REPAIR` "disabled", machines that become unhealthy together, and machines that fail as two others of
their size and image did, are not repaired (`limits.py`); `do-not-disrupt` does not prevent a repair.

Source: docs/references/karpenter.md#node-repair, docs/references/agent-pools.md#machine-interruptions-and-auto-repair.
"""

import math

import msgspec

from controllers.garbagecollection.garbage import block_removal
from controllers.model.conditions import ConditionUpdate, clock_text
from controllers.model.deadlines import MARK
from controllers.model.facts import Facts, Unhealthy
from controllers.model.node_for_claim import node_for_claim
from controllers.model.ownership import belongs
from controllers.model.policy import Policy
from controllers.model.recent_repairs import RepairStage
from controllers.model.steps import (
    CountGpuPods,
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
from provisioner.api import labels, reasons
from provisioner.api.conditions import INITIALIZED, MESSAGE_BYTES, truncate
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.repair_policy import NOT_READY, NOT_REGISTERED
from provisioner.api.time import parse_duration, rfc3339, shifted

from . import gpu_cordon, limits, messages, plugin_restart, signals
from .limits import blocked_by_limits

# Taints of AKS's remediator on a Node under repair; the name differs by version.
REMEDIATOR_TAINTS = ("remediator.kubernetes.azure.com/unschedulable", "remediator.aks.microsoft.com/unschedulable")
# The reasons of conditions that report what repair waits for.
REPORTED = (
    reasons.NODE_NOT_READY,
    reasons.NODE_LOST,
    reasons.GPU_UNAVAILABLE,
    reasons.NODE_NOT_FOUND,
    reasons.RESOURCE_NOT_REGISTERED,
)


def unhealthy_node(f: Facts) -> Node | None:
    """The Node of a claim with a signal of the repair policy; None without a signal.

    If the claim has no Node, the name in its status, or of its pool, stands for it, with the claim's UID.
    """
    claim = f.claim
    if claim is None or claim.deleting or f.unhealthy is None:
        return None
    return node_for_claim(f) or Node(metadata=ObjectMeta(name=claim.status.node_name or f.key, uid=claim.uid))


def deleted_by_repair(claim: NodeClaim) -> bool:
    """Whether a repair deleted this claim."""
    return claim.deleting and labels.REPAIR_DRAIN_UNTIL in claim.metadata.annotations


def step(f: Facts) -> Step | None:
    """The next step of a repair; None if the machine is healthy, or not to be repaired."""
    claim, node, unhealthy = f.claim, unhealthy_node(f), f.unhealthy
    if claim is None or claim.deleting:
        return None
    acts = _enabled(f, claim) and not f.policy.repair_dry_run
    if (cordon := gpu_cordon.step(f, enabled=acts)) is not None:
        return cordon
    if node is None or unhealthy is None or not unhealthy.replaces or not _enabled(f, claim):
        return _undo_drain_deadline(f, claim)
    if acts and (restart := plugin_restart.step(f)) is not None:
        return restart
    waiting = _wait_for_node(f, unhealthy, node)
    if waiting is not None:
        return _sooner(waiting, plugin_restart.seconds_left(f, unhealthy), gpu_cordon.seconds_left(f))
    if f.counts.restricted or blocked_by_limits(f.policy, f.counts.unhealthy_counts):
        return Wait(after=f.policy.repair_poll_seconds, why="repair delayed by the limits on simultaneous repairs")
    if limits.suspended(f):
        return Wait(after=None, why="repair suspended: machines of this size and image failed in the same way")
    if f.policy.repair_dry_run:
        return Wait(after=None, why="dry run: repair would delete the claim")
    return _fresh_reads(f, claim, node, unhealthy) or _remove(f, claim, node, unhealthy)


def _sooner(waiting: Step, *seconds: float) -> Step:
    soonest = min((one for one in seconds if one > 0), default=math.inf)
    if not isinstance(waiting, Wait) or soonest >= (math.inf if waiting.after is None else waiting.after):
        return waiting
    return msgspec.structs.replace(waiting, after=soonest)


def not_yet(f: Facts) -> Step | None:
    """What delays the repair of this Node, other Nodes aside; None if its repair is due."""
    claim, node, unhealthy = f.claim, unhealthy_node(f), f.unhealthy
    if claim is None or node is None or unhealthy is None or not unhealthy.replaces or not _enabled(f, claim):
        return Wait(after=None, why="there is nothing to repair")
    return _wait_for_node(f, unhealthy, node)


def is_due(f: Facts) -> bool:
    """Whether the repair is due, apart from the limits on simultaneous repairs."""
    return not_yet(f) is None


def dry_run(f: Facts) -> str:
    """What repair would do now; "" if it is not a dry run, or if nothing would be done."""
    claim, node, unhealthy = f.claim, unhealthy_node(f), f.unhealthy
    if claim is None or node is None or unhealthy is None or not f.policy.repair_dry_run or not is_due(f):
        return ""
    if blocked(f) or limits.suspended(f):
        return ""
    return f"Dry run: {messages.deleted(f, claim, node, unhealthy)}"


def _enabled(f: Facts, claim: NodeClaim) -> bool:
    return f.policy.node_repair and claim.metadata.annotations.get(labels.REPAIR) != "disabled"


def _wait_for_node(f: Facts, unhealthy: Unhealthy, node: Node) -> Step | None:
    """What delays the repair: its minimum age, the conditions of inferred removals, or AKS's auto-repair."""
    policy = f.policy
    least = policy.node_lost_seconds if unhealthy.lost else signals.seconds(f, unhealthy.policy)
    left = least - unhealthy.age(f.loop_now)
    if left > 0:
        return Wait(after=left, why=f"Node {node.name} may recover")
    if "DeleteClaim" in f.refused:
        return Wait(after=None, why="the API server rejects deleting the claim")
    watch = policy.node_lost_watch_seconds if unhealthy.lost else policy.repair_watch_seconds
    waiting = block_removal(f, unhealthy.observed_age(f.loop_now), watch)
    if waiting is not None and not f.counts.restricted:
        return waiting
    if unhealthy.policy.signal == NOT_REGISTERED:
        return None
    if unhealthy.remedies_age(f.loop_now) > policy.repair_poll_seconds:
        return ReadRemedies(node=node)
    left = _aks_repair_seconds_left(f, unhealthy, node)
    if left > 0:
        return Wait(after=min(left, policy.repair_poll_seconds), why=f"waiting for AKS auto-repair of Node {node.name}")
    return _wait_for_gpu_pods(f, unhealthy, node) if gpu_cordon.is_partial(f) else None


def _wait_for_gpu_pods(f: Facts, unhealthy: Unhealthy, node: Node) -> Step | None:
    """A machine with some of its GPUs keeps the pods that use them, up to a limit."""
    left = f.policy.repair_partial_seconds - unhealthy.age(f.loop_now)
    if left <= 0:
        return None
    if unhealthy.gpu_pods_age(f.loop_now) > f.policy.repair_poll_seconds:
        return CountGpuPods(node=node)
    if unhealthy.gpu_pods:
        pods = f"{unhealthy.gpu_pods} pods with GPUs on Node {node.name}"
        return Wait(after=min(left, f.policy.repair_poll_seconds), why=f"waiting for {pods}")
    return None


def _aks_repair_seconds_left(f: Facts, unhealthy: Unhealthy, node: Node) -> float:
    """Seconds to wait for AKS's auto-repair; 0 or less if it is not in progress, or has failed."""
    policy, until = f.policy, 0.0
    # AKS repairs only Nodes that are not Ready: for these alone, a repair that cannot be read is assumed.
    unknown = unhealthy.remedies is None and unhealthy.policy.signal == NOT_READY
    if unknown or any(taint.key in REMEDIATOR_TAINTS for taint in node.spec.taints):
        until = policy.repair_aks_seconds
    last = unhealthy.remedies[-1] if unhealthy.remedies else None
    if last is not None:
        happened = unhealthy.age(f.loop_now) - (f.now - last.at).total_seconds()
        if last.stage == "Start":
            until = max(until, policy.repair_aks_seconds, happened + policy.repair_remedy_seconds)
        elif last.stage == "End":
            until = max(until, happened + policy.repair_remedied_seconds)
    return min(until, policy.repair_most_seconds) - unhealthy.age(f.loop_now)


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
    """The condition of a claim's Node, with the cause appended if a repair is due and delayed."""
    if update is None or update.reason not in REPORTED or f.unhealthy is None:
        return update
    text = f"; repair delayed: {why}" if (why := blocked(f)) else _replaced_text(f)
    if not text and limits.suspended(f) and is_due(f):
        text = "; repair suspended: see condition NodeHealthy"
    if not text:
        return update
    # What is added is not cut, nor the word by which a passed deadline is reported once; the cause can be.
    cause, mark, deadline = update.message.partition(MARK)
    room = MESSAGE_BYTES - len((text + mark + deadline).encode())
    return msgspec.structs.replace(update, message=truncate(cause, room) + text + mark + deadline)


def taken_back(f: Facts, update: ConditionUpdate | None) -> ConditionUpdate | None:
    """The Initialized condition, False for a machine that is about to be replaced.

    KAITO's RAGEngine creates a second claim while one without a Node is Initialized
    (docs/references/kaito.md#ragengine).
    """
    replacing = f.claim is not None and labels.REPAIR_DRAIN_UNTIL in f.claim.metadata.annotations
    if update is None or update.status != "True" or not replacing or f.unhealthy is None or not f.unhealthy.replaces:
        return update
    reason, message = reasons.NODE_CONDITION_UNHEALTHY, messages.conditions(f, f.unhealthy)
    return ConditionUpdate(status="False", reason=reason, message=message, warning=True)


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
    if node not in f.nodes and not any(belongs(seen, claim) for seen in f.nodes_read):
        return None
    if not any(seen.uid == node.uid and not seen.deleting and _persists(f, claim, seen) for seen in f.nodes_read):
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
    if claim.condition(INITIALIZED, "True") is not None and "PatchStatus" not in f.refused:
        return Wait(after=0.0, why="the claim is to state first that its machine is not usable")
    event = Event(type="Warning", reason=reasons.NODE_REPAIR, message=messages.deleted(f, claim, node, unhealthy))
    return DeleteClaim(claim=claim, cause=messages.cause_of(unhealthy), event=event)


def _persists(f: Facts, claim: NodeClaim, seen: Node) -> bool:
    """Whether the Node, as it was read, still has a signal of the same group."""
    group = f.unhealthy.policy.group if f.unhealthy is not None else ""
    return any(row.group == group for row in signals.present(f, claim, seen))


def repaired_stage(f: Facts, step: Step) -> RepairStage | None:
    """What a young machine that this step replaces has in common with others that fail in the same way."""
    if not isinstance(step, DeleteClaim) or f.unhealthy is None or f.candidate is not None:
        return None
    return f.unhealthy.stage


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
