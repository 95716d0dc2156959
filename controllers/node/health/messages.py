"""What is wrong with a machine, in words: for the condition NodeHealthy, and for Events."""

from controllers.model.conditions import clock_text
from controllers.model.facts import Facts, Unhealthy
from controllers.nodeclaim.lifecycle import readiness
from controllers.nodeclaim.lifecycle.gpu_resources import state_of
from provisioner.api.causes import Cause
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.repair_policy import (
    GPU_GONE,
    GPU_PARTIAL,
    NOT_INITIALIZED,
    NOT_READY,
    NOT_REGISTERED,
    READINESS_TIMEOUT,
)

from . import signals

CAUSES: dict[str, Cause] = {
    NOT_READY: "unhealthy-node",
    GPU_GONE: "gpu-lost",
    GPU_PARTIAL: "gpu-lost",
    NOT_REGISTERED: "never-registered",
    NOT_INITIALIZED: "never-initialized",
    READINESS_TIMEOUT: "never-initialized",
}


def cause_of(unhealthy: Unhealthy) -> Cause:
    """Why the claim is deleted: a metric label."""
    return CAUSES.get(unhealthy.policy.group, "unhealthy-condition")


def minutes(f: Facts, unhealthy: Unhealthy) -> int:
    """Whole minutes since the first sight."""
    return int(unhealthy.age(f.loop_now) // 60)


def deleted(f: Facts, claim: NodeClaim, node: Node, unhealthy: Unhealthy) -> str:
    """The message of the Event about a claim that repair deletes."""
    what = _found(f, claim, node, unhealthy)
    return f"Deleted NodeClaim: {what} for {minutes(f, unhealthy)} min; its owner can create a new one"


def _found(f: Facts, claim: NodeClaim, node: Node, unhealthy: Unhealthy) -> str:
    row = unhealthy.policy
    match row.signal:
        case "NotReady":
            stated = node.ready_condition
            reason = stated.reason if stated is not None and stated.reason else "no reason given"
            return f"Node {node.name} has not been Ready ({'it is deleted' if unhealthy.lost else reason})"
        case "NotRegistered":
            return f"agent pool {f.key} has been running without a Node"
        case "GpuGone" | "GpuPartial" | "NotInitialized":
            why = f" ({f.diagnosis.text})" if f.diagnosis is not None and f.diagnosis.text else ""
            return f"Node {node.name} has had {state_of(f, claim, node).counted}{why}"
        case "ReadinessTimeout":
            due = readiness.replacement_due(f, claim, node)
            return f"Node {node.name} has been past the timeout of {due[0] if due is not None else 'a readiness rule'}"
        case _:
            return f"Node {node.name} has had condition {row.name}{_reason(node, row.condition)}"


def _reason(node: Node, condition: str) -> str:
    found = node.condition(condition)
    return f" ({found.reason})" if found is not None and found.reason else ""


def conditions(f: Facts, unhealthy: Unhealthy) -> str:
    """The Node's conditions that are signals, since when, and what follows; "" if there are none."""
    node, row = f.node, unhealthy.policy
    names = [name for name in unhealthy.present if "=" in name]
    if node is None or not names:
        return ""
    began = min(sight.began for sight in unhealthy.sights)
    named = f"{', '.join(names[:3])}{_reason(node, row.condition)}"
    return f"Node {node.name} has {named} since {clock_text(began)}; {_follows(f, unhealthy)}"


def _follows(f: Facts, unhealthy: Unhealthy) -> str:
    row = unhealthy.policy
    if not f.policy.node_repair:
        return "repair is disabled"
    if row.action in ("Cordon", "Replace") and row.group not in unhealthy.acting:
        return "it is kept, because nothing confirms a fault of the machine"
    if row.action == "Cordon":
        return f"it gets no new pods if this lasts for {round(signals.seconds(f, row) / 60)} min, and is not replaced"
    if not unhealthy.replaces:
        return "it is not replaced for this"
    return f"the claim is deleted if this lasts for {round(signals.seconds(f, row) / 60)} min"
