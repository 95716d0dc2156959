"""Reads the pods that the kubelet rejected, where pods are cached. A key is the name of a Node.

The cache has no pods that have ended. One that was bound, requests GPUs and vanishes without having been Ready or
deleted can have been rejected: the failed pods of its Node are then listed once for all of them.

Source: docs/references/kubernetes.md#pods-that-the-kubelet-rejects.
"""

from collections.abc import Callable, Iterable

from controllers.actuator.actuator import Actuator
from controllers.model.results import ReadFailed, answer
from controllers.model.steps import ReadFailedPods
from controllers.node.health.admission_errors import AdmissionError, admission_errors, event_of
from controllers.provisioning.pods import CachedPod
from controllers.state.indexes import Indexes
from provisioner.api.node import Node
from provisioner.api.schedulable import SchedulablePod


class AdmissionErrors:
    """`wake(name)` adds a Node to the work queue. `seen(errors)`: metrics of the rejected pods of one Node."""

    def __init__(
        self,
        *,
        indexes: Indexes,
        node: Callable[[str], Node | None],
        actuator: Actuator,
        wake: Callable[[str], None],
        seen: Callable[[Iterable[AdmissionError]], None],
    ) -> None:
        self._indexes = indexes
        self._node = node
        self._actuator = actuator
        self._wake = wake
        self._seen = seen

    def pod_changed(self, old: SchedulablePod | None, new: SchedulablePod | None) -> None:
        """Subscribe this to the cache of pods."""
        if new is not None or not isinstance(old, CachedPod) or not old.spec.node_name:
            return
        if old.eviction.gpus and not old.ready and not old.metadata.deleting:
            self._wake(old.spec.node_name)

    async def reconcile(self, name: str) -> None:
        """Record the rejected pods of this Node, if it is one of a NodeClaim. Raises KubeError."""
        node, claims = self._node(name), self._indexes.claims_of(self._indexes.key_of_node(name))
        if node is None or not claims:
            return
        pods = answer(await self._actuator.read(ReadFailedPods(node=node)), ReadFailed).pods
        errors = admission_errors(pods)
        self._seen(errors)
        if (event := event_of(errors)) is not None:
            for about in (claims[0], node):
                self._actuator.record_event(about, event)
