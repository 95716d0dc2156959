"""Limits on repairs: how many at once, one for each owner of KAITO, none while many machines fail together, and no
endless row of replacements.

Machines of one size and node image that fail young and in the same way are replaced twice within an hour; the next one
is kept until its image changes or a user decides, because its replacement would fail as well.

Source: docs/references/karpenter.md#node-repair.
"""

from controllers.model.facts import Facts, Unhealthy, UnhealthyCounts
from controllers.model.policy import Policy
from controllers.model.recent_repairs import RepairStage
from provisioner.api import labels
from provisioner.api.repair_policy import NOT_READY


def max_concurrent(policy: Policy, nodes: int) -> int:
    """How many of `nodes` may be under repair at a time."""
    return max(1, int(policy.repair_share * nodes))


def max_simultaneous(policy: Policy, nodes: int) -> float:
    """How many of `nodes` may become unhealthy within one window; above it none is repaired."""
    return max(policy.repair_simultaneous_floor, policy.repair_simultaneous_share * nodes)


def fail_together(policy: Policy, counts: UnhealthyCounts) -> bool:
    """Whether so many machines became unhealthy within one window that they have a common cause."""
    return counts.simultaneous > max_simultaneous(policy, counts.nodes)


def blocked_by_limits(policy: Policy, counts: UnhealthyCounts) -> str:
    """Why the number of unhealthy Nodes delays a repair; "" if it does not."""
    if fail_together(policy, counts):
        minutes = round(policy.repair_simultaneous_seconds / 60)
        failed = f"{counts.simultaneous} of {counts.nodes} Nodes"
        return f"{failed} became unhealthy within {minutes} min; look for a common cause"
    at_once = max_concurrent(policy, counts.nodes)
    if counts.going + counts.place > at_once:
        overdue = f", {counts.overdue} overdue not counted" if counts.overdue else ""
        return f"{counts.unhealthy} of {counts.nodes} Nodes are unhealthy, repaired {at_once} at a time{overdue}"
    return f"another machine of {counts.owner} is being replaced" if counts.owner else ""


def is_suspended(policy: Policy, unhealthy: Unhealthy, alike: int, others: bool) -> bool:
    """Whether this machine is kept: `alike` such machines were replaced within the window, or `others` are kept."""
    return unhealthy.stage is not None and (unhealthy.kept or others or alike >= policy.repair_alike)


def suspended(f: Facts) -> str:
    """Why this machine is kept, and what ends that; "" if it is not."""
    if f.unhealthy is None or not f.counts.unhealthy_counts.suspended:
        return ""
    return suspension_message(f, f.unhealthy.stage) if f.unhealthy.stage is not None else ""


def suspension_message(f: Facts, stage: RepairStage) -> str:
    """The message of the condition, with the image."""
    image = stage.image or "an unknown image"
    failed = "not Ready" if stage.stage == NOT_READY else stage.stage
    minutes = round(f.policy.repair_alike_seconds / 60)
    return (
        f"{f.policy.repair_alike} machines {stage.size} with {image} failed within {minutes} min ({failed});"
        " this one is kept. Delete the claim with another image, or annotate it"
        f" {labels.REPAIR}=enabled"
    )
