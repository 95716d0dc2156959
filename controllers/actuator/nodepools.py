"""Performs the writes of the controllers of NodePools, AgentPoolNodeClasses and NodeOverlays.

Each is conditional on the version that the plan saw. Only members that the step names are written. The Events of a step
follow its write.
"""

from collections.abc import Iterable

import structlog

from controllers.model.patches import replace_list
from controllers.model.pool_steps import (
    AnnotateNodeClaim,
    AnnotateNodePool,
    PatchNodeClassStatus,
    PatchNodeOverlayStatus,
    PatchNodePoolStatus,
    PoolStep,
    RecordMachines,
    SetNodeClassFinalizers,
)
from controllers.model.steps import Event
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.nodepool import NodePool
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.fence import Fence
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import NODECLAIMS, NODECLASSES, NODEOVERLAYS, NODEPOOLS

log = structlog.get_logger("actuator")


# The API server drops fields that a CRD does not have.
NOT_STORED = "NotStored"


class NodePoolActuator:
    """Writes through a client that the fence limits; no Event is recorded unless this process leads."""

    def __init__(self, kube: Kube, events: EventRecorder, fence: Fence) -> None:
        self._kube = kube.fenced(fence)
        self._events = events
        self._fence = fence

    async def write(self, step: PoolStep) -> None:
        """Perform one write. Raises KubeError and LeaseExpires.

        The reason NOT_STORED: the write was accepted, and records of it are not stored.
        """
        await self._send(step)
        log.debug("wrote", step=type(step).__name__)

    def record_event(self, about: NodePool | NodeClaim | Node, event: Event) -> None:
        """Record an Event that belongs to no write, if this process leads."""
        if self._fence.leads:
            self._events.record(about, event)

    async def _send(self, step: PoolStep) -> None:
        match step:
            case SetNodeClassFinalizers(node_class=found, finalizers=wanted):
                same = {"op": "test", "path": "/metadata/uid", "value": found.metadata.uid}
                change = replace_list("/metadata/finalizers", found.metadata.finalizers, wanted)
                await self._kube.patch(NODECLASSES, found.name, [same, *change], patch_type="json")
            case PatchNodeClassStatus(node_class=found, conditions=conditions, events=events):
                body = {"metadata": _seen(found.metadata), "status": {"conditions": list(conditions)}}
                await self._kube.patch(NODECLASSES, found.name, body, patch_type="merge", subresource="status")
                self._record(found, events)
            case RecordMachines(node_class=found, misfits=misfits, observed_types=types, observed_daemon_sets=daemons):
                status = {
                    "misfits": list(misfits),
                    "observedTypes": list(types),
                    "observedDaemonSets": list(daemons),
                }
                body = {"metadata": {"uid": found.metadata.uid}, "status": status}
                stored = await self._kube.patch(NODECLASSES, found.name, body, patch_type="merge", subresource="status")
                lacking = (misfits and not stored.status.misfits) or (types and not stored.status.observed_types)
                if lacking or (daemons and not stored.status.observed_daemon_sets):
                    raise KubeError(200, NOT_STORED, "the CRD of AgentPoolNodeClass is older than this controller")
            case AnnotateNodePool(node_pool=pool, annotations=annotations):
                meta = {**_seen(pool.metadata), "annotations": dict(annotations)}
                await self._kube.patch(NODEPOOLS, pool.name, {"metadata": meta}, patch_type="merge")
            case AnnotateNodeClaim(claim=claim, annotations=annotations):
                meta = {**_seen(claim.metadata), "annotations": dict(annotations)}
                await self._kube.patch(NODECLAIMS, claim.name, {"metadata": meta}, patch_type="merge")
            case PatchNodePoolStatus(node_pool=pool, conditions=conditions, fields=fields, events=events):
                body = {"metadata": _seen(pool.metadata), "status": {**fields, "conditions": list(conditions)}}
                await self._kube.patch(NODEPOOLS, pool.name, body, patch_type="merge", subresource="status")
                self._record(pool, events)

            case PatchNodeOverlayStatus(overlay=overlay, conditions=conditions, events=events):
                body = {"metadata": _seen(overlay.metadata), "status": {"conditions": list(conditions)}}
                await self._kube.patch(NODEOVERLAYS, overlay.name, body, patch_type="merge", subresource="status")
                self._record(overlay, events)

    def _record(self, about: NodePool | AgentPoolNodeClass | NodeOverlay, events: Iterable[Event]) -> None:
        for event in events:
            self._events.record(about, event)


def _seen(meta: ObjectMeta) -> dict[str, object]:
    return {"uid": meta.uid, "resourceVersion": meta.resource_version}
