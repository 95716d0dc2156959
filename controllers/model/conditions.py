"""What a rule says of one condition, before it is written.

A value with status, reason and a message whose cause comes first; two texts for one state never differ, so
that an unchanged state is never written again. Times in messages are absolute, for the same reason.
"""

from datetime import datetime
from typing import Literal

import msgspec

Status = Literal["True", "False", "Unknown"]


class ConditionUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """`recheck`: seconds until time alone changes this judgement; `overdue`: the name of a deadline that has passed."""

    status: Status
    reason: str
    message: str = ""
    recheck: float | None = None
    warning: bool = False
    overdue: str = ""


def clock_text(moment: datetime) -> str:
    """A moment as it stands in messages: UTC, whole seconds."""
    return moment.strftime("%H:%M:%SZ") if moment.year > 1 else "an unknown time"
