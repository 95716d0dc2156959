"""Writes the conditions of TerminateNodes and RebootNodes.

Nothing is written without the Lease. Each write replaces the list of conditions, so it requires the version that it was
computed from.

Source: docs/references/kubernetes.md#nvsentinel.
"""

from collections.abc import Callable

from controllers.model.steps import Event
from controllers.node.health.nvsentinel import Answer, Request, with_condition
from provisioner.api.time import rfc3339
from provisioner.runtime.clock import Clock
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.kube import Kube
from provisioner.runtime.resources import Resource
from provisioner.runtime.watched_objects import WatchedObject, reference_to


class NVSentinelActuator:
    """`lease_left`: seconds for which the Lease is valid (inf without leader election)."""

    def __init__(self, kube: Kube, events: EventRecorder, clock: Clock, lease_left: Callable[[], float]) -> None:
        self._kube = kube
        self._events = events
        self._clock = clock
        self._lease_left = lease_left

    def record_event(self, resource: Resource[WatchedObject], request: Request, event: Event) -> bool:
        """Record an Event about the request; False without the Lease, or if it was dropped."""
        if self._lease_left() <= 0:
            return False
        return self._events.record(reference_to(resource, request.meta), event.type, event.reason, event.message)

    async def write(self, resource: Resource[WatchedObject], request: Request, kind: str, answer: Answer) -> bool:
        """Write a condition of this type; False without the Lease. Raises KubeError."""
        if self._lease_left() <= 0:
            return False
        meta, conditions = request.meta, with_condition(request, kind, answer, rfc3339(self._clock.now()))
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": conditions},
        }
        await self._kube.patch(
            resource, meta.name, body, patch_type="merge", subresource="status", namespace=meta.namespace
        )
        return True
