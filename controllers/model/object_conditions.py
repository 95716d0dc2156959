"""Conditions of NodePools and AgentPoolNodeClasses, whose root condition is Ready.

A transition time moves only when the status changes. Each condition has a reason and the observed generation, as the
CRDs require.
"""

from collections.abc import Iterable
from datetime import datetime

from provisioner.api import reasons
from provisioner.api.conditions import READY, truncate
from provisioner.api.meta import Condition

from .conditions import ConditionUpdate
from .steps import Event


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


def warnings(before: Iterable[Condition], after: Iterable[Condition]) -> tuple[Event, ...]:
    """An Event for each cause that is new in conditions that are False. Ready repeats the cause of another one."""
    known = {(one.type, one.status, one.reason, one.message) for one in before}
    return tuple(
        Event(type="Warning", reason=one.reason, message=one.message)
        for one in after
        if one.status == "False"
        and one.type != READY
        and one.reason != reasons.NODECLASS_READINESS_UNKNOWN  # it follows from the order of the first writes
        and (one.type, one.status, one.reason, one.message) not in known
    )


def root(updates: dict[str, ConditionUpdate], *dependents: str) -> ConditionUpdate:
    """Ready: the first of these conditions that is not True is its cause."""
    for name in dependents:
        if updates[name].status != "True":
            return updates[name]
    return ConditionUpdate(status="True", reason=READY)
