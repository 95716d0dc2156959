"""Disruption budgets of a NodePool: how many of its machines may be disrupted now, as pure functions.

The least of the budgets that are active and concern the reason applies; without one there is no limit. A percentage is
of the initialized machines and is rounded up. A budget with a schedule is active for its duration after each time of
the schedule, in UTC. A budget that cannot be read allows nothing.

Source: https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets,
docs/references/karpenter.md#disruption-budgets.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

from cronsim import CronSim, CronSimError

from provisioner.api.causes import Reason
from provisioner.api.field_error import FieldError
from provisioner.api.nodepool import Budget, NodePool
from provisioner.api.time import LATEST, parse_duration, shifted

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
FIELDS = 5
# A list of all minutes, hours, days, months and weekdays has fewer.
SCHEDULE_CHARACTERS = 512
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
        if budget.schedule is not None and (why := _unreadable(budget.schedule)):
            remedy = "write five fields of cron or one of @hourly, @daily, @weekly, @monthly, @yearly"
            field = f"{FIELD}[{index}].schedule"
            yield _invalid(field, budget.schedule, why, remedy)
        if budget.duration is not None and _seconds(budget.duration) <= 0:
            yield _invalid(f"{FIELD}[{index}].duration", budget.duration, "no duration",
                           "write hours and minutes, such as 8h or 1h30m")  # fmt: skip
        if not _is_number(budget.nodes):
            yield _invalid(f"{FIELD}[{index}].nodes", budget.nodes, "no number",
                           "write a number such as 5, or a percentage such as 20%")  # fmt: skip


def _invalid(field: str, value: str, why: str, remedy: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"{value[:40]}: {why}", value[:SCHEDULE_CHARACTERS], remedy)


def _unreadable(schedule: str) -> str:
    if len(schedule) > SCHEDULE_CHARACTERS:
        return f"it has {len(schedule)} characters, more than {SCHEDULE_CHARACTERS}"
    return _never_active(schedule)


@lru_cache(maxsize=1000)
def _never_active(schedule: str) -> str:
    try:
        next(CronSim(_fields(schedule), datetime(2000, 1, 1)))  # noqa: DTZ001 - only whether there is a time
    except (CronSimError, ValueError) as error:  # ValueError: a number of more than 4,300 digits
        return str(error)
    except StopIteration:
        return "it never becomes active"
    return ""


def _active(budget: Budget, now: datetime) -> bool:
    if budget.schedule is None:
        return True
    seconds = _seconds(budget.duration or "")
    return next(CronSim(_fields(budget.schedule), shifted(now, -seconds)), LATEST) <= now


def _fields(schedule: str) -> str:
    """The five fields as `cronsim` reads them.

    If neither the day of the month nor that of the week is a star, one of them suffices. A star with a step is none for
    Karpenter's parser, unless the step is 1; in a list any star counts.
    Source: https://github.com/robfig/cron/blob/v3.0.1/parser.go (getRange), spec.go (dayMatches).
    """
    fields = MACROS.get(schedule, schedule).replace("?", "*").split()
    days = {2: "1-31", 4: "0-6"} if len(fields) == FIELDS else {}
    return " ".join(_without_star(field, days[at]) if at in days else field for at, field in enumerate(fields))


def _without_star(field: str, every: str) -> str:
    parts = field.split(",")
    if not {"*", "*/1"}.isdisjoint(parts):
        return "*"
    return ",".join(every + part[1:] if part.startswith("*/") else part for part in parts)


def _seconds(duration: str) -> float:
    return (parse_duration(duration) if len(duration) <= SCHEDULE_CHARACTERS else None) or 0.0


def _is_number(nodes: str) -> bool:
    number = nodes.removesuffix("%")
    return number.isascii() and number.isdigit() and len(number) <= NUMBER_DIGITS


def _number(budget: Budget, machines: int) -> int:
    number = int(budget.nodes.removesuffix("%"))
    return -(-machines * number // 100) if budget.nodes.endswith("%") else number
