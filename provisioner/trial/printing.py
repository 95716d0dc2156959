"""How a story looks: a line for each thing that happened, in columns, coloured and wrapped on a terminal only.

Promise: what is written to a pipe or a file is plain text, one thing a line; no colour with NO_COLOR; texts of others
are never read as markup.
"""

import textwrap
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from .rows import Row
    from .shows import Ending, Opening

Tone = Literal["plain", "good", "bad", "quiet"]
STYLES: dict[Tone, str] = {"plain": "", "good": "green", "bad": "red", "quiet": "dim"}
CLAIM_WIDTH, WHO_WIDTH = 12, 9
NARROW = 60


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that happened `at` seconds after the beginning: to which claim, who did or has it."""

    at: float
    claim: str
    who: str
    text: str
    tone: Tone = "plain"

    @property
    def head(self) -> str:
        """All columns but the last, which may be long."""
        return f"{self.at:7.2f} s  {self.claim:<{CLAIM_WIDTH}} {self.who:<{WHO_WIDTH}} "

    def __str__(self) -> str:
        return self.head + self.text


class Printer:
    """A `Show` that writes lines to one stream."""

    def __init__(self, out: TextIO) -> None:
        self._console = Console(file=out, highlight=False, soft_wrap=True)

    def running(self) -> AbstractContextManager[object]:
        return nullcontext()

    def begun(self, opening: "Opening") -> None:
        self.prose(f"{opening.told}\n", "bold")
        if opening.announced:
            self.prose(f"{opening.announced}\n")
        if opening.to_copy:
            self.verbatim(f"{opening.to_copy}\n")

    def rows(self, rows: Sequence["Row"], at_seconds: float) -> None:
        """Told line by line."""

    def ended(self, ending: "Ending") -> None:
        self.prose(f"\n{ending.told}", "bold green" if ending.ok else "bold red")
        for what in ending.missing:
            self.prose(f"  {what}")

    def stopped(self) -> None:
        self.prose("\nstopped; nothing is left running")

    def line(self, line: Line) -> None:
        """A line of the story, its text under itself where the terminal is too narrow."""
        head, text = line.head, line.text
        width = self._console.width - len(head)
        if self._console.is_terminal and self._console.width > NARROW:
            shown = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
            text = f"\n{' ' * len(head)}".join(shown)
        self._console.print(Text.assemble((head, "dim"), (text, STYLES[line.tone])))

    def verbatim(self, text: str) -> None:
        """Words as they are, and to be copied as they are."""
        self._console.print(Text(text))

    def prose(self, text: str, style: str = "") -> None:
        """Words that may be wrapped."""
        self._console.print(Text(text, style=style), soft_wrap=not self._console.is_terminal)
