"""`python -m tests.fuzz [--seeds 1-100] [--minutes 60]`: prints each seed and the figures of all; 1 if one failed."""

import argparse
import itertools
import sys
import time
from collections.abc import Iterable

from .campaign import run_seeds

SHOWN_CHARACTERS = 3_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seeds", default="1-", help="a range such as 1-100; without an end, until the time is over")
    parser.add_argument("--minutes", type=float, default=60.0, help="no seed begins later than this")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds: Iterable[int] = itertools.count(int(first)) if "-" in given.seeds and not last else ()
    seeds = seeds or range(int(first), int(last or first) + 1)
    until, found = time.monotonic() + 60.0 * given.minutes, []
    for verdict in run_seeds(itertools.takewhile(lambda _: time.monotonic() < until, seeds)):
        print(verdict, flush=True)
        found.append(verdict)
        if verdict.why:
            print(verdict.output[-SHOWN_CHARACTERS:], flush=True)
    failed = [one.seed for one in found if one.why]
    print(
        f"{len(found)} seeds, {sum(one.objects for one in found)} objects, {len(failed)} failed {failed or ''};"
        f" peak {max((one.peak_mib for one in found), default=0)} MiB,"
        f" largest decision {max((one.steps for one in found), default=0):,} steps,"
        f" slowest {max((one.slowest for one in found), default=0.0):.1f} s of CPU,"
        f" latest machine {max((one.later for one in found), default=0.0):+.1f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
