"""What a machine that was bought for pods has shown so far: whether it takes them, and for how long they wait for it.

A Node is given time to start and to settle, and kube-scheduler the time to bind a pod that fits.

Source: docs/adr/0063-purchase-brake.md.
"""

from typing import Literal

from provisioner.api.conditions import LAUNCHED

from .bought_case import Case
from .fit import Fit

# kube-scheduler tries an unschedulable pod again after 5 minutes and 30 seconds at the latest, whatever it has missed
# (https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/scheduler/backend/queue/scheduling_queue.go).
BIND_SECONDS = 360.0
# Others set labels and remove taints shortly after a Node is initialized.
SETTLE_SECONDS = 60.0
# A Node that is not initialized after so long counts as what it shows: the deadline of initialization by default.
START_SECONDS = 1200.0
State = Literal["coming", "held", "misfit", "over"]


def state_of(case: Case) -> State:
    """Which of these it is.

    "coming": the machine may take the pods. "held": others may still change what keeps them off it. "misfit": it does
    not take them. "over": it is no concern of these pods any more.
    """
    return _shown(case) if case.concerned else "over"


def _shown(case: Case) -> State:
    """For some of the pods the machine can count."""
    one, found = case.one, case.found
    if one.served(case.shape):
        return "over"
    if found is None:
        failed = one.claim.condition(LAUNCHED, "False") is not None
        if one.claim.deleting:
            return "misfit" if one.expired and not failed and case.awaited else "over"
        return "over" if failed else "coming"
    if one.initialized_seconds is not None and not one.healthy:
        if not one.unused and not case.awaited:
            return "over"
        return "held" if one.unhealthy_seconds < SETTLE_SECONDS else "misfit"
    if found.verdict == "taken" and not _occupied(case):
        return "over"
    if found.verdict in ("resources", "taken"):
        return "misfit"
    if one.initialized_seconds is None:
        return _starting(case, found)
    if found.verdict == "fits" and one.leaves:
        # A pod that it was bought for and that still waits has never run on it. Others came after those that did.
        return "misfit" if one.unused or case.awaited else "over"
    patience = BIND_SECONDS if found.verdict == "fits" else SETTLE_SECONDS
    # A pod that is to move is not bound elsewhere before it is evicted.
    waited = max(pod.seconds for pod in case.concerned)
    if min(one.initialized_seconds, waited) >= patience:
        return "misfit"
    if one.claim.deleting:
        return "misfit"
    return "coming" if found.verdict == "fits" else "held"


def _starting(case: Case, found: Fit) -> State:
    """Of a machine that is not initialized."""
    if case.one.claim.deleting:
        return "misfit" if (case.one.expired or case.one.healthy) and case.awaited else "over"
    if case.one.node_seconds < START_SECONDS:
        return "coming" if found.verdict == "fits" else "held"
    return "over" if found.verdict == "fits" else "misfit"


def _occupied(case: Case) -> bool:
    """Whether pods that no machine was bought for took the room of pods that still wait.

    Such pods may come with each Node. Pods that machines were bought for leave the room of their own machines.
    """
    one = case.one
    return not one.contended and (case.awaited or bool(case.replaced))
