"""Disruption budgets of a NodePool: how many of its machines may be disrupted now, as pure functions.

The least of the budgets that are active and concern the reason applies; without one there is no limit. A percentage is
of the initialized machines and is rounded up. A budget with a schedule is active for its duration after each time of
the schedule, in UTC. A budget that cannot be read allows nothing.

Source: https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets,
docs/references/karpenter.md#disruption-budgets.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal

from cronsim import CronSim, CronSimError

from provisioner.api.field_error import FieldError
from provisioner.api.nodepool import Budget, NodePool
from provisioner.api.time import parse_duration

Reason = Literal["Empty", "Drifted", "Underutilized"]
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELD = "spec.disruption.budgets"


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
        if budget.schedule is not None and (why := _unreadable(budget.schedule)):
            remedy = "write five fields of cron or one of @hourly, @daily, @weekly, @monthly, @yearly"
            field = f"{FIELD}[{index}].schedule"
            yield FieldError(field, "FieldValueInvalid", f"{budget.schedule[:40]}: {why}", budget.schedule, remedy)
        if budget.duration is not None and _seconds(budget.duration) <= 0:
            yield FieldError(f"{FIELD}[{index}].duration", "FieldValueInvalid", f"{budget.duration[:40]}: no duration",
                             budget.duration, "write hours and minutes, such as 8h or 1h30m")  # fmt: skip
        if not _is_number(budget.nodes):
            yield FieldError(f"{FIELD}[{index}].nodes", "FieldValueInvalid", f"{budget.nodes[:40]}: no number",
                             budget.nodes, "write a number such as 5, or a percentage such as 20%")  # fmt: skip


@lru_cache(maxsize=1000)
def _unreadable(schedule: str) -> str:
    try:
        next(CronSim(_fields(schedule), datetime(2000, 1, 1)))  # noqa: DTZ001 - only whether there is a time
    except CronSimError as error:
        return str(error)
    except StopIteration:
        return "it never becomes active"
    return ""


def _active(budget: Budget, now: datetime) -> bool:
    if budget.schedule is None:
        return True
    seconds = _seconds(budget.duration or "")
    return next(CronSim(_fields(budget.schedule), now - timedelta(seconds=seconds))) <= now


def _fields(schedule: str) -> str:
    return MACROS.get(schedule, schedule).replace("?", "*")


def _seconds(duration: str) -> float:
    return parse_duration(duration) or 0.0


def _is_number(nodes: str) -> bool:
    return nodes.removesuffix("%").isascii() and nodes.removesuffix("%").isdigit()


def _number(budget: Budget, machines: int) -> int:
    number = int(budget.nodes.removesuffix("%"))
    return -(-machines * number // 100) if budget.nodes.endswith("%") else number
