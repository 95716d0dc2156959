"""How a process is asked to end.

The first SIGTERM or SIGINT cancels the work, which ends in its own order; then `Signalled` says which it was.
A second one ends the process at once, with 128 + its number. Handlers are in place while `until_signalled` runs, and
only then.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")
ASKING = (signal.SIGTERM, signal.SIGINT)


class Signalled(Exception):
    """The work was ended by a signal. `exit_code` is what shells and init systems expect of who dies by it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


async def until_signalled(work: Awaitable[T]) -> T:
    """What `work` returns; raises what `work` raises, or Signalled. To be awaited by a task's own code.

    Only for the main thread's loop: signals arrive nowhere else.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    asked: int | None = None

    def ask(number: int) -> None:
        nonlocal asked
        if asked is not None:
            os._exit(128 + number)
        asked = number
        if task is not None:
            task.cancel()

    for number in ASKING:
        loop.add_signal_handler(number, ask, number)
    try:
        return await work
    except asyncio.CancelledError:
        if asked is None:
            raise
        raise Signalled(asked) from None
    finally:
        for number in ASKING:
            loop.remove_signal_handler(number)
