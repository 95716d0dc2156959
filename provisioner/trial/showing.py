"""Which way a trial is shown: a live table where there is a terminal that can, lines elsewhere, JSON if asked for.

Left to others: the ways themselves (`live.py`, `printing.py`, `jsonlines.py`).
"""

import os
from typing import TextIO

from .jsonlines import JsonLines
from .live import LiveTable
from .printing import Printer
from .shows import Show

OUTPUTS = ("lines", "json")


def show_for(output: str | None, out: TextIO, err: TextIO) -> tuple[Show, TextIO]:
    """The way to show it, and where logs go meanwhile: above the table if both are on one terminal."""
    if output == "json":
        return JsonLines(out), err
    if output is None and out.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown"):
        table = LiveTable(out)
        return table, table.above if err.isatty() else err
    return Printer(out), err
