"""Counts over all keys: agent pools, creates of the last minute, the queue of claims for room, and the circuit breaker.

Counts and the members of the queue are kept as objects change. In the queue, owners take turns. Creates and removals
by inference are counted before they are sent. The rules come as functions (`Rules`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime

import msgspec

from cloudprovider.inventory import Inventory
from controllers.model.confirmation import Confirmation
from controllers.model.facts import Candidate, ClusterCounts, Facts, FirstSights, UnhealthyCounts
from controllers.model.ownership import managed
from controllers.model.policy import Policy
from controllers.model.recent_removals import RecentRemoval
from provisioner.api.causes import CAUSES, Cause
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import owner_of

from .gc_candidates import GCCandidates
from .indexes import Indexes
from .queue_order import QueueOrder
from .removal_window import Machine, RemovalWindow

MINUTE_SECONDS = 60.0
WAKE_AT_MOST = 5


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """`queued`: whether a live claim keeps its place in the queue.

    `tripped(policy, pools=…, removals=…)`: whether the circuit breaker opens.
    """

    queued: Callable[[NodeClaim], bool]
    tripped: Callable[..., bool]


class ClusterState:
    """Times are loop times in seconds. `confirmation`: the removals that an operator confirmed, if any."""

    def __init__(
        self, *, indexes: Indexes, inventory: Inventory, policy: Policy, candidates: GCCandidates, rules: Rules
    ) -> None:
        self.confirmation: Confirmation | None = None
        self._indexes = indexes
        self._inventory = inventory
        self._policy = policy
        self._rules = rules
        self._creates: deque[float] = deque()
        self._creates_in_flight: dict[str, float] = {}
        self._queue_order = QueueOrder()
        self._removals = RemovalWindow(policy.circuit_breaker_window_seconds)
        self._candidates = candidates
        self._tripped_by: frozenset[Machine] = frozenset()
        # By UID; None before the first one was looked for.
        self._without_pool: dict[str, NodeClaim] | None = None
        self._queue: list[NodeClaim] | None = None
        self._places: dict[str, int] = {}

    def pool_changed(self, key: str) -> None:
        """An agent pool appeared, changed or went, or a request for it begins or ends."""
        for claim in self._indexes.claims_of(key):
            self.claim_changed(claim, claim)

    def key_changed(self, key: str) -> None:
        """An object of this key changed."""
        self._candidates.key_changed(key)

    def all_changed(self) -> None:
        """Objects of all keys may have changed."""
        self._candidates.all_changed()

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """A claim appeared, changed or went. The queue changes if it joins or leaves it, or has another owner."""
        if self._without_pool is None:
            return
        left = self._without_pool.pop(old.uid, None) if old is not None else None
        joins = new is not None and self._is_queued(new)
        if new is not None and joins:
            self._without_pool[new.uid] = new
        if joins != (left is not None) or (left is not None and new is not None and owner_of(left) != owner_of(new)):
            self._queue = None

    def evaluated(self, key: str, candidate: Candidate | None) -> None:
        """A pass judged whether this key is a candidate for removal by inference."""
        self._candidates.evaluated(key, candidate)

    def create_started(self, key: str, claim: NodeClaim, wall: datetime, now: float) -> None:
        """A PUT for this claim is about to be sent: its owner has had its turn."""
        self._queued_claims()
        self._queue_order.served(claim, wall)
        self._queue = None
        self._creates.append(now)
        self._creates_in_flight[key] = now
        self.pool_changed(key)

    def create_finished(self, key: str) -> None:
        """The PUT was answered, or failed."""
        self._creates_in_flight.pop(key, None)
        self.pool_changed(key)

    def removal_started(self, key: str, cause: Cause, claim_uid: str, now: float) -> bool:
        """A removal by inference is about to be sent. Whether the removals on the Lease have to be updated first."""
        return CAUSES[cause].circuit_breaker and self._removals.started((key, claim_uid), now)

    def removal_not_sent(self, key: str, claim_uid: str) -> None:
        """The removals on the Lease could not be updated."""
        self._removals.not_sent((key, claim_uid))

    def recent_removals(self, wall: datetime, now: float) -> tuple[RecentRemoval, ...]:
        """The removals by inference that count toward the limit, those of former leaders included."""
        return self._removals.entries(wall, now)

    def restore_removals(self, removals: Iterable[RecentRemoval], wall: datetime, now: float) -> None:
        """Count the removals of former leaders."""
        self._removals.restore(removals, wall, now)

    def candidates(self) -> Mapping[str, Candidate]:
        """All candidates for removal by inference, by key."""
        return self._candidates.found()

    def restricted(self, wall: datetime, now: float) -> bool:
        """Whether the circuit breaker is open. One machine counts once in all stages of its removal.

        The machines that opened it count until none of them waits for its removal, so that confirming some of them does
        not confirm the others. A machine stops counting if it is no candidate any more and its pool exists.
        """
        found = self._found()
        self._tripped_by = self._still_waiting(found, wall)
        tripped = self._trips(found | self._tripped_by | self._removals.machines(now), wall)
        self._tripped_by = self._tripped_by | found if tripped else frozenset()
        return tripped

    def restricts(self, requested: AbstractSet[Machine], wall: datetime, now: float) -> bool:
        """Whether the removal of these machines, which another program requests, exceeds the limit."""
        found = self._found()
        waiting = self._still_waiting(found, wall)
        return self._trips(requested | found | waiting | self._removals.machines(now), wall)

    def _found(self) -> frozenset[Machine]:
        counted = ((key, one) for key, one in self.candidates().items() if CAUSES[one.cause].circuit_breaker)
        return frozenset((key, one.claim_uid) for key, one in counted)

    def _trips(self, going: AbstractSet[Machine], wall: datetime) -> bool:
        counted = {key for key, _ in going}
        confirmed = self.confirmation.removals if self.confirmation is not None else ()
        # Removals before the window, by a former leader, are known only from their confirmation.
        going = going | {(key, "") for key in confirmed if key not in counted and self._confirmed_and_gone(key, wall)}
        vanished = sum(self._inventory.get(key) is None for key, _ in going)
        return self._rules.tripped(self._policy, pools=self._pools()[0] + vanished, removals=len(going))

    def _still_waiting(self, found: AbstractSet[Machine], wall: datetime) -> frozenset[Machine]:
        left = {one for one in self._tripped_by if one in found or self._inventory.get(one[0]) is None}
        waiting = any(one in found and not self._confirmed(one[0], wall) for one in left)
        return frozenset(left) if waiting else frozenset()

    def _confirmed_and_gone(self, key: str, wall: datetime) -> bool:
        return self._confirmed(key, wall) and self._inventory.get(key) is None

    def _confirmed(self, key: str, wall: datetime) -> bool:
        return self.confirmation is not None and self.confirmation.covers(key, wall)

    def counts(self, facts: Facts, seen: FirstSights, unhealthy_counts: UnhealthyCounts, now: float) -> ClusterCounts:
        """The counts for this key. The circuit breaker matters only to a candidate or an unhealthy Node."""
        self._expire(now)
        is_candidate = seen.candidate is not None
        pools, all_pools, nodes = self._pools()
        recent = len(self._creates)
        place, waiting = self._place(facts.claim, pools, all_pools, recent)
        return ClusterCounts(
            pools=pools,
            all_pools=all_pools,
            nodes=nodes,
            creates_last_minute=recent,
            next_create_in=max(0.0, self._creates[0] + MINUTE_SECONDS - now) if self._creates else 0.0,
            place=place,
            waiting=waiting,
            candidates=len(self.candidates()) if is_candidate else 0,
            restricted=(is_candidate or seen.unhealthy is not None) and self.restricted(facts.now, now),
            confirmed=is_candidate and self._confirmed(facts.key, facts.now),
            unhealthy_counts=unhealthy_counts,
        )

    def queue_heads(self) -> list[str]:
        """The keys of the first queued claims, to reconcile when there is room."""
        return [self._indexes.key_of(claim) for claim in self._queued_claims()[:WAKE_AT_MOST]]

    def _place(self, claim: NodeClaim | None, pools: int, all_pools: int, recent: int) -> tuple[int, int]:
        if claim is None or claim.deleting or self._inventory.get(self._indexes.key_of(claim)) is not None:
            return 1, 1
        limit, rate = self._policy.max_agent_pools, self._policy.max_creates_per_minute
        queue = self._queued_claims()
        cluster = self._inventory.cluster
        room = cluster is not None and cluster.max_nodes is None and all_pools + len(queue) <= cluster.max_pools
        plenty = room and limit is not None and pools + len(queue) <= limit
        if plenty and recent + len(queue) <= rate:
            return 1, len(queue)
        place = self._places.get(claim.uid, len(queue) + 1)
        return place, max(len(queue), place)

    def _queued_claims(self) -> list[NodeClaim]:
        if self._without_pool is None:
            self._without_pool = {claim.uid: claim for claim in self._indexes.claims() if self._is_queued(claim)}
        if self._queue is None:
            self._queue = self._queue_order.order(self._without_pool.values())
            # Each claim needs its place: a search through the queue per claim would be quadratic.
            self._places = {claim.uid: place for place, claim in enumerate(self._queue, start=1)}
        return self._queue

    def _is_queued(self, claim: NodeClaim) -> bool:
        if claim.deleting or not managed(claim) or not self._rules.queued(claim):
            return False
        key = self._indexes.key_of(claim)
        return key not in self._creates_in_flight and self._inventory.get(key) is None

    def _pools(self) -> tuple[int, int, int]:
        """Our pools, all pools, and the Nodes of all pools; each with the creates in flight."""
        known, in_flight = (
            self._inventory.tally,
            sum(self._inventory.get(key) is None for key in self._creates_in_flight),
        )
        return known.pools - known.foreign + in_flight, known.pools + in_flight, known.nodes + in_flight

    def _expire(self, now: float) -> None:
        while self._creates and now - self._creates[0] >= MINUTE_SECONDS:
            self._creates.popleft()
