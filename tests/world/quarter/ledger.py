"""What a controller deleted, compared with what the scenario did to each machine. It reads objects, and no condition
that a controller writes, except to learn whether a fault was reported.
"""

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from provisioner.simulator.audit_log import current_write
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.snapshot import pool_mark
from tests.world.claims import CLAIMS, condition
from tests.world.harness import Json, Sim

from .fleet import DYNAMIC, EMPTY_SECONDS
from .scenario import MINUTE, REPORTED_ONLY, ROWS, WORKING, Incident, Kind

# A condition is written seconds after its cause; the probes of a controller that has just started are a minute apart.
MARGIN_SECONDS = 120.0
# From the time of its row until the deletion begins: a Job on the machine ends, repairs of a group go one by one, each
# until its replacement is Ready, and AKS's own repair goes first.
REPAIR_SECONDS = 90 * MINUTE
# Why controllers disrupt machines that work, as they state it.
VOLUNTARY = ("Drifted", "Empty", "Underutilized")
# Conditions of a NodeClaim that state a fault of its machine.
STATED = ("Launched", "Registered", "Initialized", "NodeHealthy")


@dataclass(kw_only=True)
class Fault:
    """A machine that is broken since `began`. `stated`: the conditions that were False before. `reported`, `gone`:
    seconds of the loop.
    """

    incident: Incident
    machine: "Machine"
    began: float
    stated: frozenset[str] = frozenset()
    reported: float | None = None
    gone: float | None = None

    @property
    def seconds(self) -> float:
        """From its beginning until its machine was being deleted; inf if it was kept."""
        return math.inf if self.gone is None else self.gone - self.began

    @property
    def in_time(self) -> bool:
        """Whether it was reported, or its deletion began, within its row's time, and a row that replaces did so."""
        first = min((at for at in (self.reported, self.gone) if at is not None), default=None)
        due = self.began + ROWS[self.incident.kind] + MARGIN_SECONDS
        if first is None or first > due:
            return False
        # The pods of a machine that still works are waited for, in a window each day for days.
        waits = self.incident.kind in WORKING and self.gone is None and bool(self.machine.pods)
        return waits or self.incident.kind in REPORTED_ONLY or self.seconds <= due - self.began + REPAIR_SECONDS


@dataclass(kw_only=True)
class Machine:
    """One NodeClaim of a NodePool with its machine. `outages`: how many causes beyond it now take it away."""

    uid: str
    claim: str
    node_pool: str
    created: float
    pool: str = ""
    node: str = ""
    booted: bool = False
    usable: bool = False
    deleting: bool = False
    fault: Fault | None = None
    alarm: str = ""
    outages: int = 0
    evicted: bool = False
    alone_since: float = 0.0
    pods: set[str] = field(default_factory=set)


