"""Emptiness: which machines of a NodePool are removed because no pod uses them, as a pure function.

A machine is empty while its Node runs no pod besides those of DaemonSets and static pods. It is removed when it was
empty for `consolidateAfter` and 15 more seconds, within the budgets of its NodePool, the one that is empty the longest
first.
Only NodeClaims of dynamic NodePools are considered.

Source: https://karpenter.sh/docs/concepts/disruption/#consolidation, docs/references/karpenter.md#emptiness.
"""

import math
from collections.abc import Sequence
from datetime import datetime

import msgspec

from provisioner.api import labels
from provisioner.api.conditions import INITIALIZED, READY
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.time import parse_duration

from .budgets import allowed

NEVER = "Never"
# So long a decision is observed before it is carried out.
VALIDATION_SECONDS = 15.0


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """`quiet_since`: when a pod was last bound to the Node or ended there, as far as it is known.

    `nominated_seconds`: for so long a pending pod is expected on it. `leaving`: its removal was requested, which the
    cache does not show yet.
    """

    claim: NodeClaim
    node: Node | None
    pods: int
    quiet_since: datetime
    nominated_seconds: float = 0.0
    leaving: bool = False


class Emptiness(msgspec.Struct, frozen=True, kw_only=True):
    """`remove`: now. `blocked`: how many more the budgets do not allow. `after`: seconds until the next one may go."""

    remove: tuple[Machine, ...] = ()
    blocked: int = 0
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
    due = sorted((one for one in machines if waiting.get(one.claim.uid, 1.0) <= 0), key=_since)
    left = _budget(pool, machines, now)
    count = len(due) if left is None else min(len(due), left)
    later = min((left for left in waiting.values() if left > 0), default=math.inf)
    return Emptiness(remove=tuple(due[:count]), blocked=len(due) - count, after=later)


def _is_candidate(one: Machine) -> bool:
    if one.leaving or one.pods or one.claim.deleting or one.node is None or one.node.deleting:
        return False
    protected = any(
        meta.annotations.get(labels.DO_NOT_DISRUPT) == "true" for meta in (one.claim.metadata, one.node.metadata)
    )
    return not protected and one.claim.condition(INITIALIZED, "True") is not None


def _since(one: Machine) -> datetime:
    initialized = one.claim.condition(INITIALIZED, "True")
    return max(one.quiet_since, initialized.last_transition_time) if initialized is not None else one.quiet_since


def _budget(pool: NodePool, machines: Sequence[Machine], now: datetime) -> int | None:
    """What is left of the budgets: machines that are being removed and those that are not Ready use them."""
    initialized = [one for one in machines if one.claim.condition(INITIALIZED) is not None]
    most = allowed(pool, "Empty", len(initialized), now)
    if most is None:
        return None
    using = sum(one.leaving or one.claim.deleting or one.claim.condition(READY, "True") is None for one in initialized)
    return max(0, most - using)
