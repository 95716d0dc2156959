"""The set of values that one label may have: a finite set, or the complement of one, within integer bounds.

The set without values stands for a label that must be absent, as in the scheduling of Karpenter.

Source: docs/references/karpenter.md#requirements, and the behaviour of Karpenter's scheduler v1.14.
"""

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

_NONE: frozenset[str] = frozenset()
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
NEGATIVE = frozenset({"NotIn", "DoesNotExist"})
BOUNDS = ("Gt", "Lt", "Gte", "Lte")


class ValueSet(NamedTuple):
    """The values that a label may have.

    `complement`: every value except `values` is allowed. `least` and `most` bound the value as an integer, inclusive,
    and only with `complement`. `min_values`: how many distinct values the instance types of a NodeClaim must keep.
    """

    complement: bool
    values: frozenset[str]
    least: int | None = None
    most: int | None = None
    min_values: int = 0

    @property
    def operator(self) -> str:
        """The operator of Kubernetes for this set; bounds are not part of it."""
        if self.complement:
            return "NotIn" if self.values else "Exists"
        return "In" if self.values else "DoesNotExist"

    @property
    def single(self) -> str | None:
        """The only allowed value, or None."""
        return next(iter(self.values)) if not self.complement and len(self.values) == 1 else None

    @property
    def example(self) -> str | None:
        """One allowed value, always the same; None if there is none. Of values without a list the simplest one."""
        if not self.complement:
            return min(self.values, default=None)
        if self.least is not None or self.most is not None:
            step, start = (1, self.least) if self.least is not None else (-1, self.most or 0)
            found = (str(start + step * number) for number in range(len(self.values) + 1))
            return next((value for value in found if self.allows(value)), None)
        return next(value for value in ("true", *map(str, range(len(self.values) + 1))) if value not in self.values)

    def allows(self, value: str) -> bool:
        """Whether a label with this value satisfies the set."""
        return ((value in self.values) != self.complement) and _within(value, self.least, self.most)

    def intersection(self, other: "ValueSet") -> "ValueSet":
        """The values that both sets allow."""
        least = _largest(self.least, other.least)
        most = _smallest(self.most, other.most)
        min_values = max(self.min_values, other.min_values)
        if least is not None and most is not None and least > most:
            return ValueSet(False, _NONE, min_values=min_values)
        if self.complement and other.complement:
            values = self.values | other.values
            if least is not None or most is not None:
                values = frozenset(v for v in values if _within(v, least, most))
            return ValueSet(True, values, least, most, min_values)
        if self.complement:
            values = other.values - self.values
        elif other.complement:
            values = self.values - other.values
        else:
            values = self.values & other.values
        if least is not None or most is not None:
            values = frozenset(v for v in values if _within(v, least, most))
        return ValueSet(False, values, min_values=min_values)

    def intersects(self, other: "ValueSet") -> bool:
        """Whether a value satisfies both. Two complements always intersect unless their bounds exclude each other."""
        least = _largest(self.least, other.least)
        most = _smallest(self.most, other.most)
        if least is not None and most is not None and least > most:
            return False
        if self.complement and other.complement:
            return True
        if self.complement:
            return any(v not in self.values and _within(v, least, most) for v in other.values)
        if other.complement:
            return any(v not in other.values and _within(v, least, most) for v in self.values)
        if least is None and most is None:
            return not self.values.isdisjoint(other.values)
        return any(v in other.values and _within(v, least, most) for v in self.values)

    def compatible(self, other: "ValueSet") -> bool:
        """Whether a label can satisfy both: with a value, or without one if both permit its absence."""
        return self.intersects(other) or (self.operator in NEGATIVE and other.operator in NEGATIVE)

    def __str__(self) -> str:
        """`In [a b]`, as messages print it; long lists are cut."""
        bounds = [f">= {self.least}"] * (self.least is not None) + [f"<= {self.most}"] * (self.most is not None)
        if bounds:
            return " and ".join(bounds)
        if not self.values:
            return self.operator
        shown = sorted(self.values)
        rest = f" and {len(shown) - 5} others" if len(shown) > 5 else ""
        return f"{self.operator} [{' '.join(shown[:5])}{rest}]"


ANY = ValueSet(True, _NONE)
ABSENT = ValueSet(False, _NONE)


def one_of(values: Iterable[str], min_values: int = 0) -> ValueSet:
    """The set of exactly these values."""
    return ValueSet(False, frozenset(values), min_values=min_values)


def value_set(operator: str, values: Collection[str], min_values: int = 0) -> ValueSet:
    """The set of one requirement. Raises ValueError for an unknown operator or a bound that is no integer."""
    match operator:
        case "In":
            return one_of(values, min_values)
        case "NotIn":
            return ValueSet(True, frozenset(values), min_values=min_values)
        case "Exists":
            return ValueSet(True, _NONE, min_values=min_values)
        case "DoesNotExist":
            return ValueSet(False, _NONE, min_values=min_values)
        case "Gt" | "Lt" | "Gte" | "Lte":
            bound = _bound(operator, values)
            if operator in ("Gt", "Gte"):
                return ValueSet(True, _NONE, least=bound + (operator == "Gt"), min_values=min_values)
            return ValueSet(True, _NONE, most=bound - (operator == "Lt"), min_values=min_values)
    raise ValueError(f"unknown operator {operator!r}: use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte")


def is_integer(text: str) -> bool:
    """Whether a value is an integer that bounds can be compared with."""
    return _INTEGER.fullmatch(text) is not None


def _bound(operator: str, values: Collection[str]) -> int:
    value = next(iter(values), "")
    if len(values) != 1 or not is_integer(value):
        raise ValueError(f"{operator} requires a single integer, not {[*values]!r}")
    return int(value)


def _within(value: str, least: int | None, most: int | None) -> bool:
    if least is None and most is None:
        return True
    if not is_integer(value):
        return False
    number = int(value)
    return (least is None or number >= least) and (most is None or number <= most)


def _largest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def _smallest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
