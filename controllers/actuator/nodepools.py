"""Performs the writes of the controllers of NodePools and AgentPoolNodeClasses.

Each is conditional on the version that the plan saw. Only members that the step names are written, and nothing without
the Lease. The Events of a step follow its write.
"""

from collections.abc import Callable, Iterable

import structlog

from controllers.model.patches import replace_list
from controllers.model.pool_steps import (
    AnnotateNodeClaim,
    AnnotateNodePool,
    PatchNodeClassStatus,
    PatchNodePoolStatus,
    PoolStep,
    SetNodeClassFinalizers,
)
from controllers.model.steps import Event
from provisioner.api.meta import ObjectMeta
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.kube import Kube
from provisioner.runtime.resources import NODECLAIMS, NODECLASSES, NODEPOOLS

log = structlog.get_logger("actuator")


class NodePoolActuator:
    """`lease_left`: seconds for which the Lease is valid (inf without leader election)."""

    def __init__(self, kube: Kube, events: EventRecorder, lease_left: Callable[[], float]) -> None:
        self._kube = kube
        self._events = events
        self._lease_left = lease_left

    async def write(self, step: PoolStep) -> None:
        """Perform one write. Raises KubeError; a step is not sent without the Lease."""
        if self._lease_left() <= 0:
            log.warning("write not sent: the Lease expires too soon", step=type(step).__name__)
            return
        match step:
            case SetNodeClassFinalizers(node_class=found, finalizers=wanted):
                same = {"op": "test", "path": "/metadata/uid", "value": found.metadata.uid}
                change = replace_list("/metadata/finalizers", found.metadata.finalizers, wanted)
                await self._kube.patch(NODECLASSES, found.name, [same, *change], patch_type="json")
            case PatchNodeClassStatus(node_class=found, conditions=conditions, events=events):
                body = {"metadata": _seen(found.metadata), "status": {"conditions": list(conditions)}}
                await self._kube.patch(NODECLASSES, found.name, body, patch_type="merge", subresource="status")
                self._record(found, events)
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
        log.debug("wrote", step=type(step).__name__)

    def _record(self, about: NodePool | AgentPoolNodeClass, events: Iterable[Event]) -> None:
        for event in events:
            self._events.record(about, event.type, event.reason, event.message)


def _seen(meta: ObjectMeta) -> dict[str, object]:
    return {"uid": meta.uid, "resourceVersion": meta.resource_version}
