"""The story of claims, told live: what the cluster, the cloud and the controller do, a line each.

Promise: every line is something that happened on the wire or in the stores, at the moment it happened; nothing is told
from what the program believes. The shared LIST is counted, not told: it would drown the rest.
Left to others: where lines go (`command.py`), what makes things happen (`script.py`, people).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from aiohttp import web

from provisioner.api import labels
from provisioner.simulator.azure.state import Pool
from provisioner.simulator.ledger import Call
from provisioner.simulator.world import World

Json = dict[str, Any]
Tone = Literal["plain", "good", "bad", "quiet"]
CONTROLLER = "gpu-provisioner"
ORDER = ("Launched", "Registered", "Initialized", "Ready")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that happened `at` seconds after the beginning."""

    at: float
    who: str
    name: str
    text: str
    tone: Tone = "plain"

    def __str__(self) -> str:
        return f"{self.at:7.2f} s  {self.who:<9} {self.name:<36} {self.text}"


class Story:
    """Listens to a world and hands each line to `tell`. `time` is the loop's."""

    def __init__(self, world: World, time: Callable[[], float], tell: Callable[[Line], None]) -> None:
        self._began = time()
        self._time = time
        self._tell = tell
        self.lists = 0
        world.store.subscribe(self._object_changed)
        world.cloud.subscribe(self._pool_changed)
        world.after.append(self._answered)

    def say(self, who: str, name: str, text: str, tone: Tone = "plain") -> None:
        """Tell a line of one's own."""
        self._tell(Line(at=self._time() - self._began, who=who, name=name, text=text, tone=tone))

    async def _answered(self, call: Call, response: web.StreamResponse) -> None:
        if call.system != "arm" or call.target.kind != "pools":
            return
        if call.verb == "LIST" and response.status == 200:
            self.lists += call.who == CONTROLLER
            return
        tone: Tone = "quiet" if response.status in (200, 201, 202, 204, 404) else "bad"
        self.say("ARM", call.target.name, f"{call.verb} -> {response.status}", tone)

    def _pool_changed(self, kind: str, pool: Pool) -> None:
        words = {"running": "runs", "failed": "failed", "deleting": "is being deleted", "gone": "is gone"}
        if kind in words and labels.TAG_CLAIM_UID in pool.tags:
            tone: Tone = "bad" if kind == "failed" else "plain"
            self.say("AgentPool", pool.name, words[kind], tone)

    def _object_changed(self, event: str, resource: str, obj: Json, old: Json | None) -> None:
        lines: Iterator[tuple[str, Tone]]
        if resource == "nodes" and labels.CLAIM_UID in obj["metadata"].get("labels", {}):
            lines, who = node_lines(event, obj, old), "Node"
        elif resource == "nodeclaims.karpenter.sh":
            lines, who = claim_lines(event, obj, old), "NodeClaim"
        elif resource == "events" and event == "ADDED" and obj.get("type") == "Warning":
            self.say("Event", obj["involvedObject"]["name"], f"{obj['reason']}: {obj['message']}", "bad")
            return
        else:
            return
        for text, tone in lines:
            self.say(who, obj["metadata"]["name"], text, tone)


def claim_lines(event: str, obj: Json, old: Json | None) -> Iterator[tuple[str, Tone]]:
    """What is new about a claim."""
    if event == "ADDED":
        yield f"applied, asks for {_size(obj)}", "plain"
    elif event == "DELETED":
        yield "is gone", "good"
    elif _deleting(obj) and not _deleting(old):
        yield "is asked to go", "plain"
    before = {c["type"]: c for c in _conditions(old)}
    for condition in sorted(_conditions(obj), key=_rank):
        was = before.get(condition["type"], {})
        if condition.get("reason") in ("AwaitingReconciliation", "ReconcilingDependents"):
            continue
        if (was.get("status"), was.get("reason"), was.get("message")) != (
            condition["status"],
            condition.get("reason"),
            condition.get("message"),
        ):
            yield _condition_text(condition), _tone(condition)


def _rank(condition: Json) -> int:
    """In the order a claim climbs; conditions of its way down last."""
    return ORDER.index(condition["type"]) if condition["type"] in ORDER else len(ORDER)


def _condition_text(condition: Json) -> str:
    why = condition.get("reason", "")
    words = f"{condition['type']} = {condition['status']}"
    if why and why != condition["type"]:
        words += f" ({why})"
    return f"{words}: {condition['message']}" if condition.get("message") else words


def _tone(condition: Json) -> Tone:
    if condition["status"] == "True":
        return "good"
    return "bad" if condition["status"] == "False" else "plain"


def node_lines(event: str, obj: Json, old: Json | None) -> Iterator[tuple[str, Tone]]:
    """What is new about a Node."""
    if event == "ADDED":
        yield "appears", "plain"
    elif event == "DELETED":
        yield "is gone", "good"
    elif _deleting(obj) and not _deleting(old):
        yield "is being deleted", "plain"
    if _ready(obj) != _ready(old) and _ready(obj):
        yield f"Ready = {_ready(obj)}", "good" if _ready(obj) == "True" else "plain"
    for resource in GPU_RESOURCES:
        seen = gpus(obj, resource)
        if seen != gpus(old, resource):
            yield f"{resource} allocatable: {seen}", "good" if seen else "plain"


def gpus(node: Json | None, resource: str) -> int:
    """How many of a device a Node shows as allocatable."""
    return int(((node or {}).get("status") or {}).get("allocatable", {}).get(resource, "0"))


def _ready(node: Json | None) -> str:
    return next((str(c["status"]) for c in _conditions(node) if c["type"] == "Ready"), "")


def _conditions(obj: Json | None) -> list[Json]:
    return list(((obj or {}).get("status") or {}).get("conditions") or ())


def _deleting(obj: Json | None) -> bool:
    return bool(((obj or {}).get("metadata") or {}).get("deletionTimestamp"))


def _size(claim: Json) -> str:
    wanted = (r.get("values") for r in claim["spec"]["requirements"] if r["key"] == labels.INSTANCE_TYPE)
    return ", ".join(next(wanted, []) or ["no instance type"])
