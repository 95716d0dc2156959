"""The budget of a decision, counted in steps for the pods that cause them, never in seconds.

All attempts at a decision share it, so that every decision ends and the same pods have the same answer on every
processor. The first attempts may take a part of what is left, so that there is enough for the pods of others.
"""

from collections import Counter

from .model import PodSpec

# A step is a machine that is compared with a pod, or a few cheaper comparisons: some microseconds.
STEPS_MAX = 2_000_000
# So many terms, domains or groups are compared in one step.
TERMS_A_STEP, DOMAINS_A_STEP, GROUPS_A_STEP = 8, 4, 10
OUT_OF_STEPS = (
    f"the decision ended after {STEPS_MAX:,} steps, of which its kind of pods or its namespace took many; it is decided"
    " again when the others have their machines"
)


class Steps:
    """The steps of one decision. `total`: those that were made."""

    def __init__(self) -> None:
        self.total = 0
        self._most = self._end = STEPS_MAX
        # By the identity of a spec, which is kept, so that no identity is used twice.
        self._of: Counter[int] = Counter()
        # Those of running pods by namespace, and in both cases the terms that are less than a step.
        self._running: Counter[str] = Counter()
        self._running_terms: Counter[str] = Counter()
        self._terms = 0
        self._specs: dict[int, PodSpec] = {}

    def count(self, spec: PodSpec, steps: int) -> None:
        """Count steps for pods of this spec."""
        if id(spec) not in self._specs:
            self._specs[id(spec)] = spec
        self._of[id(spec)] += steps
        self.total += steps

    def compare(self, spec: PodSpec, terms: int = 1) -> None:
        """Count comparisons of terms of pods of this spec: every few of them are a step."""
        steps, self._terms = divmod(self._terms + terms, TERMS_A_STEP)
        if steps:
            self.count(spec, steps)

    def compare_running(self, namespace: str, terms: int) -> None:
        """Count comparisons of terms of running pods of a namespace: every few of them are a step."""
        steps, self._running_terms[namespace] = divmod(self._running_terms[namespace] + terms, TERMS_A_STEP)
        self._running[namespace] += steps
        self.total += steps

    def begin(self, parts: int) -> None:
        """What follows may take one of so many parts of the steps that are left."""
        self._end = self.total + self.remaining // parts

    def end(self) -> None:
        """The present part must end, although steps are left: what it has placed is all that was found in time."""
        self._end = self.total - 1

    @property
    def remaining(self) -> int:
        """How many steps there are before the decision must end."""
        return max(0, self._most - self.total)

    @property
    def left(self) -> int:
        """How many steps there are before the present part must end."""
        return max(0, self._end - self.total)

    @property
    def spent(self) -> bool:
        """Whether the present part must end: what it has not placed is left to a later decision."""
        return self.total > self._end

    def costly(self, kept: int) -> frozenset[int]:
        """The specs without which at most `kept` steps remain, by identity; never all of them.

        Those of the namespace with the most steps come first, and of these the ones with the most steps.
        """
        namespaces, found, left = self.by_namespace(), set[int](), self._of.total()

        def order(item: tuple[int, int]) -> tuple[int, str, int]:
            namespace = self._specs[item[0]].namespace
            return -namespaces[namespace], namespace, -item[1]

        for spec, steps in sorted(self._of.items(), key=order)[:-1]:
            if left <= kept:
                break
            found.add(spec)
            left -= steps
        return frozenset(found)

    def by_namespace(self) -> Counter[str]:
        """The steps that the pods of each namespace caused."""
        found = self._running.copy()
        for spec, steps in self._of.items():
            found[self._specs[spec].namespace] += steps
        return found
