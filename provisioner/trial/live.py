"""A trial as a live table on a terminal.

Drawn four times a second at most, in the size that the terminal has by then; what else is written meanwhile
(logs) scrolls by above it; at the end the last table stays where it is and the cursor stands below it, also after
Ctrl-C. No colour with NO_COLOR.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO, cast

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from .layout import LEAST_HEIGHT, layout
from .layout import Line as Laid
from .printing import Line, Printer
from .rows import Row
from .shows import Ending, Opening
from .terminal import STYLES, TerminalPen

# A quarter of a second is what a burst of changes is drawn in; times need no more.
DRAW_SECONDS = 0.1


class Table:
    """The rows as rich draws them, at the width and height that there are at that moment."""

    def __init__(self) -> None:
        self.rows: Sequence[Row] = ()
        self.at_seconds = 0.0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # The last line of the terminal is for the cursor.
        height = max(options.size.height - 1, LEAST_HEIGHT)
        for line in layout(self.rows, self.at_seconds, width=options.max_width, height=height):
            yield styled(line)


def styled(line: Laid) -> Text:
    """A line with its colours."""
    text = Text(no_wrap=True, overflow="crop")
    for words, tone in line:
        text.append(words, STYLES[tone])
    return text


class Above(io.TextIOBase):
    """A stream whose lines scroll by above the table."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, text: str) -> int:
        if text.rstrip("\n"):
            self._console.print(Text.from_ansi(text.rstrip("\n")))
        return len(text)

    def isatty(self) -> bool:
        return True


class LiveTable:
    """A `Show` on a terminal; `above` is for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printer = Printer(TerminalPen(console))
        self.above = cast("TextIO", Above(self._console))
        self._table = Table()
        self._live = self._new()
        self._opening: Opening | None = None
        self._width = 0
        self._drawn_at = float("-inf")

    @contextmanager
    def running(self) -> Iterator[None]:
        """The table is there from the opening on, below whatever is written."""
        try:
            yield
        finally:
            self._live.stop()

    def begun(self, opening: Opening) -> None:
        self._opening, self._width = opening, self._console.width
        self._printer.begun(opening)
        self._live = self._new()
        self._live.start()
        # Not even a process that is killed shall leave a terminal without a cursor.
        self._console.show_cursor(True)

    def line(self, line: Line) -> None:
        """Told by the rows."""

    def rows(self, rows: Sequence[Row], at_seconds: float) -> None:
        self._table.rows, self._table.at_seconds = rows, at_seconds
        if at_seconds - self._drawn_at < DRAW_SECONDS or self._opening is None:
            return
        self._drawn_at = at_seconds
        if self._console.width == self._width:
            self._live.refresh()
            return
        # A terminal breaks its old lines anew when its width changes: nobody knows any more where the table began.
        self._live.stop()
        self._console.clear()
        self.begun(self._opening)

    def ended(self, ending: Ending) -> None:
        self._printer.ended(ending)

    def stopped(self) -> None:
        self._printer.stopped()

    def _new(self) -> Live:
        return Live(
            self._table,
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
