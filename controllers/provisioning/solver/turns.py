"""The order in which kinds of pods are placed one after the other, when a decision has too few steps for all of them.

Namespaces take turns, and each decision starts at another one, so that no pod is always behind the same others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from .model import Pod
from .work import Work

# The parts by which the starts of two decisions differ, among namespaces and among the pods of one. Multiples of both
# fill a square evenly, so that each pair of a namespace and a pod of it comes first before long:
# http://extremelearning.com.au/unreasonable-effectiveness-of-quasirandom-sequences/
STRIDES = 0.7548776662466927, 0.5698402909980532
_T = TypeVar("_T")


class Turn(NamedTuple):
    """`number`: of the decision. `ages`: the position of each pod by its name, the oldest first.

    `late`: the pods that are placed after all others, one kind after the other. `last`: whether no attempt follows.
    """

    number: int
    ages: Mapping[str, int]
    late: Sequence[Pod]
    last: bool = False


def in_turn(works: Iterable[Work], taken: Counter[str], turn: Turn) -> list[Work]:
    """One kind of each namespace, then the next one of each: those of namespaces that took few steps come first.

    `taken`: the steps of each namespace so far. The oldest pods of a namespace come first in decision 0; each decision
    starts at other namespaces, and at other pods of them.
    """
    by_namespace: dict[str, list[Work]] = {}
    for work in sorted(works, key=lambda one: min(turn.ages[name] for unit in one.units for name in unit)):
        by_namespace.setdefault(work.spec.namespace, []).append(work)
    # Namespaces that took about the same number of steps are alike.
    order = sorted(_rotated(sorted(by_namespace), turn.number * STRIDES[0]), key=lambda name: taken[name].bit_length())
    columns = zip_longest(*(_rotated(by_namespace[name], turn.number * STRIDES[1]) for name in order))
    return [work for column in columns for work in column if work is not None]


def _rotated(values: Sequence[_T], part: float) -> list[_T]:
    start = int(part % 1.0 * len(values))
    return [*values[start:], *values[:start]]
