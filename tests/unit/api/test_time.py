"""Times and durations: every value that an API server accepts is read and written without an error."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from provisioner.api.time import EARLIEST, LATEST, label_time, parse_duration, parse_rfc3339, rfc3339, shifted, utc

PLUS_TWO, MINUS_TWO = timezone(timedelta(hours=2)), timezone(timedelta(hours=-2))
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

WRITTEN = {
    "UTC": (NOON, "2026-03-01T12:00:00Z"),
    "an offset": (datetime(2026, 3, 1, 14, tzinfo=PLUS_TWO), "2026-03-01T12:00:00Z"),
    "fractions of a second": (NOON + timedelta(microseconds=999_999), "2026-03-01T12:00:00Z"),
    "Go's zero time": (EARLIEST, "0001-01-01T00:00:00Z"),
    "before the first moment": (datetime(1, 1, 1, tzinfo=PLUS_TWO), "0001-01-01T00:00:00Z"),
    "after the last moment": (datetime(9999, 12, 31, 23, tzinfo=MINUS_TWO), "9999-12-31T23:59:59Z"),
}
READ = {
    "2026-03-01T12:00:00Z": NOON,
    "2026-03-01T14:00:00+02:00": NOON,
    "0001-01-01T00:00:00Z": EARLIEST,
    "0000-02-29T00:00:00Z": EARLIEST,
    "0001-01-01T00:00:00+02:00": EARLIEST,
    "9999-12-31T23:59:59-23:00": LATEST,
    "0000-02-30T00:00:00Z": None,
    "2026-03-01T12:00:00": None,
    "2024-01-01T00:00:00+99:99": None,
    "": None,
    "soon": None,
}
SHIFTED = {
    5.0: NOON + timedelta(seconds=5),
    -5.0: NOON - timedelta(seconds=5),
    2.0**63: LATEST,
    -(2.0**63): EARLIEST,
    1e12: LATEST,
    -1e12: EARLIEST,
    float("inf"): LATEST,
    float("-inf"): EARLIEST,
}


@pytest.mark.parametrize("case", WRITTEN)
def test_times_are_written_in_utc(case: str) -> None:
    """Whole seconds, four digits of the year."""
    time, text = WRITTEN[case]
    assert rfc3339(time) == text
    assert label_time(time) == text.replace(":", "-")


@pytest.mark.parametrize("text", READ)
def test_times_are_read_in_utc(text: str) -> None:
    """A time outside of the years 1 to 9999 is the first or the last moment; anything else is no time."""
    assert parse_rfc3339(text) == READ[text]


@pytest.mark.parametrize("seconds", SHIFTED)
def test_a_shift_ends_at_the_first_and_the_last_moment(seconds: float) -> None:
    """A period that does not fit is longer than any other."""
    assert shifted(NOON, seconds) == SHIFTED[seconds]
    assert utc(shifted(NOON.astimezone(PLUS_TWO), seconds)) == SHIFTED[seconds]


@pytest.mark.parametrize("text", ["1" * 200_000, "1." * 100_000, "1h" * 100_000 + "x", "." * 200_000])
def test_a_long_text_is_no_duration(text: str) -> None:
    """An annotation can have 256 KiB. The expression has no ambiguity, whose search would take quadratic time."""
    assert parse_duration(text) is None
