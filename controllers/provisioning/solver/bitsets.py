"""Sets of small numbers as the bits of integers: an intersection with thousands of members is one operation."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence


def of(numbers: Iterable[int]) -> int:
    """The set of these numbers."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def bits(found: int) -> Iterator[int]:
    """The members of a set, lowest first."""
    while found:
        lowest = found & -found
        yield lowest.bit_length() - 1
        found ^= lowest


class AtLeast:
    """Answers which positions of a sequence have at least an amount."""

    def __init__(self, amounts: Sequence[int]) -> None:
        self._levels: list[int] = []
        self._sets: list[int] = [0]
        found = 0
        for position in sorted(range(len(amounts)), key=lambda position: -amounts[position]):
            found |= 1 << position
            if self._levels and self._levels[-1] == amounts[position]:
                self._sets[-1] = found
            else:
                self._levels.append(amounts[position])
                self._sets.append(found)
        self._levels.reverse()
        self._sets.reverse()

    def of(self, amount: int) -> int:
        """The set of the positions."""
        return self._sets[bisect_left(self._levels, amount)]
