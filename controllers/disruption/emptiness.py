"""Emptiness: which machines of a NodePool are removed because no pod uses them, as a pure function.

A machine is empty as `controllers.disruption.blockers` states. It is removed when it was empty for `consolidateAfter`
and 15 more seconds, within the budgets of its NodePool, the one that is empty the longest first.
Only NodeClaims of dynamic NodePools are considered.

Source: https://karpenter.sh/docs/concepts/disruption/#consolidation, docs/references/karpenter.md#emptiness.
"""

import math
from collections.abc import Sequence
from datetime import datetime

import msgspec

from provisioner.api.conditions import INITIALIZED
from provisioner.api.nodepool import NodePool
from provisioner.api.time import parse_duration

from .blockers import empty
from .machine import Machine, budget_left

NEVER = "Never"
# So long a decision is observed before it is carried out.
VALIDATION_SECONDS = 15.0


class Emptiness(msgspec.Struct, frozen=True, kw_only=True):
    """`remove`: now. `blocked`: how many more the budgets do not allow. `after`: seconds until the next one may go.

    `kept`: those that something else blocks (`Machine.blocked`).
    """

    remove: tuple[Machine, ...] = ()
    blocked: int = 0
    kept: tuple[Machine, ...] = ()
    after: float = math.inf


def consolidate_after(pool: NodePool) -> float | None:
    """Seconds for which a machine of the NodePool is empty before it is removed; None: its machines are kept."""
    after = pool.spec.disruption.consolidate_after
    seconds = None if after == NEVER else parse_duration(after)
    if seconds is None or pool.spec.replicas is not None or pool.metadata.deleting:
        return None
    return max(0.0, seconds)


def decide(pool: NodePool, machines: Sequence[Machine], now: datetime) -> Emptiness:
    """`machines`: all of the NodePool."""
    seconds = consolidate_after(pool)
    if seconds is None:
        return Emptiness()
    waiting = {
        one.claim.uid: max(seconds + VALIDATION_SECONDS - (now - _since(one)).total_seconds(), one.nominated_seconds)
        for one in machines
        if _is_candidate(one)
    }
    quiet = sorted((one for one in machines if waiting.get(one.claim.uid, 1.0) <= 0), key=_since)
    due = [one for one in quiet if not one.blocked]
    left = budget_left(pool, machines, "Empty", now)
    count = len(due) if left is None else min(len(due), left)
    later = min((left for left in waiting.values() if left > 0), default=math.inf)
    kept = tuple(one for one in quiet if one.blocked)
    return Emptiness(remove=tuple(due[:count]), blocked=len(due) - count, kept=kept, after=later)


def _is_candidate(one: Machine) -> bool:
    usable = one.node is not None and not one.node.deleting and one.claim.condition(INITIALIZED, "True") is not None
    return usable and not one.going and empty(one)


def _since(one: Machine) -> datetime:
    initialized = one.claim.condition(INITIALIZED, "True")
    return max(one.quiet_since, initialized.last_transition_time) if initialized is not None else one.quiet_since
