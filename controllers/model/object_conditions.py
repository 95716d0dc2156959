"""Conditions of NodePools and AgentPoolNodeClasses, whose root condition is Ready.

A transition time moves only when the status changes. Each condition has a reason and the observed generation, as the
CRDs require.
"""

from collections.abc import Iterable
from datetime import datetime

from provisioner.api.conditions import READY, truncate
from provisioner.api.meta import Condition

from .conditions import ConditionUpdate


def updated(
    conditions: Iterable[Condition], updates: dict[str, ConditionUpdate], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The conditions after these updates; others stay."""
    known = {condition.type: condition for condition in conditions}
    for name, update in updates.items():
        before = known.get(name)
        same = before is not None and before.status == update.status
        known[name] = Condition(
            type=name,
            status=update.status,
            last_transition_time=before.last_transition_time if before is not None and same else now,
            reason=update.reason,
            message=truncate(update.message),
            observed_generation=generation,
        )
    return tuple(known.values())


def root(updates: dict[str, ConditionUpdate], *dependents: str) -> ConditionUpdate:
    """Ready: the first of these conditions that is not True is its cause."""
    for name in dependents:
        if updates[name].status != "True":
            return updates[name]
    return ConditionUpdate(status="True", reason=READY)
