"""Lays out the table: a pure function from rows and the terminal's size to styled lines.

No line is wider than the terminal, and the table is not higher. On a narrow terminal the status moves below its
row, sizes lose `Standard_`, and columns are dropped, least important first. On a low terminal events are shortened
and dropped, then rows, those of terminated claims first; a last line counts the hidden rows.
"""

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from provisioner.api.nodeclaim import Phase
from provisioner.trial.rows import Row

from .renderer import Style

TableLine = tuple[tuple[str, Style], ...]

PHASE_STYLES: dict[Phase, Style] = {
    Phase.READY: "success",
    Phase.TERMINATED: "dim",
    Phase.FAILED: "error",
    Phase.NOT_READY: "error",
}
GAP = "  "
NO_VALUE = "-"
FIRST_INDENT, NEXT_INDENT = "  └ ", "    "
# A condition message has at most 256 bytes and starts with its cause.
EVENT_LINES = 3
# The least width of an event in its own column.
EVENT_WIDTH = 60
NAME_WIDTH = 24
# The header, one row, and the count of hidden rows.
MIN_HEIGHT = 3
EMPTY = "no NodeClaims"
EVENT = "STATUS"
HEADERS = {
    "claim": "CLAIM",
    "size": "SIZE",
    "price": "USD/H",
    "phase": "PHASE",
    "for": "FOR",
    "gpus": "GPUS",
    "since": "SINCE",
}
# Columns whose values change often have a fixed width, so that the table does not move.
FIXED_WIDTHS = {"phase": max(map(len, Phase)), "for": len("59m59s")}
# The columns, from the widest terminal to the narrowest, and whether sizes are shown without their prefix.
COLUMNS: tuple[tuple[tuple[str, ...], bool], ...] = (
    (("claim", "size", "phase", "for", "gpus", "since"), False),
    (("claim", "size", "phase", "for", "gpus", "since"), True),
    (("claim", "size", "phase", "for", "gpus"), True),
    (("claim", "phase", "for", "gpus"), True),
    (("claim", "phase", "for"), True),
    (("claim", "phase"), True),
)


class _Table(NamedTuple):
    """The table without events; the cells of a column have equal width."""

    names: tuple[str, ...]
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    @property
    def width(self) -> int:
        return len(GAP.join(self.header))


def layout(rows: Sequence[Row], now_seconds: float, *, width: int, height: int) -> list[TableLine]:
    """The lines of the table. `now_seconds`: since the start; `height`: at least MIN_HEIGHT."""
    if not rows:
        return [((truncate(EMPTY, width), "dim"),)]
    priced = any(row.price is not None for row in rows)
    total = _total(rows) if priced and height > MIN_HEIGHT else ""
    height -= bool(total)
    shown = _visible(rows, height)
    tables = [
        _table(shown, now_seconds, _with_price(columns) if priced else columns, short=short)
        for columns, short in COLUMNS
    ]
    beside = next((one for one in tables[:3] if width - one.width - len(GAP) >= EVENT_WIDTH), None)
    table = beside or next((one for one in tables if one.width <= width), tables[-1])
    hidden = _hidden(rows, shown)
    room = height - 1 - len(shown) - bool(hidden)
    header = GAP.join((*table.header, EVENT)) if beside is not None else GAP.join(table.header)
    lines: list[TableLine] = [((truncate(header.rstrip(), width), "dim"),)]
    below = _events_below(shown, width, room) if beside is None else [()] * len(shown)
    for row, cells, texts in zip(shown, table.cells, below, strict=True):
        line = _cropped(_styled(row, table.names, cells), width)
        if beside is not None:
            text = truncate(row.status, width - table.width - len(GAP))
            line = (*line, (GAP + text, "dim"))
        lines.append(line)
        lines += [((text, "dim"),) for text in texts]
    below_all = [text for text in (hidden, total) if text]
    return [*lines, *(((truncate(text, width), "dim"),) for text in below_all)]


def truncate(text: str, width: int) -> str:
    """The text in at most `width` columns, with an ellipsis if it was truncated."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"[:width]


def duration(seconds: float) -> str:
    """In the format of kubectl's ages, in whole units: 4s, 3m12s, 2h5m."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60}m"


