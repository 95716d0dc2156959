"""Set algebra over node labels, as the scheduling of Karpenter defines it.

A `ValueSet` is the set of values that one label may have: a finite set, or the complement of one, within integer
bounds. `Requirements` maps label keys to value sets; a missing key is unrestricted.

Source: docs/references/karpenter.md#requirements, and the behaviour of Karpenter's scheduler v1.14.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from provisioner.api.labels import BETA_KEYS

_NONE: frozenset[str] = frozenset()
NEGATIVE = frozenset({"NotIn", "DoesNotExist"})


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


Requirements = Mapping[str, ValueSet]
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


def stable_key(key: str) -> str:
    """The stable name of a deprecated key; any other key unchanged."""
    return BETA_KEYS.get(key, key)


def of_labels(labels: Mapping[str, str]) -> dict[str, ValueSet]:
    """The requirements that exactly these labels satisfy."""
    return {stable_key(key): one_of((value,)) for key, value in labels.items()}


def combine(*parts: Requirements) -> dict[str, ValueSet]:
    """The intersection of all parts, key by key."""
    combined: dict[str, ValueSet] = {}
    for part in parts:
        for key, allowed in part.items():
            before = combined.get(key)
            combined[key] = allowed if before is None else before.intersection(allowed)
    return combined


def conflict(node: Requirements, pod: Requirements, may_be_undefined: Collection[str] = ()) -> str:
    """The first key on which a pod's requirements exclude a node, "" if none does.

    A node must define each key of the pod, except those in `may_be_undefined` and keys that the pod only excludes.
    """
    for key, wanted in pod.items():
        offered = node.get(key)
        if offered is None:
            if key not in may_be_undefined and wanted.operator not in NEGATIVE:
                return key
        elif not offered.intersects(wanted) and not (offered.operator in NEGATIVE and wanted.operator in NEGATIVE):
            return key
    return ""


def excludes(one: Requirements, other: Requirements) -> str:
    """The first key on which two sets of requirements exclude each other, "" if a node can satisfy both.

    Requirements that exclude each other must not be combined: no value left means that the label must be absent.
    """
    return conflict(one, other, other)


def _bound(operator: str, values: Collection[str]) -> int:
    value = next(iter(values), "")
    if len(values) != 1 or not value.lstrip("+-").isdecimal():
        raise ValueError(f"{operator} requires a single integer, not {[*values]!r}")
    return int(value)


def _within(value: str, least: int | None, most: int | None) -> bool:
    if least is None and most is None:
        return True
    if not value.lstrip("+-").isdecimal():
        return False
    number = int(value)
    return (least is None or number >= least) and (most is None or number <= most)


def _largest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def _smallest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
