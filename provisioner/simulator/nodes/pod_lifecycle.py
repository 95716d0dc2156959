"""The pods of a machine: the kubelet starts and stops them, the pod garbage collector deletes those without a Node.

The kubelet of a Ready Node accepts a bound pod at once, and runs it `start_seconds` later. A pod for which it has too
few devices fails, and so does one that had devices before a reboot. Containers run until their pod is deleted. A
deleting pod on a machine with a running kubelet is removed after `stop_seconds`, or its grace period if that is
shorter. On another machine it stays until its Node was deleted and `orphan_seconds` have passed.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ (kubelet's last DELETE has grace 0),
https://github.com/kubernetes/kubernetes/tree/master/pkg/controller/podgc (40 s of quarantine).
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

from provisioner.simulator.kube.objects import rfc3339
from provisioner.simulator.kube.store import Store
from provisioner.simulator.scheduler import Scheduler

from .admission import Refusal, refusal
from .device_plugin import Devices

Json = dict[str, Any]


class PodLifecycle:
    """`answers(node)`: whether the kubelet of that Node is running; `devices(node)`: what it has for containers."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        answers: Callable[[str], bool],
        devices: Callable[[str], Devices],
        now: Callable[[], datetime],
        *,
        start_seconds: float,
        stop_seconds: float,
        orphan_seconds: float,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._answers = answers
        self._devices = devices
        self._now = now
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._orphan_seconds = orphan_seconds

    def updated(self, pod: Json) -> None:
        """A pod was written; the kubelet starts it if it is new, and stops it if it is deleting."""
        meta = pod["metadata"]
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or not self._answers(node):
            return
        this = (meta["name"], meta["namespace"], meta["uid"], node)
        if "deletionTimestamp" in meta:
            wait = min(self._stop_seconds, meta.get("deletionGracePeriodSeconds", 0))
            self._scheduler.after(wait, partial(self._stop, *this))
        elif _is_new(pod) and self._is_ready(node):
            self._scheduler.after(0.0, partial(self._accept, *this))

    def kubelet_ready(self, node: str) -> None:
        """The kubelet runs again and processes all its pods."""
        for pod in self._on(node):
            self.updated(pod)

    def rebooted(self, node: str) -> None:
        """The kubelet admits its pods again; a device plugin that is not back fails those with devices."""
        for pod in self._on(node):
            if _is_running(pod):
                self._admit(pod, node)

    def node_gone(self, node: str) -> None:
        """The Node was deleted; its pods are deleted unless it is created again."""
        self._scheduler.after(self._orphan_seconds, partial(self._collect, node))

    def _on(self, node: str) -> list[Json]:
        return self._store.list("pods", fields=f"spec.nodeName={node}")

    def _is_ready(self, node: str) -> bool:
        found = self._store.get("nodes", node) or {}
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _accept(self, name: str, namespace: str, uid: str, node: str) -> None:
        pod = self._found(name, namespace, uid)
        if pod is not None and _is_new(pod) and self._answers(node) and self._admit(pod, node):
            self._write(pod, accepted_status(pod, rfc3339(self._now())))
            self._scheduler.after(self._start_seconds, partial(self._run, name, namespace, uid, node))

    def _admit(self, pod: Json, node: str) -> bool:
        uid = pod["metadata"]["uid"]
        others = (one for one in self._on(node) if _is_running(one) and one["metadata"]["uid"] != uid)
        refused = refusal(pod, self._devices(node), others)
        if refused is not None:
            self._write(pod, refused_status(pod, refused, rfc3339(self._now())))
        return refused is None

    def _run(self, name: str, namespace: str, uid: str, node: str) -> None:
        pod = self._found(name, namespace, uid)
        if pod is not None and pod["status"]["phase"] == "Pending" and self._answers(node):
            self._write(pod, running_status(pod, rfc3339(self._now())))

    def _write(self, pod: Json, status: Json) -> None:
        meta = pod["metadata"]
        self._store.patch("pods", meta["name"], {"status": status}, meta["namespace"], subresource="status")

    def _found(self, name: str, namespace: str, uid: str) -> Json | None:
        found = self._store.get("pods", name, namespace)
        return found if found is not None and found["metadata"]["uid"] == uid else None

    def _stop(self, name: str, namespace: str, uid: str, node: str) -> None:
        if self._answers(node):
            self._remove(name, namespace, uid)

    def _collect(self, node: str) -> None:
        if self._store.get("nodes", node) is None:
            for pod in self._on(node):
                meta = pod["metadata"]
                self._remove(meta["name"], meta["namespace"], meta["uid"])

    def _remove(self, name: str, namespace: str, uid: str) -> None:
        # Finalizers may keep a finished pod; the kubelet deletes it only once.
        if self._found(name, namespace, uid) is not None:
            self._store.delete("pods", name, namespace, uid=uid, grace=0)


def _is_new(pod: Json) -> bool:
    """Whether no kubelet has accepted the pod yet."""
    status = pod.get("status") or {}
    return status.get("phase", "Pending") == "Pending" and "startTime" not in status


def _is_running(pod: Json) -> bool:
    """Whether a kubelet has accepted the pod, and it has not ended."""
    status = pod.get("status") or {}
    return "startTime" in status and status.get("phase") in ("Pending", "Running")


def refused_status(pod: Json, why: Refusal, now: str) -> Json:
    """Phase Failed, for good: only the pod's owner creates another one."""
    since = (pod.get("status") or {}).get("startTime") or now
    return {"phase": "Failed", "reason": why.reason, "message": why.message, "startTime": since}


def accepted_status(pod: Json, now: str) -> Json:
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


def running_status(pod: Json, now: str) -> Json:
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
