"""Conditions of NodePools and AgentPoolNodeClasses, whose root condition is Ready.

Each is written as those of NodeClaims are. They keep their order, and Ready repeats the first cause; a NodeClaim orders
them by time and counts in Ready what has not happened yet, as clients of Karpenter expect (`ConditionSet`).
"""

from collections.abc import Iterable
from datetime import datetime

from provisioner.api import conditions, reasons
from provisioner.api.conditions import READY
from provisioner.api.meta import Condition

from .conditions import ConditionUpdate
from .steps import Event


def updated(
    before: Iterable[Condition], updates: dict[str, ConditionUpdate], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The conditions after these updates; others stay."""
    known = {condition.type: condition for condition in before}
    for name, to in updates.items():
        known[name] = conditions.after_write(
            known.get(name), name, to.status, reason=to.reason, message=to.message, generation=generation, now=now
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
