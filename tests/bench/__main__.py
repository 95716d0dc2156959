"""Runs the measurements of one server, prints the table, and fails if a count exceeds its target.

python -m tests.bench               whole lives and pods on a real API server (`make bench`)
python -m tests.bench simulator     more measurements, on the simulated API server (`make bench-simulator`)
python -m tests.bench solver        scheduling decisions alone
python -m tests.bench disruption    emptied and drifted machines alone, on a real API server
python -m tests.bench consolidation decisions of consolidation alone
python -m tests.bench quarter       what is deleted in a simulated quarter (MACHINES=200 DAYS=90)
python -m tests.bench load          on a large cluster of others, on a real API server (NODES=1000 PODS=4000)
python -m tests.bench stalls        stalls of the event loop while a large cluster is consolidated, simulated API server
"""

import asyncio
import os
import platform
import sys

from rich.console import Console

from tests import gotool
from tests.cluster import assets

from . import (
    apiserver,
    bursts,
    consolidating,
    crowd,
    disruption,
    drains,
    figures,
    footprint,
    lives,
    load,
    quarter,
    scheduling,
    solving,
    stalls,
    throttled,
    wholelives,
    without_nodepools,
)

WIDTH = 190


async def _simulated() -> list[figures.Figure]:
    return [
        *await lives.measure(),
        *await bursts.measure(),
        *await drains.measure(),
        *await footprint.measure(),
    ]


async def _disruption() -> list[figures.Figure]:
    async with apiserver.control_plane() as cp:
        return await disruption.measure(cp)


async def _load(console: Console) -> list[figures.Figure]:
    async with apiserver.control_plane() as cp:
        return await load.measure(cp, console)


async def _real() -> list[figures.Figure]:
    async with apiserver.control_plane() as cp:
        return [
            *await wholelives.measure(cp),
            *await scheduling.measure(cp),
            *await disruption.measure(cp),
            *await without_nodepools.measure(cp),
            *await crowd.measure(),
        ]


def _figures(arguments: list[str], console: Console) -> list[figures.Figure]:
    if "solver" in arguments:
        return solving.measure()
    if "consolidation" in arguments:
        return consolidating.measure()
    if "quarter" in arguments:
        return quarter.measure(console)
    if "stalls" in arguments:
        return asyncio.run(stalls.measure())
    if "load" in arguments:
        return asyncio.run(_load(console))
    if "disruption" in arguments:
        return asyncio.run(_disruption())
    if "simulator" in arguments:
        console.print("on the simulated API server, for about five minutes ...")
        return [*asyncio.run(_simulated()), *throttled.measure(), *solving.measure(), *consolidating.measure()]
    console.print(
        f"{apiserver.program()[0]} on {assets.named(assets.find())}, for five to eight minutes ...", soft_wrap=True
    )
    return asyncio.run(_real())


def main(arguments: list[str]) -> int:
    """Returns the exit code: 1 if a count exceeds its target."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    before = os.getloadavg()[0]
    try:
        found = _figures(arguments, console)
    except gotool.MissingError as error:
        console.print(str(error), style="red")
        return gotool.USAGE
    figures.show(found, console)
    # Controller and servers share the cores: other processes on the machine lengthen every time.
    load = f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after, on {os.cpu_count()} cores"
    console.print(f"Python {platform.python_version()}; {load}")
    return 1 if any(figure.broken for figure in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
