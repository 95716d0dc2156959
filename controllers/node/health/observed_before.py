"""For how long the processes before this one observed a signal, as the annotation `labels.SIGNAL_OBSERVED` states it.

Part of the time of a row has to be observed (`repair_delays.py`). For a row of hours, processes that are replaced each
hour do so together: each adds what it has observed, and removes the annotation when the signal is over.

Wire format: `{"group":"Kernel","node":"0a7b…","seconds":5400,"closed":1200,"at":"2026-03-01T13:00:00Z"}`.
"""

import math
from datetime import datetime
from typing import Annotated

import msgspec

from controllers.model.facts import Facts, Unhealthy
from controllers.model.steps import PatchClaim
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim

from . import cordon, signals
from .repairable import unhealthy_node

# It is written that often, and rows that need less are observed by one process.
WRITE_SECONDS = 600.0
# For so long the signal may be unobserved between two processes. Clocks that differ by more void what is stated.
GAP_SECONDS = 1800.0


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """A signal of this group, on the Node with this UID, was observed for so many `seconds` until `at`.

    `closed`: for so many seconds the Node was seen to take no new pods.
    """

    group: str
    node: str
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    closed: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    at: Annotated[datetime, msgspec.Meta(tz=True)]


def read(f: Facts, claim: NodeClaim, group: str, subject: str, began: datetime) -> tuple[float, float]:
    """Seconds for which others observed this signal, and saw its Node closed. `began`: as objects state it now."""
    stated = _stated(claim)
    if stated is None or (stated.group, stated.node) != (group, subject):
        return 0.0, 0.0
    gap = (f.now - stated.at).total_seconds()
    return (stated.seconds, stated.closed) if abs(gap) <= GAP_SECONDS and began <= stated.at else (0.0, 0.0)


def write(f: Facts, claim: NodeClaim, unhealthy: Unhealthy) -> PatchClaim | None:
    """State what has been observed; None if nothing new is to be stated."""
    if seconds_left(f, claim, unhealthy) > 0:
        return None
    made = _observed(f, unhealthy)
    return PatchClaim(claim=claim, annotations={labels.SIGNAL_OBSERVED: msgspec.json.encode(made).decode()})


def seconds_left(f: Facts, claim: NodeClaim, unhealthy: Unhealthy) -> float:
    """Seconds until the next write; 0 or less if it is due, inf if no row needs it, or if it was refused."""
    row = unhealthy.policy
    if (
        "PatchClaim" in f.refused
        or max(signals.seconds(f, row), row.pods_seconds if row.works else 0.0) <= 2 * WRITE_SECONDS
    ):
        return math.inf
    made, stated = _observed(f, unhealthy), _stated(claim)
    same = stated is not None and (stated.group, stated.node) == (made.group, made.node)
    known = stated.seconds if stated is not None and same and stated.seconds <= made.seconds else 0.0
    return WRITE_SECONDS - (made.seconds - known)


def remove(f: Facts, claim: NodeClaim) -> PatchClaim | None:
    """Remove what is stated about a signal that is known to be over."""
    node = f.node
    if labels.SIGNAL_OBSERVED not in claim.metadata.annotations or "PatchClaim" in f.refused:
        return None
    if f.unhealthy is not None or node is None or not cordon.is_over(f, node):
        return None
    return PatchClaim(claim=claim, annotations={labels.SIGNAL_OBSERVED: None})


def _observed(f: Facts, unhealthy: Unhealthy) -> Observed:
    node, closed = unhealthy_node(f), unhealthy.closed_before
    if node is not None:
        closed += cordon.observed_age(f, node)
    seconds = unhealthy.seconds_before + unhealthy.observed_age(f.loop_now)
    return Observed(
        group=unhealthy.policy.group,
        node=unhealthy.node_uid,
        seconds=round(seconds),
        closed=round(closed),
        at=f.now.replace(microsecond=0),
    )


def _stated(claim: NodeClaim) -> Observed | None:
    try:
        return msgspec.json.decode(claim.metadata.annotations.get(labels.SIGNAL_OBSERVED, ""), type=Observed)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
