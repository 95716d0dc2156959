"""Schedules in the cron format of Karpenter's disruption budgets: when they begin, and whether they are active.

Source: https://karpenter.sh/docs/concepts/disruption/#schedule, https://github.com/robfig/cron/blob/v3.0.1/parser.go.
"""

from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from .time import LATEST, parse_duration, shifted

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELDS = 5
# A list of all minutes, hours, days, months and weekdays has fewer.
CHARACTERS = 512
DURATION_REMEDY = "write hours and minutes, such as 8h or 1h30m"
REMEDY = "write five fields of cron or one of @hourly, @daily, @weekly, @monthly, @yearly"


def why_unreadable(schedule: str) -> str:
    """Why this schedule never begins; "" if it does."""
    if len(schedule) > CHARACTERS:
        return f"it has {len(schedule)} characters, more than {CHARACTERS}"
    return _never_active(schedule)


def seconds_of(duration: str) -> float:
    """How long a schedule with this duration is active; 0 for a duration that cannot be read."""
    return (parse_duration(duration) if len(duration) <= CHARACTERS else None) or 0.0


def is_active(schedule: str, seconds: float, now: datetime, zone: tzinfo = UTC) -> bool:
    """Whether a time of this schedule was at most so many seconds ago. `schedule`: one that can be read.

    `zone`: whose clock the schedule is about.
    """
    since = shifted(now, -seconds).astimezone(zone)
    return next(CronSim(_fields(schedule), since), LATEST) <= now


def time_zone(name: str) -> tzinfo | None:
    """The time zone of this name in the IANA database; None if there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name is that of a folder, such as America
        return None


@lru_cache(maxsize=1000)
def _never_active(schedule: str) -> str:
    found = MACROS.get(schedule, schedule).split()
    if len(found) != FIELDS:  # cronsim takes a sixth field for seconds
        return f"it has {len(found)} fields"
    try:
        next(CronSim(_fields(schedule), datetime(2000, 1, 1)))  # noqa: DTZ001 - only whether there is a time
    except (CronSimError, ValueError) as error:  # ValueError: a number of more than 4,300 digits
        return str(error)
    except StopIteration:
        return "it never becomes active"
    return ""


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
