"""Measure everything, print the table, fail if a count is off."""

import asyncio
import sys

from rich.console import Console

from . import bursts, figures, footprint, lives, throttled

WIDTH = 200


async def _measured() -> list[figures.Figure]:
    return [*await lives.measure(), *await bursts.measure(), *await footprint.measure()]


def main() -> int:
    """The exit code: 1 if a count is off."""
    found = [*asyncio.run(_measured()), *throttled.measure()]
    figures.show(found, Console(width=None if sys.stdout.isatty() else WIDTH))
    return 1 if any(figure.broken for figure in found) else 0


if __name__ == "__main__":
    sys.exit(main())
