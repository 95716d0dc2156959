"""The status that a kubelet writes of a pod: refused, accepted with its containers being created, and running. Pure.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions.
"""

from collections.abc import Iterator
from typing import Any

from .admission import Refusal

Json = dict[str, Any]


def refused(pod: Json, why: Refusal, now: str) -> Json:
    """Phase Failed, for good: only the pod's owner creates another one."""
    since = (pod.get("status") or {}).get("startTime") or now
    return {"phase": "Failed", "reason": why.reason, "message": why.message, "startTime": since}


def accepted(pod: Json, now: str) -> Json:
    """Phase Pending with a start time; all containers wait for their creation."""
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    names = [container["name"] for container in pod["spec"].get("containers") or () if "name" in container]
    unready = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{' '.join(names)}]"}
    values = {
        "PodReadyToStartContainers": ("False", {}),
        "Initialized": ("True", {}),
        "Ready": ("False", unready),
        "ContainersReady": ("False", unready),
        "PodScheduled": ("True", {}),
    }
    return {
        "phase": "Pending",
        "startTime": now,
        "conditions": list(_conditions(pod, values, now)),
        "containerStatuses": [_container(one, waiting, ready=False) for one in pod["spec"].get("containers") or ()],
    }


def running(pod: Json, now: str) -> Json:
    """Phase Running, with all containers ready."""
    state = {"running": {"startedAt": now}}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    values: dict[str, tuple[str, Json]] = {kind: ("True", {}) for kind in kinds}
    return {
        "phase": "Running",
        "conditions": list(_conditions(pod, values, now)),
        "containerStatuses": [_container(one, state, ready=True) for one in pod["spec"].get("containers") or ()],
    }


def _conditions(pod: Json, values: dict[str, tuple[str, Json]], now: str) -> Iterator[Json]:
    """These conditions, then those of others; a transition time changes with the status only."""
    known = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or ()}
    for kind, (word, why) in values.items():
        before = known.pop(kind, {})
        since = before.get("lastTransitionTime") if before.get("status") == word else None
        yield {"type": kind, "status": word, **why, "lastTransitionTime": since or now}
    yield from known.values()


def _container(container: Json, state: Json, *, ready: bool) -> Json:
    return {
        "name": container.get("name", ""),
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }
