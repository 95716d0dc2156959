"""Times and durations in the formats of Kubernetes: RFC 3339 in UTC, and Go durations (`90s`, `1h30m`, `1.5h`).

No function fails for a time or a duration that an API server accepts: a time that `datetime` cannot hold (Kubernetes
has the years 0 and 10000) becomes the first or the last that it can.

Source: https://pkg.go.dev/time#ParseDuration; a duration is an int64 of nanoseconds, at most about 292 years.
"""

import re
from datetime import UTC, datetime, timedelta

import durationpy
import msgspec

EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# Each digit matches in one way only, so that the search takes linear time.
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"([-+]?)((?:{_PART.pattern})+)")
_MOST_SECONDS = (2**63 - 1) / 1e9


def utc(time: datetime) -> datetime:
    """The same moment in UTC."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return EARLIEST if time.year == EARLIEST.year else LATEST


def shifted(time: datetime, seconds: float) -> datetime:
    """The moment that many seconds later (earlier, if negative), in UTC."""
    try:
        return utc(time) + timedelta(seconds=seconds)
    except OverflowError:
        return LATEST if seconds > 0 else EARLIEST


def rfc3339(time: datetime) -> str:
    """The time in UTC with whole seconds, as the API server formats it."""
    # `strftime` writes the year 1 without leading zeros.
    return f"{utc(time).replace(microsecond=0, tzinfo=None).isoformat()}Z"


def label_time(time: datetime) -> str:
    """The time in UTC as a label's value, where colons are not allowed."""
    return rfc3339(time).replace(":", "-")


def parse_rfc3339(text: str) -> datetime | None:
    """The time in UTC; None unless `text` is an RFC 3339 time with a zone."""
    # `datetime` has no year 0; as the year 4 it is a leap year too.
    in_year_zero = text.startswith("0000-")
    try:
        time = msgspec.convert(f"0004{text[4:]}" if in_year_zero else text, datetime)
    except msgspec.ValidationError:
        return None
    if time.tzinfo is None:
        return None
    return EARLIEST if in_year_zero else utc(time)


def parse_duration(text: str) -> float | None:
    """The duration in seconds, possibly negative; None if Go's time.ParseDuration rejects it."""
    if text in ("0", "+0", "-0"):
        return 0.0
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    total = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PART.findall(found[2]))
    if total > _MOST_SECONDS:
        return None
    return -total if found[1] == "-" else total


def format_duration(seconds: float) -> str:
    """The duration in whole seconds, at least 0, as users write it: 0s, 4s, 3m12s, 45m."""
    whole = max(int(seconds), 0)
    return durationpy.to_str(timedelta(seconds=whole)) if whole else "0s"
