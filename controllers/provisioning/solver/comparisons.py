"""How much work one pod may cost a decision, so that whatever the API server accepts delays no other pod.

The work is counted in comparisons of one term or label with one kind of machine, never in seconds: the same pods have
the same answer on every processor. A pod is compared once for each set of its preferences that may have to be tried.
"""

from collections.abc import Mapping
from itertools import accumulate

PER_POD = 100_000
# Pod affinity terms and spread constraints of one pod: each counts the pods of a cluster.
TERMS_MAX = 1_000
# Combinations of domains over which the constraints of one pod may place it.
DOMAINS_MAX = 10_000
# Of all kinds of pods in one decision; the largest ones beyond it are left to a later decision.
PER_DECISION = 2_000_000
REMEDY = "remove terms from its affinity or topologySpreadConstraints"


class TooLargeError(ValueError):
    """A pod needs more work than one may cost; the text names what is too large, the limit and the remedy."""


def check(*, levels: int, expressions: int, terms: int) -> int:
    """The comparisons for one kind of machine.

    `levels`: the sets of preferences. `expressions`: of all alternatives together. `terms`: of pod affinity and
    topology spread. Raises TooLargeError.
    """
    if terms > TERMS_MAX:
        raise TooLargeError(
            f"it has {terms:,} pod affinity terms and topology spread constraints, at most {TERMS_MAX:,} are evaluated:"
            f" {REMEDY}"
        )
    needed = levels * (expressions + terms + 1)
    if needed > PER_POD:
        raise TooLargeError(
            f"it needs {needed:,} comparisons ({levels:,} sets of preferences x {expressions + terms:,} required"
            f" terms), at most {PER_POD:,} are made for one pod: {REMEDY}"
        )
    return needed


def beyond_budget(needed: Mapping[bytes, int]) -> frozenset[bytes]:
    """The kinds of pods that are left to a later decision: the largest ones, so that most pods are decided now.

    `needed`: the comparisons of each kind.
    """
    if sum(needed.values()) <= PER_DECISION:
        return frozenset()
    order = sorted(needed, key=lambda kind: (needed[kind], kind))
    sums = accumulate(needed[kind] for kind in order)
    return frozenset(kind for kind, so_far in zip(order, sums, strict=True) if so_far > PER_DECISION)
