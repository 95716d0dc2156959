"""Words on a terminal: coloured, and wrapped under their own column.

No colour with NO_COLOR; texts of others are never read as markup.
"""

import textwrap

from rich.console import Console
from rich.text import Text

from .printing import Line, Tone

STYLES: dict[Tone, str] = {"plain": "", "good": "green", "bad": "red", "quiet": "dim"}
NARROW = 60


class TerminalPen:
    """A `Pen` for one terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, line: Line) -> None:
        """Its text goes on under itself where the terminal is too narrow."""
        head, text = line.head, line.text
        if self._console.width > NARROW:
            shown = textwrap.wrap(text, self._console.width - len(head), break_long_words=False, break_on_hyphens=False)
            text = f"\n{' ' * len(head)}".join(shown)
        self._console.print(Text.assemble((head, "dim"), (text, STYLES[line.tone])))

    def prose(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=False)

    def verbatim(self, text: str) -> None:
        self._console.print(Text(text))
