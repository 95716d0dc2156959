"""Output of the commands: lines, tables, text on a terminal; and questions to the user.

Results go to `out`, everything else to `err`. A question is called only on a terminal; a signal interrupts it. Tables
are as kubectl prints them: a heading in capitals, columns separated by three spaces, no trailing blanks. Text on a
terminal is wrapped under its own column and coloured, unless NO_COLOR is set; it contains escape sequences, so that it
is written to the stream and not with `Console.print`.
"""

import asyncio
import os
import shutil
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

from provisioner.api.text import printable
from provisioner.api.time import rfc3339

from .refusal import USAGE, Refused

# Of output with several lines, such as JSON.
LAYOUT = "\n"
Prompt = Callable[[str], Awaitable[str]]
CODES = {"green": "32", "red": "31", "yellow": "33", "bold": "1", "dim": "2"}
# Narrower than this, text is not wrapped under its column.
NARROW = 60
GAP = "   "
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Console:
    """`prompt` takes a question and returns the typed line; None without a terminal."""

    out: TextIO
    err: TextIO
    prompt: Prompt | None = None

    def print(self, *lines: str) -> None:
        """Print lines of the result; characters that are not printable are escaped."""
        self.out.writelines(f"{printable(line, keep=LAYOUT)}\n" for line in lines)

    async def confirm(self, question: str, *, yes: bool) -> None:
        """Return if `--yes` was given or the answer is yes. Raises Refused."""
        if yes:
            return
        if self.prompt is None:
            raise Refused("confirmation is required, and standard input is not a terminal", "Add --yes.", USAGE)
        if (await self.prompt(question)).strip().lower() != "yes":
            raise Refused("not confirmed: nothing was written", "Answer yes, or add --yes.")


def terminal_prompt(typed: TextIO, shown: TextIO) -> Prompt | None:
    """A prompt that reads answers from `typed`; None if it is not a terminal."""
    if not typed.isatty():
        return None

    async def prompt(question: str) -> str:
        shown.write(f"{question} [yes/no] ")
        shown.flush()
        loop = asyncio.get_running_loop()
        entered = asyncio.Event()
        loop.add_reader(typed, entered.set)
        try:
            await entered.wait()
        finally:
            loop.remove_reader(typed)
        return typed.readline()

    return prompt


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


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; an empty cell is a dash."""
    shown = [tuple(head), *(tuple(printable(cell) or NOTHING for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head))]
    return [GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]


def moment(time: datetime | None) -> str:
    """A time in UTC, "" if unknown."""
    return "" if time is None else rfc3339(time)


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def counted(number: int, noun: str) -> str:
    """`1 agent pool`, `2 agent pools`, `2 AgentPoolNodeClasses`."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"
