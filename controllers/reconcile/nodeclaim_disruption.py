"""Writes the conditions Drifted and Consolidatable of NodeClaims of NodePools. A key is the name of a NodeClaim.

Both are in one write, which requires the version of the NodeClaim that was read: the controller of its life writes the
list of conditions as well. NodeClaims that are being deleted, or that no NodePool of this controller owns, are left.

Source: docs/references/karpenter.md#drift, docs/references/karpenter.md#consolidation.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import ClassVar

import structlog

from cloudprovider.interface import Newest, ResourceSku
from cloudprovider.inventory import Inventory
from controllers.actuator.actuator import Actuator
from controllers.disruption.machine import consolidatable_in
from controllers.model.ownership import held_by
from controllers.model.steps import Event, PatchStatus
from controllers.nodeclaim.disruption.drift_reason import DriftFacts, DriftReason, drift_reason
from controllers.provisioning.instances import InstanceTypes
from controllers.state.indexes import NODEPOOL, Indexes
from provisioner.api.conditions import CONSOLIDATABLE, DRIFTED, ConditionSet
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import why_foreign
from provisioner.api.pod import Pod
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.clock import Clock
from provisioner.runtime.kube_errors import KubeError

from .claim_creator import STALE_SECONDS
from .demand_caches import DemandCaches
from .machines import Machines, nodes_used
from .wall_clock import WallClock

RESYNC_SECONDS = 300.0

log = structlog.get_logger("nodeclaim.disruption")


class NodeClaimDisruption:
    """`newest_image(image)`: the newest one of its kind, "" if it is not known.

    `instance_types`: those of the region, `skus`: those of the subscription; both return None while they are not known.

    `wake(name)` adds a NodeClaim to the work queue.
    """

    name: ClassVar[Queue] = "nodeclaim-disruption"

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        indexes: Indexes,
        inventory: Inventory,
        machines: Machines,
        instance_types: Callable[[], InstanceTypes | None],
        skus: Callable[[], Mapping[str, ResourceSku] | None],
        newest_image: Callable[[str], str],
        wake: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._indexes = indexes
        self._inventory = inventory
        self._machines = machines
        self._instance_types = instance_types
        self._skus = skus
        self._newest_image = newest_image
        self._wake = wake
        self._clock = clock
        self._wall = WallClock(clock)
        self._kubernetes: Newest | None = None
        # Conflicts in a row, by the name of the NodeClaim.
        self._conflicts: dict[str, int] = {}

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._caches.claims.add_event_handler(self._claim_changed)
        self._caches.every_node_pool.add_event_handler(self._pool_changed)
        self._caches.node_classes.add_event_handler(self._node_class_changed)
        self._caches.pods.add_event_handler(self._pod_changed)

    def _claim_changed(self, _: NodeClaim | None, new: NodeClaim | None) -> None:
        if new is not None and not why_foreign(new):
            self._wake(new.name)

    def _pool_changed(self, old: NodePool | None, new: NodePool | None) -> None:
        if new is None or (old is not None and _content(old) == _content(new)):
            return
        self._wake_all(self._caches.claims.by_index(NODEPOOL, new.metadata.uid))

    def _node_class_changed(self, _: AgentPoolNodeClass | None, new: AgentPoolNodeClass | None) -> None:
        if new is not None:
            self.all_changed()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """One was bound, or ended."""
        for name in nodes_used(old, new):
            node = self._caches.nodes.get(name)
            if node is not None and (key := self._indexes.pool_of(node)):
                self._wake_all(self._indexes.claims_of(key))

    def instance_changed(self, key: str) -> None:
        """The inventory has another state for this agent pool."""
        self._wake_all(self._indexes.claims_of(key))

    def all_changed(self) -> None:
        """The managed cluster, a node image or a node class changed."""
        self._wake_all(self._caches.claims.items())

    def _wake_all(self, claims: Iterable[NodeClaim]) -> None:
        for claim in claims:
            if not why_foreign(claim):
                self._wake(claim.name)

    async def reconcile(self, name: str) -> float | None:
        """Write what differs; returns the seconds until the next pass, None: when an object changes.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        claim = self._caches.claims.get(name)
        if claim is None or claim.deleting or why_foreign(claim):
            self._conflicts.pop(name, None)
            return None
        if not self._caches.current:
            return STALE_SECONDS
        pool = self._caches.node_pool_of(claim)
        # A write replaces the whole list of conditions: those that cannot be decoded would be lost.
        if pool is None or any(field.startswith("status") for field in claim.metadata.unreadable):
            return None
        now = self._clock.now()
        found = drift_reason(self._facts(claim, pool, now))
        seconds = consolidatable_in(claim, pool, self._machines.quiet_since(claim.status.node_name), now)
        before = ConditionSet.of(claim, now)
        after = _with_drift(before, found, now)
        after = after.set_true(CONSOLIDATABLE, now) if seconds == 0 else after.clear(CONSOLIDATABLE)
        if after != before and (waits := await self._write(claim, after, found)) is not None:
            return waits
        return min(seconds or RESYNC_SECONDS, RESYNC_SECONDS)

    def _facts(self, claim: NodeClaim, pool: NodePool, now: datetime) -> DriftFacts:
        instance = self._inventory.get(self._indexes.key_of(claim))
        if not held_by(instance, claim):
            instance = None
        return DriftFacts(
            claim=claim,
            now=now,
            clock_set=self._wall.jumped(),
            pool=pool,
            new_class=self._caches.node_class(pool.spec.template.spec.node_class_ref.name),
            node_class=self._caches.node_class(claim.spec.node_class_ref.name),
            instance=instance,
            cluster=self._inventory.cluster,
            kubernetes=self._newest_kubernetes(now),
            image=self._newest_image(instance.image_version) if instance is not None else "",
            pools=self._inventory.items,
            instance_types=self._instance_types(),
            skus=self._skus(),
        )

    def _newest_kubernetes(self, now: datetime) -> Newest | None:
        """The version of the control plane, and since when it is known."""
        version = self._inventory.cluster.kubernetes_version if self._inventory.cluster is not None else ""
        if version and (self._kubernetes is None or self._kubernetes.version != version):
            self._kubernetes = Newest(version, now)
        return self._kubernetes

    async def _write(self, claim: NodeClaim, after: ConditionSet, found: DriftReason | None) -> float | None:
        """Seconds to wait if the write was not possible."""
        was, events = claim.condition(DRIFTED, "True"), tuple[Event, ...]()
        if found is not None and found.reason and (was is None or was.reason != found.reason):
            log.info("marking drifted", NodeClaim={"name": claim.name}, reason=found.reason, detail=found.detail)
            events = (Event(type="Normal", reason=found.reason, message=_message(found)),)
        step = PatchStatus(claim=claim, conditions=after.items, fields={}, events=events)
        try:
            await self._actuator.write(step, claim)
        except KubeError as error:
            if error.conflict or error.not_found:
                # The cache is behind for a moment; a webhook that denies the request with this code does so for ever.
                times = self._conflicts[claim.name] = self._conflicts.get(claim.name, 0) + 1
                return min(STALE_SECONDS * 2.0 ** min(times - 1, 16), RESYNC_SECONDS)
            if error.refused:
                return RESYNC_SECONDS
            raise
        self._conflicts.pop(claim.name, None)
        return None


def _with_drift(conditions: ConditionSet, found: DriftReason | None, now: datetime) -> ConditionSet:
    if found is None:
        return conditions
    if not found.reason:
        return conditions.clear(DRIFTED)
    return conditions.set(DRIFTED, "True", reason=found.reason, message=_message(found), now=now)


def _message(found: DriftReason) -> str:
    return f"{found.reason} ({found.detail})"


def _content(pool: NodePool) -> tuple[object, ...]:
    """What of a NodePool matters here; its status changes with each machine."""
    return pool.spec, pool.metadata.annotations, pool.metadata.deleting
