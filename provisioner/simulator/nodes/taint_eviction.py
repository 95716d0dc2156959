"""The taint eviction controller: it deletes the pods that do not tolerate a NoExecute taint of their Node.

A pod that does not tolerate one is deleted at once, one that tolerates all for a while when the shortest time is over,
unless the taints are gone by then. As by the admission plugin DefaultTolerationSeconds, each pod tolerates a Node that
is not ready or unreachable for 300 s, unless it states another toleration.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions,
https://github.com/kubernetes/kubernetes/tree/v1.34.4/pkg/controller/tainteviction.
"""

import math
from functools import partial
from typing import Any

from provisioner.api import labels
from provisioner.simulator.kube.store import Store
from provisioner.simulator.kube.watch_cache import EventType
from provisioner.simulator.scheduler import Scheduler
from provisioner.simulator.scheduling.matching import matches

Json = dict[str, Any]

EFFECT = "NoExecute"
DEFAULT_SECONDS = 300.0
_DEFAULT_KEYS = (labels.NOT_READY_TAINT, labels.UNREACHABLE_TAINT)


class TaintEviction:
    """The controller of one store; its writes follow the change that requires them."""

    def __init__(self, store: Store, scheduler: Scheduler) -> None:
        self._store = store
        self._scheduler = scheduler
        # When each pod is to be deleted, in the scheduler's seconds, by UID; and since when its Node is tainted.
        self._due: dict[str, float] = {}
        self._since: dict[str, float] = {}
        store.subscribe(self._notice)

    def _notice(self, kind: EventType, resource: str, obj: Json, before: Json | None) -> None:
        if resource == "nodes" and kind != "DELETED" and _taints(obj) != _taints(before or {}):
            for pod in self._store.each("pods"):
                if pod["spec"].get("nodeName") == obj["metadata"]["name"]:
                    self._plan(pod, obj)
        elif resource == "pods" and (node := obj["spec"].get("nodeName")):
            if kind == "DELETED":
                self._forget(obj["metadata"]["uid"])
            elif before is None or not before["spec"].get("nodeName"):
                self._plan(obj, self._store.get("nodes", node) or {})

    def _plan(self, pod: Json, node: Json) -> None:
        uid, now = pod["metadata"]["uid"], self._scheduler.time()
        seconds = tolerated_seconds(pod, _taints(node))
        if math.isinf(seconds):
            self._forget(uid)
            return
        due = self._since.setdefault(uid, now) + seconds
        self._due[uid] = due
        meta = pod["metadata"]
        self._scheduler.after(due - now, partial(self._evict, meta["name"], meta["namespace"], uid, due))

    def _forget(self, uid: str) -> None:
        self._due.pop(uid, None)
        self._since.pop(uid, None)

    def _evict(self, name: str, namespace: str, uid: str, due: float) -> None:
        pod = self._store.get("pods", name, namespace)
        if self._due.get(uid) != due or pod is None or pod["metadata"]["uid"] != uid:
            return
        self._forget(uid)
        if "deletionTimestamp" not in pod["metadata"]:
            self._store.delete("pods", name, namespace, uid=uid)


def tolerated_seconds(pod: Json, taints: list[Json]) -> float:
    """For how long the pod may run on a Node with these taints; infinite if it tolerates them for ever."""
    tolerations = pod["spec"].get("tolerations") or []
    least = math.inf
    for taint in taints:
        found = [one for one in tolerations if matches(one, taint)]
        if not found and taint["key"] in _DEFAULT_KEYS:
            found = [{"tolerationSeconds": DEFAULT_SECONDS}]
        if not found:
            return 0.0
        stated = [one["tolerationSeconds"] for one in found if one.get("tolerationSeconds") is not None]
        least = min([least, *(max(0.0, float(one)) for one in stated)])
    return least


def _taints(node: Json) -> list[Json]:
    return [one for one in (node.get("spec") or {}).get("taints") or () if one.get("effect") == EFFECT]
