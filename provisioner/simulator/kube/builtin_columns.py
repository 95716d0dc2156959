"""The columns of the built-in kinds in `kubectl get`.

They are those of kube-apiserver, wide ones with priority 1; each is a pure function of the object and the time.

Source: https://github.com/kubernetes/kubernetes/tree/master/pkg/printers/internalversion,
https://pkg.go.dev/k8s.io/apimachinery/pkg/util/duration#HumanDuration (ages).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .objects import Json, dig, parse_time

Cell = Callable[[Json, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `priority` 1 is shown by `-o wide` only."""

    name: str
    cell: Cell
    priority: int = 0
    type: str = "string"
    format: str = ""
    description: str = ""


def age(since: str | None, now: datetime) -> str:
    """The age as kubectl prints it: `5s`, `3m20s`, `47h`, `2y3d`."""
    if not since:
        return "<unknown>"
    return human_duration(int((now - parse_time(since)).total_seconds()))


def human_duration(seconds: int) -> str:
    """At most two units, coarser for longer durations. Computed by the server, independent of kubectl's clock."""
    minutes, hours = seconds // 60, seconds // 3600
    days = hours // 24
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365 if days < 2920 else 0, "d")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def _at(*path: str, default: Any = "") -> Cell:
    def cell(obj: Json, _: datetime) -> Any:
        found = dig(obj, *path)
        return default if found in (None, "") else found

    return cell


def _age(obj: Json, now: datetime) -> str:
    return age(dig(obj, "metadata", "creationTimestamp"), now)


NAME = Column("Name", _at("metadata", "name"), format="name")
AGE = Column("Age", _age)


def _conditions(obj: Json) -> dict[str, str]:
    return {c["type"]: c["status"] for c in dig(obj, "status", "conditions") or []}


