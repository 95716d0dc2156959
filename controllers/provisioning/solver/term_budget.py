"""How many terms of running pods one decision compares with pods to be placed.

Users own running pods, too: the comparisons are counted for the namespace of the running pods, and each namespace has a
budget of them.
"""

from collections import Counter

from .steps import Steps

# The terms that are compared in one decision. A namespace may take as many as it leaves to the others, at least some.
TERMS_MAX = 400_000
TERMS_LEAST = 2_000


class TermBudget:
    """The budgets of all namespaces during one decision."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._compared: Counter[str] = Counter()
        self._total = 0

    def take(self, namespace: str, terms: int) -> int:
        """How many of so many terms of running pods of a namespace may be compared; they are counted."""
        own = self._compared[namespace]
        most = max(TERMS_LEAST, (TERMS_MAX - (self._total - own)) // 2) - own
        taken = max(0, min(terms, most))
        self._compared[namespace] += taken
        self._total += taken
        self._steps.compare_running(namespace, taken)
        return taken
