"""Figures of the comparison with Karpenter's scheduler, as a whole and by feature.

python -m tests.oracle.figures 0 3999       compare the scenarios of these seeds and print the figures
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from .build import build
from .programs import OURS, answers
from .scenarios import draw
from .verdicts import TOLERATED_PRICE, Verdict, compared, for_karpenter

# Karpenter's scheduler chooses among equals at random.
RUNS = 3
BATCH = 250


class Figures(NamedTuple):
    """`wrong`: scenarios by what is wrong with them. `ratios`: prices divided by those of Karpenter's best run."""

    scenarios: int
    wrong: Counter[str]
    ratios: list[float]

    @classmethod
    def of(cls, verdicts: Mapping[int, Verdict]) -> "Figures":
        """The figures of some scenarios."""
        wrong = Counter(kind for one in verdicts.values() for kind in one.wrong)
        return cls(len(verdicts), wrong, sorted(one.ratio for one in verdicts.values() if one.ratio is not None))

    def line(self, name: str) -> str:
        """One line of a table."""
        parts = ", ".join(f"{self.wrong[kind]} {kind}" for kind in sorted(self.wrong)) or "nothing wrong"
        if not self.ratios:
            return f"{name}: {self.scenarios} scenarios, {parts}"
        mean, high = sum(self.ratios) / len(self.ratios), self.ratios[len(self.ratios) * 99 // 100]
        dearer = sum(ratio > TOLERATED_PRICE for ratio in self.ratios)
        return (
            f"{name}: {self.scenarios} scenarios, {parts}; price of {len(self.ratios)} compared: mean {mean:.3f}, "
            f"99th percentile {high:.3f}, most {self.ratios[-1]:.3f}, {dearer} above {TOLERATED_PRICE}"
        )


def compare_seeds(karpenter: Path, seeds: Iterable[int]) -> dict[int, Verdict]:
    """The verdict on the scenario of each seed."""
    numbers = [*seeds]
    scenarios = [draw(seed).scenario for seed in numbers]
    requested = [for_karpenter(scenario) for scenario in scenarios]
    theirs = [answers((str(karpenter),), requested) for _ in range(RUNS)]
    ours = answers(OURS, scenarios)
    return {
        seed: compared(scenario, decision, [run[index] for run in theirs], seed)
        for index, (seed, scenario, decision) in enumerate(zip(numbers, scenarios, ours, strict=True))
    }


def main(first: int, last: int) -> None:
    """Print what is wrong with each scenario, and the figures by feature."""
    karpenter, verdicts = build(), dict[int, Verdict]()
    for start in range(first, last + 1, BATCH):
        found = compare_seeds(karpenter, range(start, min(start + BATCH, last + 1)))
        verdicts |= found
        for seed, one in found.items():
            for kind, texts in one.wrong.items():
                print(f"seed {seed}: {kind}: {texts[0]}", flush=True)
    by_feature: dict[str, dict[int, Verdict]] = defaultdict(dict)
    for seed, one in verdicts.items():
        for feature in draw(seed).features or {"none"}:
            by_feature[feature][seed] = one
    for feature, found in sorted(by_feature.items()):
        print(Figures.of(found).line(feature))
    print(Figures.of(verdicts).line("all"))
    print(f"{sum(one.runs for one in verdicts.values())} of {RUNS * len(verdicts)} runs of Karpenter are valid")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
