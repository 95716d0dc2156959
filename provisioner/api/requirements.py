"""The algebra of `spec.requirements`: several demands on one key become one.

Beta keys count as their stable names; the user's order of values is kept, because the first one that can be
had is the one to try first; what cannot be satisfied together is found before anything is asked of a cloud.
`minValues` needs no answer here: it asks for a choice among offerings, and a claim gets one machine.

Source: docs/references/karpenter.md#requirements.
"""

import re
from collections.abc import Iterable

import msgspec

from .labels import BETA_KEYS
from .nodeclaim import Requirement

_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_VALUE_LENGTH = 63
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_BOUNDS = ("Gt", "Lt", "Gte", "Lte")


class CombinedRequirement(msgspec.Struct, frozen=True, kw_only=True):
    """All that is asked of one key. `allowed` is None while no list of values is given.

    `least` and `most` bound the value as an integer, both inclusive. `present` asks for the key, `absent` forbids it.
    """

    key: str
    allowed: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    present: bool = False
    absent: bool = False

    @property
    def values(self) -> tuple[str, ...] | None:
        """The values left over in the user's order; None if any value will do that `allows` accepts."""
        if self.absent:
            return ()
        return None if self.allowed is None else tuple(v for v in self.allowed if self.allows(v))

    @property
    def satisfiable(self) -> bool:
        """Whether some machine could meet the demand."""
        if self.absent:
            return not self.present
        if self.least is not None and self.most is not None and self.least > self.most:
            return False
        return self.values != ()

    def allows(self, value: str) -> bool:
        """Whether a machine whose label has this value meets the demand."""
        if self.absent or value in self.excluded or (self.allowed is not None and value not in self.allowed):
            return False
        if self.least is None and self.most is None:
            return True
        if _INTEGER.fullmatch(value) is None:
            return False
        number = int(value)
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)


def normalise_key(key: str) -> str:
    """The stable name of a beta key; any other key unchanged."""
    return BETA_KEYS.get(key, key)


def combine(requirements: Iterable[Requirement]) -> tuple[CombinedRequirement, ...]:
    """One Demand a key, in order of first mention. Raises ValueError for what the CRD refuses (`malformed` tells)."""
    demands: dict[str, CombinedRequirement] = {}
    for requirement in requirements:
        key = normalise_key(requirement.key)
        demands[key] = _intersect(demands.get(key) or CombinedRequirement(key=key), requirement)
    return tuple(demands.values())


def allowed_values(requirements: Iterable[Requirement], key: str) -> tuple[str, ...] | None:
    """The values that all requirements on the key leave, in the user's order.

    None: no list of values is given. An empty tuple: nothing is left, or the key must be absent.
    """
    demand = _combined(requirements, key)
    return None if demand is None else demand.values


def allows(requirements: Iterable[Requirement], key: str, value: str) -> bool:
    """Whether a machine with this value of the key meets all requirements on the key."""
    demand = _combined(requirements, key)
    return demand is None or demand.allows(value)


def conflicts(requirements: Iterable[Requirement]) -> tuple[str, ...]:
    """A sentence for each key whose requirements no machine can meet together; empty if all can be met."""
    grouped = tuple(requirements)
    return tuple(
        f"the requirements on {demand.key} contradict each other: {_formatted(grouped, demand.key)}"
        for demand in combine(grouped)
        if not demand.satisfiable
    )


def invalid(requirements: Iterable[Requirement]) -> tuple[str, ...]:
    """A sentence for each requirement that is wrong in itself, including values that the CRD fails to check."""
    return tuple(why for requirement in requirements if (why := _why_invalid(requirement)))


def _combined(requirements: Iterable[Requirement], key: str) -> CombinedRequirement | None:
    wanted = normalise_key(key)
    return next((d for d in combine(r for r in requirements if normalise_key(r.key) == wanted)), None)


def _intersect(demand: CombinedRequirement, requirement: Requirement) -> CombinedRequirement:
    values = requirement.values
    replace = msgspec.structs.replace
    match requirement.operator:
        case "In":
            kept = dict.fromkeys(values) if demand.allowed is None else [v for v in demand.allowed if v in values]
            return replace(demand, allowed=tuple(kept), present=True)
        case "NotIn":
            return replace(demand, excluded=(*demand.excluded, *values))
        case "Exists":
            return replace(demand, present=True)
        case "DoesNotExist":
            return replace(demand, absent=True)
    bound = _bound(requirement)
    if requirement.operator in {"Gt", "Gte"}:
        least = bound + (requirement.operator == "Gt")
        return replace(demand, present=True, least=least if demand.least is None else max(demand.least, least))
    most = bound - (requirement.operator == "Lt")
    return replace(demand, present=True, most=most if demand.most is None else min(demand.most, most))


def _bound(requirement: Requirement) -> int:
    why = _why_invalid(requirement)
    if why:
        raise ValueError(why)
    return int(requirement.values[0])


def _why_invalid(requirement: Requirement) -> str:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator not in {"In", "NotIn", "Exists", "DoesNotExist", *_BOUNDS}:
        return f"{key}: the operator {operator!r} is not known"
    if operator in _BOUNDS:
        if len(values) != 1 or _INTEGER.fullmatch(values[0]) is None or int(values[0]) < 0:
            return f"{key}: {operator} needs exactly one value, a whole number of at least 0"
        return ""
    if operator == "In" and not values:
        return f"{key}: In needs at least one value"
    unfit = [v for v in values if len(v) > _LABEL_VALUE_LENGTH or _LABEL_VALUE.fullmatch(v) is None]
    if unfit:
        return f"{key}: {unfit[0][:80]!r} cannot be the value of a label"
    return ""


def _formatted(requirements: Iterable[Requirement], key: str) -> str:
    same_key = (r for r in requirements if normalise_key(r.key) == key)
    return ", ".join(f"{r.operator} [{', '.join(r.values)}]" if r.values else r.operator for r in same_key)
