"""The machines of NodePools as the methods of disruption read them, from the caches and what this process has decided.

One instance serves all methods, so that a machine which one of them takes counts for the others at once. When a pod was
last bound to a Node or ended there is known from the events that this process has seen.

Source: docs/references/karpenter.md#disruption-budgets, docs/references/karpenter.md#emptiness.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import msgspec

from controllers.disruption.blockers import REFUSED, protected, with_blockers
from controllers.disruption.candidates import WHEN_EMPTY, why_unwanted
from controllers.disruption.indexes import BUDGETS, CONDITION, DISRUPTED, with_condition
from controllers.disruption.machine import Machine, MachineCount, consolidate_after, is_counted, is_disrupted
from controllers.disruption.pod_budgets import PodBudgets
from controllers.provisioning.nominations import NOMINATED_SECONDS, Nominations
from controllers.provisioning.pods import BY_NOMINATED_NODE, CachedPod
from controllers.state.indexes import NODE_NAME, NODEPOOL, POOL, UID, PoolOf
from provisioner.api.causes import Reason
from provisioner.api.conditions import CONSOLIDATABLE, DRIFTED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import is_member
from provisioner.api.pod import Pod
from provisioner.api.poddisruptionbudget import PodDisruptionBudget
from provisioner.runtime.clock import Clock

from .demand_caches import DemandCaches
from .unused_machines import UnusedMachines

# So long a watch may be behind a request that was not answered.
UNANSWERED_SECONDS = 10.0
# How long a machine is left alone after the API server refused to delete its NodeClaim.
REFUSED_SECONDS = 600.0


class Leaving:
    """UIDs of NodeClaims whose disruption this process has decided and is writing.

    Of a request without an answer nobody knows whether it was carried out: its NodeClaims count until the cache would
    show that. `now()`: the loop time in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until: dict[str, float] = {}

    def __contains__(self, uid: str) -> bool:
        return self._until.get(uid, 0.0) > self._now()

    def __iter__(self) -> Iterator[str]:
        return (uid for uid in self._until if uid in self)

    @contextmanager
    def reserved(self, claims: Iterable[NodeClaim]) -> Iterator[None]:
        """Enter this in the same step of the event loop as the decision; an error that ends it leaves open what was
        written.
        """
        now, uids = self._now(), [claim.uid for claim in claims]
        self._until = {uid: until for uid, until in self._until.items() if until > now} | dict.fromkeys(uids, math.inf)
        try:
            yield
        except BaseException:
            self._until |= dict.fromkeys(uids, self._now() + UNANSWERED_SECONDS)
            raise
        for uid in uids:
            self._until.pop(uid, None)


