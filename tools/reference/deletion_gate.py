"""`docs/reference/deletion-gate.md`: the answer of the gate for each cause and circumstance."""

from collections.abc import Iterator
from typing import get_args

import msgspec

from controllers.gate.gate import Evidence, Go, Never, Place, Wait, may_delete
from provisioner.api.causes import CAUSES, Kind

from .markdown import code, page, table

INTRODUCTION = """\
Whatever the reason to delete a NodeClaim, or the agent pool of a machine that could run pods, one function is asked
right before the request is sent. It puts five questions in this order, and the first that is not answered decides:

1. `ours`: does this controller manage the machine?
2. `true`: does a read that was made for this decision show the cause, did the cause persist for its whole time, and is
   there no other explanation, such as a setting, a rollout, or a missing right? An unknown answer never agrees.
3. `pods`: voluntary causes never end protected pods, and a repair of a machine that still works waits for running pods
   with GPUs.
4. `place`: does each pod have a place on another machine, or can another one be had?
5. `limits`: budgets, repairs at once, the circuit breaker, and replacements that would fail as well.

**Go**: the request is sent; what the answer rests on is a field of the audit log, and follows `gate:` in the Event of
the deletion. **Wait** and **Never** state the question that decided; a Wait ends when the facts change, a Never when a
user changes something."""

KINDS: dict[Kind, str] = {
    "Requested": "A user, or the owner of the NodeClaim, deleted it.",
    "NoMachine": "No machine that could run pods came of the NodeClaim.",
    "Voluntary": "The machine works, and another state of the fleet is wanted.",
    "Forceful": "The NodePool states a date that has passed, `expireAfter`, or fewer `replicas`, which end the machine"
    " whose pods lose least. As in Karpenter, no budget delays it; the drain respects budgets of pods and"
    " `do-not-disrupt` up to the `terminationGracePeriod`.",
    "Repair": "The machine is unhealthy.",
    "Inferred": "NodeClaim, agent pool and Node contradict each other.",
}

# Facts that vary by row and by column. All other facts are those of a deletion that nothing prevents.
PODS: dict[str, dict[str, object]] = {
    "none": {"works": True, "gpu_pods": 0},
    "can move": {"works": True, "gpu_pods": 0},
    "with GPUs": {"works": True, "gpu_pods": 2, "blocked": "Pod requests GPUs"},
    "unknown": {"works": True, "gpu_pods": None, "blocked": "the pods cannot be listed"},
    "the machine runs none": {"works": False, "gpu_pods": None},
}
PLACES: tuple[Place, ...] = get_args(Place)
ELSE: dict[str, dict[str, object]] = {
    "nothing else": {},
    "not ours": {"ours": False},
    "not persisted": {"left_seconds": 60.0},
    "not confirmed": {"seen": None},
    "other explanation": {"doubt": "a setting"},
    "limit": {"busy": "a budget"},
    "loop": {"loop": "two machines failed alike"},
}


def answer(kind: Kind, pods: str, place: Place, other: str) -> Go | Wait | Never:
    """The answer in one cell."""
    cause = next(name for name, row in CAUSES.items() if row.kind == kind)
    nothing = Evidence(cause=cause, uid="1", ours=True, seen=True, works=kind != "NoMachine", blocked="", gpu_pods=0)
    facts: dict[str, object] = {**PODS[pods], "place": place, **ELSE[other]}
    return may_delete(msgspec.structs.replace(nothing, **facts))


def cells() -> Iterator[tuple[Kind, str, Place, str]]:
    """Each cell of the tables: kind of the cause, pods, place, and what else happens."""
    for kind in KINDS:
        for pods in PODS:
            for place in PLACES:
                for other in ELSE:
                    yield kind, pods, place, other


def render() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for kind, meaning in KINDS.items():
        causes = ", ".join(code(name) for name, row in CAUSES.items() if row.kind == kind)
        parts += [f"## {kind}", f"{meaning} Causes: {causes}.", table(["Pods", "Place", *ELSE], _rows(kind))]
    return page("Deletion gate", "controllers/gate/gate.py", *parts)


def _rows(kind: Kind) -> Iterator[list[str]]:
    """Places that have the same answers share a row."""
    for pods in PODS:
        found: dict[tuple[str, ...], list[str]] = {}
        for place in PLACES:
            found.setdefault(tuple(_text(answer(kind, pods, place, other)) for other in ELSE), []).append(place)
        for texts, places in found.items():
            yield [pods, "any" if len(places) == len(PLACES) else ", ".join(places), *texts]


def _text(found: Go | Wait | Never) -> str:
    return "Go" if isinstance(found, Go) else f"{type(found).__name__} ({found.question})"
