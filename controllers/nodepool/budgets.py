"""Disruption budgets of a NodePool: how many of its machines may be disrupted now, as pure functions.

The least of the budgets that are active and concern the reason applies; without one there is no limit. A percentage is
of the initialized machines and is rounded up. A budget with a schedule is active for its duration after each time of
the schedule, in UTC. A budget that cannot be read allows nothing.

Source: https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets,
docs/references/karpenter.md#disruption-budgets.
"""

from collections.abc import Iterator
from datetime import datetime

from provisioner.api import cron
from provisioner.api.causes import Reason
from provisioner.api.field_error import FieldError
from provisioner.api.nodepool import Budget, NodePool

FIELD = "spec.disruption.budgets"
# Enough for any count; Karpenter reads an int, and Python converts no more than 4,300 digits.
NUMBER_DIGITS = 18


def allowed(pool: NodePool, reason: Reason, machines: int, now: datetime) -> int | None:
    """How many machines may be going at the same time; None without a limit. `machines`: those that are initialized."""
    if any(True for _ in errors(pool)):
        return 0
    found = [
        _number(budget, machines)
        for budget in pool.spec.disruption.budgets
        if (not budget.reasons or reason in budget.reasons) and _active(budget, now)
    ]
    return min(found, default=None)


def errors(pool: NodePool) -> Iterator[FieldError]:
    """The budgets that cannot be read. While there is one, nothing of the NodePool is disrupted."""
    for index, budget in enumerate(pool.spec.disruption.budgets):
        if budget.schedule is not None and (why := cron.why_unreadable(budget.schedule)):
            yield _invalid(f"{FIELD}[{index}].schedule", budget.schedule, why, cron.REMEDY)
        if budget.duration is not None and cron.seconds_of(budget.duration) <= 0:
            yield _invalid(f"{FIELD}[{index}].duration", budget.duration, "no duration", cron.DURATION_REMEDY)
        if not _is_number(budget.nodes):
            yield _invalid(f"{FIELD}[{index}].nodes", budget.nodes, "no number",
                           "write a number such as 5, or a percentage such as 20%")  # fmt: skip


def _invalid(field: str, value: str, why: str, remedy: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"{value[:40]}: {why}", value[: cron.CHARACTERS], remedy)


def _active(budget: Budget, now: datetime) -> bool:
    return budget.schedule is None or cron.is_active(budget.schedule, cron.seconds_of(budget.duration or ""), now)


def _is_number(nodes: str) -> bool:
    number = nodes.removesuffix("%")
    return number.isascii() and number.isdigit() and len(number) <= NUMBER_DIGITS


def _number(budget: Budget, machines: int) -> int:
    number = int(budget.nodes.removesuffix("%"))
    return -(-machines * number // 100) if budget.nodes.endswith("%") else number
