"""The objects of the cluster, with versions, finalizers, preconditions and subscribers.

The semantics are those of an API server with etcd. One revision counts all writes. A write with a wrong precondition
fails; a write without a change is ignored. A deleting object stays while it has finalizers (a bound pod also until
the end of its grace period), accepts no new ones, and is deleted with the last one. Returned objects are copies.
Subscribers are called with every write, in order, before the writer continues, and may write themselves.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/, docs/references/simulator.md#simulated-api-server.
"""

import uuid
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from random import Random  # noqa: TID251 - the type; the caller seeds it

from .admission import admit, require_place, require_version
from .deletion import Deletion, Propagation, is_released, marked_for_deletion
from .errors import ApiError, already_exists, forbidden, not_found, unserved
from .objects import Json, Record, copied, key_of, rfc3339
from .patches import PatchKind
from .resources import CRD_FINALIZER, CRD_KEY, Resource, built_in, established, from_crd
from .selectors import selector
from .watch_cache import Collection, Event, EventType
from .writes import (
    STRICT,
    WriteOptions,
    check_identity,
    check_preconditions,
    check_uid,
    check_version,
    created,
    patched,
    sent_metadata,
    shaped,
    succeeded,
)

Subscriber = Callable[[EventType, str, Json, Json | None], None]
Webhook = Callable[[str, Json], None]

