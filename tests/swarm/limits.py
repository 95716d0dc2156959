"""What a run may take while little virtual time passes: the controller's decisions are made inline, and end.

A pod of a tenant that costs minutes of a processor, or more memory than the chart allows, stops the program for all; so
does a key that is reconciled again at once, without end. The bounds are of the process that runs the plan, whatever
else the machine does.
"""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from resource import getpagesize
from types import FrameType

# The chart's limit is 512 MiB for the program alone; the simulated servers have as much.
STEP_SECONDS, MOST_BYTES = 60.0, 1 << 30
PERIOD_SECONDS = 1.0
# Of virtual time; a run has some hours of it, and takes less of a processor than it may within one minute.
MINUTE_SECONDS = 60.0


class Exceeded(BaseException):
    """The run took too much. No program that repeats what fails catches it."""


class Limits:
    """`exceeded`: what the run took too much of; None if it did not."""

    def __init__(self) -> None:
        self.exceeded: Exceeded | None = None
        self._bytes = _resident()
        self._since, self._seconds = -MINUTE_SECONDS, 0.0

    def look(self, _: int, __: FrameType | None) -> None:
        """After each second of the processor. Raises Exceeded, once for each minute, where the program is."""
        with suppress(RuntimeError):
            now = asyncio.get_running_loop().time()
            if 0.0 <= now - self._since < MINUTE_SECONDS:
                self._seconds += PERIOD_SECONDS
            else:
                self._since, self._seconds = now, 0.0
        if self._seconds >= STEP_SECONDS:
            self._seconds = 0.0
            self._raise(f"more than {STEP_SECONDS:g} s of a processor for a minute")
        if _resident() - self._bytes > MOST_BYTES:
            self._bytes = _resident()
            self._raise(f"more than {MOST_BYTES >> 20} MiB of memory")

    def _raise(self, what: str) -> None:
        self.exceeded = self.exceeded or Exceeded(what)
        raise self.exceeded


@contextmanager
def limited() -> Iterator[Limits]:
    """Bound what the block takes; without effect outside of the main thread, which alone receives signals."""
    limits = Limits()
    if threading.current_thread() is not threading.main_thread():
        yield limits
        return
    before = signal.signal(signal.SIGPROF, limits.look)
    signal.setitimer(signal.ITIMER_PROF, PERIOD_SECONDS, PERIOD_SECONDS)
    try:
        yield limits
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
