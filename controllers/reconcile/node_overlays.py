"""Reconciles NodeOverlays: states on each whether it is used. The key is its name.

All of them are computed together, when instance types are read. Each one is reconciled when an overlay or the template
of a NodePool changes, because it can conflict with any other one.
"""

from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

from controllers.actuator.nodepools import NodePoolActuator
from controllers.nodeoverlay.nodeoverlay import plan
from controllers.provisioning.instances import InstanceTypes
from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.nodepool import NodePool
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.workqueue import WorkQueue

# The labels that all Nodes of the cluster have, and the sizes of the subscription, change what overlays apply to.
AGAIN_SECONDS = 600.0
# Until the instance types of the cluster's region are known.
UNKNOWN_SECONDS = 10.0
CONFLICT_SECONDS = 5.0


class NodeOverlays:
    """`instance_types()`: None while they are unknown."""

    name: ClassVar[Queue] = "nodeoverlay"

    def __init__(
        self,
        *,
        queue: WorkQueue,
        overlays: Reflector[NodeOverlay],
        node_pools: Reflector[NodePool],
        instance_types: Callable[[], InstanceTypes | None],
        actuator: NodePoolActuator,
        now: Callable[[], datetime],
    ) -> None:
        self._queue = queue
        self._overlays = overlays
        self._pools = node_pools
        self._types = instance_types
        self._actuator = actuator
        self._now = now

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._overlays.add_event_handler(self._overlay_changed, on_synced=self._all_changed)
        self._pools.add_event_handler(self._pool_changed, on_synced=self._all_changed)

    async def reconcile(self, key: str) -> float | None:
        """Write the conditions of one overlay, if they changed."""
        overlay = self._overlays.get(key)
        if overlay is None or not (self._overlays.synced and self._pools.synced):
            return None
        types = self._types()
        if types is None:
            return UNKNOWN_SECONDS
        step = plan(overlay, types.overlaid, self._now())
        if step is None:
            return AGAIN_SECONDS
        try:
            await self._actuator.write(step)
        except KubeError as error:
            if error.status in (404, 409, 422):
                return CONFLICT_SECONDS
            raise
        return AGAIN_SECONDS

    def _overlay_changed(self, old: NodeOverlay | None, new: NodeOverlay | None) -> None:
        """A change of the conditions is not answered: Karpenter writes the same ones, and no two may alternate."""
        if old is None or new is None or old.spec != new.spec or old.metadata.deleting != new.metadata.deleting:
            self._all_changed()

    def _pool_changed(self, old: NodePool | None, new: NodePool | None) -> None:
        if old is None or new is None or old.spec.template.metadata.labels != new.spec.template.metadata.labels:
            self._all_changed()

    def _all_changed(self) -> None:
        for one in self._overlays.items():
            self._queue.add(one.name)
