"""Deletes objects of the GPU Kernel Manager whose Node is gone, with the finalizers of the agent that was on it.

Each write has the UID of the object as a precondition.

Source: docs/references/kubernetes.md#gpu-kernel-manager.
"""

from controllers.garbagecollection.cache_nodes import kept_finalizers
from controllers.model.patches import replace_list
from controllers.model.steps import Event
from provisioner.api.meta import ObjectMeta
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.fence import Fence
from provisioner.runtime.kube import Kube
from provisioner.runtime.resources import NODES, Resource
from provisioner.runtime.watched_objects import WatchedObject, reference_to


class CacheNodeActuator:
    """Writes through a client that the fence limits; no Event is recorded unless this process leads."""

    def __init__(self, kube: Kube, events: EventRecorder, fence: Fence) -> None:
        self._kube = kube.fenced(fence)
        self._events = events
        self._fence = fence

    def record(self, resource: Resource[WatchedObject], meta: ObjectMeta, event: Event) -> None:
        """Record an Event about the object, if this process leads."""
        if self._fence.leads:
            self._events.record(reference_to(resource, meta), event)

    async def remove(self, resource: Resource[WatchedObject], meta: ObjectMeta) -> bool:
        """Delete the object if a fresh read shows that its Node does not exist; False if it exists.

        Raises KubeError and LeaseExpires.
        """
        if await self._kube.find(NODES, meta.name) is not None:
            return False
        await self._delete(resource, meta)
        return True

    async def _delete(self, resource: Resource[WatchedObject], meta: ObjectMeta) -> None:
        if not meta.deleting:
            await self._kube.delete(resource, meta.name, namespace=meta.namespace, uid=meta.uid)
        kept = kept_finalizers(meta)
        if kept != meta.finalizers:
            patch = [
                {"op": "test", "path": "/metadata/uid", "value": meta.uid},
                *(dict(one) for one in replace_list("/metadata/finalizers", meta.finalizers, kept)),
            ]
            await self._kube.patch(resource, meta.name, patch, patch_type="json", namespace=meta.namespace)
