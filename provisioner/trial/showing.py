"""Which way a trial is shown: a live table where there is a terminal that can, lines elsewhere, JSON if asked for.

Rich is asked for on a terminal only.
"""

import os
from typing import TextIO

from .jsonlines import JsonLines
from .printing import PlainPen, Printer
from .shows import Show


def show_for(output: str | None, out: TextIO, err: TextIO) -> tuple[Show, TextIO]:
    """The way to show it, and where logs go meanwhile: above the table if both are on one terminal."""
    if output == "json":
        return JsonLines(out), err
    if not out.isatty():
        return Printer(PlainPen(out)), err
    from rich.console import Console

    from .live import LiveTable
    from .terminal import TerminalPen

    console = Console(file=out, highlight=False, soft_wrap=True)
    if output is not None or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return Printer(TerminalPen(console)), err
    table = LiveTable(console)
    return table, table.above if err.isatty() else err
