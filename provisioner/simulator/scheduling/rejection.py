"""Why a Node does not take a pod, and the message about all Nodes.

Source: https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/scheduler/framework/types.go (FitError),
https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/scheduler/framework/preemption/preemption.go.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

NO_NODES = "no nodes available to schedule pods"

# Of the plugin for dynamic resource allocation, which tries to help before the preemption.
_NO_CLAIMS = "no new claims to deallocate"


class Rejection(NamedTuple):
    """`resolvable`: the deletion of other pods could make room."""

    reasons: tuple[str, ...]
    resolvable: bool = False


def message(rejections: Iterable[Rejection]) -> str:
    """kube-scheduler's message about a pod that fits no Node: the number of Nodes for each reason."""
    found = tuple(rejections)
    if not found:
        return NO_NODES
    filtered = _counted(len(found), (reason for rejection in found for reason in rejection.reasons))
    victims = (_PREEMPTION[rejection.resolvable] for rejection in found)
    return f"{filtered} {_NO_CLAIMS}, preemption: {_counted(len(found), victims)}"


_PREEMPTION = {
    True: "No preemption victims found for incoming pod",
    False: "Preemption is not helpful for scheduling",
}


def _counted(nodes: int, reasons: Iterable[str]) -> str:
    counts = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{nodes} nodes are available: {', '.join(counts)}."
