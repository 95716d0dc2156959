"""Text on a terminal: printable, wrapped under its own column, and coloured. NO_COLOR turns colours off.

The results contain escape sequences, so that they are written to the stream and not with `Console.print`.
"""

import os
import shutil
import textwrap
from typing import TextIO

from provisioner.api.text import printable

from .console import LAYOUT

CODES = {"green": "32", "red": "31", "yellow": "33", "bold": "1", "dim": "2"}
# Narrower than this, text is not wrapped under its column.
NARROW = 60


class Terminal:
    """Wraps and colours for this stream; does neither if it is not a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._is_terminal = out.isatty()
        self._coloured = self._is_terminal and not os.environ.get("NO_COLOR")
        self._width = shutil.get_terminal_size().columns

    def coloured(self, text: str, style: str) -> str:
        """The text in this style of `CODES`."""
        text = printable(text, keep=LAYOUT)
        return f"\x1b[{CODES[style]}m{text}\x1b[0m" if self._coloured and text else text

    def wrapped(self, text: str, indent: int) -> str:
        """The text in lines that fit behind `indent` columns, where the first line begins."""
        text = printable(text)
        if not self._is_terminal or self._width < NARROW or self._width - indent < NARROW // 2:
            return text
        lines = textwrap.wrap(text, self._width - indent, break_long_words=False, break_on_hyphens=False)
        return f"\n{' ' * indent}".join(lines)
