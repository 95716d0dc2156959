"""`python -m tests.cluster.roundtrip [--seeds 1-100] [--minutes 60]`: prints each seed and the figures; 1 if one fails.

It needs the control plane of `make cluster-tools`.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from pathlib import Path

from .run import Outcome, execute, stage


async def campaign(seeds: str, minutes: float, jobs: int) -> list[Outcome]:
    """The outcome of each seed, on so many control planes at a time."""
    first, _, last = seeds.partition("-")
    numbers = itertools.count(int(first)) if seeds.endswith("-") else range(int(first), int(last or first) + 1)
    until, found = time.monotonic() + 60.0 * minutes, list[Outcome]()
    waiting = itertools.takewhile(lambda _: time.monotonic() < until, numbers)

    async def work(folder: Path) -> None:
        async with stage(folder) as plane:
            for seed in waiting:
                found.append(await execute(plane, seed))
                print(found[-1], *found[-1].notes, sep="\n    ", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        async with asyncio.TaskGroup() as tasks:
            for number in range(jobs):
                own = Path(folder) / str(number)
                own.mkdir()
                tasks.create_task(work(own))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.roundtrip", description=__doc__)
    parser.add_argument("--seeds", default="1-", help="a range such as 1-100; without an end, until the time is over")
    parser.add_argument("--minutes", type=float, default=60.0, help="no round begins later than this")
    parser.add_argument("--jobs", type=int, default=1, help="control planes, each with one round at a time")
    given = parser.parse_args()
    found = asyncio.run(campaign(given.seeds, given.minutes, given.jobs))
    failed = [one.seed for one in found if one.why]
    bound, pods = sum(one.bound for one in found), sum(one.pods for one in found)
    print(
        f"{len(found)} seeds, {pods} pods, {bound} bound, {sum(one.unplaceable for one in found)} unplaceable,"
        f" {sum(one.braked for one in found)} braked, {sum(one.displaced for one in found)} displaced;"
        f" {sum(one.decided for one in found)} machines decided, {sum(one.machines for one in found)} ran;"
        f" {len(failed)} failed {failed or ''}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
