"""The removal of a machine whose repair is due: fresh reads, the deadline of its drain, and the deletion of its claim.

The machine is removed as usual; the claim's owner creates a replacement.
"""

from controllers.gate.gate import Evidence
from controllers.model.deletion import delete_claim
from controllers.model.facts import Facts, Unhealthy
from controllers.model.ownership import belongs, managed
from controllers.model.policy import Policy
from controllers.model.steps import (
    CountGpuPods,
    LookUpClaim,
    LookUpNodes,
    LookUpPool,
    PatchClaim,
    ReadRemedies,
    Step,
    Wait,
)
from controllers.node.termination import grace_period
from provisioner.api import labels
from provisioner.api.conditions import INITIALIZED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.time import parse_duration, parse_rfc3339, rfc3339, shifted

from . import another, diagnosis_reads, limits, messages, signals
from .limits import blocked_by_limits
from .repair_delays import pods_seconds_left
from .repairable import is_enabled


def fresh_reads(f: Facts, claim: NodeClaim, node: Node, unhealthy: Unhealthy) -> Step | None:
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
    if unhealthy.policy.agreement in ("Diagnosis", "GpuCount") and (of_gpus := diagnosis_reads.fresh(f, node)):
        return of_gpus
    if unhealthy.policy.works and unhealthy.gpu_pods_age(f.loop_now) > fresh:
        return CountGpuPods(node=node)
    read = f.claim_read
    if read is None or read.uid != claim.uid or read.deleting or not is_enabled(f.policy, read):
        return Wait(after=5.0, why="waiting for the cache to show the changed claim")
    if node not in f.nodes and not any(belongs(seen, claim) for seen in f.nodes_read):
        return None
    if not any(seen.uid == node.uid and not seen.deleting and _persists(f, claim, seen) for seen in f.nodes_read):
        return Wait(after=5.0, why="waiting for the cache to show the changed Node")
    return None


def remove(f: Facts, claim: NodeClaim, node: Node, unhealthy: Unhealthy) -> Step:
    """The deletion of the claim, once the deadline of the drain is written and the claim is not Initialized."""
    notes, latest = claim.metadata.annotations, shifted(f.now, _drain_seconds(f.policy, claim, unhealthy))
    bound = grace_period.annotated_deadline(claim)
    # An earlier deadline that another client has set is kept. One that repair wrote before limits delayed it is over.
    own_bound = notes.get(labels.TERMINATION_TIMESTAMP) == notes.get(labels.REPAIR_DRAIN_UNTIL)
    over = own_bound and bound is not None and bound <= shifted(f.now, f.policy.repair_poll_seconds)
    early = bound is not None and bound <= latest and not over
    if not (early and labels.REPAIR_DRAIN_UNTIL in notes) and "PatchClaim" not in f.refused:
        own = rfc3339(latest)
        until = notes[labels.TERMINATION_TIMESTAMP] if early else own
        return PatchClaim(
            claim=claim, annotations={labels.TERMINATION_TIMESTAMP: until, labels.REPAIR_DRAIN_UNTIL: own}
        )
    if claim.condition(INITIALIZED, "True") is not None and "PatchStatus" not in f.refused:
        return Wait(after=0.0, why="the claim is to state first that its machine is not usable")
    return delete_claim(claim, _evidence(f, claim, unhealthy), messages.deleted(f, claim, node, unhealthy))


def _evidence(f: Facts, claim: NodeClaim, unhealthy: Unhealthy) -> Evidence:
    """What is known when the fresh reads agree with the caches."""
    least = f.policy.node_lost_seconds if unhealthy.lost else signals.seconds(f, unhealthy.policy)
    reads = (f.claim_read_age, f.pool_read_age, f.nodes_read_age)
    row = unhealthy.policy
    counted = row.works and unhealthy.gpu_pods_age(f.loop_now) <= f.policy.fresh_seconds
    return Evidence(
        cause=messages.cause_of(unhealthy),
        uid=claim.uid,
        ours=managed(claim),
        seen=True if max(reads) <= f.policy.fresh_seconds and unhealthy.replaces else None,
        left_seconds=max(0.0, least - unhealthy.age(f.loop_now)),
        doubt=signals.fault_elsewhere(f) if row.agreement == "Diagnosis" else "",
        works=unhealthy.serves,
        gpu_pods=unhealthy.gpu_pods if counted else None,
        pods_seconds=pods_seconds_left(f, unhealthy),
        place=another.place(f),
        lacking=another.lacking(f),
        busy=blocked_by_limits(f.policy, f.counts.unhealthy_counts),
        loop=limits.suspended(f),
    )


def _persists(f: Facts, claim: NodeClaim, seen: Node) -> bool:
    """Whether the Node, as it was read, still has a signal of the same group that replaces it, and no GPUs more."""
    group, some = ("", False) if f.unhealthy is None else (f.unhealthy.policy.group, f.unhealthy.some_gpus)
    return any(
        row.group == group
        and signals.replaces(f, claim, seen, row)
        and (some or not signals.some_gpus(f, claim, seen, row))
        for row in signals.present(f, claim, seen)
    )


def _drain_seconds(policy: Policy, claim: NodeClaim, unhealthy: Unhealthy) -> float:
    """The time limit of the drain: at most the claim's termination grace period.

    The pods of a machine that still works have their own grace periods, after the time in which they can be evicted.
    """
    own = parse_duration(claim.spec.termination_grace_period or "")
    grace = min(unhealthy.grace_seconds, policy.repair_grace_seconds) if unhealthy.policy.works else 0.0
    limit = policy.repair_drain_seconds + grace
    return limit if own is None else min(own, limit)


def drain_is_over(f: Facts, claim: NodeClaim) -> bool:
    """Whether the deadline of a drain that a repair wrote has passed, and the repair was not made."""
    until = parse_rfc3339(claim.metadata.annotations.get(labels.REPAIR_DRAIN_UNTIL, ""))
    return until is not None and until <= f.now


def undo_drain_deadline(f: Facts, claim: NodeClaim) -> PatchClaim | None:
    """Remove the deadline of a drain that a repair wrote before the Node recovered: a later drain must not use it."""
    notes = claim.metadata.annotations
    own = notes.get(labels.REPAIR_DRAIN_UNTIL)
    if own is None or "PatchClaim" in f.refused:
        return None
    removed: dict[str, str | None] = {labels.REPAIR_DRAIN_UNTIL: None}
    if notes.get(labels.TERMINATION_TIMESTAMP) == own:
        removed[labels.TERMINATION_TIMESTAMP] = None
    return PatchClaim(claim=claim, annotations=removed)
