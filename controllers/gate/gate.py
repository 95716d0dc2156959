"""The gate: whether a NodeClaim or an agent pool may be deleted now, as one pure function for all causes.

Five questions are put in this order, and the first that is not answered decides: is the object ours, is the cause true,
whose pods run there, is there another machine, and how many at once. An unknown answer is never an agreement. Each path
that deletes collects the facts; `DeleteClaim` and `DeleteInstance` need the answer `Go`, which is made here only.

Source: docs/reference/deletion-gate.md, which is generated from this module.
"""

import math
from typing import Literal

import msgspec

from provisioner.api.causes import CAUSES, Cause

# Whether another machine can take the pods. Ready: all of them have a place, by a decision that was computed now.
# Available: nothing is known that prevents a purchase. Scarce: offerings, quota, the NodePool or limits of the cluster
# do not allow another one, once the machine is deleted.
Place = Literal["Ready", "Available", "Scarce", "Unknown"]
Question = Literal["ours", "true", "pods", "place", "limits"]

# An offering that failed is tried again after at most 5 minutes, without an event for this machine.
SCARCE_SECONDS = 60.0
# Caches are filled, and quota is read, within seconds.
UNKNOWN_SECONDS = 5.0


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one deletion. The defaults of facts that a cause needs are the unknown ones.

    `uid`: of the NodeClaim, or of the one that the agent pool was created for. `ours`: None if that is not known.
    `seen`: whether a read that was made for this decision shows the cause; None: there was none, or it failed.
    `left_seconds`: for how long the cause must still persist. `doubt`: another explanation of what is seen than a fault
    of the machine, or what a user has to confirm, as text for users. `works`: whether the machine can run pods, also
    one that was never initialized because it has some of its GPUs only.
    `blocked`: what protects the machine or its pods from a voluntary disruption, None if that is not known. `gpu_pods`:
    running pods that request GPUs; None if that is not known. `pods_seconds`: for how long a repair still waits for
    them. `lacking`: why no other machine can be had. `busy`: the limit that delays the deletion. `loop`: why a
    replacement would fail as well.
    """

    cause: Cause
    uid: str
    ours: bool | None = None
    seen: bool | None = None
    left_seconds: float = 0.0
    doubt: str = ""
    works: bool = True
    blocked: str | None = None
    gpu_pods: int | None = None
    pods_seconds: float = math.inf
    place: Place = "Unknown"
    lacking: str = ""
    busy: str = ""
    loop: str = ""


class Go(msgspec.Struct, frozen=True, kw_only=True):
    """The object of this UID may be deleted for this cause. `why`: what was found, for the audit log."""

    uid: str
    cause: Cause
    why: str


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Not now. `seconds`: until the question is worth repeating; None: when something changes."""

    question: Question
    why: str
    seconds: float | None = None


class Never(msgspec.Struct, frozen=True, kw_only=True):
    """Not unless a user changes something."""

    question: Question
    why: str
    seconds: None = None


Answer = Go | Wait | Never


def may_delete(one: Evidence) -> Answer:
    """Put the questions that the kind of the cause has, in order."""
    kind = CAUSES[one.cause].kind
    refused = _ours(one)
    if kind == "NoMachine":
        refused = refused or _never_worked(one)
    elif kind != "Requested":
        refused = refused or _true(one)
    if kind == "Voluntary":
        refused = refused or _unprotected(one) or _placed(one)
    elif kind == "Repair":
        refused = refused or _finished(one) or _to_be_had(one)
    if kind not in ("Requested", "NoMachine"):
        refused = refused or _within_limits(one)
    return refused if refused is not None else Go(uid=one.uid, cause=one.cause, why=_found(one))


def _ours(one: Evidence) -> Wait | Never | None:
    if one.ours is None:
        return Wait(question="ours", why="it is not known whether this controller manages the machine")
    return None if one.ours else Never(question="ours", why="another controller or a user manages the machine")


def _never_worked(one: Evidence) -> Wait | None:
    return Wait(question="true", why="its machine became usable meanwhile") if one.works else None


def _true(one: Evidence) -> Wait | Never | None:
    if one.doubt:
        return Never(question="true", why=one.doubt)
    if one.left_seconds > 0:
        return Wait(question="true", why="the cause has not persisted for its whole time", seconds=one.left_seconds)
    if one.seen is None:
        return Wait(question="true", why="no fresh read confirms the cause")
    return None if one.seen else Wait(question="true", why="a fresh read does not show the cause")


def _unprotected(one: Evidence) -> Wait | None:
    if one.blocked is None:
        return Wait(question="pods", why="it is not known what protects its pods")
    return Wait(question="pods", why=one.blocked) if one.blocked else None


def _placed(one: Evidence) -> Wait | None:
    if one.place == "Ready":
        return None
    return Wait(question="place", why="not all of its pods have a place on another machine")


def _finished(one: Evidence) -> Wait | None:
    """The pods of a machine that still works end first, for as long as the row of the repair policy states."""
    if not one.works or one.pods_seconds <= 0 or one.gpu_pods == 0:
        return None
    left = one.pods_seconds if math.isfinite(one.pods_seconds) else None
    if one.gpu_pods is None:
        return Wait(question="pods", why="it is not known whether pods with GPUs run there", seconds=left)
    return Wait(question="pods", why=f"waiting for {one.gpu_pods} pods with GPUs", seconds=left)


def _to_be_had(one: Evidence) -> Wait | None:
    """A machine that still works is worth more than none."""
    if not one.works or one.place not in ("Scarce", "Unknown"):
        return None
    if one.place == "Unknown":
        why = "it is not known whether another machine can be had"
        return Wait(question="place", why=why, seconds=UNKNOWN_SECONDS)
    return Wait(question="place", why=no_other(one.lacking), seconds=SCARCE_SECONDS)


def no_other(lacking: str) -> str:
    """`lacking`: why no other machine can be had; "" if that is not stated."""
    return f"no other machine can be had now{f' ({lacking})' if lacking else ''}"


def _within_limits(one: Evidence) -> Wait | Never | None:
    if one.loop:
        return Never(question="limits", why=one.loop)
    return Wait(question="limits", why=one.busy) if one.busy else None


def _found(one: Evidence) -> str:
    """What the answer rests on, for the audit log."""
    kind = CAUSES[one.cause].kind
    if kind == "Requested":
        return "requested by a user"
    if kind == "NoMachine":
        return "no usable machine came of it"
    pods = "works" if one.works else "runs no pods"
    gpu_pods = "unknown" if one.gpu_pods is None else str(one.gpu_pods)
    return f"confirmed by a fresh read; machine {pods}; pods with GPUs: {gpu_pods}; place: {one.place}"
