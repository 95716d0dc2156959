"""Which states and transitions a run has seen: the measure that tells whether more seeds find anything new.

A state is that of one machine: its agent pool, its Node, its NodeClaim, the command about it, and whether a controller
leads. A pair is a state and the next one of the same machine. A mark is the reason of a condition or of an Event.
"""

from typing import Any

from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.snapshot import condition, deleting, pool_mark
from tests.world.harness import Json, Sim

STEPS = ("Launched", "Registered", "Initialized", "Ready")
NONE = "-"


class Coverage:
    """`pairs` and `marks` grow while the run goes on. `machine_seconds`: of all machines together."""

    def __init__(self, sim: Sim) -> None:
        self.pairs: set[str] = set()
        self.marks: set[str] = set()
        self.machine_seconds = 0.0
        self._sim = sim
        self._parts: dict[str, list[str]] = {}
        self._last: dict[str, str] = {}
        self._uid_of_pool: dict[str, str] = {}
        self._since: dict[str, float] = {}
        sim.store.subscribe(self._on_object)
        sim.cloud.subscribe(self._on_pool)

    def _on_pool(self, event: str, pool: Pool) -> None:
        uid = pool_mark(pool)
        if not uid:
            return
        self._uid_of_pool[pool.name] = uid
        if pool.machines:
            self._since.setdefault(pool.name, self._sim.now)
        if event == "gone" or not pool.machines:
            self.machine_seconds += self._sim.now - self._since.pop(pool.name, self._sim.now)
        self._put(uid, 0, NONE if event == "gone" else f"{pool.state}{len(pool.machines)}")

    def _on_object(self, event: str, resource: str, obj: Json, _: object) -> None:
        gone = event == "DELETED"
        if resource == "nodeclaims.karpenter.sh":
            self._put(obj["metadata"]["uid"], 2, NONE if gone else _claim(obj))
            for one in (obj.get("status") or {}).get("conditions") or ():
                self.marks.add(f"{one['type']}={one['status']} {one.get('reason', '')}")
        elif resource == "nodes":
            uid = self._uid_of_pool.get((obj["metadata"].get("labels") or {}).get("agentpool", ""), "")
            if uid:
                self._put(uid, 1, NONE if gone else _node(obj))
        elif resource == "events":
            self.marks.add(f"Event {obj.get('reason', '')}")

    def _put(self, uid: str, place: int, value: str) -> None:
        parts = self._parts.setdefault(uid, [NONE, NONE, NONE])
        if parts[place] == value:
            return
        parts[place] = value
        leads = any(not process.dead for process in self._sim.controllers.values())
        state = "|".join([*parts, "led" if leads else "free"])
        self.pairs.add(f"{self._last.get(uid, NONE)} > {state}")
        self._last[uid] = state


def _claim(claim: Json) -> str:
    step = next((name for name in reversed(STEPS) if condition(claim, name) == "True"), "New")
    command = "marked" if condition(claim, "DisruptionReason") == "True" else ""
    return f"{step}{'/deleting' if deleting(claim) else ''}{'/' + command if command else ''}"


def _node(node: Json) -> str:
    status: dict[str, Any] = node.get("status") or {}
    ready = next((one["status"] for one in status.get("conditions") or () if one["type"] == "Ready"), NONE)
    gpus = any(name.endswith("/gpu") and amount != "0" for name, amount in (status.get("allocatable") or {}).items())
    cordoned = bool((node.get("spec") or {}).get("unschedulable"))
    taints = any(one["key"].startswith("karpenter.sh/") for one in (node.get("spec") or {}).get("taints") or ())
    parts = {"+gpu": gpus, "+cordon": cordoned, "+taint": taints, "/deleting": deleting(node)}
    return ready + "".join(name for name, holds in parts.items() if holds)
