"""The owners of pods: they create a pod again when it leaves, as the controllers of Kubernetes do, until they end."""

import asyncio
from typing import Any

from provisioner.api import labels
from tests.world.demand import TOLERATION, pod
from tests.world.harness import Json, Sim

from .plan import Workload

GONE = ("Succeeded", "Failed")
# With it, a pod that is deleted remains until something of its own has ended.
SLOW = "example.com/slow"
# AKS taints spot machines.
TOLERATIONS = [TOLERATION, {"key": labels.AKS_SPOT, "operator": "Exists"}]


class Owner:
    """`waiting`: the UIDs of its pods that do not run. `amounts`: what the next pods request, if it has changed."""

    def __init__(self, sim: Sim, workload: Workload) -> None:
        self.workload = workload
        self.waiting: set[str] = set()
        self.amounts: dict[str, str] = {}
        self._sim = sim
        self._live: dict[str, str] = {}
        self._created = 0
        self._ended = False
        self._space = workload.namespace
        self._owner = self._reference()

    @property
    def names(self) -> list[str]:
        """Of the pods that are not deleted."""
        found = ((name, self._sim.store.get("pods", name, self._space)) for name in self._live.values())
        return [name for name, one in found if one is not None and "deletionTimestamp" not in one["metadata"]]

    def begin(self) -> None:
        self._sim.store.subscribe(self._changed)
        for _ in range(self.workload.count):
            self._create()

    def end(self) -> None:
        """Delete its pods, and create no more."""
        self._ended = True
        for name in list(self._live.values()):
            self._remove(name)

    def _reference(self) -> Json | None:
        kind, name = self.workload.kind, self.workload.name
        if kind == "Pod":
            return None
        # The pods of a Job that does not exist would be collected; the API groups of the others are not served.
        job = self._sim.store.create("jobs.batch", {"metadata": {"name": name}}, self._space) if kind == "Job" else None
        version, uid = ("batch/v1", job["metadata"]["uid"]) if job is not None else ("apps/v1", f"{kind}-{name}")
        return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}

    def _create(self, name: str = "") -> None:
        if self._ended:
            return
        workload = self.workload
        name = name or f"{workload.name}-{self._created}"
        self._created += 1
        selector = {"karpenter.sh/nodepool": workload.node_pool}
        spec: dict[str, Any] = {"nodeSelector": selector, "tolerations": TOLERATIONS, **workload.spec}
        body = pod(name, gpus=workload.gpus, **spec)
        for kind in ("requests", "limits"):
            body["spec"]["containers"][0].setdefault("resources", {}).setdefault(kind, {}).update(self.amounts)
        meta: dict[str, Any] = {
            "name": name,
            "labels": {"app": workload.name, **workload.labels},
            "annotations": workload.annotations,
        }
        if workload.lingers:
            meta["finalizers"] = [SLOW]
        if self._owner is not None:
            meta["ownerReferences"] = [self._owner]
        made = self._sim.store.create("pods", {**body, "metadata": meta}, self._space)
        self._live[made["metadata"]["uid"]] = name

    def _changed(self, event: str, resource: str, obj: Json, _: object) -> None:
        meta = obj["metadata"]
        if resource != "pods" or meta["uid"] not in self._live:
            return
        phase = (obj.get("status") or {}).get("phase")
        gone, loop = event == "DELETED", asyncio.get_running_loop()
        if phase in GONE and not gone and self.workload.kind == "StatefulSet":
            # The next pod has its name, and is created when it is gone.
            loop.call_soon(self._remove, meta["name"])
            return
        leaves = gone or phase in GONE or ("deletionTimestamp" in meta and self.workload.kind != "StatefulSet")
        if not leaves:
            runs = phase == "Running"
            if runs and meta["uid"] in self.waiting and self.workload.seconds:
                loop.call_later(self.workload.seconds, self._succeed, meta["uid"])
            (self.waiting.discard if runs else self.waiting.add)(meta["uid"])
            return
        if self.workload.lingers and not gone:
            loop.call_later(self.workload.lingers, self._release, meta["name"])
        self.waiting.discard(meta["uid"])
        name = self._live.pop(meta["uid"])
        # The next pod of a StatefulSet has the name of the one that is gone; a bare pod is not created again.
        if self.workload.kind == "StatefulSet":
            loop.call_soon(self._create, name)
        elif self.workload.kind != "Pod" and phase != "Succeeded":
            loop.call_soon(self._create)
        if phase in GONE and not gone:
            loop.call_soon(self._remove, name)

    def _succeed(self, uid: str) -> None:
        name = self._live.get(uid)
        found = name and self._sim.store.get("pods", name, self._space)
        if name and found and (found.get("status") or {}).get("phase") == "Running":
            self._sim.store.patch("pods", name, {"status": {"phase": "Succeeded"}}, self._space, subresource="status")

    def _release(self, name: str) -> None:
        if self._sim.store.get("pods", name, self._space) is not None:
            self._sim.store.patch("pods", name, {"metadata": {"finalizers": None}}, self._space)

    def _remove(self, name: str) -> None:
        if self._sim.store.get("pods", name, self._space) is not None:
            self._sim.store.delete("pods", name, self._space, grace=0)
