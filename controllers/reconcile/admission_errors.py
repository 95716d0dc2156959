"""Reads the pods that the kubelet rejected, where pods are cached. A key is the name of a Node.

The cache has no pods that have ended. One that was bound, requests GPUs and vanishes without having been Ready or
deleted can have been rejected: the failed pods of its Node are then listed once for all of them. A Node that rejects
all of them is cordoned, and looked at again until its device plugin has restarted. Where repair may change nothing, no
Node is cordoned, and one that was is released.

Source: docs/references/kubernetes.md#pods-that-the-kubelet-rejects.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import ClassVar

from controllers.actuator.actuator import Actuator
from controllers.model.ownership import managed
from controllers.model.policy import Policy
from controllers.model.steps import LookUpWorkloads
from controllers.node.health import rejecting_node as rules
from controllers.node.health.admission_errors import AdmissionError, admission_errors, event_of
from controllers.node.health.repairable import may_act
from controllers.provisioning.pods import CachedPod
from controllers.state.indexes import Indexes
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.reflector import Reflector


class AdmissionErrors:
    """`wake(name)` adds a Node to the work queue. `seen(errors)`: metrics of the rejected pods of one Node.

    `now`: the time of the wall clock.
    """

    name: ClassVar[Queue] = "admission-errors"

    def __init__(
        self,
        *,
        indexes: Indexes,
        nodes: Reflector[Node],
        pods: Reflector[Pod],
        now: Callable[[], datetime],
        policy: Policy,
        actuator: Actuator,
        wake: Callable[[str], None],
        seen: Callable[[Iterable[AdmissionError]], None],
    ) -> None:
        self._indexes = indexes
        self._nodes = nodes
        self._pods = pods
        self._now = now
        # By Node, the last one in the end.
        self._ran_at: dict[str, datetime] = {}
        self._returned_at: dict[str, datetime] = {}
        self._policy = policy
        self._actuator = actuator
        self._wake = wake
        self._seen = seen

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._pods.add_event_handler(self._pod_changed)
        self._nodes.add_event_handler(self._node_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if (
            isinstance(new, CachedPod)
            and new.ready
            and new.eviction.gpus
            and not (isinstance(old, CachedPod) and old.ready)
        ):
            self._ran_at.pop(new.spec.node_name, None)
            self._ran_at[new.spec.node_name] = self._now()
        if new is not None or not isinstance(old, CachedPod) or not old.spec.node_name:
            return
        if old.eviction.gpus and not old.ready and not old.metadata.deleting:
            self._wake(old.spec.node_name)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """A new process looks at those that are cordoned."""
        if new is None:
            for times in (self._ran_at, self._returned_at):
                times.pop(old.name if old is not None else "", None)
            return
        returned = old is not None and bool(rules.resource_of(new)) and not rules.resource_of(old)
        if returned:
            self._returned_at[new.name] = self._now()
        if rules.is_cordoned(new) and (returned or old is None or old.spec.unschedulable != new.spec.unschedulable):
            self._wake(new.name)

    async def reconcile(self, name: str) -> float | None:
        """Record the rejected pods of this Node, if it is one of a NodeClaim. Raises KubeError."""
        node, claims = self._nodes.get(name), self._indexes.claims_of(self._indexes.key_of_node(name))
        if node is None or node.deleting or not claims or not managed(claims[0]):
            return None
        if rules.is_cordoned(node):
            return await self._release(node, claims[0])
        pods = await self._actuator.reads.failed_pods(node)
        errors = admission_errors(pods)
        self._seen(errors)
        elsewhere = next((at for other, at in reversed(self._ran_at.items()) if other != name), None)
        found = rules.rejects_pods(node, errors, self._ran_at.get(name), self._now(), elsewhere=elsewhere)
        event = event_of(errors)
        acts = may_act(self._policy, claims[0])
        if found and acts and not node.spec.unschedulable and not rules.too_many(self._nodes.items()):
            await self._actuator.write(rules.cordon(node, self._now()), claims[0])
            event = rules.event(node, found)
        if event is not None:
            for about in (claims[0], node):
                self._actuator.record_event(about, event)
        return rules.CHECK_SECONDS if found else None

    async def _release(self, node: Node, claim: NodeClaim) -> float | None:
        """Release the Node once its device plugin has restarted; seconds until it is looked at again."""
        if node.spec.unschedulable and may_act(self._policy, claim):
            step = LookUpWorkloads(node=node, source=rules.resource_of(node), since=self._now())
            found = await self._actuator.reads.workloads(step)
            if not rules.restarted(node, found, self._returned_at.get(node.name)):
                return rules.CHECK_SECONDS
        await self._actuator.write(rules.release(node, self._now()), claim)
        return None
