"""Runs many seeds in several processes, and adds up what they have shown.

The outcomes are in the order of their seeds, whatever process ran them. A campaign ends when its seeds or its time are
over, or when `idle` seeds in a row have added no pair of states.
"""

import itertools
import math
import multiprocessing
import subprocess
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field

from provisioner.runtime.clock import SystemClock
from tests.garbage import collect_seldom

from .draw import draw
from .figures import FOLDER, Campaign
from .run import Outcome, execute

YEAR_SECONDS = 365 * 86_400.0
IDLE_SEEDS = 10_000
# After how many seeds the number of new pairs is printed.
BLOCK = 1000


def run_seed(seed: int) -> tuple[Outcome, float]:
    """The outcome, and the seconds of a processor that it took."""
    began = time.process_time()
    return execute(draw(seed)), time.process_time() - began


def outcomes(seeds: Iterable[int], *, jobs: int, more: Callable[[], bool]) -> Iterator[tuple[Outcome, float]]:
    """Of each seed, in order, until `more()` is false."""
    collect_seldom()
    chosen = itertools.takewhile(lambda _: more(), seeds)
    if jobs == 1:
        yield from map(run_seed, chosen)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork")) as processes:
        running: deque[Future[tuple[Outcome, float]]] = deque()
        for seed in chosen:
            running.append(processes.submit(run_seed, seed))
            if len(running) >= 2 * jobs:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def seeds(text: str) -> Iterable[int]:
    """The seeds of a range such as `7`, `1-100` or `1-`, or of a list such as `7,40`. Raises ValueError for others."""
    if "," in text:
        return [int(one) for one in text.split(",")]
    first, dash, last = text.partition("-")
    return itertools.count(int(first)) if dash and not last else range(int(first), int(last or first) + 1)


@dataclass(kw_only=True)
class Figures:
    """What the seeds so far have shown. `idle`: seeds since the last one that added a pair.

    `survived`: the faults that occurred in runs that passed.
    """

    count: int = 0
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    machine_seconds: float = 0.0
    idle: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[int]] = field(default_factory=dict)
    pairs: set[str] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    survived: set[str] = field(default_factory=set)
    new_pairs: list[int] = field(default_factory=list)

    def add(self, outcome: Outcome, cpu_seconds: float) -> None:
        if self.count % BLOCK == 0:
            self.new_pairs.append(0)
        new = outcome.pairs - self.pairs
        self.new_pairs[-1] += len(new)
        self.idle = 0 if new else self.idle + 1
        self.count += 1
        self.cpu_seconds += cpu_seconds
        self.seconds += outcome.seconds
        self.machine_seconds += outcome.machine_seconds
        self.happened += outcome.happened
        self.pairs |= new
        self.marks |= outcome.marks
        if outcome.why:
            self.failures.setdefault(outcome.why, []).append(outcome.seed)
        else:
            self.survived |= outcome.happened.keys()

    @property
    def failed(self) -> int:
        return sum(len(found) for found in self.failures.values())

    def recorded(self) -> Campaign:
        """These figures, with today's date and the commit of the working tree."""
        git = ["git", "describe", "--always", "--dirty", "--abbrev=9", "--exclude=*"]
        commit = subprocess.run(git, check=True, capture_output=True, text=True, cwd=FOLDER).stdout.strip()
        return Campaign(
            date=SystemClock().now().date().isoformat(),
            commit=commit,
            seeds=self.count,
            failed=self.failed,
            hours=round(self.cpu_seconds / 3600.0, 2),
            days=round(self.seconds / 86_400.0, 1),
            machine_years=round(self.machine_seconds / YEAR_SECONDS, 2),
            faults=self.happened.total(),
            pairs=len(self.pairs),
            marks=len(self.marks),
            idle=self.idle,
            survived=tuple(sorted(self.survived)),
        )

    def __str__(self) -> str:
        an_hour = self.count / self.cpu_seconds * 3600 if self.cpu_seconds else math.nan
        lines = [
            f"{self.count} seeds, {self.failed} failed, {an_hour:.0f} an hour and core",
            f"{self.seconds / 86_400:.1f} virtual days, {self.machine_seconds / YEAR_SECONDS:.2f} machine-years,"
            f" {self.happened.total()} faults of {len(self.happened)} kinds, {len(self.marks)} marks",
            f"{len(self.pairs)} pairs of states, of which each {BLOCK} seeds added {self.new_pairs}; the last"
            f" {self.idle} seeds added none",
            *(f"  {times:5} {what}" for what, times in self.happened.most_common()),
            *(f"  failed {len(found)} times: {why} (seeds {found[:10]})" for why, found in self.failures.items()),
        ]
        return "\n".join(lines)