class Machines:
    """Add its event handlers before those of the controllers that read it. `pool_of` as in `Cloud`."""

    def __init__(self, caches: DemandCaches, *, nominations: Nominations, pool_of: PoolOf, clock: Clock) -> None:
        self.leaving = Leaving(_now)
        self._refused: dict[str, float] = {}
        self._caches = caches
        self._read: PodBudgets | None = None
        self._nominations = nominations
        self._pool_of = pool_of
        self._clock = clock
        self._began: float | None = None
        self._pod_events: dict[str, float] = {}
        self._unused = UnusedMachines(caches)

    @property
    def current(self) -> bool:
        """Whether all caches were listed and are being watched. Otherwise disrupt nothing."""
        budgets = self._caches.pod_budgets
        return self._caches.current and budgets.synced and budgets.last_error is None

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._unused.add_event_handlers()
        self._caches.pod_budgets.add_event_handler(self._pod_budget_changed)
        self._caches.nodes.add_event_handler(self._node_changed)
        self._caches.pods.add_event_handler(self._pod_changed, on_synced=self._pods_synced)

    def _pod_budget_changed(self, *_: PodDisruptionBudget | None) -> None:
        self._read = None

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None and old is not None:
            self._pod_events.pop(old.name, None)
        elif old is None and new is not None:
            self.pods_seen(new.name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for name in nodes_used(old, new):
            self.pods_seen(name)

    def _pods_synced(self) -> None:
        """What happened before the first list of pods is not known."""
        self._began, self._pod_events = _now(), {}

    def pods_seen(self, node: str) -> None:
        """A pod uses this Node, or has just used it."""
        if self._caches.nodes.get(node) is not None:
            self._pod_events[node] = _now()

    def quiet_since(self, node: str) -> datetime:
        """When a pod was last bound to this Node or ended there, as far as it is known, and not before it appeared.

        It is computed from the time that has passed since then, so that a wall clock that is set changes nothing.
        """
        now = _now()
        at = self._pod_events.get(node, now if self._began is None else self._began)
        return self._clock.now() - timedelta(seconds=now - at)

    def of(self, pool: NodePool) -> tuple[Machine, ...]:
        """The machines of this NodePool, those without a Node included."""
        owned = self._caches.claims.by_index(NODEPOOL, pool.metadata.uid)
        return tuple(self.machine(claim) for claim in owned if is_member(claim, pool))

    def unused(self, pool: NodePool) -> tuple[Machine, ...]:
        """Those of them that no pod uses."""
        return tuple(map(self.machine, self._unused.of(pool)))

    def count(self, pool: NodePool) -> MachineCount:
        """How many machines of this NodePool its budgets count."""
        claims, uid = self._caches.claims, pool.metadata.uid
        leaving = (claim for one in self.leaving for claim in claims.by_index(UID, one) if is_member(claim, pool))
        also = sum(is_counted(claim) and not is_disrupted(claim) for claim in leaving)
        disrupted = claims.count(BUDGETS, f"{DISRUPTED}{uid}") + also
        return MachineCount(total=claims.count(BUDGETS, uid), disrupted=disrupted)

    def drifted(self, pool: NodePool) -> tuple[Machine, ...]:
        """Those of them that have drifted."""
        found = self._caches.claims.by_index(CONDITION, with_condition(DRIFTED, pool.metadata.uid))
        return tuple(map(self.machine, found))

    def has(self, condition: str, pool: NodePool) -> bool:
        """Whether a machine of this NodePool has the condition, and is not being deleted."""
        return bool(self._caches.claims.count(CONDITION, with_condition(condition, pool.metadata.uid)))

    def may_consolidate(self, pool: NodePool) -> bool:
        """Whether machines of this NodePool that pods use may be candidates of consolidation."""
        claims, uid, policy = self._caches.claims, pool.metadata.uid, pool.spec.disruption.consolidation_policy
        if consolidate_after(pool) is None or policy == WHEN_EMPTY:
            return False
        found = claims.count(CONDITION, with_condition(CONSOLIDATABLE, uid))
        # Without a policy, those with GPUs are removed only when they are empty.
        kept = claims.count(CONDITION, with_condition(CONSOLIDATABLE, uid, gpus=True)) if policy is None else 0
        return found > kept

    def current_of(self, machines: Iterable[Machine]) -> list[Machine]:
        """These machines as they are now, without those whose NodeClaim is gone."""
        claims = self._caches.claims
        return [self.machine(claim) for one in machines for claim in claims.by_index(UID, one.claim.uid)]

    def on(self, nodes: Iterable[str]) -> list[Machine]:
        """The machines of the NodePools of this controller with Nodes of these names."""
        claims = (claim for name in nodes for claim in self._caches.claims.by_index(NODE_NAME, name))
        return [self.machine(claim) for claim in claims if self._caches.node_pool_of(claim) is not None]

    def by_pool(self) -> dict[str, tuple[Machine, ...]]:
        """The machines of each NodePool of this controller, by its name."""
        return {pool.name: self.of(pool) for pool in self._caches.node_pools()}

    def machine(self, claim: NodeClaim) -> Machine:
        """The machine of a NodeClaim of a NodePool."""
        name, now = claim.status.node_name, _now()
        bound, node = self._caches.pods_on(name), self._caches.node_of(claim)
        found = Machine(
            claim=claim,
            node=node,
            pods=tuple(pod for pod in bound if pod.own),
            quiet_since=self.quiet_since(name),
            nominated_seconds=self._nominated(claim, now),
            leaving=claim.uid in self.leaving,
            several_nodes=node is not None and self._caches.nodes.count(POOL, self._pool_of(node)) > 1,
        )
        if self._read is None:
            self._read = PodBudgets(self._caches.pod_budgets.items())
        found = with_blockers(found, bound, self._read, self._clock.now())
        if found.blocked or self._refused.get(claim.uid, 0.0) <= now:
            return found
        return msgspec.structs.replace(found, blocked=REFUSED, blocked_eventually=REFUSED)

    def refused(self, claim: NodeClaim) -> None:
        """The API server refused the deletion: other machines have their turn."""
        now = _now()
        self._refused = {uid: until for uid, until in self._refused.items() if until > now}
        self._refused[claim.uid] = now + REFUSED_SECONDS

    def protected(self, claim: NodeClaim, reason: Reason) -> str:
        """Why a command under way must not remove this machine, "" if it may."""
        return protected(self.machine(claim), self._caches.pods_on(claim.status.node_name), reason, self._clock.now())

    def unwanted(self, claim: NodeClaim, reason: Reason) -> str:
        """Why a command under way has no cause any more for removing this machine, "" if it has."""
        return why_unwanted(self.machine(claim), self._caches.node_pool_of(claim), reason)

    def keeps_empty(self, claim: NodeClaim) -> bool:
        """Whether the NodePool of the claim never removes a machine because it is empty, nor to have fewer replicas."""
        pool = self._caches.node_pool_of(claim)
        return pool is not None and pool.spec.replicas is None and consolidate_after(pool) is None

    def _nominated(self, claim: NodeClaim, now: float) -> float:
        """Seconds for which pods are expected on the machine: also those of a machine that it replaces.

        While kube-scheduler preempts pods for another one, the machine is kept for that, whatever else runs there.
        """
        if self._caches.replaces_another(claim):
            return NOMINATED_SECONDS
        if self._caches.pods_on(claim.status.node_name, by=BY_NOMINATED_NODE):
            return NOMINATED_SECONDS
        return max(self._nominations.left(one, now) for one in (claim.name, claim.status.node_name))


def nodes_used(old: Pod | None, new: Pod | None) -> set[str]:
    """The Nodes to which this change of a pod matters: it was bound to one, is being deleted, or is gone from it."""
    places = [(one.spec.node_name, one.metadata.deleting) for one in (old, new) if one is not None]
    pod = new or old
    if len({*places}) != len(places) or not isinstance(pod, CachedPod) or not pod.own:
        return set()
    return {name for name, _ in places if name}


def _now() -> float:
    return asyncio.get_running_loop().time()