class Ledger:
    """`machines`: all that exist, by the UID of their NodeClaim. `healthy_deleted`: those to be kept."""

    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        self.machines: dict[str, Machine] = {}
        self.faults: list[Fault] = []
        self.alarms = Counter[str]()
        self.booted = 0
        self.initial = 0
        self.healthy_deleted: list[str] = []
        # Why controllers and users deleted machines, as the scenario has it.
        self.deleted = Counter[str]()
        self.class_changed = 0.0
        self._by_node: dict[str, Machine] = {}
        self._bound: dict[str, Machine] = {}
        sim.store.subscribe(self._on_object)
        sim.cloud.subscribe(self._on_pool)

    # what the scenario does

    def broken(self, machine: Machine, incident: Incident, after: float = 0.0) -> None:
        """The machine is broken from now on, or in so many seconds."""
        stated = frozenset(_stated(self._sim.claim(machine.claim)))
        machine.fault = Fault(incident=incident, machine=machine, began=self._sim.now + after, stated=stated)
        self.faults.append(machine.fault)
        self.met(incident.kind, (machine,))

    def met(self, kind: Kind, machines: Collection[Machine]) -> None:
        """An incident came about, if it met a machine."""
        self.alarms[kind] += bool(machines)

    def choose(self, pick: float, *node_pools: str) -> Machine | None:
        """One of the machines that are usable and have no incident; None if there is none."""
        found = self.sound(*node_pools)
        return found[int(pick * len(found))] if found else None

    def sound(self, *node_pools: str) -> list[Machine]:
        """The machines of these NodePools, or of all, that are usable and have no incident."""
        return [
            one
            for one in sorted(self.machines.values(), key=lambda one: (one.created, one.claim))
            if one.usable and not one.deleting and not one.fault and not one.alarm and not one.outages
            and not one.evicted and (not node_pools or one.node_pool in node_pools)
        ]  # fmt: skip

    # what happens

    def _on_pool(self, event: str, pool: Pool) -> None:
        machine = self.machines.get(pool_mark(pool))
        if machine is None or event == "gone":
            return
        machine.pool = pool.name
        if pool.machines and not machine.booted:
            machine.booted = True
            self.booted += 1

    def _on_object(self, event: str, resource: str, obj: Json, before: Json | None) -> None:
        if resource == CLAIMS:
            self._on_claim(event, obj, before)
        elif resource == "pods":
            self._on_pod(event, obj)

    def _on_claim(self, event: str, claim: Json, before: Json | None) -> None:
        meta = claim["metadata"]
        uid = meta["uid"]
        if event == "ADDED":
            name = meta.get("labels", {}).get("karpenter.sh/nodepool", "")
            self.machines[uid] = Machine(uid=uid, claim=meta["name"], node_pool=name, created=self._sim.now,
                                         alone_since=self._sim.now)  # fmt: skip
        machine = self.machines[uid]
        if node := (claim.get("status") or {}).get("nodeName", ""):
            machine.node = node
            self._by_node[node] = machine
        if condition(claim, "Initialized").get("status") == "True":
            machine.usable = True
        fault = machine.fault
        if fault is not None and fault.reported is None and _stated(claim) - fault.stated:
            fault.reported = self._sim.now
        if "deletionTimestamp" in meta and not machine.deleting:
            machine.deleting = True
            self._deleted(machine, meta["name"])
        if event == "DELETED":
            del self.machines[uid]
            self._by_node.pop(machine.node, None)

    def _on_pod(self, event: str, pod: Json) -> None:
        meta = pod["metadata"]
        if meta["namespace"] != "default":
            return
        uid, phase = meta["uid"], (pod.get("status") or {}).get("phase")
        leaves = event == "DELETED" or phase in ("Succeeded", "Failed")
        machine = self._by_node.get((pod.get("spec") or {}).get("nodeName", ""))
        if machine is not None and not leaves:
            machine.pods.add(uid)
            self._bound[uid] = machine
        elif leaves and uid in self._bound:
            was = self._bound.pop(uid)
            was.pods.discard(uid)
            was.alone_since = self._sim.now

    # what is judged

    def _deleted(self, machine: Machine, name: str) -> None:
        call = current_write("claim", name)
        if call is None or not call.who.startswith("ctl"):
            self.deleted["a user"] += 1
            if machine.fault is not None:
                machine.fault.gone = self._sim.now
            return
        stated = condition(self._sim.claim(name), "DisruptionReason").get("reason", "")
        why = self._why(machine, stated)
        self.deleted[why or "healthy"] += 1
        if not why:
            self.healthy_deleted.append(f"{name} at {self._sim.now:.0f} s, {machine.alarm or stated or 'no cause'}")
        if machine.fault is not None:
            machine.fault.gone = machine.fault.gone or self._sim.now

    def _why(self, machine: Machine, stated: str) -> str:
        """What of the scenario lets a controller delete the machine; "" if nothing does.

        An alarm is about a machine that works: only causes that are not about its health may end it then.
        """
        if machine.fault is not None:
            return "a fault"
        if machine.evicted:
            return "evicted"
        if machine.outages:
            return "an outage"
        if not machine.booted:
            return "no machine"
        if machine.alarm and stated not in VOLUNTARY:
            return ""
        if self._is_outdated(machine):
            return "outdated"
        alone = not machine.pods and self._sim.now - machine.alone_since >= EMPTY_SECONDS - MARGIN_SECONDS
        return "empty" if machine.node_pool in DYNAMIC and machine.usable and alone else ""

    def _is_outdated(self, machine: Machine) -> bool:
        pool = self._sim.cloud.pools.get(machine.pool)
        old = pool is not None and not pool.properties["nodeImageVersion"].endswith(
            f"-{self._sim.cloud.settings.node_image_release}"
        )
        return old or machine.created < self.class_changed

    def late(self) -> list[str]:
        """The faults that were not reported in time, and those that a row replaces and that were not."""
        return [f"{one.incident.kind} of {one.machine.claim} at {one.began:.0f} s" for one in self.faults
                if not one.in_time]  # fmt: skip

    def replacements_per_fault(self) -> float:
        """Machines bought in place of broken ones, divided by those: what is bought beyond the other causes."""
        lost = self.deleted["a fault"] + self.deleted["an outage"] + self.deleted["a user"]
        bought = self.booted - self.initial - self.deleted["outdated"] - self.deleted["evicted"]
        return bought / lost if lost else 0.0

    def summary(self) -> dict[str, Any]:
        """The figures of the run."""
        kinds = Counter(one.incident.kind for one in self.faults)
        return {
            "faults": dict(kinds),
            "late": self.late(),
            "minutes until deleted": sorted(round(one.seconds / 60, 1) for one in self.faults),
            "alarms": dict(self.alarms),
            "deleted": dict(self.deleted),
            "healthy deleted": self.healthy_deleted,
            "booted": self.booted,
            "replacements per fault": round(self.replacements_per_fault(), 3),
        }


def _stated(claim: Json | None) -> set[str]:
    return {kind for kind in STATED if condition(claim, kind).get("status") == "False"}
