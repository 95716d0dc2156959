"""The DaemonSet controller: one pod of each DaemonSet on each Node that it selects, and whose taints it tolerates.

A pod is bound when it is created, and created again when it is gone and its Node is not being deleted. One that the
Node has no room for stays pending with an affinity to it, for kube-scheduler. A DaemonSet without a template has no
pods.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#how-daemon-pods-are-scheduled,
https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations.
"""

from collections.abc import Iterator
from typing import Any

from provisioner.simulator.kube.store import Store
from provisioner.simulator.kube.watch_cache import EventType
from provisioner.simulator.scheduler import Scheduler
from provisioner.simulator.scheduling.matching import selects, untolerated
from provisioner.simulator.scheduling.requests import amounts, pod_requests

Json = dict[str, Any]

KIND = "daemonsets.apps"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PRESSURE = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
TOLERATIONS = [
    *({"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoSchedule"} for key in _PRESSURE),
    *(
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ),
]


class DaemonSets:
    """The controller of one store; its writes follow the change that requires them."""

    def __init__(self, store: Store, scheduler: Scheduler) -> None:
        self._store = store
        self._scheduler = scheduler
        self._due = False
        store.subscribe(self._notice)

    def _notice(self, kind: EventType, resource: str, obj: Json, _: Json | None) -> None:
        changed = resource in ("nodes", KIND) and kind != "DELETED"
        gone = resource == "pods" and kind == "DELETED" and _owner(obj) is not None
        if (changed or gone) and not self._due and next(self._templates(), None) is not None:
            self._due = True
            self._scheduler.after(0.0, self._create)

    def _templates(self) -> Iterator[Json]:
        return (one for one in self._store.each(KIND) if (one.get("spec") or {}).get("template"))

    def _create(self) -> None:
        self._due = False
        existing = {(_owner(pod), _target(pod)) for pod in self._store.each("pods")}
        for owner in list(self._templates()):
            for node in list(self._store.each("nodes")):
                body = _pod(owner, node["metadata"]["name"])
                if (owner["metadata"]["uid"], node["metadata"]["name"]) not in existing and _belongs(body, node):
                    made = body if self._has_room(body, node) else _unbound(body)
                    self._store.create("pods", made, owner["metadata"]["namespace"])

    def _has_room(self, pod: Json, node: Json) -> bool:
        """Whether the Node has the resources; one whose kubelet has not stated any counts as large enough."""
        room = amounts((node.get("status") or {}).get("allocatable"))
        wanted = {name: amount for name, amount in pod_requests(pod["spec"]).items() if name in room}
        for other in self._store.each("pods"):
            if other["spec"].get("nodeName") == node["metadata"]["name"]:
                for name, amount in pod_requests(other["spec"]).items():
                    if name in wanted:
                        wanted[name] += amount
        return all(amount <= room[name] for name, amount in wanted.items())


def _pod(owner: Json, node: str) -> Json:
    meta, template = owner["metadata"], owner["spec"]["template"]
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": meta["name"], "uid": meta["uid"]}
    head = {"generateName": f"{meta['name']}-", "labels": (template.get("metadata") or {}).get("labels") or {}}
    spec = {**template["spec"], "tolerations": [*(template["spec"].get("tolerations") or ()), *TOLERATIONS]}
    return {
        "metadata": {**head, "ownerReferences": [{**reference, "controller": True}]},
        "spec": {**spec, "nodeName": node},
    }


def _unbound(pod: Json) -> Json:
    """The pod with an affinity to its Node in place of the binding."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    affinity = spec.get("affinity") or {}
    required = ((affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    fields = [{"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]}]
    terms = {REQUIRED: {"nodeSelectorTerms": [{**one, "matchFields": fields} for one in required]}}
    return {**pod, "spec": {**spec, "affinity": {**affinity, "nodeAffinity": terms}}}


def _target(pod: Json) -> str | None:
    """The Node of a pod of a DaemonSet."""
    spec = pod["spec"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    fields = [field for term in terms for field in term.get("matchFields") or ()]
    name: str | None = spec.get("nodeName") or (fields[0]["values"][0] if fields else None)
    return name


def _belongs(pod: Json, node: Json) -> bool:
    meta, taints = node["metadata"], (node.get("spec") or {}).get("taints") or []
    if "deletionTimestamp" in meta or untolerated(pod, taints, "NoSchedule", "NoExecute"):
        return False
    return selects(pod, meta.get("labels") or {}, meta["name"])


def _owner(pod: Json) -> str | None:
    """The UID of the DaemonSet that owns the pod."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((one["uid"] for one in owners if one["kind"] == "DaemonSet"), None)