def _events_below(rows: Sequence[Row], width: int, room: int) -> list[tuple[str, ...]]:
    """The event lines below each row: the largest number of lines per event that fits for all rows."""
    for most in range(EVENT_LINES, 0, -1):
        texts = [_wrapped(row.status, width, most) for row in rows]
        if sum(map(len, texts)) <= room:
            return texts
    return [()] * len(rows)


def _wrapped(event: str, width: int, most: int) -> tuple[str, ...]:
    if not event:
        return ()
    if width <= len(NEXT_INDENT) + 1:
        return (truncate(FIRST_INDENT + event, width),)
    lines = textwrap.wrap(event, width - len(NEXT_INDENT), break_on_hyphens=False)
    if len(lines) > most:
        lines = [*lines[: most - 1], truncate(" ".join(lines[most - 1 :]), width - len(NEXT_INDENT))]
    return tuple((NEXT_INDENT if at else FIRST_INDENT) + line for at, line in enumerate(lines))


def _visible(rows: Sequence[Row], height: int) -> list[Row]:
    """As many rows as fit, in their order; rows of terminated claims are hidden first, the oldest before others."""
    room = height - 1 if len(rows) < height else height - 2
    by_priority = sorted(rows, key=lambda row: -row.entered.at if row.phase is Phase.TERMINATED else -math.inf)
    kept = {row.uid for row in by_priority[:room]}
    return [row for row in rows if row.uid in kept]


def _hidden(rows: Sequence[Row], shown: Sequence[Row]) -> str:
    visible = {row.uid for row in shown}
    phases = Counter(row.phase for row in rows if row.uid not in visible)
    counts = ", ".join(f"{count} {phase}" for phase, count in phases.items())
    return f"… and {phases.total()} more: {counts}" if phases else ""


def _total(rows: Sequence[Row]) -> str:
    """The price of all machines; sizes without a known price are not part of it."""
    return f"fleet: {sum(row.price or 0.0 for row in rows):.3f} USD an hour at list prices"


def _with_price(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Prices stand beside sizes."""
    return tuple(name for column in columns for name in ((column, "price") if column == "size" else (column,)))


def _table(rows: Sequence[Row], now_seconds: float, columns: tuple[str, ...], *, short: bool) -> _Table:
    texts = [[_text(row, column, now_seconds, short=short) for column in columns] for row in rows]
    heads = [HEADERS[column].ljust(FIXED_WIDTHS.get(column, 0)) for column in columns]
    widths = [max(map(len, column)) for column in zip(heads, *texts, strict=True)]
    return _Table(
        columns,
        tuple(head.ljust(width) for head, width in zip(heads, widths, strict=True)),
        tuple(tuple(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in texts),
    )


def _text(row: Row, column: str, now_seconds: float, *, short: bool) -> str:
    match column:
        case "claim":
            return truncate(row.name, NAME_WIDTH)
        case "size":
            return (row.size.removeprefix("Standard_") if short else row.size) or NO_VALUE
        case "price":
            return NO_VALUE if row.price is None else f"{row.price:.3f}"
        case "phase":
            return row.phase
        case "for":
            return duration(now_seconds - row.entered.at)
        case "gpus":
            return f"{row.gpus_allocatable}/{row.gpus_expected}" if row.gpus_expected else NO_VALUE
    return f"{row.entered.time:%H:%M:%S}Z"


def _styled(row: Row, names: tuple[str, ...], cells: tuple[str, ...]) -> TableLine:
    """The phase has its colour; the row of a terminated claim is dim."""
    base: Style = "dim" if row.phase is Phase.TERMINATED else "plain"
    styled = [
        (cell, PHASE_STYLES.get(row.phase, "plain") if name == "phase" else base)
        for name, cell in zip(names, cells, strict=True)
    ]
    return tuple((text if at == 0 else GAP + text, style) for at, (text, style) in enumerate(styled))


def _cropped(line: TableLine, width: int) -> TableLine:
    """Truncated to `width`, for terminals narrower than the narrowest table."""
    cropped, left = [], width
    for text, style in line:
        cropped.append((truncate(text, left), style))
        left = max(left - len(text), 0)
    return tuple(cropped)
