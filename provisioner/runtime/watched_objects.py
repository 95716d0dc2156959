"""Caches of resources that are known at run time only: one reflector for each, while something uses it.

The kind of a resource comes from discovery. A resource that is not served, or that this process may not list, now or
any more, is tried again later; the problem is part of what is read here, so that rules can report it: its objects are
unknown then, not absent. The number of watches is bounded, because each takes a connection, and of an object only the
fields that are used are kept.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import Any, Never

import msgspec

from provisioner.api.byte_budget import ByteBudget, Refusals
from provisioner.api.meta import ObjectMeta, Struct

from .api_discovery import ApiResource
from .kube import Kube, KubeError
from .kube_errors import UNREADABLE
from .logs import get_logger
from .nested_json import shallow
from .objects import ObjectReference
from .permissions import Permission
from .reflector import Reflector
from .resources import Resource

RETRY_SECONDS = 30.0
# Of the 100 connections to the API server; the other half is for caches of the program and for its requests.
WATCHES_MAX = 32
MEMBERS = ("spec", "status", "data")
NOTHING = msgspec.Raw(b"null")
NAMED_MAX = 10

# Paths of members below `spec`, `status`, `data` and `metadata`.
Fields = frozenset[tuple[str, ...]]

log = get_logger("watched-objects")


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """A resource, restricted to the objects with these labels, or to those of this name.

    `remedy`: what grants the right to watch it.
    """

    version: str
    resource: str
    group: str = ""
    label_selector: str = ""
    name: str = ""
    remedy: str = "add it to the chart's value readiness.resources"

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class WatchedObject(Struct, frozen=True, kw_only=True, weakref=True):
    """Any object. The members that are read from the API server are replaced by `kept`: the fields that are used."""

    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = NOTHING
    status: msgspec.Raw = NOTHING
    data: msgspec.Raw = NOTHING
    kept: Mapping[str, Any] = {}

    def member(self, name: str) -> Mapping[str, Any]:
        """What is kept of `spec`, `status` or `data`."""
        found = self.kept.get(name)
        return found if isinstance(found, Mapping) else {}

    def document(self) -> Mapping[str, Any]:
        """What is kept of the object as JSON, times as text."""
        return {"metadata": msgspec.to_builtins(self.metadata), **self.kept}


def reduced(
    found: WatchedObject, fields: Fields, budget: ByteBudget, refusals: Refusals | None = None
) -> WatchedObject:
    """The object with these fields only; without them, and with the cause in `unreadable`, if they are too large.

    `refusals`: those of its cache.
    """
    meta = found.metadata
    texts = {name: getattr(meta, name) for name in ("annotations", "labels") if _is_used(("metadata", name), fields)}
    kept = {
        name: _only(_decoded(getattr(found, name)), (name,), fields) for name in MEMBERS if _is_used((name,), fields)
    }
    size = len(msgspec.json.encode((kept, meta.finalizers, [dict(one) for one in texts.values()])))
    if why := budget.refused(size, meta.namespace):
        log.debug("an object is too large to be kept", object=meta.name, why=why)
        bare = WatchedObject(metadata=meta.identity(f"spec: {why}"))
        if refusals is not None:
            refusals.remember(bare, size)
        return bare
    used = msgspec.structs.replace(meta.identity(), finalizers=meta.finalizers, **texts)
    result = WatchedObject(metadata=used, kept=kept)
    budget.hold(result, size, meta.namespace)
    return result


def _is_used(path: tuple[str, ...], fields: Fields) -> bool:
    """Whether this member, a part of it, or all of what it is in is used."""
    return any(path[: len(one)] == one[: len(path)] for one in fields)


def _only(value: Any, path: tuple[str, ...], fields: Fields) -> Any:
    if path in fields or not isinstance(value, dict):
        return value if path in fields else None
    return {name: _only(one, (*path, name), fields) for name, one in value.items() if _is_used((*path, name), fields)}


def _decoded(member: msgspec.Raw) -> Any:
    try:
        # What is kept is encoded and evaluated with recursion too: whether it is too deep does not depend on the stack.
        return msgspec.json.decode(shallow(bytes(member)))
    except UNREADABLE:
        return None


def reference_to(resource: Resource[WatchedObject], meta: ObjectMeta) -> ObjectReference:
    """A reference to this object, as in an Event."""
    return ObjectReference(
        api_version=resource.api_version, kind=resource.kind, name=meta.name, namespace=meta.namespace, uid=meta.uid
    )


async def discover(kube: Kube, watched: Watched) -> ApiResource | str:
    """The resource as the API server serves it, or why it cannot be watched."""
    try:
        found = await kube.api_resource(watched.group, watched.version, watched.resource)
        if found is None:
            return f"the API server does not serve {watched} {watched.version}; is its CRD installed?"
        rights = (Permission(watched.group, watched.resource, verb) for verb in ("list", "watch"))
        missing = [right.verb for right in rights if not await kube.can_i(right)]
    except KubeError as error:
        return f"failed to discover {watched}: {error}"
    return f"no right to {' and '.join(missing)} {watched}: {watched.remedy}" if missing else found


OnObject = Callable[[Watched, WatchedObject | None, WatchedObject | None], None]
OnProblem = Callable[[Watched], None]


class WatchedObjects:
    """`on_object(watched, old, new)` is called for each change, `on_problem(watched)` when what is known about a
    resource changes.

    `run` watches what `use` names; a reflector whose resource is named no more is stopped.
    """

    def __init__(self, kube: Kube, *, rng: Random, on_object: OnObject, on_problem: OnProblem) -> None:
        self._kube = kube
        self._rng = rng
        self._on_object = on_object
        self._on_problem = on_problem
        self._wanted: dict[Watched, Fields] = {}
        self._excess: frozenset[Watched] = frozenset()
        self._budget = ByteBudget()
        self._reflectors: dict[Watched, Reflector[WatchedObject]] = {}
        self._resources: dict[Watched, Resource[WatchedObject]] = {}
        self._problems: dict[Watched, str] = {}
        self._changed = asyncio.Event()

    def use(self, wanted: Iterable[tuple[Watched, Fields]]) -> None:
        """From now on, watch these resources and keep these fields; the first ones, if they are too many."""
        everything = dict[Watched, Fields]()
        for watched, fields in wanted:
            everything[watched] = everything.get(watched, frozenset()) | fields
        new = dict(itertools.islice(everything.items(), WATCHES_MAX))
        excess = frozenset(everything) - new.keys()
        if excess - self._excess:
            log.warning("too many resources to watch", wanted=len(everything), watched=WATCHES_MAX,
                        unwatched=sorted(map(str, excess))[:NAMED_MAX])  # fmt: skip
        changed, self._excess = excess ^ self._excess, excess
        if new != self._wanted:
            self._wanted = new
            self._changed.set()
        for watched in changed:
            self._on_problem(watched)

    def problem(self, watched: Watched) -> str:
        """Why the objects of this resource are not known; "" if they are."""
        if watched in self._excess:
            return (
                f"readiness rules name more than {WATCHES_MAX} resources and label selectors, and {watched} is not"
                " watched: use fewer, or the same ones"
            )
        reflector = self._reflectors.get(watched)
        if reflector is None:
            return self._problems.get(watched, f"waiting for the first list of {watched}")
        # Also of a resource that was listed before: a right that was revoked since, or a CRD that was deleted.
        if (error := reflector.last_error) is not None:
            remedy = f"; {watched.remedy}" if error.status in (401, 403) else ""
            return f"failed to list {watched}: {error}{remedy}"
        return "" if reflector.synced else f"waiting for the first list of {watched}"

    def resource(self, watched: Watched) -> Resource[WatchedObject] | None:
        """The resource, with its kind; None before it is known."""
        return self._resources.get(watched)

    def get(self, watched: Watched, name: str) -> WatchedObject | None:
        """The object named `name` or `namespace/name`."""
        reflector = self._reflectors.get(watched)
        return reflector.get(name) if reflector is not None else None

    def items(self, watched: Watched) -> tuple[WatchedObject, ...]:
        """All objects of this resource."""
        reflector = self._reflectors.get(watched)
        return reflector.items() if reflector is not None else ()

    async def run(self) -> Never:
        """Watch what is wanted until cancelled."""
        tasks: dict[tuple[Watched, Fields], asyncio.Task[Never]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                for known in tasks.keys() - self._wanted.items():
                    tasks.pop(known).cancel()
                    self._reflectors.pop(known[0], None)
                    self._problems.pop(known[0], None)
                    self._resources.pop(known[0], None)
                for known in self._wanted.items() - tasks.keys():
                    tasks[known] = group.create_task(self._watch(*known), name=f"watch {known[0]}")
                await self._changed.wait()

    async def _watch(self, watched: Watched, fields: Fields) -> Never:
        kind = await self._kind(watched)
        while kind is None:
            await asyncio.sleep(RETRY_SECONDS)
            kind = await self._kind(watched)
        resource = Resource(
            watched.group, watched.version, watched.resource, kind.kind, kind.namespaced, type=WatchedObject
        )
        refusals = Refusals(self._budget)
        reflector: Reflector[WatchedObject] = Reflector(
            self._kube,
            resource,
            rng=self._rng,
            indexes={},
            on_change=lambda old, new: self._on_object(watched, old, new),
            on_synced=lambda: self._on_problem(watched),
            label_selector=watched.label_selector,
            field_selector=f"metadata.name={watched.name}" if watched.name else "",
            digest=lambda one: reduced(one, fields, self._budget, refusals),
            refusals=refusals,
        )
        self._reflectors[watched], self._resources[watched] = reflector, resource
        log.info("started to watch a resource", resource=str(watched))
        await reflector.run()

    async def _kind(self, watched: Watched) -> ApiResource | None:
        """The resource as it is served; None with a problem if it cannot be watched now."""
        found = await discover(self._kube, watched)
        if not isinstance(found, str):
            return found
        if self._problems.get(watched) != found:
            self._problems[watched] = found
            log.warning("a resource cannot be watched", resource=str(watched), problem=found)
            self._on_problem(watched)
        return None
