"""Caches of resources that are known at run time only: one reflector for each, while something uses it.

The kind of a resource comes from discovery. A resource that is not served, or that this process may not list, is tried
again later; the problem is part of what is read here, so that rules can report it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import Any, Never

import msgspec

from provisioner.api.meta import ObjectMeta, Struct

from .api_discovery import ApiResource
from .kube import Kube, KubeError
from .logs import get_logger
from .objects import ObjectReference
from .permissions import Permission
from .reflector import Reflector, State
from .resources import Resource

RETRY_SECONDS = 30.0

log = get_logger("watched-objects")


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """A resource, restricted to the objects with these labels. `remedy`: what grants the right to watch it."""

    version: str
    resource: str
    group: str = ""
    label_selector: str = ""
    remedy: str = "add it to the chart's value readiness.resources"

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class WatchedObject(Struct, frozen=True, kw_only=True):
    """Any object: the parts that can be read here, as JSON."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: Any = None
    data: Any = None

    def document(self) -> Mapping[str, Any]:
        """The object as JSON, times as text."""
        metadata = msgspec.to_builtins(self.metadata)
        return {"metadata": metadata, "spec": self.spec, "status": self.status, "data": self.data}


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
        self._wanted: frozenset[Watched] = frozenset()
        self._reflectors: dict[Watched, Reflector[WatchedObject]] = {}
        self._resources: dict[Watched, Resource[WatchedObject]] = {}
        self._problems: dict[Watched, str] = {}
        self._changed = asyncio.Event()

    def use(self, wanted: Iterable[Watched]) -> None:
        """From now on, watch these resources."""
        if (new := frozenset(wanted)) != self._wanted:
            self._wanted = new
            self._changed.set()

    def problem(self, watched: Watched) -> str:
        """Why the objects of this resource are not known; "" if they are."""
        reflector = self._reflectors.get(watched)
        if reflector is None:
            return self._problems.get(watched, f"waiting for the first list of {watched}")
        error = reflector.last_error
        if error is not None and (not reflector.synced or reflector.state is State.NOT_SERVED):
            return f"failed to list {watched}: {error}"
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
        tasks: dict[Watched, asyncio.Task[Never]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                for watched in tasks.keys() - self._wanted:
                    tasks.pop(watched).cancel()
                    self._reflectors.pop(watched, None)
                    self._problems.pop(watched, None)
                    self._resources.pop(watched, None)
                for watched in self._wanted - tasks.keys():
                    tasks[watched] = group.create_task(self._watch(watched), name=f"watch {watched}")
                await self._changed.wait()

    async def _watch(self, watched: Watched) -> Never:
        kind = await self._kind(watched)
        while kind is None:
            await asyncio.sleep(RETRY_SECONDS)
            kind = await self._kind(watched)
        resource = Resource(
            watched.group, watched.version, watched.resource, kind.kind, kind.namespaced, type=WatchedObject
        )
        reflector: Reflector[WatchedObject] = Reflector(
            self._kube,
            resource,
            rng=self._rng,
            indexes={},
            on_change=lambda old, new: self._on_object(watched, old, new),
            on_synced=lambda: self._on_problem(watched),
            label_selector=watched.label_selector,
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
