"""Taints and tolerations, as kube-scheduler compares them.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/.
"""

import re
from collections.abc import Iterable, Iterator

from .meta import Taint
from .pod import Toleration

PREFER = "PreferNoSchedule"
# An int64, which kube-scheduler parses.
_INTEGER = re.compile(r"-?[0-9]{1,19}")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration matches a taint."""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key) or (not toleration.key and toleration.operator != "Exists"):
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Lt" | "Gt":
            if not (_is_integer(toleration.value) and _is_integer(taint.value)):
                return False
            bound, value = int(toleration.value), int(taint.value)
            return value < bound if toleration.operator == "Lt" else value > bound
    return False


def untolerated(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], *, ignore_preferred: bool = False
) -> Taint | None:
    """The first taint that no toleration matches."""
    return next(all_untolerated(taints, tolerations, ignore_preferred=ignore_preferred), None)


def all_untolerated(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], *, ignore_preferred: bool = False
) -> Iterator[Taint]:
    """The taints that no toleration matches."""
    accepted = tuple(tolerations)
    for taint in taints:
        if ignore_preferred and taint.effect == PREFER:
            continue
        if not any(tolerates(toleration, taint) for toleration in accepted):
            yield taint


def _is_integer(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None
