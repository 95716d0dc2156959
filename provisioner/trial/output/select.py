"""Selects the output: a live table on a terminal that supports it, lines elsewhere, records on request.

Rich is imported only if the output is a terminal. When a pipe is closed by its reader, as in `try | head`, output is
discarded and the process receives SIGTERM, so that it shuts down without a traceback.
"""

import io
import os
import signal
from typing import TextIO, cast

from .lines import LineRenderer, PlainWriter
from .record_stream import RecordRenderer
from .renderer import Renderer


def select_renderer(output: str, out: TextIO, err: TextIO) -> tuple[Renderer, TextIO]:
    """The renderer, and the stream for logs: `err`, or above the table if both are on one terminal."""
    if output in ("json", "yaml"):
        return RecordRenderer(out, output), err
    if not out.isatty():
        return LineRenderer(PlainWriter(out)), err
    from rich.console import Console

    from .terminal import LiveTable, TerminalWriter

    console = Console(file=out, highlight=False, soft_wrap=True)
    if output == "lines" or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return LineRenderer(TerminalWriter(console)), err
    table = LiveTable(console)
    return table, table.log_stream if err.isatty() else err


def stop_at_closed_pipe(out: TextIO) -> TextIO:
    """`out` if it is a terminal, else a stream that handles a closed pipe."""
    return out if out.isatty() else cast("TextIO", _Pipe(out))


class _Pipe(io.TextIOBase):
    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._open = True

    def write(self, text: str) -> int:
        if self._open:
            try:
                self._out.write(text)
                self._out.flush()
            except BrokenPipeError:
                self._open = False
                # The interpreter flushes the buffer at exit; without this it would fail again.
                devnull = os.open(os.devnull, os.O_WRONLY)
                os.dup2(devnull, self._out.fileno())
                os.close(devnull)
                signal.raise_signal(signal.SIGTERM)
        return len(text)
