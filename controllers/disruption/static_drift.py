"""Drift of static NodePools: which machines are replaced now, as a pure function.

Each gets a replacement from the template first, and is deleted once that is Initialized, so that the NodePool has more
than `spec.replicas` machines meanwhile. Pods are not simulated: the replacement is as large as the machine.

Source: docs/references/karpenter.md#static-nodepools, docs/references/karpenter.md#disruption-queue.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from controllers.nodepool.static_capacity import NODES, node_limit
from provisioner.api.meta import EMPTY
from provisioner.api.nodepool import NodePool

from .drift import NO_BUDGET, NONE_UNDONE, drifted_since, first_left, is_drifted, is_proved
from .machine import Machine, budget_left
from .search import WAITS

LIMIT = f"spec.limits[{NODES}]"
NO_AGENT_POOL = (
    "The limit on agent pools allows no replacement (--max-agent-pools, or what AKS and other agent pools leave): raise"
    " it, or delete agent pools"
)


class StaticDrift(msgspec.Struct, frozen=True, kw_only=True):
    """`replace`: now, the longest drifted first. `held`: why the NodePool lets others wait, "" if it does not.

    `kept`: why drifted machines wait for a cause of their own, by the name of the NodeClaim.
    """

    replace: tuple[Machine, ...] = ()
    held: str = ""
    kept: Mapping[str, str] = EMPTY


def static_drift(
    pool: NodePool,
    machines: Sequence[Machine],
    now: datetime,
    *,
    max_new: int | None = None,
    undone: Mapping[str, int] = NONE_UNDONE,
    waiting: Mapping[str, str] = EMPTY,
) -> StaticDrift:
    """`machines`: all of the NodePool, including those being deleted.

    `max_new`: how many agent pools may still be created; None without a limit. `undone`: how often replacements of
    machines were, and `waiting`: why some are not replaced for now, by the UID of the NodeClaim.
    """
    line = ((undone.get(one.claim.uid, 0), *drifted_since(one), one) for one in machines if is_drifted(one))
    drifted = [one for *_, one in sorted(line, key=lambda place: place[:3])]
    running = [one for one in machines if not one.claim.deleting]
    replicas = pool.spec.replicas
    if replicas is None or not drifted:
        return StaticDrift()
    if (surplus := len(running) - _replaced(running) - replicas) > 0:
        return StaticDrift(held=_beyond_replicas(surplus, replicas))
    free = [one for one in drifted if not one.blocked_eventually and one.claim.uid not in waiting]
    left = budget_left(pool, machines, "Drifted", now)
    if left == 0:
        return StaticDrift(held=NO_BUDGET)
    kept = {
        one.claim.name: one.blocked_eventually or f"{WAITS}: {waiting[one.claim.uid]}"
        for one in drifted
        if one not in free
    }
    limit = node_limit(pool, default=len(machines) + len(free))
    room = limit - len(machines)
    if room <= 0 and free:
        return StaticDrift(held=_at_limit(limit, replicas), kept=kept)
    if max_new is not None and max_new <= 0 and free:
        return StaticDrift(held=NO_AGENT_POOL, kept=kept)
    counts = [count for count in (room, left, max_new) if count is not None]
    proved = [one for one in free if is_proved(one, machines)]
    first = [one for one in free if one not in proved][: first_left(machines)]
    chosen = [one for one in free if one in proved or one in first]
    return StaticDrift(replace=tuple(chosen[: max(0, min(counts))]), kept=kept)


def _beyond_replicas(surplus: int, replicas: int) -> str:
    """That NodeClaims are deleted first: a replacement would be one more, and the scale-down could choose it.

    An admission policy can protect them for as long as it exists.
    """
    return (
        f"Waiting for the deletion of {surplus} NodeClaims beyond spec.replicas, which is {replicas}, before others are"
        " replaced; Events of NodeClaims state which deletions are refused"
    )


def _at_limit(limit: int, replicas: int) -> str:
    """Why the limit on Nodes allows no replacement now; one above `spec.replicas` needs no change by a user."""
    if limit <= replicas:
        return f"{LIMIT} allows no replacement; raise it above spec.replicas, which is {replicas}"
    return (
        f"{LIMIT} is {limit} and counts NodeClaims that are being deleted or replaced: others are replaced after them"
    )


def _replaced(running: Sequence[Machine]) -> int:
    """Machines that have a replacement beside them."""
    return sum(one.going for one in running)
