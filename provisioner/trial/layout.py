"""How the table's rows stand on a terminal: pure, from rows and the terminal's size to coloured lines.

No line is longer than the terminal is wide, and there are no more of them than it is high. What gives way
first: the event beside its row moves beneath it, sizes lose `Standard_`, then columns go, least important first; on
a low terminal events lose lines and go before rows do, rows of claims that are gone before others, and what is left out
is counted.
"""

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from controllers.planner.plan import Phase

from .phases import TONES
from .printing import Tone
from .rows import Row

Styled = tuple[str, Tone]
Line = tuple[Styled, ...]

GAP = "  "
NOTHING = "-"
BENEATH, FURTHER = "  └ ", "    "
# A message may have 256 bytes; its cause comes first.
EVENT_LINES = 3
# An event is worth its place beside its row only if most of it can be read there.
BESIDE_WIDTH = 60
NAME_WIDTH = 24
# A head, a row, and how many there are besides.
LEAST_HEIGHT = 3
EMPTY = "no NodeClaim yet"
EVENT = "LAST EVENT"
HEAD = {"claim": "CLAIM", "size": "SIZE", "phase": "PHASE", "for": "FOR", "gpus": "GPUS", "since": "SINCE"}
# What changes all the time keeps its width, so that the table does not.
STEADY = {"phase": max(map(len, Phase)), "for": len("59m59s")}
# Which columns stand there, from the widest terminal to the narrowest; `short`: sizes without their prefix.
COLUMNS: tuple[tuple[tuple[str, ...], bool], ...] = (
    (("claim", "size", "phase", "for", "gpus", "since"), False),
    (("claim", "size", "phase", "for", "gpus", "since"), True),
    (("claim", "size", "phase", "for", "gpus"), True),
    (("claim", "phase", "for", "gpus"), True),
    (("claim", "phase", "for"), True),
    (("claim", "phase"), True),
)


class _Laid(NamedTuple):
    """The table without its events: texts of equal width, column by column."""

    names: tuple[str, ...]
    head: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    @property
    def width(self) -> int:
        return len(GAP.join(self.head))


def layout(rows: Sequence[Row], now_seconds: float, *, width: int, height: int) -> list[Line]:
    """The lines of the table. `now_seconds`: since the trial began; `height`: at least LEAST_HEIGHT."""
    if not rows:
        return [((cut(EMPTY, width), "quiet"),)]
    shown = _that_fit(rows, height)
    laid = [_laid(shown, now_seconds, columns, short=short) for columns, short in COLUMNS]
    beside = next((one for one in laid[:3] if width - one.width - len(GAP) >= BESIDE_WIDTH), None)
    table = beside or next((one for one in laid if one.width <= width), laid[-1])
    hidden = _hidden(rows, shown)
    room = height - 1 - len(shown) - bool(hidden)
    head = GAP.join((*table.head, EVENT)) if beside is not None else GAP.join(table.head)
    lines: list[Line] = [((cut(head.rstrip(), width), "quiet"),)]
    beneath = _beneath(shown, width, room) if beside is None else [()] * len(shown)
    for row, cells, texts in zip(shown, table.cells, beneath, strict=True):
        line = _cropped(_toned(row, table.names, cells), width)
        if beside is not None:
            text = cut(row.last_event, width - table.width - len(GAP))
            line = (*line, (GAP + text, "quiet"))
        lines.append(line)
        lines += [((text, "quiet"),) for text in texts]
    return [*lines, ((cut(hidden, width), "quiet"),)] if hidden else lines


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns, its end marked if something is missing."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"[:width]


def duration(seconds: float) -> str:
    """As kubectl writes ages, in whole units: 4s, 3m12s, 2h5m."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60}m"


def _beneath(rows: Sequence[Row], width: int, room: int) -> list[tuple[str, ...]]:
    """The lines beneath each row: as many for each as all of them can have."""
    for most in range(EVENT_LINES, 0, -1):
        texts = [_wrapped(row.last_event, width, most) for row in rows]
        if sum(map(len, texts)) <= room:
            return texts
    return [()] * len(rows)


def _wrapped(event: str, width: int, most: int) -> tuple[str, ...]:
    if not event:
        return ()
    if width <= len(FURTHER) + 1:
        return (cut(BENEATH + event, width),)
    lines = textwrap.wrap(event, width - len(FURTHER), break_on_hyphens=False)
    if len(lines) > most:
        lines = [*lines[: most - 1], cut(" ".join(lines[most - 1 :]), width - len(FURTHER))]
    return tuple((FURTHER if at else BENEATH) + line for at, line in enumerate(lines))


def _that_fit(rows: Sequence[Row], height: int) -> list[Row]:
    """As many rows as there is room for, in their order; those of claims that are gone give way first."""
    room = height - 1 if len(rows) < height else height - 2
    by_worth = sorted(rows, key=lambda row: -row.entered.at if row.phase is Phase.TERMINATED else -math.inf)
    kept = {row.uid for row in by_worth[:room]}
    return [row for row in rows if row.uid in kept]


def _hidden(rows: Sequence[Row], shown: Sequence[Row]) -> str:
    there = {row.uid for row in shown}
    phases = Counter(row.phase for row in rows if row.uid not in there)
    told = ", ".join(f"{count} {phase}" for phase, count in phases.items())
    return f"… and {phases.total()} more: {told}" if phases else ""


def _laid(rows: Sequence[Row], now_seconds: float, columns: tuple[str, ...], *, short: bool) -> _Laid:
    texts = [[_text(row, column, now_seconds, short=short) for column in columns] for row in rows]
    heads = [HEAD[column].ljust(STEADY.get(column, 0)) for column in columns]
    widths = [max(map(len, column)) for column in zip(heads, *texts, strict=True)]
    return _Laid(
        columns,
        tuple(head.ljust(width) for head, width in zip(heads, widths, strict=True)),
        tuple(tuple(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in texts),
    )


def _text(row: Row, column: str, now_seconds: float, *, short: bool) -> str:
    match column:
        case "claim":
            return cut(row.name, NAME_WIDTH)
        case "size":
            return (row.size.removeprefix("Standard_") if short else row.size) or NOTHING
        case "phase":
            return row.phase
        case "for":
            return duration(now_seconds - row.entered.at)
        case "gpus":
            return f"{row.gpus_seen}/{row.gpus_expected}" if row.gpus_expected else NOTHING
    return f"{row.entered.time:%H:%M:%S}Z"


def _toned(row: Row, names: tuple[str, ...], cells: tuple[str, ...]) -> Line:
    """The phase in its colour; a claim that is gone is quiet as a whole."""
    gone: Tone = "quiet" if row.phase is Phase.TERMINATED else "plain"
    toned = [
        (cell, TONES.get(row.phase, "plain") if name == "phase" else gone)
        for name, cell in zip(names, cells, strict=True)
    ]
    return tuple((text if at == 0 else GAP + text, tone) for at, (text, tone) in enumerate(toned))


def _cropped(line: Line, width: int) -> Line:
    """Only where even the narrowest table is too wide."""
    cropped, left = [], width
    for text, tone in line:
        cropped.append((cut(text, left), tone))
        left = max(left - len(text), 0)
    return tuple(cropped)
