"""Output on a terminal, with rich: coloured lines, or a live table.

The table is drawn at most ten times a second, at the terminal's current size. Logs, lines about pods and the rows of
claims that were deleted scroll above it. At the end the last table stays, with the cursor below it, also after Ctrl-C.
NO_COLOR turns colours off.
"""

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO, cast

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from provisioner.trial.rows import Row

from .lines import LineRenderer
from .renderer import POD, LogLine, Result, Started, Style
from .table_layout import MIN_HEIGHT, TableLine, layout

COLOURS: dict[Style, str] = {"plain": "", "success": "green", "error": "red", "dim": "dim"}
NARROW = 60
DRAW_SECONDS = 0.1


class TerminalWriter:
    """A `Writer` for a terminal. Text is never interpreted as markup."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, line: LogLine) -> None:
        """Long text is wrapped under its own column."""
        prefix, text = line.prefix, line.text
        if self._console.width > NARROW:
            width = self._console.width - len(prefix)
            wrapped = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
            text = f"\n{' ' * len(prefix)}".join(wrapped)
        self._console.print(Text.assemble((prefix, "dim"), (text, COLOURS[line.style])))

    def prose(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=False)

    def verbatim(self, text: str) -> None:
        self._console.print(Text(text))


class Table:
    """The rows as a rich renderable, laid out for the size at the time of drawing."""

    def __init__(self) -> None:
        self.rows: Sequence[Row] = ()
        self.at_seconds = 0.0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # The last line of the terminal is left for the cursor.
        height = max(options.size.height - 1, MIN_HEIGHT)
        for line in layout(self.rows, self.at_seconds, width=options.max_width, height=height):
            yield _styled(line)


def _styled(line: TableLine) -> Text:
    text = Text(no_wrap=True, overflow="crop")
    for segment, style in line:
        text.append(segment, COLOURS[style])
    return text


def _left(before: Sequence[Row], now: Sequence[Row]) -> list[Row]:
    """The rows that are no longer shown."""
    shown = {row.uid for row in now}
    return [row for row in before if row.uid not in shown]


class LogStream(io.TextIOBase):
    """A stream whose lines scroll above the table."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, text: str) -> int:
        if text.rstrip("\n"):
            self._console.print(Text.from_ansi(text.rstrip("\n")))
        return len(text)

    def isatty(self) -> bool:
        return True


class LiveTable:
    """A `Renderer` that shows a live table; `log_stream` is for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._writer = TerminalWriter(console)
        self._lines = LineRenderer(self._writer)
        self.log_stream = cast("TextIO", LogStream(self._console))
        self._table = Table()
        self._live = self._new_live()
        self._started: Started | None = None
        self._width = 0
        self._drawn_at = float("-inf")

    @contextmanager
    def live(self) -> Iterator[None]:
        """The table is updated from `started` to the end of this context."""
        try:
            yield
        finally:
            self._live.stop()

    def started(self, started: Started) -> None:
        self._started, self._width = started, self._console.width
        self._lines.started(started)
        self._live = self._new_live()
        self._live.start()
        # rich hides the cursor, and a killed process could not show it again.
        self._console.show_cursor(True)

    def line(self, line: LogLine) -> None:
        """Lines about pods scroll above the table; the rows show the last event of each claim."""
        if line.source == POD and self._started is not None:
            self._writer.line(line)

    def rows(self, rows: Sequence[Row], at_seconds: float) -> None:
        self._lines.rows(rows, at_seconds)
        for gone in _left(self._table.rows, rows):
            self._console.print(Text(f"{gone.entered.time:%H:%M:%S}Z  {gone.name}  {gone.status}", style="dim"))
        self._table.rows, self._table.at_seconds = rows, at_seconds
        if at_seconds - self._drawn_at < DRAW_SECONDS or self._started is None:
            return
        self._drawn_at = at_seconds
        if self._console.width == self._width:
            self._live.refresh()
            return
        # Terminals rewrap old lines when the width changes, so the position of the table is unknown: draw everything.
        self._live.stop()
        self._console.clear()
        self.started(self._started)

    def finished(self, result: Result) -> None:
        self._lines.finished(result)

    def stopped(self) -> None:
        self._lines.stopped()

    def _new_live(self) -> Live:
        return Live(
            self._table,
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
