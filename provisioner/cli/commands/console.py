"""Output of the commands, and questions to the user.

Results go to `out`, everything else to `err`. A question is called only on a terminal; a signal interrupts it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TextIO

from provisioner.api.text import printable

from .refusal import USAGE, Refused

# Of output with several lines, such as JSON.
LAYOUT = "\n"
Prompt = Callable[[str], Awaitable[str]]


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
