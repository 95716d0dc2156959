"""Tables as kubectl prints them: a heading in capitals, columns separated by three spaces, no trailing blanks."""

from collections.abc import Sequence
from datetime import datetime

from provisioner.api.text import printable
from provisioner.api.time import rfc3339

GAP = "   "
NOTHING = "-"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; an empty cell is a dash."""
    shown = [tuple(head), *(tuple(printable(cell) or NOTHING for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head))]
    return [GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]


def moment(time: datetime | None) -> str:
    """A time in UTC, "" if unknown."""
    return "" if time is None else rfc3339(time)


def counted(number: int, noun: str) -> str:
    """`1 agent pool`, `2 agent pools`, `2 AgentPoolNodeClasses`."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"
