"""The person at the other end: where words go, and how a question is answered.

Results go to `out`, everything else to `err`; nobody is asked who cannot answer; a question can be interrupted
like any other wait.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TextIO

from .refusal import USAGE, Refused

Ask = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Console:
    """`ask` takes a question and returns the line that was typed; None: nobody is there to be asked."""

    out: TextIO
    err: TextIO
    ask: Ask | None = None

    def say(self, *lines: str) -> None:
        """Lines of the result."""
        self.out.writelines(f"{line}\n" for line in lines)

    async def agree(self, question: str, *, yes: bool) -> None:
        """Go on only if it was answered with `yes`, beforehand (`--yes`) or now. Raises Refused."""
        if yes:
            return
        if self.ask is None:
            raise Refused("standard input is no terminal, so nobody can be asked", "Add --yes if you mean it.", USAGE)
        if (await self.ask(question)).strip().lower() != "yes":
            raise Refused("not confirmed: nothing was written", "Answer with the word yes, or add --yes.")


def asking(typed: TextIO, shown: TextIO) -> Ask | None:
    """Questions for whoever sits at the terminal `typed`; None if it is none."""
    if not typed.isatty():
        return None

    async def ask(question: str) -> str:
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

    return ask
