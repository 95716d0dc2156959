"""Graceful shutdown on SIGTERM and SIGINT.

The first signal cancels the work; when it has ended, `Signalled` is raised. A second signal ends the process at once
with 128 plus its number. Handlers are installed only while `until_signalled` runs.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Signalled(Exception):
    """The work was cancelled by a signal. `exit_code` is 128 plus its number, as shells report it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


async def until_signalled(work: Awaitable[T]) -> T:
    """Await `work`; raises Signalled if a signal cancelled it.

    Only for a task on the main thread's loop: other threads receive no signals.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    received: int | None = None

    def handle(number: int) -> None:
        nonlocal received
        if received is not None:
            os._exit(128 + number)
        received = number
        if task is not None:
            task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, handle, number)
    try:
        return await work
    except asyncio.CancelledError:
        if received is None:
            raise
        raise Signalled(received) from None
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