NAMESPACES = ("default", "kube-system", "kube-node-lease")
NAMESPACE_FINALIZER = "kubernetes"
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Store:
    """All objects of a cluster. `resource` arguments are keys: `nodes`, `nodeclaims.karpenter.sh`.

    `now`: the wall clock; `seed_uid`: the source of uids and generated names; `window`: the number of events that a
    kind keeps for watches. Every method may raise ApiError.

    `mutating_webhooks`: called with resource and object, which they may change, before an object is created.
    """

    def __init__(self, now: Callable[[], datetime], *, seed_uid: Random, window: int = 1000) -> None:
        self.now = now
        self.revision = 1
        self._random = seed_uid
        self._window = window
        self._collections = {key: Collection(resource, window, self.revision) for key, resource in built_in().items()}
        self.mutating_webhooks: list[Webhook] = []
        self._subscribers: list[Subscriber] = []
        self._pending: deque[tuple[str, Event]] = deque()
        self._notifying = False
        for namespace in NAMESPACES:
            self.create("namespaces", {"metadata": {"name": namespace}})

    # Reading

    @property
    def resources(self) -> list[Resource]:
        """The served kinds."""
        return [collection.resource for collection in self._collections.values()]

    def collection(self, resource: str) -> Collection:
        """The objects of one kind, which must not be changed. Raises ApiError 404 if the kind is not served."""
        found = self._collections.get(resource)
        if found is None:
            raise unserved()
        return found

    def serves(self, collection: Collection) -> bool:
        """Whether the kind of this collection is served, and not one of a newer CRD."""
        return self._collections.get(collection.resource.key) is collection

    def get(self, resource: str, name: str, namespace: str = "") -> Json | None:
        record = self.collection(resource).objects.get((namespace, name))
        return None if record is None else copied(record.obj)

    def list(self, resource: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Json]:
        """The objects in order of namespace and name; "" means all namespaces; selectors as in a query string."""
        chosen = selector(labels, fields, self.collection(resource).resource.selectable)
        return [copied(obj) for obj in self.each(resource, namespace) if chosen is None or chosen(obj)]

    def each(self, resource: str, namespace: str = "") -> Iterator[Json]:
        """The stored objects, which must not be changed."""
        collection = self.collection(resource)
        for key in sorted(collection.objects):
            if not namespace or key[0] == namespace:
                yield collection.objects[key].obj

    def each_served(self, resource: str) -> Iterator[Json]:
        """As `each`; none while the kind is not served, because its CRD was deleted."""
        yield from self.each(resource) if resource in self._collections else ()

    def subscribe(self, callback: Subscriber) -> None:
        """Call `callback(type, resource, object, object before)` after every write; both objects are shared."""
        self._subscribers.append(callback)

    def compact(self) -> None:
        """Expire every watch and continue token that is older than now (410), as etcd's compaction does."""
        for collection in self._collections.values():
            collection.history.compact(self.revision)

    # Writing

    def create(self, resource: str, obj: Json, namespace: str = "", *, options: WriteOptions = STRICT) -> Json:
        """Store a new object; its name may be left to `generateName`."""
        collection = self.collection(resource)
        kind, sent = collection.resource, copied(obj)
        if kind.namespaced and not namespace:
            namespace = sent_metadata(kind, sent).get("namespace") or "default"
        check_identity(kind, sent, name="", namespace=namespace)
        sent = shaped(kind, sent, options)
        sent_meta = sent_metadata(kind, sent)
        if sent_meta.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        name = sent_meta.get("name") or self._generated(sent_meta.get("generateName") or "")
        place = self._found(self._collections["namespaces"], namespace, "") if kind.namespaced else None
        crd = self._collections[CRD_KEY].objects.get(("", resource))
        require_place(kind, name, place, crd.obj if crd else None)
        new = created(kind, sent, name=name, namespace=namespace, uid=self._uid(), now=rfc3339(self.now()))
        if resource == "namespaces":
            new["metadata"]["finalizers"] = [NAMESPACE_FINALIZER]
        elif resource == CRD_KEY:
            new["metadata"]["finalizers"] = [CRD_FINALIZER]
        for webhook in self.mutating_webhooks:
            webhook(resource, new)
        admit(kind, new, None)
        if resource == CRD_KEY:
            new["status"] = established(new, rfc3339(self.now()))
        taken = collection.objects.get((namespace if kind.namespaced else "", name))
        if taken is not None:
            raise already_exists(resource, name, deleting="deletionTimestamp" in taken.obj["metadata"])
        return copied(new if options.dry_run else self._put(collection, None, new))

    def replace(
        self,
        resource: str,
        name: str,
        obj: Json,
        namespace: str = "",
        *,
        subresource: str = "",
        options: WriteOptions = STRICT,
    ) -> Json:
        """PUT: removes everything that was not sent."""
        collection = self.collection(resource)
        old = self._found(collection, name, namespace)
        check_identity(collection.resource, obj, name=name, namespace=namespace)
        require_version(collection.resource, obj, old)
        check_uid(collection.resource, old, sent_metadata(collection.resource, obj).get("uid"))
        return self._update(collection, old, shaped(collection.resource, copied(obj), options), subresource, options)

    def patch(
        self,
        resource: str,
        name: str,
        patch: object,
        namespace: str = "",
        *,
        how: PatchKind = "merge",
        subresource: str = "",
        options: WriteOptions = STRICT,
    ) -> Json:
        """PATCH: `patch` is a dict, or a list of operations if `how` is json."""
        collection = self.collection(resource)
        old = self._found(collection, name, namespace)
        sent = patched(collection.resource, old, copied(patch), how, options)
        check_identity(collection.resource, sent, name=name, namespace=namespace)
        return self._update(collection, old, sent, subresource, options)

    def delete(
        self,
        resource: str,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        rv: str | None = None,
        grace: int | None = None,
        policy: Propagation = "Background",
        options: WriteOptions = STRICT,
    ) -> Deletion:
        """DELETE, with preconditions; `grace` in seconds, None for the object's own."""
        collection = self.collection(resource)
        old = self._found(collection, name, namespace)
        check_preconditions(collection.resource, old, uid=uid, revision=rv)
        if resource == "namespaces" and name in NAMESPACES:
            raise forbidden(resource, name, "this namespace may not be deleted")
        new = marked_for_deletion(collection.resource, old, now=self.now(), grace=grace, policy=policy)
        if options.dry_run:
            return Deletion(copied(new), is_released(new))
        return Deletion(copied(self._settle(collection, old, new)), is_released(new))

    # Parts of writes

    def _update(self, collection: Collection, old: Json, sent: Json, subresource: str, options: WriteOptions) -> Json:
        meta = sent.get("metadata") or {}
        check_version(collection.resource, old, meta.get("resourceVersion"))
        new = succeeded(collection.resource, old, sent, subresource)
        # A status update of a custom resource ignores metadata, also invalid metadata.
        ignored = subresource == "status" and not collection.resource.status_moves_metadata
        # A binding is checked by itself, and changes what an update of a pod may not.
        before = None if subresource == "binding" else old
        admit(collection.resource, new, before, old["metadata"] if ignored else meta)
        if new == old or options.dry_run:
            return copied(new)
        answer = copied(self._settle(collection, old, new))
        if is_released(new):
            # As on kube-apiserver, the response has the last version before the deletion.
            answer["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return answer

    def _settle(self, collection: Collection, old: Json, new: Json) -> Json:
        """Store the next version, or delete an object without finalizers."""
        if is_released(new):
            was_marked = "deletionTimestamp" in old["metadata"] or collection.resource.returns_deleted
            return self._put(collection, old, new if was_marked else old, gone=True)
        return old if new == old else self._put(collection, old, new)

    def _put(self, collection: Collection, old: Json | None, new: Json, *, gone: bool = False) -> Json:
        """Assign the revision and create the event; all writes end here."""
        self.revision += 1
        new = {**new, "metadata": {**new["metadata"], "resourceVersion": str(self.revision)}}
        record, key = Record(new), key_of(new)
        before = collection.objects.get(key) if old is not None else None
        if gone:
            del collection.objects[key]
        else:
            collection.objects[key] = record
        event = Event("DELETED" if gone else "ADDED" if old is None else "MODIFIED", record, before)
        collection.history.append(event)
        if collection.resource.key == CRD_KEY:
            self._serve(event)
        self._notify(collection.resource.key, event)
        return new

    def _serve(self, event: Event) -> None:
        """Start, change or stop serving the kind of a CRD."""
        crd = event.record.obj
        key = f"{crd['spec']['names']['plural']}.{crd['spec']['group']}"
        if event.type == "DELETED":
            del self._collections[key]
        elif key not in self._collections:
            self._collections[key] = Collection(from_crd(crd), self._window, self.revision)
        elif event.before is None or event.before.obj["spec"] != crd["spec"]:
            self._collections[key].resource = from_crd(crd)

    def _notify(self, resource: str, event: Event) -> None:
        """Call the subscribers in order of revision, also when a subscriber writes."""
        self._pending.append((resource, event))
        if self._notifying:
            return
        self._notifying = True
        try:
            while self._pending:
                where, event = self._pending.popleft()
                before = event.before.obj if event.before else None
                for subscriber in self._subscribers:
                    subscriber(event.type, where, event.record.obj, before)
        finally:
            self._notifying = False

    def _found(self, collection: Collection, name: str, namespace: str) -> Json:
        record = collection.objects.get((namespace, name))
        if record is None:
            raise not_found(collection.resource.key, name)
        return record.obj

    def _generated(self, prefix: str) -> str:
        return prefix and prefix[:58] + "".join(self._random.choices(_NAME_LETTERS, k=5))

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
