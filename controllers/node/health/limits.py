"""Limits on repairs: how many at once, one for each owner of KAITO, none while many machines fail together, and no
endless row of replacements.

Machines of one size and node image that fail young and in the same way are replaced twice. Unless one of them was
usable meanwhile, the next one is kept until its image changes or a user decides: its replacement would fail as well.
Those of one owner that fail in the same way at any age, each in place of the former one, are replaced four times.
Machines that still work are replaced one after the other: not before the replacement of the last one is Ready, and not
if so many had the same signal within a day that it is the trace of a rollout.

Source: docs/references/karpenter.md#node-repair.
"""

from controllers.model.facts import Facts, Unhealthy, UnhealthyCounts
from controllers.model.policy import Policy
from controllers.model.recent_repairs import ANY_IMAGE, RepairStage
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.repair_policy import NOT_READY
from provisioner.api.time import parse_rfc3339


def max_concurrent(policy: Policy, nodes: int) -> int:
    """How many of `nodes` may be under repair at a time."""
    return max(1, int(policy.repair_share * nodes))


def max_simultaneous(policy: Policy, nodes: int) -> float:
    """How many of `nodes` may become unhealthy within one window; above it none is repaired."""
    return max(policy.repair_simultaneous_floor, policy.repair_simultaneous_share * nodes)


def fail_together(policy: Policy, counts: UnhealthyCounts) -> bool:
    """Whether so many machines became unhealthy within one window that they have a common cause."""
    return counts.all_at_once or counts.simultaneous > max_simultaneous(policy, counts.nodes)


def rolls_out(policy: Policy, counts: UnhealthyCounts) -> str:
    """Why the number of Nodes that had a signal within a day looks like a rollout; "" if it does not."""
    if counts.affected <= max(policy.repair_rollout_floor, policy.repair_rollout_share * counts.nodes):
        return ""
    hours = round(policy.repair_rollout_seconds / 3600)
    return f"{counts.affected} Nodes of {counts.nodes} had this within {hours} h; look for a rollout"


def blocked_by_limits(policy: Policy, counts: UnhealthyCounts) -> str:
    """Why the number of unhealthy Nodes delays a repair; "" if it does not."""
    if fail_together(policy, counts):
        minutes = round(policy.repair_simultaneous_seconds / 60)
        failed = f"{counts.simultaneous} of {counts.nodes} Nodes"
        return f"{failed} became unhealthy within {minutes} min; look for a common cause"
    if why := rolls_out(policy, counts):
        return why
    at_once = 1 if counts.serves else max_concurrent(policy, counts.nodes)
    if counts.going + counts.place > at_once:
        overdue = f", {counts.overdue} overdue not counted" if counts.overdue else ""
        return f"{counts.unhealthy} of {counts.nodes} Nodes are unhealthy, repaired {at_once} at a time{overdue}"
    if counts.owner:
        return f"another machine of {counts.owner} is being replaced"
    return f"the last replacement of {counts.successor} is not Ready" if counts.successor else ""


def is_suspended(policy: Policy, unhealthy: Unhealthy, alike: int, in_turn: int, others: bool) -> bool:
    """Whether this machine is kept: `alike` such machines were replaced and none was usable, or `others` are kept.

    At any age, if so many of its owner were replaced `in_turn`, and no newer one became as old as they did.
    """
    if unhealthy.stage is None or unhealthy.allowed:
        return False
    of_young = unhealthy.stage.young and (others or alike >= policy.repair_alike)
    return unhealthy.kept or of_young or in_turn >= policy.repair_in_turn


def suspended(f: Facts) -> str:
    """Why this machine is kept, and what ends that; "" if it is not."""
    if f.unhealthy is None or not f.counts.unhealthy_counts.suspended:
        return ""
    return suspension_message(f, f.unhealthy.stage) if f.unhealthy.stage is not None else ""


def suspension_message(f: Facts, stage: RepairStage) -> str:
    """The message of the condition, with the image."""
    allow = f"annotate it {labels.REPAIR}=<time until which it may be replaced>"
    alike = f"{f.policy.repair_alike} machines {stage.size}"
    if stage.image == ANY_IMAGE:
        return f"{alike} had some of their GPUs only, from the start; this one is kept. To try again, {allow}"
    image = stage.image or "an unknown image"
    failed = "not Ready" if stage.stage == NOT_READY else stage.stage
    if not stage.young:
        alike, failed = f"{f.policy.repair_in_turn} machines {stage.size}", f"{failed}, one after the other"
    return f"{alike} with {image} failed ({failed}); this one is kept. Delete the claim with another image, or {allow}"


def allowed(f: Facts, claim: NodeClaim) -> bool:
    """Whether a user allows the repair of this machine now, whatever happened to others: until a time, within a day.

    What a template copies to every claim ends with its time.
    """
    until = parse_rfc3339(claim.metadata.annotations.get(labels.REPAIR, ""))
    return until is not None and 0 < (until - f.now).total_seconds() <= f.policy.repair_allowed_seconds
