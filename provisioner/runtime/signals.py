"""How a process is asked to end.

Promise: the first SIGTERM or SIGINT cancels the work, which ends in its own order; a second one ends the process at
once, with 128 + its number. Handlers are in place while `until_signalled` runs, and only then.
Left to others: what ending means (the work's own `finally` blocks), exit codes (the command line).
"""

import asyncio
import os
import signal
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")
ASKING = (signal.SIGTERM, signal.SIGINT)


async def until_signalled(work: Awaitable[T]) -> T | None:
    """What `work` returns, or None if a signal ended it; raises what `work` raises. To be awaited by a task's own code.

    Only for the main thread's loop: signals arrive nowhere else.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    asked = False

    def ask(number: int) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + number)
        asked = True
        if task is not None:
            task.cancel()

    for number in ASKING:
        loop.add_signal_handler(number, ask, number)
    try:
        return await work
    except asyncio.CancelledError:
        if not asked:
            raise
        return None
    finally:
        for number in ASKING:
            loop.remove_signal_handler(number)
