"""`python -m tests.swarm`: runs seeds, replays or shrinks a plan, or plants defects; 1 if a run fails.

Prints each seed that failed, then the figures of all. The plan of each failure is written to `--plans`.
"""

import argparse
import sys
import time
from pathlib import Path

from . import plan as plans
from .campaign import IDLE_SEEDS, Figures, outcomes, seeds
from .draw import draw
from .figures import write
from .mutants import CANARY, MUTANTS, Mutant, hunt
from .run import execute
from .shrink import same_failure, shrink
from .skeleton import skeleton


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.swarm", description=__doc__)
    parser.add_argument(
        "--seeds", default="1-", help="a range such as 1-100, a list such as 7,40, or 1-: until the time is over"
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="no run begins later than this")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--idle", type=int, default=IDLE_SEEDS, help="end when so many seeds added no pair of states")
    parser.add_argument("--plans", type=Path, help="a folder for the plans of runs that fail")
    parser.add_argument("--figures", type=Path, help="replace this file by what the seeds have shown")
    parser.add_argument("--replay", type=Path, help="run the plan in this file")
    parser.add_argument("--shrink", type=Path, help="reduce the plan in this file, to NAME.small.json and NAME.py")
    parser.add_argument(
        "--mutants", nargs="*", help="plant these defects, or all: each must be found within --minutes of a processor"
    )
    parser.add_argument("--canary", action="store_true", help="plant the defect that each night must find")
    given = parser.parse_args()
    until = time.monotonic() + 60.0 * given.minutes
    if given.replay:
        found = execute(plans.read(given.replay))
        print(found.error or "ok")
        return 1 if found.why else 0
    if given.shrink:
        return _shrink(given.shrink, until)
    if given.canary:
        return _hunt((CANARY,), given)
    if given.mutants is not None:
        return _hunt(tuple(one for one in MUTANTS if not given.mutants or one.__name__ in given.mutants), given)
    return _campaign(given, until)


def _campaign(given: argparse.Namespace, until: float) -> int:
    figures = Figures()
    more = lambda: time.monotonic() < until and figures.idle < given.idle  # noqa: E731
    for outcome, cpu_seconds in outcomes(seeds(given.seeds), jobs=given.jobs, more=more):
        figures.add(outcome, cpu_seconds)
        if not outcome.why:
            continue
        print(f"seed {outcome.seed}: {outcome.why}", flush=True)
        if given.plans:
            given.plans.mkdir(parents=True, exist_ok=True)
            plans.write(given.plans / f"{outcome.seed}.json", draw(outcome.seed))
            (given.plans / f"{outcome.seed}.txt").write_text(outcome.error)
    print(figures)
    if given.figures:
        write(given.figures, figures.recorded())
    return 1 if figures.failed else 0


def _hunt(mutants: tuple[Mutant, ...], given: argparse.Namespace) -> int:
    killed = 0
    for found in hunt(mutants, seeds(given.seeds), minutes=given.minutes, chosen="," in given.seeds):
        print(found, flush=True)
        killed += found.seed > 0
    print(f"# {killed} of {len(mutants)} planted defects found")
    return 0 if killed == len(mutants) else 1


def _shrink(path: Path, until: float) -> int:
    plan = plans.read(path)
    why = execute(plan).why
    if not why:
        print("the plan does not fail")
        return 2
    small, runs = shrink(plan, same_failure(why), expired=lambda: time.monotonic() >= until)
    plans.write(path.with_suffix(".small.json"), small)
    path.with_suffix(".py").write_text(skeleton(small, why))
    print(f"{why}: {len(plan.events)} events became {len(small.events)} in {runs} runs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
