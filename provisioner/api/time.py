"""Times and durations in the formats of Kubernetes: RFC 3339 in UTC, and Go durations (`90s`, `1h30m`, `1.5h`).

Source: https://pkg.go.dev/time#ParseDuration; a duration is an int64 of nanoseconds, at most about 292 years.
"""

import re
from datetime import datetime

import msgspec

_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"([-+]?)((?:{_PART.pattern})+)")
_MOST_SECONDS = (2**63 - 1) / 1e9


def rfc3339(time: datetime) -> str:
    """The time in UTC with whole seconds, as the API server formats it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str) -> datetime | None:
    """The time; None unless `text` is an RFC 3339 time with a zone."""
    try:
        time = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return None
    return time if time.tzinfo is not None else None


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
