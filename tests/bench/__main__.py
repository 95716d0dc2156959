"""Runs all measurements, prints the table, and fails if a count exceeds its target."""

import asyncio
import os
import platform
import sys

from rich.console import Console

from . import bursts, drains, figures, footprint, lives, throttled

WIDTH = 190


async def _measured() -> list[figures.Figure]:
    return [
        *await lives.measure(),
        *await bursts.measure(),
        *await drains.measure(),
        *await footprint.measure(),
    ]


def main() -> int:
    """Returns the exit code: 1 if a count exceeds its target."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    before = os.getloadavg()[0]
    console.print("the real program over loopback, for about four and a half minutes ...")
    found = [*asyncio.run(_measured()), *throttled.measure()]
    figures.show(found, console)
    # Controller and simulator use one core each during a burst: other processes on the machine lengthen every time.
    load = f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after, on {os.cpu_count()} cores"
    console.print(f"Python {platform.python_version()}; {load}")
    return 1 if any(figure.broken for figure in found) else 0


if __name__ == "__main__":
    sys.exit(main())
