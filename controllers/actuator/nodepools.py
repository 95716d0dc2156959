"""Performs the writes of the controllers of NodePools and AgentPoolNodeClasses.

Each is conditional on the version that the plan saw. Only members that the step names are written, and nothing without
the Lease. The Events of a step follow its write.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from controllers.model.patches import replace_list
from controllers.model.pool_steps import (
    AnnotateNodeClaim,
    AnnotateNodePool,
    PatchNodeClassStatus,
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
from provisioner.api.nodepool import NodePool
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import NODECLAIMS, NODECLASSES, NODEPOOLS

from .actuator import ARM_WRITE_SECONDS

log = structlog.get_logger("actuator")


# The API server drops fields that a CRD does not have.
NOT_STORED = "NotStored"


class NodePoolActuator:
    """`lease_left`: seconds for which the Lease is valid (inf without leader election).

    `on_cancelled(seconds)` is called for a write that was cancelled in flight: for so long it can still take effect.
    """

    def __init__(
        self,
        kube: Kube,
        events: EventRecorder,
        lease_left: Callable[[], float],
        on_cancelled: Callable[[float], None],
    ) -> None:
        self._kube = kube
        self._events = events
        self._lease_left = lease_left
        self._on_cancelled = on_cancelled

    async def write(self, step: PoolStep) -> bool:
        """Perform one write. Raises KubeError; a step is not sent without the Lease, which returns False.

        The reason NOT_STORED: the write was accepted, and records of it are not stored.
        """
        if self._lease_left() <= 0:
            log.warning("write not sent: the Lease expires too soon", step=type(step).__name__)
            return False
        try:
            await self._send(step)
        except asyncio.CancelledError:
            self._on_cancelled(ARM_WRITE_SECONDS)
            raise
        log.debug("wrote", step=type(step).__name__)
        return True

    def record_event(self, about: NodePool | NodeClaim | Node, event: Event) -> bool:
        """Record an Event that belongs to no write; False without the Lease, or if the recorder dropped it."""
        if self._lease_left() <= 0:
            return False
        return self._events.record(about, event.type, event.reason, event.message)

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

    def _record(self, about: NodePool | AgentPoolNodeClass, events: Iterable[Event]) -> None:
        for event in events:
            self._events.record(about, event.type, event.reason, event.message)


def _seen(meta: ObjectMeta) -> dict[str, object]:
    return {"uid": meta.uid, "resourceVersion": meta.resource_version}
