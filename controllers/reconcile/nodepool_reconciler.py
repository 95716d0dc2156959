"""Reconciles NodePools and AgentPoolNodeClasses: facts from the caches, one step by the plans, one write.

Keys are `NodePool/<name>` and `AgentPoolNodeClass/<name>`. Without an object of these kinds nothing is queued. A write
requires the version that the plan saw, so a stale cache leads to a conflict, after which the key is reconciled again.

A NodeClaim whose NodePool was deleted without it is kept and gets an Event: only users may remove it.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

from cloudprovider.cloud import Cloud
from controllers.actuator.nodepools import NodePoolActuator
from controllers.model.pool_steps import PoolStep
from controllers.nodeclass import nodeclass
from controllers.nodeclass.nodeclass import NodeClassFacts
from controllers.nodepool import nodepool
from controllers.nodepool.cost_limit import limit
from controllers.nodepool.nodepool import OUTCOMES_KEPT, NodePoolFacts, Outcome
from controllers.state.indexes import COUNTED_IN, NODE_CLASS
from provisioner.api import labels, reasons
from provisioner.api.conditions import LAUNCHED, REGISTERED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, is_own
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import counted_in, nodepool_of
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.workqueue import WorkQueue

from .disruption_events import disruption_event
from .nodepool_usage import NodePoolUsage

POOL, CLASS = "NodePool/", "AgentPoolNodeClass/"
# Changes of machines come in groups; one status write covers a group.
COLLECT_SECONDS = 1.0
# Prices change without an event of the NodePool.
PRICES_SECONDS = 60.0
CONFLICT_SECONDS, CONFLICT_MOST_SECONDS = 0.5, 60.0
# The API server keeps Events for an hour by default.
ORPHANED_SECONDS = 1800.0


class NodePoolReconciler:
    name: ClassVar[Queue] = "nodepool"

    def __init__(
        self,
        *,
        queue: WorkQueue,
        node_pools: Reflector[NodePool],
        node_classes: Reflector[AgentPoolNodeClass],
        claims: Reflector[NodeClaim],
        nodes: Reflector[Node],
        usage: NodePoolUsage,
        actuator: NodePoolActuator,
        now: Callable[[], datetime],
        cloud: Cloud,
    ) -> None:
        self._queue = queue
        self._pools = node_pools
        self._classes = node_classes
        self._claims = claims
        self._nodes = nodes
        self._usage = usage
        self._actuator = actuator
        self._now = now
        self._cloud = cloud
        self._outcomes: dict[str, tuple[tuple[int, int], deque[Outcome]]] = {}
        # Conflicts in a row, by key.
        self._conflicts: dict[str, int] = {}

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._pools.add_event_handler(self._pool_changed, on_synced=self._all_changed)
        self._classes.add_event_handler(self._class_changed, on_synced=self._all_changed)
        self._claims.add_event_handler(self._claim_changed, on_synced=self._all_changed)
        self._nodes.add_event_handler(self._node_changed, on_synced=self._all_changed)

    async def reconcile(self, key: str) -> float | None:
        """One write, if one is needed."""
        if not (self._claims.synced and self._nodes.synced):
            return None
        step = self._plan_class(key.removeprefix(CLASS)) if key.startswith(CLASS) else self._plan_pool(key)
        if step is None:
            self._conflicts.pop(key, None)
            return None if key.startswith(CLASS) else self._again(key.removeprefix(POOL))
        try:
            await self._actuator.write(step)
        except KubeError as error:
            if error.status in (404, 409, 422):
                # The object changed, and its event adds the key as well; or a policy denies the write with this code.
                times = self._conflicts[key] = self._conflicts.get(key, 0) + 1
                return min(CONFLICT_SECONDS * 2.0 ** min(times - 1, 16), CONFLICT_MOST_SECONDS)
            raise
        self._conflicts.pop(key, None)
        return None

    def _plan_class(self, name: str) -> PoolStep | None:
        found = self._classes.get(name)
        if found is None:
            return None
        using = tuple(sorted(self._claims.by_index(NODE_CLASS, name), key=lambda one: one.name))
        return nodeclass.plan(NodeClassFacts(node_class=found, now=self._now(), claims=using))

    def _plan_pool(self, key: str) -> PoolStep | None:
        name = key.removeprefix(POOL)
        pool = self._pools.get(name)
        if pool is None or not nodepool.is_ours(pool):
            self._outcomes.pop(name, None)
            return None
        if not self._classes.synced:
            return None
        found = self._classes.get(pool.spec.template.spec.node_class_ref.name)
        facts = NodePoolFacts(
            node_pool=pool,
            now=self._now(),
            node_class=found,
            resources=self._usage.of(name).resources(),
            claims=lambda: self._claims.by_index(COUNTED_IN, name),
            outcomes=tuple(self._outcomes_of(pool, found)),
            cost=self._usage.cost(pool),
            cloud=self._cloud,
        )
        return nodepool.plan(facts)

    def _again(self, name: str) -> float | None:
        """Seconds until the next look at a NodePool without an event."""
        pool = self._pools.get(name)
        limited = pool is not None and nodepool.is_ours(pool) and limit(pool) is not None
        return PRICES_SECONDS if limited else self._report_orphans(name)

    def _report_orphans(self, name: str) -> float | None:
        """Events of the NodeClaims that were kept when their NodePool was deleted; seconds until the next ones."""
        if not self._pools.synced or self._pools.last_error is not None or self._pools.get(name) is not None:
            return None
        found = [one for one in self._claims.by_index(COUNTED_IN, name) if _is_orphan(one)]
        message = (
            f"NodePool not found (NodePool={name}): the machine is kept when it is empty, drifted or expired; "
            "delete the NodeClaim to remove it"
        )
        for claim in found:
            self._actuator.record_event(claim, disruption_event(claim, reasons.DISRUPTION_BLOCKED, message))
        return ORPHANED_SECONDS if found else None

    def _outcomes_of(self, pool: NodePool, found: AgentPoolNodeClass | None) -> deque[Outcome]:
        """The outcomes since the NodePool or its node class changed last."""
        generations = (pool.metadata.generation, found.metadata.generation if found is not None else 0)
        before = self._outcomes.get(pool.name)
        if before is None or before[0] != generations:
            self._outcomes[pool.name] = generations, deque(maxlen=OUTCOMES_KEPT)
        return self._outcomes[pool.name][1]

    def _pool_changed(self, old: NodePool | None, new: NodePool | None) -> None:
        for pool in (old, new):
            if pool is None or not nodepool.is_ours(pool):
                continue
            if old is not None and new is not None and old.status != new.status:
                self._queue.add_after(POOL + pool.name, COLLECT_SECONDS)
            else:
                self._queue.add(POOL + pool.name)

    def _class_changed(self, old: AgentPoolNodeClass | None, new: AgentPoolNodeClass | None) -> None:
        for name in {one.name for one in (old, new) if one is not None}:
            self._queue.add(CLASS + name)
            for pool in self._pools.items():
                if nodepool.is_ours(pool) and pool.spec.template.spec.node_class_ref.name == name:
                    self._queue.add(POOL + pool.name)

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        claim = new or old
        if claim is None or not is_own(claim.spec.node_class_ref):
            return
        self._record_outcome(old, new)
        found = self._classes.get(claim.spec.node_class_ref.name)
        if found is not None and nodeclass.concerned(found, old, new):
            self._queue.add(CLASS + found.name)
        if name := counted_in(claim):
            self._queue.add_after(POOL + name, COLLECT_SECONDS)

    def _record_outcome(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        pool = self._pools.get(counted_in(new)) if new is not None else None
        if old is None or new is None or pool is None or not nodepool.is_ours(pool):
            return
        kept = self._outcomes_of(pool, self._classes.get(pool.spec.template.spec.node_class_ref.name))
        if old.condition(REGISTERED, "True") is None and new.condition(REGISTERED, "True") is not None:
            kept.append("registered")
        elif old.condition(LAUNCHED, "False") is None and new.condition(LAUNCHED, "False") is not None:
            kept.append("failed")

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        name = node.metadata.labels.get(labels.NODEPOOL, "") if node is not None else ""
        pool = self._pools.get(name) if name else None
        changed = old is None or new is None or old.status.capacity != new.status.capacity
        if changed and pool is not None and nodepool.is_ours(pool):
            self._queue.add_after(POOL + name, COLLECT_SECONDS)

    def _all_changed(self) -> None:
        for found in self._classes.items():
            self._queue.add(CLASS + found.name)
        for pool in self._pools.items():
            if nodepool.is_ours(pool):
                self._queue.add(POOL + pool.name)
        for claim in self._claims.items():
            if _is_orphan(claim):
                self._queue.add(POOL + counted_in(claim))


def _is_orphan(claim: NodeClaim) -> bool:
    """Whether its label names a NodePool that does not own it, so that nothing deletes it with the NodePool."""
    return bool(counted_in(claim)) and nodepool_of(claim) is None and not claim.deleting
