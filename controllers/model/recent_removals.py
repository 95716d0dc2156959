"""Inferred removals of the last minutes, as one leader leaves them to the next.

Wire format: the Lease's annotation `labels.INFERRED_REMOVALS`, whose value is
`[{"pool":"ws3f2a91c0d","claimUID":"5e3c…","at":"2026-03-01T13:00:00Z"}]`.
"""

from datetime import datetime
from typing import Annotated

import msgspec


class RecentRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """`claim_uid`: the claim that the machine was created for; "" if unknown. `at`: when the removal was sent."""

    pool: str
    claim_uid: str = msgspec.field(name="claimUID", default="")
    at: Annotated[datetime, msgspec.Meta(tz=True)]


def encode(removals: tuple[RecentRemoval, ...]) -> str:
    """The annotation's value."""
    return msgspec.json.encode(removals).decode()


def decode(text: str) -> tuple[RecentRemoval, ...] | None:
    """The removals in an annotation's value; None if the value is invalid."""
    try:
        return msgspec.json.decode(text, type=tuple[RecentRemoval, ...])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
