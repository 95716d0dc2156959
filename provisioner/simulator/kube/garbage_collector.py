"""The garbage collector of the controller manager, and the finalization of namespaces and CRDs.

An object whose owners are all deleted is deleted; foreground and orphan deletion are supported. A deleting namespace
or CRD deletes its contents, waits for their finalizers, and is deleted last. An owner whose kind is not served counts
as neither existing nor deleted, so its dependents stay, as on kube-controller-manager. The collector runs on a timer
shortly after the change that requires it, never within another write.

Source: docs/references/kubernetes.md#garbage-collector,
https://github.com/kubernetes/kubernetes/tree/master/pkg/controller/garbagecollector,
https://github.com/kubernetes/apiextensions-apiserver/tree/master/pkg/controller/finalizer.
"""

import asyncio
from collections.abc import Iterator

from .errors import ApiError
from .eviction import refresh_budgets
from .objects import Json
from .resources import CRD_FINALIZER, CRD_KEY, Resource
from .store import NAMESPACE_FINALIZER, Store
from .watch_cache import EventType

# As kube-controller-manager ignores them: they are most objects, own nothing and have no owner.
_IGNORED = ("events",)
_BUDGET_KINDS = ("pods", "poddisruptionbudgets.policy")


class Collector:
    """The collector of one store. Without `start`, `collect` must be called."""

    def __init__(self, store: Store, *, delay_seconds: float = 0.5) -> None:
        self._store = store
        self._delay_seconds = delay_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        store.subscribe(self._notice)

    def start(self) -> None:
        """Collect after changes, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._schedule()

    def stop(self) -> None:
        """Stop; pending work is done after the next `start`."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop = self._timer = None

    def _notice(self, kind: EventType, resource: str, obj: Json, _: Json | None) -> None:
        meta = obj["metadata"]
        if kind == "DELETED" or "deletionTimestamp" in meta or meta.get("ownerReferences") or resource in _BUDGET_KINDS:
            self._schedule()

    def _schedule(self) -> None:
        if self._loop is not None and self._timer is None:
            self._timer = self._loop.call_later(self._delay_seconds, self._run)

    def _run(self) -> None:
        self._timer = None
        self.collect()

    def collect(self) -> int:
        """Do all pending work; returns the number of writes."""
        total = refresh_budgets(self._store)
        while writes := self._contents() + self._owned() + self._owners():
            total += writes
        return total

    # Namespaces and CRDs

    def _contents(self) -> int:
        """Delete the contents of deleting namespaces and CRDs, then remove their finalizers."""
        writes = 0
        for holder in _deleting(self._store.each("namespaces")):
            inside = [r for r in self._store.resources if r.namespaced]
            writes += self._finish("namespaces", holder, NAMESPACE_FINALIZER, inside, holder["metadata"]["name"])
        for holder in _deleting(self._store.each(CRD_KEY)):
            inside = [r for r in self._store.resources if r.key == holder["metadata"]["name"]]
            writes += self._finish(CRD_KEY, holder, CRD_FINALIZER, inside, "")
        return writes

    def _finish(self, key: str, holder: Json, finalizer: str, inside: list[Resource], namespace: str) -> int:
        left = [(resource.key, obj) for resource in inside for obj in self._store.each(resource.key, namespace)]
        if not left:
            return self._drop_finalizer(key, holder, finalizer)
        return sum(self._delete(where, obj) for where, obj in left if "deletionTimestamp" not in obj["metadata"])

    # Owners and dependents

    def _having(self, field: str) -> Iterator[tuple[str, Json]]:
        """The objects with this member of their metadata, by kind, namespace and name."""
        for resource in self._collected():
            objects = self._store.collection(resource.key).objects
            found = [(place, one.obj) for place, one in objects.items() if one.obj["metadata"].get(field)]
            for _, obj in sorted(found, key=lambda pair: pair[0]):
                yield resource.key, obj

    def _collected(self) -> list[Resource]:
        return [resource for resource in self._store.resources if resource.key not in _IGNORED]

    def _living(self) -> set[str]:
        """The UIDs of all objects."""
        collections = (self._store.collection(resource.key) for resource in self._collected())
        return {one.obj["metadata"]["uid"] for collection in collections for one in collection.objects.values()}

    def _owned(self) -> int:
        """Delete objects whose owners are all deleted; else remove the deleted owners' references."""
        served = [(resource.api_version, resource.kind) for resource in self._store.resources]
        owned = list(self._having("ownerReferences"))
        if not owned:
            return 0
        living = self._living()
        writes = 0
        for key, obj in owned:
            references = obj["metadata"]["ownerReferences"]
            if any((ref["apiVersion"], ref["kind"]) not in served for ref in references):
                continue
            solid = [ref for ref in references if ref["uid"] in living]
            if not solid and "deletionTimestamp" not in obj["metadata"]:
                writes += self._delete(key, obj)
            elif solid and len(solid) < len(references):
                writes += self._patch(key, obj, {"ownerReferences": solid})
        return writes

    def _owners(self) -> int:
        """Foreground deletion waits for blocking dependents; orphan deletion removes their owner references first."""
        writes = 0
        for key, owner in list(self._having("deletionTimestamp")):
            finalizers = owner["metadata"].get("finalizers") or []
            if "orphan" in finalizers:
                for dependent_key, dependent, _ in self._dependents(owner):
                    left = [r for r in dependent["metadata"]["ownerReferences"] if r["uid"] != owner["metadata"]["uid"]]
                    writes += self._patch(dependent_key, dependent, {"ownerReferences": left})
                writes += self._drop_finalizer(key, owner, "orphan")
            elif "foregroundDeletion" in finalizers:
                dependents = list(self._dependents(owner))
                for dependent_key, dependent, _ in dependents:
                    if "deletionTimestamp" not in dependent["metadata"]:
                        writes += self._delete(dependent_key, dependent)
                if not any(blocks for _, _, blocks in dependents):
                    writes += self._drop_finalizer(key, owner, "foregroundDeletion")
        return writes

    def _dependents(self, owner: Json) -> Iterator[tuple[str, Json, bool]]:
        for key, obj in self._having("ownerReferences"):
            for reference in obj["metadata"]["ownerReferences"]:
                if reference["uid"] == owner["metadata"]["uid"]:
                    yield key, obj, bool(reference.get("blockOwnerDeletion"))

    # Writes. They fail after a concurrent change, or if the object is no longer valid.

    def _delete(self, key: str, obj: Json) -> int:
        meta = obj["metadata"]
        try:
            self._store.delete(key, meta["name"], meta.get("namespace", ""), uid=meta["uid"])
        except ApiError:
            return 0
        return 1

    def _patch(self, key: str, obj: Json, fields: Json) -> int:
        meta = obj["metadata"]
        try:
            patch = {"metadata": {"uid": meta["uid"], **fields}}
            self._store.patch(key, meta["name"], patch, meta.get("namespace", ""))
        except ApiError:
            return 0
        return 1

    def _drop_finalizer(self, key: str, obj: Json, finalizer: str) -> int:
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer not in finalizers:
            return 0
        return self._patch(key, obj, {"finalizers": [f for f in finalizers if f != finalizer]})


def _deleting(objects: Iterator[Json]) -> list[Json]:
    return [obj for obj in objects if "deletionTimestamp" in obj["metadata"]]
