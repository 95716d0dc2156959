"""Writes the conditions of TerminateNodes and RebootNodes.

Each write replaces the list of conditions, so it requires the version that it was computed from.

Source: docs/references/kubernetes.md#nvsentinel.
"""

from controllers.model.steps import Event
from controllers.node.health.nvsentinel import Answer, Request, with_condition
from provisioner.api.time import rfc3339
from provisioner.runtime.clock import Clock
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.fence import Fence
from provisioner.runtime.kube import Kube
from provisioner.runtime.resources import Resource
from provisioner.runtime.watched_objects import WatchedObject, reference_to


class NVSentinelActuator:
    """Writes through a client that the fence limits; no Event is recorded unless this process leads."""

    def __init__(self, kube: Kube, events: EventRecorder, clock: Clock, fence: Fence) -> None:
        self._kube = kube.fenced(fence)
        self._events = events
        self._clock = clock
        self._fence = fence

    def record_event(self, resource: Resource[WatchedObject], request: Request, event: Event) -> None:
        """Record an Event about the request, if this process leads."""
        if self._fence.leads:
            self._events.record(reference_to(resource, request.meta), event)

    async def write(self, resource: Resource[WatchedObject], request: Request, kind: str, answer: Answer) -> None:
        """Write a condition of this type. Raises KubeError and LeaseExpires."""
        meta, conditions = request.meta, with_condition(request, kind, answer, rfc3339(self._clock.now()))
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": conditions},
        }
        await self._kube.patch(
            resource, meta.name, body, patch_type="merge", subresource="status", namespace=meta.namespace
        )
