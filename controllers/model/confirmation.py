"""Inferred removals that a user has confirmed, which the circuit breaker does not restrict.

A confirmation names its removals and expires. An annotation that is invalid counts as no confirmation.

Wire format: the Lease's annotation `labels.CONFIRMED_REMOVALS`, whose value is
`{"until":"2026-03-01T13:00:00Z","removals":["ws3f2a91c0d"]}`.
"""

from datetime import datetime
from typing import Annotated

import msgspec

# Covers every wait between a confirmation and the last of its removals.
CONFIRMED_SECONDS = 3600.0


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """`removals` are pool names; `until` is the time of expiry, in UTC."""

    until: Annotated[datetime, msgspec.Meta(tz=True)]
    removals: tuple[str, ...]

    def covers(self, key: str, now: datetime) -> bool:
        """Whether the removal of this key is confirmed at `now`."""
        return now < self.until and key in self.removals


def encode(confirmation: Confirmation) -> str:
    """The annotation's value."""
    return msgspec.json.encode(confirmation).decode()


def decode(text: str) -> Confirmation | None:
    """The confirmation in an annotation's value; None if the value is invalid."""
    try:
        return msgspec.json.decode(text, type=Confirmation)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