def _node_status(obj: Json, _: datetime) -> str:
    ready = _conditions(obj).get("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    return ",".join([*words, *(["SchedulingDisabled"] if dig(obj, "spec", "unschedulable") else [])])


def _roles(obj: Json, _: datetime) -> str:
    roles = []
    for key, value in (dig(obj, "metadata", "labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/"):
            roles.append(key.partition("/")[2])
        elif key == "kubernetes.io/role" and value:
            roles.append(value)
    return ",".join(sorted(roles)) or "<none>"


def _address(kind: str) -> Cell:
    def cell(obj: Json, _: datetime) -> str:
        addresses = dig(obj, "status", "addresses") or []
        return next((a["address"] for a in addresses if a.get("type") == kind), "<none>")

    return cell


def _info(field: str) -> Cell:
    return _at("status", "nodeInfo", field, default="<unknown>")


def _containers(obj: Json) -> list[Json]:
    return dig(obj, "status", "containerStatuses") or []


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _claim_state(obj: Json, _: datetime) -> str:
    allocated, users = dig(obj, "status", "allocation"), dig(obj, "status", "reservedFor")
    found = ["deleted"] if "deletionTimestamp" in obj["metadata"] else []
    found += ["allocated", *(["reserved"] if users else [])] if allocated else [] if found else ["pending"]
    return ",".join(found)


def _access_modes(obj: Json, _: datetime) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in dig(obj, "status", "accessModes") or [])


def _pod_ready(obj: Json, _: datetime) -> str:
    ready = sum(1 for c in _containers(obj) if c.get("ready") and dig(c, "state", "running") is not None)
    return f"{ready}/{len(dig(obj, 'spec', 'containers') or [])}"


def _pod_status(obj: Json, _: datetime) -> str:
    waiting = (
        dig(c, "state", "waiting", "reason") or dig(c, "state", "terminated", "reason") for c in _containers(obj)
    )
    reason = next((r for r in waiting if r), None) or dig(obj, "status", "reason") or dig(obj, "status", "phase") or ""
    if "deletionTimestamp" in obj["metadata"]:
        return "Unknown" if reason == "NodeLost" else "Terminating"
    return str(reason)


def _restarts(obj: Json, _: datetime) -> int:
    return sum(c.get("restartCount", 0) for c in _containers(obj))


def _event_time(*fields: str) -> Cell:
    def cell(obj: Json, now: datetime) -> str:
        return age(next((obj[f] for f in fields if obj.get(f)), None), now)

    return cell


def _event_object(obj: Json, _: datetime) -> str:
    involved = obj.get("involvedObject") or {}
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _event_source(obj: Json, _: datetime) -> str:
    host = dig(obj, "source", "host") or obj.get("reportingInstance")
    parts = [dig(obj, "source", "component") or obj.get("reportingComponent"), host]
    return ", ".join(p for p in parts if p)


def _selector(obj: Json, _: datetime) -> str:
    chosen = dig(obj, "spec", "template", "spec", "nodeSelector") or {}
    return ",".join(f"{k}={v}" for k, v in chosen.items()) or "<none>"


def _count(name: str, *path: str) -> Column:
    return Column(name, _at(*path, default=0), type="integer")


COLUMNS: dict[str, tuple[Column, ...]] = {
    "namespaces": (NAME, Column("Status", _at("status", "phase")), AGE),
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _roles),
        AGE,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion")),
        Column("Internal-IP", _address("InternalIP"), 1),
        Column("External-IP", _address("ExternalIP"), 1),
        Column("OS-Image", _info("osImage"), 1),
        Column("Kernel-Version", _info("kernelVersion"), 1),
        Column("Container-Runtime", _info("containerRuntimeVersion"), 1),
    ),
    "pods": (
        NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _restarts),
        AGE,
        Column("IP", _at("status", "podIP", default="<none>"), 1),
        Column("Node", _at("spec", "nodeName", default="<none>"), 1),
        Column("Nominated Node", _at("status", "nominatedNodeName", default="<none>"), 1),
        Column("Readiness Gates", lambda _obj, _now: "<none>", 1),
    ),
    "events": (
        Column("Last Seen", _event_time("lastTimestamp", "eventTime")),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _event_object),
        Column("Subobject", _at("involvedObject", "fieldPath"), 1),
        Column("Source", _event_source, 1),
        Column("Message", lambda obj, _now: str(obj.get("message", "")).strip()),
        Column("First Seen", _event_time("firstTimestamp", "eventTime"), 1),
        Column("Count", _at("count", default=1), 1),
        Column("Name", _at("metadata", "name"), 1, format="name"),
    ),
    "daemonsets.apps": (
        NAME,
        _count("Desired", "status", "desiredNumberScheduled"),
        _count("Current", "status", "currentNumberScheduled"),
        _count("Ready", "status", "numberReady"),
        _count("Up-to-date", "status", "updatedNumberScheduled"),
        _count("Available", "status", "numberAvailable"),
        Column("Node Selector", _selector),
        AGE,
    ),
    "jobs.batch": (
        NAME,
        _count("Active", "status", "active"),
        AGE,
    ),
    "persistentvolumeclaims": (
        NAME,
        Column("Status", _at("status", "phase")),
        Column("Volume", _at("spec", "volumeName")),
        Column("Capacity", _at("status", "capacity", "storage")),
        Column("Access Modes", _access_modes),
        Column("StorageClass", _at("spec", "storageClassName")),
        AGE,
        Column("VolumeMode", _at("spec", "volumeMode", default="<unset>"), 1),
    ),
    "leases.coordination.k8s.io": (NAME, Column("Holder", _at("spec", "holderIdentity")), AGE),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", _at("spec", "minAvailable", default="N/A")),
        Column("Max Unavailable", _at("spec", "maxUnavailable", default="N/A")),
        _count("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    ),
    "resourceslices.resource.k8s.io": (
        NAME,
        Column("Node", _at("spec", "nodeName")),
        Column("Driver", _at("spec", "driver")),
        Column("Pool", _at("spec", "pool", "name")),
        AGE,
    ),
    "resourceclaims.resource.k8s.io": (NAME, Column("State", _claim_state), AGE),
    "volumeattachments.storage.k8s.io": (
        NAME,
        Column("Attacher", _at("spec", "attacher"), format="name"),
        Column("PV", _at("spec", "source", "persistentVolumeName")),
        Column("Node", _at("spec", "nodeName")),
        Column("Attached", _at("status", "attached", default=False), type="boolean"),
        AGE,
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (
        NAME,
        Column("Created At", _at("metadata", "creationTimestamp"), type="date"),
    ),
}
