"""Deletes objects of the GPU Kernel Manager whose Node is gone, with the finalizers of the agent that was on it.

Nothing is written without the Lease. Each write has the UID of the object as a precondition.

Source: docs/references/kubernetes.md#gpu-kernel-manager.
"""

from collections.abc import Callable

from controllers.garbagecollection.cache_nodes import kept_finalizers
from controllers.model.patches import replace_list
from controllers.model.steps import Event
from provisioner.api.meta import ObjectMeta
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.kube import Kube, KubeError
from provisioner.runtime.resources import NODES, Resource
from provisioner.runtime.watched_objects import WatchedObject, reference_to


class CacheNodeActuator:
    """`lease_left`: seconds for which the Lease is valid (inf without leader election)."""

    def __init__(self, kube: Kube, events: EventRecorder, lease_left: Callable[[], float]) -> None:
        self._kube = kube
        self._events = events
        self._lease_left = lease_left

    def record(self, resource: Resource[WatchedObject], meta: ObjectMeta, event: Event) -> bool:
        """Record an Event about the object; False if it was dropped."""
        return self._events.record(reference_to(resource, meta), event.type, event.reason, event.message)

    async def remove(self, resource: Resource[WatchedObject], meta: ObjectMeta) -> bool:
        """Delete the object if a fresh read shows that its Node does not exist. Raises KubeError."""
        if self._lease_left() <= 0 or await self._node_exists(meta.name):
            return False
        if not meta.deleting:
            await self._kube.delete(resource, meta.name, namespace=meta.namespace, uid=meta.uid)
        kept = kept_finalizers(meta)
        if kept != meta.finalizers:
            patch = [
                {"op": "test", "path": "/metadata/uid", "value": meta.uid},
                *(dict(one) for one in replace_list("/metadata/finalizers", meta.finalizers, kept)),
            ]
            await self._kube.patch(resource, meta.name, patch, patch_type="json", namespace=meta.namespace)
        return True

    async def _node_exists(self, name: str) -> bool:
        try:
            await self._kube.get(NODES, name)
        except KubeError as error:
            if error.not_found:
                return False
            raise
        return True
