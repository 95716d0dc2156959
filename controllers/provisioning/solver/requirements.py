"""Requirements on the labels of a node: a set of values for each key; a missing key is unrestricted.

Source: docs/references/karpenter.md#requirements, and the behaviour of Karpenter's scheduler v1.14.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from provisioner.api.requirements import normalise_key
from provisioner.api.value_sets import NEGATIVE, ValueSet, one_of

Requirements = Mapping[str, ValueSet]


def of_labels(labels: Mapping[str, str]) -> dict[str, ValueSet]:
    """The requirements that exactly these labels satisfy."""
    return dict(map(_of_label, labels.items()))


# Each decision reads all labels of all Nodes, and most of these have the same ones.
@lru_cache(maxsize=16384)
def _of_label(label: tuple[str, str]) -> tuple[str, ValueSet]:
    key, value = label
    return normalise_key(key), one_of((value,))


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


def distinct(machines: Iterable[Requirements], keys: Iterable[str]) -> list[Requirements]:
    """What machines require of some labels, each combination once."""
    wanted = tuple(keys)
    found = {tuple((key, one[key]) for key in wanted if key in one) for one in machines}
    return [dict(one) for one in found]


def excludes(one: Requirements, other: Requirements) -> str:
    """The first key on which two sets of requirements exclude each other, "" if a node can satisfy both.

    Requirements that exclude each other must not be combined: no value left means that the label must be absent.
    """
    return conflict(one, other, other)
