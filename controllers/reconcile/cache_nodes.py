"""Reports, or deletes if enabled, what the GPU Kernel Manager leaves of Nodes that are gone.

Only what is watched is read: resources that readiness rules name, and both of GKM if the deletion is enabled. An object
is deleted after it was stale for a while and a fresh read has shown that its Node does not exist.

Source: docs/references/kubernetes.md#gpu-kernel-manager.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import ClassVar

import structlog

from controllers.actuator.cache_nodes import CacheNodeActuator
from controllers.garbagecollection.cache_nodes import GROUP, RESOURCES, STALE_SECONDS, VERSION, is_stale, stale_event
from provisioner.api.node import Node
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.isolation import Isolation
from provisioner.runtime.kube import KubeError
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.watched_objects import Watched, WatchedObject, WatchedObjects

POLL_SECONDS = 10.0
WATCHED = tuple(Watched(group=GROUP, version=VERSION, resource=resource) for resource in RESOURCES)

log = structlog.get_logger("gkm")


class CacheNodes:
    """`nodes_current`: whether the cache of Nodes can be relied on. `deletes`: whether stale objects are deleted."""

    name: ClassVar[Queue] = "gkm"

    def __init__(
        self,
        objects: WatchedObjects,
        nodes: Reflector[Node],
        actuator: CacheNodeActuator,
        *,
        nodes_current: Callable[[], bool],
        deletes: bool,
        isolation: Isolation,
    ) -> None:
        self._objects = objects
        self._nodes = nodes
        self._actuator = actuator
        self._nodes_current = nodes_current
        self._deletes = deletes
        self._isolation = isolation
        self._stale_since: dict[str, float] = {}

    def add_event_handlers(self) -> None:
        """Each pass reads all objects."""

    async def reconcile(self, _: str) -> float:
        """Look at all objects; returns the seconds until the next pass. Raises LeaseExpires."""
        if self._nodes_current():
            await self._pass()
        return POLL_SECONDS

    async def _pass(self) -> None:
        now = asyncio.get_running_loop().time()
        stale = ((watched, one) for watched, one in self._all() if is_stale(one.metadata, self._nodes.get))
        found = {one.metadata.uid: (watched, one) for watched, one in stale}
        self._stale_since = {uid: self._stale_since.get(uid, now) for uid in found}
        for uid, (watched, one) in found.items():
            if now - self._stale_since[uid] >= STALE_SECONDS:
                with self._isolation.of("GKMCacheNode", one.metadata.name, "the removal of stale objects"):
                    await self._clean(watched, one)

    def _all(self) -> Iterator[tuple[Watched, WatchedObject]]:
        for watched in WATCHED:
            for one in () if self._objects.problem(watched) else self._objects.items(watched):
                yield watched, one

    async def _clean(self, watched: Watched, one: WatchedObject) -> None:
        meta = one.metadata
        resource = self._objects.resource(watched)
        if resource is None:
            return
        if not self._deletes:
            self._actuator.record(resource, meta, stale_event(meta))
            return
        try:
            if await self._actuator.remove(resource, meta):
                log.info("deleted the object of a Node that is gone", resource=str(watched), Node={"name": meta.name})
        except KubeError as error:
            log.warning("failed to delete the object of a Node that is gone", resource=str(watched), error=str(error))
