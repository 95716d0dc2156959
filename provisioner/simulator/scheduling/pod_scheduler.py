"""kube-scheduler: binds pending pods to Nodes, and reports those that fit none.

A pass over all pending pods runs shortly after each change that can matter: of a pod, or of the spec, the labels or the
allocatable resources of a Node. Without pending pods nothing runs. Among the Nodes that fit, the one with the fewest
untolerated PreferNoSchedule taints is chosen, then by preferred node affinity, then the one with the fewest pods, then
by name. Pods do not preempt others.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from provisioner.simulator.kube.binding import bind
from provisioner.simulator.kube.objects import Key, key_of, rfc3339
from provisioner.simulator.kube.store import Store
from provisioner.simulator.kube.watch_cache import EventType

from . import device_claims, volumes
from .device_claims import Allocator, ResourceClaims
from .filters import Filters
from .matching import term_selects, untolerated
from .nodes import NodeInfo, snapshot
from .rejection import Rejection, message
from .requests import Json, pod_requests
from .volumes import Volumes

NAME = "default-scheduler"
DELAY_SECONDS = 0.01
# A changed message is written that long after the previous one, so that many pods and Nodes cause few writes.
REPORT_SECONDS = 10.0
# What scheduling compares of a pod, besides its priority.
_SHAPE = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "overhead",
    "resources",
    "resourceClaims",
    "volumes",
)


class PodScheduler:
    """The scheduler of one store. Without `start` nothing is scheduled."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: dict[Key, None] = {}
        self._reported_at: dict[str, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._events = 0
        self._namespaces: dict[str, dict[str, str]] = {}
        ResourceClaims(store)
        store.subscribe(self._notice)

    def start(self) -> None:
        """Schedule pending pods after changes, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._run_after(DELAY_SECONDS)

    def stop(self) -> None:
        """Stop; pending pods are scheduled after the next `start`."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop = self._timer = None

    # When

    def _notice(self, kind: EventType, resource: str, obj: Json, before: Json | None) -> None:
        if resource == "pods":
            self._pod_changed(kind, obj, before)
        elif self._pending and (
            resource in (*device_claims.KINDS, *volumes.KINDS, "namespaces")
            or (resource == "nodes" and _may_matter(kind, obj, before))
        ):
            self._run_after(DELAY_SECONDS)

    def _pod_changed(self, kind: EventType, pod: Json, before: Json | None) -> None:
        waits = kind != "DELETED" and _is_pending(pod)
        if waits:
            self._pending[key_of(pod)] = None
        elif key_of(pod) in self._pending:
            del self._pending[key_of(pod)]
            self._reported_at.pop(pod["metadata"]["uid"], None)
        if self._pending and not (waits and before is not None and _wanted(before) == _wanted(pod)):
            self._run_after(DELAY_SECONDS)

    def _run_after(self, seconds: float) -> None:
        if self._loop is None:
            return
        due = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._run)

    # What

    def _run(self) -> None:
        self._timer = None
        if self._pending:
            self.schedule()

    def schedule(self) -> None:
        """One pass over the pending pods: by priority, then the oldest first."""
        found = [self._store.get("pods", name, namespace) for namespace, name in self._pending]
        waiting = sorted((pod for pod in found if pod is not None), key=_order)
        infos = snapshot(self._store.each("nodes"), self._store.each("pods"))
        each = (one["metadata"] for one in self._store.each("namespaces"))
        self._namespaces = {meta["name"]: meta.get("labels") or {} for meta in each}
        allocator = Allocator(self._store)
        # Pods that scheduling cannot tell apart, and that did not fit since the last binding.
        rejected: dict[bytes, list[Rejection]] = {}
        for pod in waiting:
            shape = _shape(pod)
            rejections = rejected.get(shape)
            if rejections is None:
                rejections = self._place(pod, infos, allocator)
                if rejections is None:
                    rejected.clear()
                    continue
                rejected[shape] = rejections
            self._report(pod, rejections)

    def _place(self, pod: Json, infos: list[NodeInfo], allocator: Allocator) -> list[Rejection] | None:
        """Bind the pod; the reason of each Node if it fits none."""
        filters = Filters(pod, pod_requests(pod["spec"]), infos, self._namespaces, allocator.extended)
        attached = Volumes(pod, self._store)
        rejections, fitting = [], []
        for info in infos:
            if (rejection := filters.reject(info)) or (rejection := attached.reject(info)):
                rejections.append(rejection)
            elif allocator.plan(pod, info.name) is None:
                rejections.append(Rejection((device_claims.REASON,)))
            else:
                fitting.append(info)
        if not fitting:
            return rejections
        chosen = min(fitting, key=lambda info: _preference(pod, info))
        allocator.allocate(pod, chosen.name)
        self._bind(pod, chosen)
        return None

    def _bind(self, pod: Json, info: NodeInfo) -> None:
        meta = pod["metadata"]
        name, namespace = meta["name"], meta["namespace"]
        binding = {"metadata": {"name": name, "uid": meta["uid"]}, "target": {"kind": "Node", "name": info.name}}
        bind(self._store, name, namespace, binding)
        info.add(pod)
        words = f"Successfully assigned {namespace}/{name} to {info.name}"
        self._event(pod, "Normal", "Scheduled", "Binding", words)

    def _report(self, pod: Json, rejections: list[Rejection]) -> None:
        """Write the condition and the Event, if the message is another one."""
        words = message(rejections)
        known = (pod.get("status") or {}).get("conditions") or []
        before: Json = next((c for c in known if c["type"] == "PodScheduled"), {})
        if before.get("message") == words:
            return
        uid, now = pod["metadata"]["uid"], asyncio.get_running_loop().time()
        reported_at = self._reported_at.get(uid)
        if reported_at is not None and now < reported_at + REPORT_SECONDS:
            self._run_after(reported_at + REPORT_SECONDS - now)
            return
        self._reported_at[uid] = now
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": words,
            "lastTransitionTime": before.get("lastTransitionTime") or rfc3339(self._store.now()),
        }
        status = {"conditions": [*(c for c in known if c is not before), condition]}
        meta = pod["metadata"]
        self._store.patch("pods", meta["name"], {"status": status}, meta["namespace"], subresource="status")
        self._event(pod, "Warning", "FailedScheduling", "Scheduling", words)

    def _event(self, pod: Json, kind: str, reason: str, action: str, words: str) -> None:
        meta, now = pod["metadata"], self._store.now()
        self._events += 1
        event = {
            "metadata": {"name": f"{meta['name']}.{self._events:016x}", "namespace": meta["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
            },
            "type": kind,
            "reason": reason,
            "action": action,
            "message": words,
            "eventTime": f"{now:%Y-%m-%dT%H:%M:%S.%f}Z",
            "reportingComponent": NAME,
            "reportingInstance": f"{NAME}-0",
        }
        self._store.create("events", event, meta["namespace"])


def _is_pending(pod: Json) -> bool:
    spec, phase = pod.get("spec") or {}, (pod.get("status") or {}).get("phase")
    return (
        not spec.get("nodeName")
        and "deletionTimestamp" not in pod["metadata"]
        and phase in {None, "Pending"}
        and spec.get("schedulerName", NAME) == NAME
        and not spec.get("schedulingGates")
    )


def _may_matter(kind: EventType, node: Json, before: Json | None) -> bool:
    return kind != "MODIFIED" or before is None or _offered(node) != _offered(before)


def _offered(node: Json) -> tuple[object, ...]:
    status = node.get("status") or {}
    return node["metadata"].get("labels"), node.get("spec"), status.get("allocatable")


def _wanted(pod: Json) -> tuple[object, ...]:
    return pod.get("spec"), pod["metadata"].get("labels")


def _order(pod: Json) -> tuple[int, str, Key]:
    return -(pod["spec"].get("priority") or 0), pod["metadata"]["creationTimestamp"], key_of(pod)


def _shape(pod: Json) -> bytes:
    """Equal for pods with the same constraints, requests and labels."""
    spec, meta = pod["spec"], pod["metadata"]
    containers = [
        {name: container.get(name) for name in ("resources", "ports", "restartPolicy")}
        for container in (*(spec.get("initContainers") or ()), {}, *(spec.get("containers") or ()))
    ]
    chosen = [spec.get(name) for name in _SHAPE]
    return msgspec.json.encode([meta["namespace"], meta.get("labels"), containers, chosen], order="sorted")


def _preference(pod: Json, info: NodeInfo) -> tuple[int, int, int, str]:
    """Smaller is better."""
    node_affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    preferred: Iterable[Json] = node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    weight = sum(one["weight"] for one in preferred if term_selects(one["preference"], info.labels, info.name))
    return len(untolerated(pod, info.taints, "PreferNoSchedule")), -weight, len(info.pods), info.name
