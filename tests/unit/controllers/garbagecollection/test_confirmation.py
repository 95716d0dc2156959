"""The confirmation of removals in the annotation of the Lease."""

from datetime import UTC, datetime, timedelta

import pytest

from controllers.model.confirmation import Confirmation, decode, encode

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def test_round_trip() -> None:
    """The value is JSON."""
    confirmation = Confirmation(until=NOON, removals=("gpu0", "gpu1"))
    text = encode(confirmation)
    assert text == '{"until":"2026-03-01T12:00:00Z","removals":["gpu0","gpu1"]}'
    assert decode(text) == confirmation


def test_it_covers_its_removals_until_it_expires() -> None:
    """No other key, and none at or after its expiry."""
    confirmation = Confirmation(until=NOON, removals=("gpu0",))
    before = NOON - timedelta(seconds=1)
    assert confirmation.covers("gpu0", before)
    assert not confirmation.covers("gpu1", before)
    assert not confirmation.covers("gpu0", NOON)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "[]",
        "[" * 100_000,
        '{"removals":["gpu0"]}',
        '{"until":"2026-03-01T12:00:00Z"}',
        '{"until":"tomorrow","removals":["gpu0"]}',
        '{"until":"2026-03-01T12:00:00","removals":["gpu0"]}',
        '{"until":"2026-03-01T12:00:00Z","removals":"gpu0"}',
        '{"until":"2026-03-01T12:00:00Z","removals":[1]}',
        '{"until":"2026-03-01T12:00:00Z","removals":["\udc80"]}',
    ],
)
def test_an_invalid_value_confirms_nothing(text: str) -> None:
    """No value raises."""
    assert decode(text) is None
