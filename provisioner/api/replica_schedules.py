"""The schedules of a node class for its static NodePools: whether one is active, and what of it cannot be read.

A schedule is active for its duration after each of its times, by the clock of its time zone.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from . import cron
from .field_error import FieldError
from .nodeclass import ReplicaSchedule


def errors(schedules: Iterable[ReplicaSchedule], field: str) -> Iterator[FieldError]:
    """What of the schedules cannot be read."""
    for index, one in enumerate(schedules):
        at = f"{field}[{index}]"
        if why := cron.why_unreadable(one.schedule):
            yield _error(f"{at}.schedule", one.schedule, why, cron.REMEDY)
        if cron.time_zone(one.time_zone) is None:
            remedy = "write a name of the IANA time zone database, such as Europe/Berlin"
            yield _error(f"{at}.timeZone", one.time_zone, "no time zone of this name", remedy)
        if cron.seconds_of(one.duration) <= 0:
            yield _error(f"{at}.duration", one.duration, "no duration", cron.DURATION_REMEDY)
        if one.replicas < 0:
            yield _error(f"{at}.replicas", str(one.replicas), "it is less than 0", "set it to 0 or more")


def _error(field: str, value: str, why: str, remedy: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"{value[:40]!r}: {why}", value[: cron.CHARACTERS], remedy)


def is_active(one: ReplicaSchedule, now: datetime) -> bool:
    """Whether it is active now; one that cannot be read never is."""
    zone, seconds = cron.time_zone(one.time_zone), cron.seconds_of(one.duration)
    if zone is None or seconds <= 0 or cron.why_unreadable(one.schedule):
        return False
    return cron.is_active(one.schedule, seconds, now, zone)
