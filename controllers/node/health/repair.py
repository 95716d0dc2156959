"""Repair of an unhealthy machine: its claim is deleted, and the claim's owner creates a replacement.

Which signals make a machine unhealthy, for how long each is tolerated, and what has to confirm it, is the repair policy
(`repair_policy.py`). The time counts from our first observation of the signals of a group (`observation.py`). A Node
that is gone while its pool is at rest is replaced later. What delays one repair is in `repair_delays.py`, the removal
of the machine is in `repair_removal.py`.

Claims with `labels.REPAIR` "disabled", machines that become unhealthy together, and machines that fail as two others of
their size and image did, are not repaired (`limits.py`); `do-not-disrupt` does not prevent a repair.

Source: docs/references/karpenter.md#node-repair, docs/references/agent-pools.md#machine-interruptions-and-auto-repair.
"""

import math

import msgspec

from controllers.gate.gate import UNKNOWN_SECONDS
from controllers.model.facts import Facts
from controllers.model.recent_repairs import RepairStage
from controllers.model.steps import DeleteClaim, Step, Wait

from . import another, cordon, limits, messages, observed_before, plugin_restart
from .limits import blocked_by_limits
from .repair_delays import delay
from .repair_removal import drain_is_over, fresh_reads, remove, undo_drain_deadline
from .repairable import is_enabled, may_act, unhealthy_node


def step(f: Facts) -> Step | None:
    """The next step of a repair; None if the machine is healthy, or not to be repaired."""
    claim, node, unhealthy = f.claim, unhealthy_node(f), f.unhealthy
    if claim is None or claim.deleting:
        return None
    acts = may_act(f.policy, claim)
    if (patch := cordon.step(f, enabled=acts)) is not None:
        return patch
    if node is None or unhealthy is None or not unhealthy.replaces or not is_enabled(f.policy, claim):
        return undo_drain_deadline(f, claim) or observed_before.remove(f, claim) or _wait_for_cordon(f, enabled=acts)
    if acts and (restart := plugin_restart.step(f)) is not None:
        return restart
    waiting = delay(f, unhealthy, node)
    if waiting is not None:
        if (undo := undo_drain_deadline(f, claim)) is not None and drain_is_over(f, claim):
            return undo
        return (observed_before.write(f, claim, unhealthy) if acts else None) or _sooner(
            waiting,
            plugin_restart.seconds_left(f, unhealthy),
            cordon.seconds_left(f),
            observed_before.seconds_left(f, claim, unhealthy) if acts else math.inf,
        )
    kept = _kept(f)
    if kept is None:
        return fresh_reads(f, claim, node, unhealthy) or remove(f, claim, node, unhealthy)
    # Another process may have begun it: what deletes the claim later must not use the deadline of that drain.
    return (None if f.scarce is None else undo_drain_deadline(f, claim)) or kept


def _kept(f: Facts) -> Wait | None:
    """Why a machine is kept whose repair is due; None if it is not."""
    if f.counts.restricted or blocked_by_limits(f.policy, f.counts.unhealthy_counts):
        return Wait(after=f.policy.repair_poll_seconds, why="repair delayed by the limits on simultaneous repairs")
    if why := another.obstacle(f):
        return Wait(after=UNKNOWN_SECONDS if f.scarce is None else f.policy.repair_poll_seconds, why=why)
    if limits.suspended(f):
        return Wait(after=None, why="repair suspended: machines of this size and image failed in the same way")
    if f.policy.repair_dry_run:
        return Wait(after=None, why="dry run: repair would delete the claim")
    return None


def _wait_for_cordon(f: Facts, *, enabled: bool) -> Wait | None:
    left = cordon.seconds_left(f)
    return Wait(after=left, why="the Node is cordoned if this lasts") if enabled and 0 < left < math.inf else None


def _sooner(waiting: Step, *seconds: float) -> Step:
    soonest = min((one for one in seconds if one > 0), default=math.inf)
    if not isinstance(waiting, Wait) or soonest >= (math.inf if waiting.after is None else waiting.after):
        return waiting
    return msgspec.structs.replace(waiting, after=soonest)


def not_yet(f: Facts) -> Step | None:
    """What delays the repair of this Node, other Nodes aside; None if its repair is due."""
    claim, node, unhealthy = f.claim, unhealthy_node(f), f.unhealthy
    if claim is None or node is None or unhealthy is None or not unhealthy.replaces or not is_enabled(f.policy, claim):
        return Wait(after=None, why="there is nothing to repair")
    return delay(f, unhealthy, node)


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


def blocked(f: Facts) -> str:
    """Why a repair that is due is delayed; "" if it is not due, or not delayed."""
    if not is_due(f):
        return ""
    if f.counts.restricted:
        return "circuit breaker: too many inferred removals at once"
    return blocked_by_limits(f.policy, f.counts.unhealthy_counts) or another.obstacle(f)


def repaired_stage(f: Facts, step: Step) -> RepairStage | None:
    """What a machine that this step replaces has in common with others that fail in the same way."""
    if not isinstance(step, DeleteClaim) or f.unhealthy is None or f.candidate is not None:
        return None
    return f.unhealthy.stage
