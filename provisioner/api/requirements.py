"""Requirements on the labels of a Node: what entries of manifests allow, combined key by key.

Deprecated keys count as their stable names; a missing key is unrestricted. `Requirements` are sets of values, as
scheduling compares them. `CombinedRequirement` keeps besides what a NodeClaim's own requirements need: the user's order
of values, because offerings are tried in that order, and whether they conflict. It ignores `minValues`, which concerns
the choice among offerings: a claim gets one machine. The work grows with the number of values, not with its square.

Source: docs/references/karpenter.md#requirements, and the behaviour of Karpenter's scheduler v1.14.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

import msgspec

from .labels import BETA_KEYS
from .meta import Struct
from .value_sets import ABSENT, ANY, BOUNDS, NEGATIVE, ValueSet, is_integer, one_of, value_set

Requirements = Mapping[str, ValueSet]

_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_VALUE_LENGTH = 63


class Requirement(Struct, frozen=True, kw_only=True):
    """One requirement of a selector, a NodePool or a NodeClaim.

    `operator` is In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte; selectors of pods have only the first four.
    `min_values`: how many distinct values the instance types of a NodeClaim must keep; only NodePools and NodeClaims
    have it.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: int | None = None


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


def of_labels(labels: Mapping[str, str]) -> dict[str, ValueSet]:
    """The requirements that exactly these labels satisfy."""
    return dict(map(_of_label, labels.items()))


# Each decision reads all labels of all Nodes, and most of these have the same ones.
@lru_cache(maxsize=16384)
def _of_label(label: tuple[str, str]) -> tuple[str, ValueSet]:
    key, value = label
    return normalise_key(key), one_of((value,))


def of_expected(labels: Mapping[str, str | None]) -> dict[str, ValueSet]:
    """The labels of a Node that does not exist yet: "" for one that it will not bear, None for one of any value."""
    return {key: _of_expected(value) for key, value in labels.items()}


@lru_cache(maxsize=4096)
def _of_expected(value: str | None) -> ValueSet:
    return ANY if value is None else one_of((value,)) if value else ABSENT


def of_entries(entries: Iterable[Requirement]) -> dict[str, ValueSet]:
    """The intersection of entries, key by key. Raises ValueError for an invalid one."""
    return combine(*map(_of_entry, entries))


def _of_entry(one: Requirement) -> Requirements:
    try:
        return {normalise_key(one.key): value_set(one.operator, one.values)}
    except ValueError as error:
        raise ValueError(f"{one.key}: {error}") from None


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


def distinct(machines: Iterable[Requirements], keys: Iterable[str]) -> list[Requirements]:
    """What machines require of some labels, each combination once."""
    wanted = tuple(keys)
    found = {tuple((key, one[key]) for key in wanted if key in one) for one in machines}
    return [dict(one) for one in found]


def by_key(requirements: Iterable[Requirement]) -> tuple[CombinedRequirement, ...]:
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
        for demand in by_key(grouped)
        if not demand.satisfiable
    )


def invalid(requirements: Iterable[Requirement]) -> tuple[str, ...]:
    """A message for each invalid requirement, including values that the CRD does not validate."""
    return tuple(why for requirement in requirements if (why := _why_invalid(requirement)))


def _combined(requirements: Iterable[Requirement], key: str) -> CombinedRequirement | None:
    wanted = normalise_key(key)
    return next((d for d in by_key(r for r in requirements if normalise_key(r.key) == wanted)), None)


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
