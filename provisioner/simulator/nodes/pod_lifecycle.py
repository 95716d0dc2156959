"""The end of pods: the kubelet stops deleting pods, the pod garbage collector deletes pods without a Node.

A deleting pod on a machine with a running kubelet is removed after `stop_seconds`, or its grace period if that is
shorter. On another machine it stays until its Node was deleted and `orphan_seconds` have passed.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination (kubelet's last DELETE has
grace 0), https://github.com/kubernetes/kubernetes/tree/master/pkg/controller/podgc (40 s of quarantine).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from provisioner.simulator.kube.store import Store
from provisioner.simulator.scheduler import Scheduler

Json = dict[str, Any]


class PodLifecycle:
    """`answers(node)`: whether the kubelet of that Node is running."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        answers: Callable[[str], bool],
        *,
        stop_seconds: float,
        orphan_seconds: float,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._answers = answers
        self._stop_seconds = stop_seconds
        self._orphan_seconds = orphan_seconds

    def updated(self, pod: Json) -> None:
        """A pod was written; the kubelet stops it if it is deleting."""
        meta = pod["metadata"]
        node = pod["spec"].get("nodeName")
        if node and "deletionTimestamp" in meta and self._answers(node):
            wait = min(self._stop_seconds, meta.get("deletionGracePeriodSeconds", 0))
            self._scheduler.after(wait, partial(self._stop, meta["name"], meta["namespace"], meta["uid"], node))

    def kubelet_ready(self, node: str) -> None:
        """The kubelet runs again and processes all its pods."""
        for pod in self._on(node):
            self.updated(pod)

    def node_gone(self, node: str) -> None:
        """The Node was deleted; its pods are deleted unless it is created again."""
        self._scheduler.after(self._orphan_seconds, partial(self._collect, node))

    def _on(self, node: str) -> list[Json]:
        return self._store.list("pods", fields=f"spec.nodeName={node}")

    def _stop(self, name: str, namespace: str, uid: str, node: str) -> None:
        if self._answers(node):
            self._remove(name, namespace, uid)

    def _collect(self, node: str) -> None:
        if self._store.get("nodes", node) is None:
            for pod in self._on(node):
                meta = pod["metadata"]
                self._remove(meta["name"], meta["namespace"], meta["uid"])

    def _remove(self, name: str, namespace: str, uid: str) -> None:
        found = self._store.get("pods", name, namespace)
        # Finalizers may keep a finished pod; the kubelet deletes it only once.
        if found is not None and found["metadata"]["uid"] == uid:
            self._store.delete("pods", name, namespace, uid=uid, grace=0)
