"""How a story looks: a line for each thing that happened, in columns.

What is written to a pipe or a file is plain text, one thing a line, and needs no library for it.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

if TYPE_CHECKING:
    from .rows import Row
    from .shows import Ending, Opening

Tone = Literal["plain", "good", "bad", "quiet"]
CLAIM_WIDTH, WHO_WIDTH = 12, 9


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


class Pen(Protocol):
    """Writes: a line of the story; words that may be wrapped, in a style; words to be copied as they are."""

    def line(self, line: Line) -> None: ...
    def prose(self, text: str, style: str = "") -> None: ...
    def verbatim(self, text: str) -> None: ...


class PlainPen:
    """Text as it is."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def line(self, line: Line) -> None:
        self.verbatim(str(line))

    def prose(self, text: str, style: str = "") -> None:
        self.verbatim(text)

    def verbatim(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()


class Printer:
    """A `Show` that writes lines."""

    def __init__(self, pen: Pen) -> None:
        self._pen = pen

    def running(self) -> AbstractContextManager[object]:
        return nullcontext()

    def begun(self, opening: "Opening") -> None:
        self._pen.prose(f"{opening.told}\n", "bold")
        if opening.announced:
            self._pen.prose(f"{opening.announced}\n")
        if opening.to_copy:
            self._pen.verbatim(f"{opening.to_copy}\n")

    def line(self, line: Line) -> None:
        self._pen.line(line)

    def rows(self, rows: Sequence["Row"], at_seconds: float) -> None:
        """Told line by line."""

    def ended(self, ending: "Ending") -> None:
        self._pen.prose(f"\n{ending.told}", "bold green" if ending.ok else "bold red")
        for what in ending.missing:
            self._pen.prose(f"  {what}")

    def stopped(self) -> None:
        self._pen.prose("\nstopped; nothing is left running")
