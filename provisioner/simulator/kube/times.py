"""Times of built-in kinds as Go reads and writes them: any offset in, UTC with whole seconds out.

Go's years go from 0 to 10000; `datetime` has those from 1 to 9999.

Source: https://pkg.go.dev/time#Parse with time.RFC3339, https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#Time;
`tests/cluster/conformance/test_times.py` compares them with a kube-apiserver.
"""

import re
from datetime import datetime, timedelta

from .errors import bad_request

_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,]\d+)?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
# The Gregorian calendar repeats after 400 years.
_CYCLE_YEARS = 400
_DURATION = 2**64


def normalized(text: object) -> str | None:
    """The time as it is stored; None for the zero time, which is written as null. Raises ApiError 400."""
    found = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise _unparsable(text)
    year, month, day, hour, minute, second = (int(part) for part in found.group(1, 2, 3, 4, 5, 6))
    hours, minutes = int(found[8] or 0), int(found[9] or 0)
    shift = _CYCLE_YEARS if year < 5000 else -_CYCLE_YEARS
    if hours > 24 or minutes > 60:
        raise _unparsable(text)
    try:
        local = datetime(year + shift, month, day, hour, minute, second)  # noqa: DTZ001 - the offset is subtracted below
    except ValueError:
        raise _unparsable(text) from None
    moment = local - (-1 if found[7] == "-" else 1) * timedelta(hours=hours, minutes=minutes)
    written = f"{moment.year - shift:04}-{moment:%m-%dT%H:%M:%SZ}"
    return None if written == "0001-01-01T00:00:00Z" else written


def go_duration(seconds: int) -> timedelta:
    """So many seconds as Go computes them, in an int64 of nanoseconds that overflows."""
    nanoseconds = (seconds * 10**9 + _DURATION // 2) % _DURATION - _DURATION // 2
    return timedelta(microseconds=nanoseconds // 1000)


def _unparsable(text: object) -> Exception:
    return bad_request(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse')
