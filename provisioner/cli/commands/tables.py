"""Rows as kubectl prints them: a head in capitals, columns three spaces apart, no trailing blanks, no colour."""

from collections.abc import Sequence
from datetime import datetime

from provisioner.runtime.objects import whole_second

GAP = "   "
NOTHING = "-"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of equal columns; an empty cell shows as a dash."""
    shown = [tuple(head), *(tuple(cell or NOTHING for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head))]
    return [GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]


def moment(time: datetime | None) -> str:
    """A moment in UTC, "" if it is not known."""
    return "" if time is None else whole_second(time)


def counted(number: int, noun: str) -> str:
    """`1 agent pool`, `2 agent pools`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
