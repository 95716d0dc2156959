"""What one key must know of all others: how many pools there are, who is in line, how much is suspected.

Counts are taken from the caches and kept until something changed; the line is by age, so that nobody who
waits for room is overtaken; who waits for something else comes after them, once that is there. Creates are counted
when they are sent, removals by inference when they are made.
"""

from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime

from cloudprovider.inventory import Inventory
from controllers.garbagecollection.circuit_breaker import counts_toward_limit, tripped
from controllers.garbagecollection.confirmation import Confirmation
from controllers.garbagecollection.garbage import claim_uid
from controllers.model.facts import ClusterCounts, Facts
from controllers.model.ownership import Verdict, managed, verdict
from controllers.model.policy import Policy
from controllers.nodeclaim.lifecycle.launch import is_queued
from provisioner.api.nodeclaim import NodeClaim

from .gc_candidates import GCCandidate, GCCandidates
from .indexes import Indexes

MINUTE_SECONDS = 60.0
WAKE_AT_MOST = 5

# A key, and the UID of the claim that the machine under it was made for.
Machine = tuple[str, str]


class ClusterState:
    """Times are loop times in seconds. `confirmation`: what a person lets pass the circuit breaker, if anything."""

    def __init__(self, *, indexes: Indexes, inventory: Inventory, policy: Policy, candidates: GCCandidates) -> None:
        self.confirmation: Confirmation | None = None
        self._indexes = indexes
        self._inventory = inventory
        self._policy = policy
        self._creates: deque[float] = deque()
        self._in_the_air: dict[str, float] = {}
        self._removals: deque[tuple[float, str, str]] = deque()
        self._candidates = candidates
        self._together: frozenset[Machine] = frozenset()
        self._counted: tuple[int, int, int] | None = None
        self._line: list[NodeClaim] | None = None
        self._places: dict[str, int] = {}

    def pools_changed(self) -> None:
        """A pool appeared, changed or went: count anew when next asked."""
        self._counted = self._line = None

    def key_changed(self, key: str) -> None:
        """Something of this key is not as it was: judge it anew."""
        self._candidates.changed(key)

    def all_changed(self) -> None:
        """Something changed for every key."""
        self._candidates.all_changed()

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """A claim appeared, changed or went; only who joins the line or leaves it makes it another one."""
        if (old is not None and _waits(old)) != (new is not None and _waits(new)):
            self._line = None

    def creating(self, key: str, now: float) -> None:
        """A PUT is about to be sent for this key."""
        self._creates.append(now)
        self._in_the_air[key] = now
        self.pools_changed()

    def landed(self, key: str) -> None:
        """The PUT's answer, good or bad, has been taken in."""
        self._in_the_air.pop(key, None)
        self.pools_changed()

    def removed_by_inference(self, facts: Facts, now: float) -> None:
        """What was suspected of this key has been asked to go."""
        if facts.candidate is not None and not counts_toward_limit(facts.candidate.cause):
            return
        self._removals.append((now, facts.key, claim_uid(facts)))

    def candidates(self) -> Mapping[str, GCCandidate]:
        """All keys that may be removed by inference, and why."""
        return self._candidates.found()

    def restricted(self, wall: datetime, now: float) -> bool:
        """Whether removals by inference are held back now. One machine counts once, however far its removal is.

        What tripped the circuit breaker together is counted together as long as one of it waits: who confirms half of
        it has not confirmed the other half. Only what turns out well again is counted no more.
        """
        self._expire(now)
        candidate_seen = {
            (key, one.machine) for key, one in self.candidates().items() if counts_toward_limit(one.cause)
        }
        self._together = self._still_together(candidate_seen, wall)
        going = candidate_seen | self._together | {(key, what) for _, key, what in self._removals}
        counted = {key for key, _ in going}
        confirmed = self.confirmation.removals if self.confirmation is not None else ()
        # A process that has just started knows of no removals but those that a person has put down.
        going |= {(key, "") for key in confirmed if key not in counted and self._gone_as_confirmed(key, wall)}
        vanished = sum(self._inventory.get(key) is None for key, _ in going)
        too_much = tripped(self._policy, pools=self._pools()[0] + vanished, removals=len(going))
        self._together = self._together | candidate_seen if too_much else frozenset()
        return too_much

    def _still_together(self, candidate_seen: AbstractSet[Machine], wall: datetime) -> frozenset[Machine]:
        left = {one for one in self._together if one in candidate_seen or self._inventory.get(one[0]) is None}
        waiting = any(one in candidate_seen and not self._confirmed(one[0], wall) for one in left)
        return frozenset(left) if waiting else frozenset()

    def _gone_as_confirmed(self, key: str, wall: datetime) -> bool:
        return self._confirmed(key, wall) and self._inventory.get(key) is None

    def _confirmed(self, key: str, wall: datetime) -> bool:
        return self.confirmation is not None and self.confirmation.covers(key, wall)

    def facts(self, facts: Facts, now: float) -> ClusterCounts:
        """The fleet as this key needs to know it; whether it is braked matters to suspects and the sick only."""
        self._expire(now)
        claim = facts.claim
        pools, all_pools, nodes = self._pools()
        recent = len(self._creates)
        place, waiting = self._place(claim, pools, all_pools, recent)
        candidate_seen = facts.candidate is not None
        if candidate_seen:
            self._candidates.changed(facts.key)
        return ClusterCounts(
            pools=pools,
            all_pools=all_pools,
            nodes=nodes,
            creates_last_minute=recent,
            next_create_in=max(0.0, self._creates[0] + MINUTE_SECONDS - now) if self._creates else 0.0,
            place=place,
            waiting=waiting,
            candidates=len(self.candidates()) if candidate_seen else 0,
            restricted=(candidate_seen or facts.unhealthy is not None) and self.restricted(facts.now, now),
            confirmed=candidate_seen and self._confirmed(facts.key, facts.now),
        )

    def first_in_line(self) -> list[str]:
        """The keys to wake when room was made: the oldest claims without a pool."""
        return [self._indexes.key_of(claim) for claim in self._waiting()[:WAKE_AT_MOST]]

    def _place(self, claim: NodeClaim | None, pools: int, all_pools: int, recent: int) -> tuple[int, int]:
        if claim is None or claim.deleting or self._inventory.get(self._indexes.key_of(claim)) is not None:
            return 1, 1
        limit, rate = self._policy.max_agent_pools, self._policy.max_creates_per_minute
        line = self._waiting()
        cluster = self._inventory.cluster
        room = cluster is not None and cluster.max_nodes is None and all_pools + len(line) <= cluster.max_pools
        plenty = room and limit is not None and pools + len(line) <= limit
        if plenty and (rate is None or recent + len(line) <= rate):
            return 1, len(line)
        place = self._places.get(claim.uid, len(line) + 1)
        return place, max(len(line), place)

    def _waiting(self) -> list[NodeClaim]:
        if self._line is None:
            without = (
                c
                for c in self._indexes.claims()
                if _waits(c)
                and (key := self._indexes.key_of(c)) not in self._in_the_air
                and self._inventory.get(key) is None
            )
            self._line = sorted(without, key=lambda c: (c.metadata.creation_timestamp, c.name))
            # Each claim asks for its place: a search through the line would cost a crowd its square.
            self._places = {claim.uid: place for place, claim in enumerate(self._line, start=1)}
        return self._line

    def _pools(self) -> tuple[int, int, int]:
        """Ours, all, and the Nodes of all; each with those that were asked for and not yet answered."""
        if self._counted is None:
            found = self._inventory.items()
            ours = sum(verdict(instance, None) is not Verdict.FOREIGN for instance in found)
            unanswered = sum(self._inventory.get(key) is None for key in self._in_the_air)
            nodes = sum(instance.count for instance in found)
            self._counted = ours + unanswered, len(found) + unanswered, nodes + unanswered
        return self._counted

    def _expire(self, now: float) -> None:
        while self._creates and now - self._creates[0] >= MINUTE_SECONDS:
            self._creates.popleft()
        while self._removals and now - self._removals[0][0] >= self._policy.circuit_breaker_window_seconds:
            self._removals.popleft()


def _waits(claim: NodeClaim) -> bool:
    """Whether this claim has a place in line, if it has no pool."""
    return managed(claim) and not claim.deleting and is_queued(claim)
