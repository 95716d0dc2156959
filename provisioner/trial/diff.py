"""Describes the difference between two versions of a NodeClaim or a Node as text. Pure.

A condition is described when its status, reason or message changed. Ready is described only when it becomes True or
stops being True, because until then it repeats the other conditions.
"""

from collections.abc import Iterator
from typing import Any

from provisioner.api import labels, reasons
from provisioner.simulator.snapshot import allocatable, condition, conditions, deleting
from provisioner.vendors import BY_RESOURCE

from .output.renderer import Style

Json = dict[str, Any]
Text = tuple[str, Style]

CONDITION_ORDER = ("Launched", "Registered", "Initialized", "Ready")
# The reasons of conditions that were not evaluated yet.
INITIAL_REASONS = frozenset({reasons.AWAITING, reasons.RECONCILING_DEPENDENTS})


def claim_changes(event: str, obj: Json, old: Json | None) -> Iterator[Text]:
    """The changes of a NodeClaim that exists."""
    if event == "ADDED":
        yield f"created, requests {_size(obj)}", "plain"
    elif deleting(obj) and not (old and deleting(old)):
        yield "is being deleted", "plain"
    before = {c["type"]: c for c in conditions(old)}
    for current in sorted(conditions(obj), key=_rank):
        if _is_change(current, before.get(current["type"], {})):
            yield _condition_text(current), _style(current)


def pod_changes(event: str, obj: Json, old: Json | None) -> Iterator[Text]:
    """The changes of a pod."""
    node, before = obj["spec"].get("nodeName"), ((old or {}).get("spec") or {}).get("nodeName")
    phase, phase_before = obj["status"].get("phase"), ((old or {}).get("status") or {}).get("phase")
    if event == "DELETED":
        yield "deleted", "success"
        return
    if event == "ADDED":
        yield "created", "plain"
    elif deleting(obj) and not (old and deleting(old)):
        yield "is being deleted", "plain"
    if node and node != before:
        yield f"bound to {node}", "plain"
    if phase not in (phase_before, "Pending"):
        yield f"{phase}", "success" if phase == "Running" else "plain"


def node_changes(event: str, obj: Json, old: Json | None) -> Iterator[Text]:
    """The changes of a Node."""
    ready, before = condition(obj, "Ready"), condition(old, "Ready")
    if event == "ADDED":
        yield f"{obj['metadata']['name']} created", "plain"
    elif event == "DELETED":
        yield "deleted", "success"
    elif deleting(obj) and not (old and deleting(old)):
        yield "is being deleted", "plain"
    if ready != before and "True" in (ready, before):
        yield f"Ready = {ready}", "success" if ready == "True" else "plain"
    for resource in BY_RESOURCE:
        count = allocatable(obj, resource)
        if count != allocatable(old, resource):
            yield f"{resource} allocatable: {count}", "success" if count else "plain"


def _is_change(current: Json, before: Json) -> bool:
    if current.get("reason") in INITIAL_REASONS:
        return False
    if current["type"] == "Ready" and "True" not in (current["status"], before.get("status")):
        return False
    return any(current.get(field) != before.get(field) for field in ("status", "reason", "message"))


def _rank(current: Json) -> int:
    """The conditions of a launch in their order, then those of a termination."""
    return CONDITION_ORDER.index(current["type"]) if current["type"] in CONDITION_ORDER else len(CONDITION_ORDER)


def _condition_text(current: Json) -> str:
    reason, message = current.get("reason", ""), current.get("message", "")
    text = f"{current['type']} = {current['status']}"
    if reason and reason != current["type"] and not message.startswith(reason):
        text += f" ({reason})"
    return f"{text}: {message}" if message else text


def _style(current: Json) -> Style:
    if current["status"] == "True":
        return "success"
    return "error" if current["status"] == "False" else "plain"


def _size(claim: Json) -> str:
    sizes = (r.get("values") for r in claim["spec"]["requirements"] if r["key"] == labels.INSTANCE_TYPE)
    return ", ".join(next(sizes, []) or ["no instance type"])
