"""What a person has confirmed: removals by inference that the circuit breaker need not hold.

Pure, and total: whatever stands in the annotation, it is read as a confirmation or as none. It ends by itself,
and it names its removals: what looks like garbage later is not in it.

Wire format: the Lease's annotation `labels.CONFIRMED_REMOVALS`, whose value is
`{"until":"2026-03-01T13:00:00Z","removals":["ws3f2a91c0d"]}`.
"""

from datetime import datetime
from typing import Annotated

import msgspec

# Long enough for every wait between a confirmation and the last removal, short enough to be forgotten.
CONFIRMED_SECONDS = 3600.0


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """`removals` are pool names; `until` is a moment in UTC after which nothing of it counts."""

    until: Annotated[datetime, msgspec.Meta(tz=True)]
    removals: tuple[str, ...]

    def covers(self, key: str, now: datetime) -> bool:
        """Whether the removal of this key is confirmed at that moment."""
        return now < self.until and key in self.removals


def encode(confirmation: Confirmation) -> str:
    """The annotation's value."""
    return msgspec.json.encode(confirmation).decode()


def decode(text: str) -> Confirmation | None:
    """The confirmation in an annotation's value, None if there is none that can be read."""
    try:
        return msgspec.json.decode(text, type=Confirmation)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
