"""Go durations as users write them in Kubernetes: `90s`, `1h30m`, `1.5h`.

Promise: reads what Go's time.ParseDuration reads and nothing else (no days, no weeks), as seconds.
Left to others: which durations make sense where.

Source: Go's package time, ParseDuration; an int64 of nanoseconds ends after about 292 years.
"""

import re

_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"([-+]?)((?:{_PART.pattern})+)")
_MOST_SECONDS = (2**63 - 1) / 1e9


def seconds_of(written: str) -> float | None:
    """The duration in seconds, negative if it says so; None if Go would not read it."""
    if written in ("0", "+0", "-0"):
        return 0.0
    found = _WHOLE.fullmatch(written)
    if found is None:
        return None
    total = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _PART.findall(found[2]))
    if total > _MOST_SECONDS:
        return None
    return -total if found[1] == "-" else total
