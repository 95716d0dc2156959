"""Drift of static NodePools: which machines are replaced now, as a pure function.

Each gets a replacement from the template first, and is deleted once that is Initialized, so that the NodePool has more
than `spec.replicas` machines meanwhile. Pods are not simulated: the replacement is as large as the machine.

Source: docs/references/karpenter.md#static-nodepools, docs/references/karpenter.md#disruption-queue.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from controllers.nodepool.static_capacity import node_limit
from provisioner.api.nodepool import NodePool

from .drift import NO_BUDGET, drifted_since, first_left, is_drifted, is_proved
from .machine import Machine, budget_left


class StaticDrift(msgspec.Struct, frozen=True, kw_only=True):
    """`replace`: now, the longest drifted first. `held`: why others wait, "" if none does."""

    replace: tuple[Machine, ...] = ()
    held: str = ""


def static_drift(pool: NodePool, machines: Sequence[Machine], now: datetime) -> StaticDrift:
    """`machines`: all of the NodePool, including those being deleted."""
    drifted = sorted((one for one in machines if is_drifted(one)), key=drifted_since)
    running = [one for one in machines if not one.claim.deleting]
    replicas = pool.spec.replicas
    if replicas is None or not drifted or len(running) > replicas + _replaced(running):
        return StaticDrift()
    free = [one for one in drifted if not one.blocked_eventually]
    left = budget_left(pool, machines, "Drifted", now)
    if left == 0:
        return StaticDrift(held=NO_BUDGET)
    room = node_limit(pool, default=len(machines) + len(free)) - len(machines)
    if room <= 0 and free:
        return StaticDrift(
            held=f"spec.limits[nodes] allows no replacement; raise it above spec.replicas, which is {replicas}"
        )
    counts = [
        len(free),
        room,
        *([left] if left is not None else []),
        *([] if is_proved(machines) else [first_left(machines)]),
    ]
    return StaticDrift(replace=tuple(free[: max(0, min(counts))]))


def _replaced(running: Sequence[Machine]) -> int:
    """Machines that have a replacement beside them."""
    return sum(one.going for one in running)
