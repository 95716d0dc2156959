"""Formats of strings, as the API server checks them for custom resources.

The check of `date-time` is wider than RFC 3339: any character separates the fraction of a second, an offset has any
digits, lower case is allowed, and what follows a second `T` is ignored.

Source: `IsDateTime` in https://github.com/kubernetes/kube-openapi/blob/master/pkg/validation/strfmt/time.go;
`tests/cluster/conformance/test_times.py` compares it with a kube-apiserver.
"""

import re
from datetime import date

_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LEAP_YEAR = "0004"


def is_date_time(text: str) -> bool:
    """Whether the API server accepts the text as a `date-time`."""
    day, *rest = text.lower().split("t")
    found = _TIME.fullmatch(rest[0]) if rest else None
    return found is not None and _is_date(day) and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    try:
        # Go has the year 0, a leap year.
        date.fromisoformat(_LEAP_YEAR + text[4:] if text.startswith("0000") else text)
    except ValueError:
        return False
    return True
