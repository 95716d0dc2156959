"""Requirements on the labels of a Node: what entries of manifests allow, combined key by key.

Deprecated keys count as their stable names; a missing key is unrestricted. `Requirements` are sets of values. The order
of values is in the entries only: offerings of a NodeClaim are tried in that order (`allowed_values`). A set without
values means that the label must be absent; whether entries need the label as well, so that they conflict, is in them
too. The work grows with the number of values, not with its square.

Source: docs/references/karpenter.md#requirements, and the behaviour of Karpenter's scheduler v1.14.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

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
        elif not offered.compatible(wanted):
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


def allowed(requirements: Iterable[Requirement], key: str) -> ValueSet:
    """The values that all requirements on the key allow. Raises ValueError for an invalid one."""
    return of_entries(_of_key(requirements, key)).get(normalise_key(key), ANY)


def allowed_values(requirements: Iterable[Requirement], key: str) -> tuple[str, ...] | None:
    """The same values in the order of the first list of them, in which a NodeClaim states what it prefers.

    None: there is no list of values. An empty tuple: no value is allowed, or the key must be absent.
    """
    on_key = _of_key(requirements, key)
    left = allowed(on_key, key)
    if left.complement:
        return None
    listed = next((one.values for one in on_key if one.operator == "In"), ())
    return tuple(value for value in dict.fromkeys(listed) if value in left.values)


def conflicting(requirements: Iterable[Requirement]) -> dict[str, str]:
    """A message for each key whose requirements conflict: they need the label, and no value satisfies them all."""
    grouped = tuple(requirements)
    needed = {normalise_key(one.key) for one in grouped if one.operator not in NEGATIVE}
    return {
        key: f"conflicting requirements on {key}: {', '.join(map(_formatted, _of_key(grouped, key)))}"
        for key, left in of_entries(grouped).items()
        if key in needed and left.operator == ABSENT.operator
    }


def invalid(requirements: Iterable[Requirement]) -> tuple[str, ...]:
    """A message for each invalid requirement, including values that the CRD does not validate."""
    return tuple(why for requirement in requirements if (why := _why_invalid(requirement)))


def _of_key(requirements: Iterable[Requirement], key: str) -> tuple[Requirement, ...]:
    wanted = normalise_key(key)
    return tuple(one for one in requirements if normalise_key(one.key) == wanted)


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


def _formatted(one: Requirement) -> str:
    return f"{one.operator} [{', '.join(one.values)}]" if one.values else one.operator
