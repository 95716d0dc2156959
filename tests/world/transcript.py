"""Helpers of the termination tests: conditions, finalizers, pods on a Node, calls about a pool."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from aiohttp import web

from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.settings import AzureSettings

from .harness import Json, Sim
from .main_job import NAME
from .stage import Stage

FAST = AzureSettings(create_seconds=(60.0, 90.0), delete_seconds=(30.0, 60.0))
CLAIMS = "nodeclaims.karpenter.sh"
PATH = "/apis/karpenter.sh/v1/nodeclaims"
BUDGETS = "poddisruptionbudgets.policy"
MINUTE = 60.0
CRITICAL = "system-node-critical"

ConditionText = tuple[str, str, str]


def claim_condition(sim: Stage, kind: str, name: str = NAME) -> ConditionText:
    """A condition's status, reason and message; empty strings if it is not there."""
    status = (sim.claim(name) or {}).get("status") or {}
    for found in status.get("conditions") or ():
        if found["type"] == kind:
            return found["status"], found.get("reason", ""), found.get("message", "")
    return "", "", ""


def finalizers(obj: Json | None) -> list[str]:
    """An object's finalizers; none if it is gone."""
    return [] if obj is None else obj["metadata"].get("finalizers") or []


def deleting(obj: Json | None) -> bool:
    """Whether the object exists and has a deletionTimestamp."""
    return obj is not None and "deletionTimestamp" in obj["metadata"]


def node_of(sim: Stage, name: str = NAME) -> Json:
    """The one Node of a pool."""
    (node,) = sim.nodes_of(name)
    return node


def node_name(sim: Stage, name: str = NAME) -> str:
    """The name of the one Node of a pool."""
    return node_of(sim, name)["metadata"]["name"]


def pool_calls(sim: Stage, verb: str, name: str | None = NAME) -> list[Call]:
    """The controllers' calls about a pool (None: any), in order."""
    return [call for call in sim.audit_log.calls(system="arm", verb=verb, kind="pools", name=name) if not person(call)]


def strip(sim: Stage, name: str) -> None:
    """Delete a claim without its finalizers, so that it is gone before its pool and Node."""
    sim.store.patch(CLAIMS, name, {"metadata": {"finalizers": None}})
    sim.store.delete(CLAIMS, name)


def person(call: Call) -> bool:
    """Whether no controller made this call."""
    return not call.who.startswith("ctl")


def gaps(calls: list[Call]) -> list[int]:
    """Whole seconds between calls."""
    return [round(later.at - earlier.at) for earlier, later in pairwise(calls)]


def events(sim: Stage, reason: str) -> list[Json]:
    """The Events of that reason."""
    return [event for event in sim.store.list("events", "default") if event["reason"] == reason]


def run_pod(sim: Stage, name: str, node: str, *, daemon: bool = False, critical: bool = False, **meta: Any) -> None:
    """A running, Ready pod on that Node; `meta` are further fields of its metadata (`tolerations` of its spec)."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    spec: Json = {"nodeName": node, "terminationGracePeriodSeconds": 10, "containers": [{"name": "c", "image": "i"}]}
    spec["tolerations"] = meta.pop("tolerations", [])
    if critical:
        spec["priorityClassName"] = CRITICAL
    if daemon:
        if sim.store.get("daemonsets.apps", "d", "default") is None:
            sim.store.create("daemonsets.apps", {"metadata": {"name": "d"}}, "default")
        owner["uid"] = sim.store.get("daemonsets.apps", "d", "default")["metadata"]["uid"]
        meta["ownerReferences"] = [owner]
    sim.store.create("pods", {"metadata": {"name": name, "labels": {"app": name}, **meta}, "spec": spec}, "default")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    sim.store.patch("pods", name, {"status": status}, "default", subresource="status")


def refuse(sim: Sim, fits: Callable[[Call], bool], status: int, reason: str, message: str = "") -> Callable[[], None]:
    """The API server refuses the calls that fit with that status, until the returned function is called."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
    body["message"] = message or f"refused: {reason}"

    async def answer(call: Call, _: web.Request) -> web.StreamResponse | None:
        return web.json_response(body, status=status) if fits(call) else None

    sim.world.before.append(answer)
    return lambda: sim.world.before.remove(answer)
