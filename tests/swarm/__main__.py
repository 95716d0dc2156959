"""`python -m tests.swarm [--seeds 1-] [--minutes 60] [--replay FILE] [--plans FOLDER]`: 1 if a run failed.

Prints each seed that failed, then the figures of all. `--plans`: where the plan of each failure is written.
"""

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from . import plan as plans
from .draw import draw
from .run import Outcome, execute

SHOWN_CHARACTERS = 3_000
YEAR_SECONDS = 365 * 86_400.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.swarm", description=__doc__)
    parser.add_argument("--seeds", default="1-", help="a range such as 1-100; without an end, until the time is over")
    parser.add_argument("--minutes", type=float, default=60.0, help="no seed begins later than this")
    parser.add_argument("--replay", type=Path, help="run the plan in this file")
    parser.add_argument("--plans", type=Path, help="a folder for the plans of runs that fail")
    given = parser.parse_args()
    if given.replay:
        found = execute(plans.read(given.replay))
        print(found.error or "ok")
        return 1 if found.why else 0
    until, outcomes, began = time.monotonic() + 60.0 * given.minutes, [], time.process_time()
    for seed in itertools.takewhile(lambda _: time.monotonic() < until, seeds(given.seeds)):
        drawn = draw(seed)
        outcomes.append(found := execute(drawn))
        if found.why:
            print(f"seed {seed}: {found.why}", flush=True)
            if given.plans:
                given.plans.mkdir(parents=True, exist_ok=True)
                plans.write(given.plans / f"{seed}.json", drawn)
                (given.plans / f"{seed}.txt").write_text(found.error)
    print(figures(outcomes, time.process_time() - began))
    return 1 if any(one.why for one in outcomes) else 0


def seeds(text: str) -> Iterable[int]:
    """The seeds of a range such as `7`, `1-100` or `1-`."""
    first, dash, last = text.partition("-")
    return itertools.count(int(first)) if dash and not last else range(int(first), int(last or first) + 1)


def figures(outcomes: list[Outcome], cpu_seconds: float) -> str:
    """What a campaign has shown."""
    happened = sum((one.happened for one in outcomes), Counter[str]())
    pairs = set().union(*(one.pairs for one in outcomes))
    marks = set().union(*(one.marks for one in outcomes))
    machine_years = sum(one.machine_seconds for one in outcomes) / YEAR_SECONDS
    failures = Counter(one.why for one in outcomes if one.why)
    lines = [
        f"{len(outcomes)} seeds, {failures.total()} failed,"
        f" {len(outcomes) / max(cpu_seconds, 1e-9) * 3600:.0f} an hour and core",
        f"{sum(one.seconds for one in outcomes) / 86_400:.1f} virtual days, {machine_years:.2f} machine-years,"
        f" {happened.total()} faults of {len(happened)} kinds, {len(pairs)} pairs of states, {len(marks)} marks",
        *(f"  {times:5} {what}" for what, times in happened.most_common()),
        *(f"  failed {times} times: {what}" for what, times in failures.most_common()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
