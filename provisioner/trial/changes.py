"""What is new about an object, in words: pure functions of an object before and after a change.

A condition is told when its status, reason or message changed; Ready only when it is won or lost, for until
then it repeats the others.
"""

from collections.abc import Iterator

from provisioner.api import labels, reasons
from provisioner.simulator.snapshot import condition, deleting

from .claims import Json
from .printing import Tone

Words = tuple[str, Tone]

ORDER = ("Launched", "Registered", "Initialized", "Ready")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
# What a condition is before anybody looked.
UNTOLD_REASONS = frozenset({reasons.AWAITING, reasons.RECONCILING_DEPENDENTS})


def claim_words(event: str, obj: Json, old: Json | None) -> Iterator[Words]:
    """What is new about a claim that is there."""
    if event == "ADDED":
        yield f"created, asks for {_size(obj)}", "plain"
    elif deleting(obj) and not (old and deleting(old)):
        yield "is being deleted", "plain"
    before = {c["type"]: c for c in conditions(old)}
    for current in sorted(conditions(obj), key=_rank):
        if _is_news(current, before.get(current["type"], {})):
            yield _condition_text(current), _tone(current)


def node_words(event: str, obj: Json, old: Json | None) -> Iterator[Words]:
    """What is new about a Node."""
    ready, before = condition(obj, "Ready"), condition(old, "Ready") if old else ""
    if event == "ADDED":
        yield f"{obj['metadata']['name']} appears", "plain"
    elif event == "DELETED":
        yield "is gone", "good"
    elif deleting(obj) and not (old and deleting(old)):
        yield "is being deleted", "plain"
    if ready != before and "True" in (ready, before):
        yield f"Ready = {ready}", "good" if ready == "True" else "plain"
    for resource in GPU_RESOURCES:
        seen = gpus(obj, resource)
        if seen != gpus(old, resource):
            yield f"{resource} allocatable: {seen}", "good" if seen else "plain"


def gpus(node: Json | None, resource: str) -> int:
    """How many of a device a Node shows as allocatable."""
    return int(((node or {}).get("status") or {}).get("allocatable", {}).get(resource, "0"))


def conditions(obj: Json | None) -> list[Json]:
    """An object's conditions."""
    return list(((obj or {}).get("status") or {}).get("conditions") or ())


def _is_news(current: Json, before: Json) -> bool:
    if current.get("reason") in UNTOLD_REASONS:
        return False
    if current["type"] == "Ready" and "True" not in (current["status"], before.get("status")):
        return False
    return any(current.get(field) != before.get(field) for field in ("status", "reason", "message"))


def _rank(current: Json) -> int:
    """In the order a claim climbs; conditions of its way down last."""
    return ORDER.index(current["type"]) if current["type"] in ORDER else len(ORDER)


def _condition_text(current: Json) -> str:
    why, message = current.get("reason", ""), current.get("message", "")
    words = f"{current['type']} = {current['status']}"
    if why and why != current["type"] and not message.startswith(why):
        words += f" ({why})"
    return f"{words}: {message}" if message else words


def _tone(current: Json) -> Tone:
    if current["status"] == "True":
        return "good"
    return "bad" if current["status"] == "False" else "plain"


def _size(claim: Json) -> str:
    wanted = (r.get("values") for r in claim["spec"]["requirements"] if r["key"] == labels.INSTANCE_TYPE)
    return ", ".join(next(wanted, []) or ["no instance type"])
