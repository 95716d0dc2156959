"""How pods end: kubelet stops those that were asked to go, the garbage collector removes those whose Node is gone.

A deleting pod on a machine that answers is removed `stop_seconds` after it was asked (sooner if its own grace
is shorter); on a silent or dead machine it stays until the Node is gone and `orphan_seconds` have passed.

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
    """`answers(node)` says whether the machine of that Node runs a kubelet now."""

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

    def seen(self, pod: Json) -> None:
        """A pod was written; kubelet stops it if it is deleting."""
        meta = pod["metadata"]
        node = pod["spec"].get("nodeName")
        if node and "deletionTimestamp" in meta and self._answers(node):
            wait = min(self._stop_seconds, meta.get("deletionGracePeriodSeconds", 0))
            self._scheduler.after(wait, partial(self._stop, meta["name"], meta["namespace"], meta["uid"], node))

    def kubelet_back(self, node: str) -> None:
        """Kubelet answers again and looks at all its pods."""
        for pod in self._on(node):
            self.seen(pod)

    def node_gone(self, node: str) -> None:
        """The Node object is gone; its pods follow unless it comes back."""
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
        # A finished pod may be held by finalizers of others: kubelet asks once and is done.
        if found is not None and found["metadata"]["uid"] == uid:
            self._store.delete("pods", name, namespace, uid=uid, grace=0)
