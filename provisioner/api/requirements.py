"""Intersection of `spec.requirements`: all requirements on one key are combined into one.

Deprecated keys count as their stable names. The user's order of values is kept, because offerings are tried in that
order. `minValues` is ignored: it concerns the choice among offerings, and a claim gets one machine. The work grows with
the number of values, not with its square.

Source: docs/references/karpenter.md#requirements.
"""

import re
from collections.abc import Iterable

import msgspec

from .labels import BETA_KEYS
from .nodeclaim import Requirement
from .value_sets import ANY, BOUNDS, NEGATIVE, ValueSet, is_integer, value_set

_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_VALUE_LENGTH = 63


class CombinedRequirement(msgspec.Struct, frozen=True, kw_only=True):
    """The intersection of all requirements on one key. `listed`: the values of the first list, None without a list.

    `present` requires the key, `absent` forbids it: a set of values cannot distinguish a conflict from absence.
    """

    key: str
    set: ValueSet = ANY
    listed: tuple[str, ...] | None = None
    present: bool = False
    absent: bool = False

    @property
    def values(self) -> tuple[str, ...] | None:
        """The remaining values in the user's order; None if there is no list, so that only `allows` decides."""
        if self.absent:
            return ()
        return None if self.listed is None else tuple(v for v in self.listed if v in self.set.values)

    @property
    def satisfiable(self) -> bool:
        """Whether any value, or the absence of the key, satisfies it."""
        return not self.present if self.absent else self.set.operator != "DoesNotExist"

    def allows(self, value: str) -> bool:
        """Whether a label with this value satisfies it."""
        return not self.absent and self.set.allows(value)


def normalise_key(key: str) -> str:
    """The stable name of a beta key; any other key unchanged."""
    return BETA_KEYS.get(key, key)


def combine(requirements: Iterable[Requirement]) -> tuple[CombinedRequirement, ...]:
    """One per key, in order of first use. Raises ValueError for requirements that `invalid` reports."""
    demands: dict[str, CombinedRequirement] = {}
    for requirement in requirements:
        key = normalise_key(requirement.key)
        demands[key] = _intersect(demands.get(key) or CombinedRequirement(key=key), requirement)
    return tuple(demands.values())


def allowed_values(requirements: Iterable[Requirement], key: str) -> tuple[str, ...] | None:
    """The values that all requirements on the key allow, in the user's order.

    None: there is no list of values. An empty tuple: no value is allowed, or the key must be absent.
    """
    demand = _combined(requirements, key)
    return None if demand is None else demand.values


def allows(requirements: Iterable[Requirement], key: str, value: str) -> bool:
    """Whether this value satisfies all requirements on the key."""
    return combine_key(requirements, key).allows(value)


def combine_key(requirements: Iterable[Requirement], key: str) -> CombinedRequirement:
    """The intersection of the requirements on the key. Raises ValueError for requirements that `invalid` reports."""
    return _combined(requirements, key) or CombinedRequirement(key=normalise_key(key))


def conflicts(requirements: Iterable[Requirement]) -> tuple[str, ...]:
    """A message for each key whose requirements conflict."""
    grouped = tuple(requirements)
    return tuple(
        f"conflicting requirements on {demand.key}: {_formatted(grouped, demand.key)}"
        for demand in combine(grouped)
        if not demand.satisfiable
    )


def invalid(requirements: Iterable[Requirement]) -> tuple[str, ...]:
    """A message for each invalid requirement, including values that the CRD does not validate."""
    return tuple(why for requirement in requirements if (why := _why_invalid(requirement)))


def _combined(requirements: Iterable[Requirement], key: str) -> CombinedRequirement | None:
    wanted = normalise_key(key)
    return next((d for d in combine(r for r in requirements if normalise_key(r.key) == wanted)), None)


def _intersect(demand: CombinedRequirement, requirement: Requirement) -> CombinedRequirement:
    operator, values = requirement.operator, requirement.values
    if operator in BOUNDS and (why := _why_invalid(requirement)):
        raise ValueError(why)
    return CombinedRequirement(
        key=demand.key,
        set=demand.set.intersection(value_set(operator, values)),
        listed=tuple(dict.fromkeys(values)) if operator == "In" and demand.listed is None else demand.listed,
        present=demand.present or operator not in NEGATIVE,
        absent=demand.absent or operator == "DoesNotExist",
    )


def _why_invalid(requirement: Requirement) -> str:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator not in {"In", "NotIn", "Exists", "DoesNotExist", *BOUNDS}:
        return f"{key}: unknown operator {operator!r}"
    if operator in BOUNDS:
        if len(values) != 1 or not is_integer(values[0]) or int(values[0]) < 0:
            return f"{key}: {operator} requires a single non-negative integer"
        return ""
    if operator == "In" and not values:
        return f"{key}: In requires at least one value"
    rejected = [v for v in values if len(v) > _LABEL_VALUE_LENGTH or _LABEL_VALUE.fullmatch(v) is None]
    if rejected:
        return f"{key}: {rejected[0][:80]!r} is not a valid label value"
    return ""


def _formatted(requirements: Iterable[Requirement], key: str) -> str:
    same_key = (r for r in requirements if normalise_key(r.key) == key)
    return ", ".join(f"{r.operator} [{', '.join(r.values)}]" if r.values else r.operator for r in same_key)
