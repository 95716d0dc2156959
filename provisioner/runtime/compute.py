"""Where long computations run: beside the event loop, or in it.

A computation of seconds in the event loop delays the renewal of the Lease, the probes and every other task. In a thread
it takes turns with the loop: the interpreter switches every few milliseconds. The collector of garbage
does not: it would stop the loop while it examines all values of a decision, so that it is paused meanwhile.

Source: https://docs.python.org/3/library/sys.html#sys.setswitchinterval.
"""

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Compute(Protocol):
    """Runs a pure function of immutable values and returns its result."""

    async def __call__(self, function: Callable[[], T]) -> T: ...


class ThreadCompute:
    """One thread, started at the first use. After a cancellation the next function waits for the running one."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")

    async def __call__(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, _without_collector, function)


def _without_collector(function: Callable[[], T]) -> T:
    # What a decision creates has hardly any cycles, and is freed when nothing refers to it any more.
    gc.disable()
    try:
        return function()
    finally:
        gc.enable()


async def inline(function: Callable[[], T]) -> T:
    """Runs it in the event loop, for virtual time."""
    return function()
