"""What one sick Node must know of the others: how many are sick, who fell sick together, who is in line for repair.

Counts are kept by key and renewed by each pass over it; the line is in the order in which repairs became due,
so that nobody is overtaken between a decision and its trace in the cache. After a restart all of it is seen again,
before the first repair (`Policy.repair_watch_seconds`).
"""

import msgspec

from controllers.model.facts import Facts, UnhealthyCounts
from controllers.model.ownership import managed
from controllers.model.policy import Policy
from controllers.model.steps import Wait
from controllers.node.health import repair
from controllers.nodeclaim.lifecycle.launch_failure import was_usable

from .indexes import Indexes


class UnhealthyNode(msgspec.Struct):
    """`since`: not Ready; `due`: since when its repair has been due, None while it is not. Loop times in seconds."""

    since: float
    due: float | None = None
    blocked: bool = False


class UnhealthyNodes:
    """Times are loop times in seconds."""

    def __init__(self, *, indexes: Indexes, policy: Policy) -> None:
        self._indexes = indexes
        self._policy = policy
        self._patients: dict[str, UnhealthyNode] = {}

    def admit(self, f: Facts, now: float) -> UnhealthyCounts:
        """Take in what `f` says of its key; the ward as that key needs to know it."""
        if f.unhealthy is None:
            self._patients.pop(f.key, None)
            return UnhealthyCounts()
        unhealthy_node = self._patients.setdefault(f.key, UnhealthyNode(since=0.0))
        unhealthy_node.since = now - f.unhealthy.age
        waiting = repair.not_yet(f)
        if isinstance(waiting, Wait):
            unhealthy_node.due, unhealthy_node.blocked = None, False
        elif waiting is None and unhealthy_node.due is None:
            unhealthy_node.due = now
        # Who has still to read something keeps the place it has.
        if waiting is not None or unhealthy_node.due is None:
            return UnhealthyCounts()
        unhealthy_counts = self._unhealthy_counts(unhealthy_node.due, f.key)
        unhealthy_node.blocked = bool(repair.blocked_by_limits(self._policy, unhealthy_counts))
        return unhealthy_counts

    def forget(self, key: str) -> None:
        """Nothing is left of this key."""
        self._patients.pop(key, None)

    def blocked(self) -> int:
        """How many repairs are due and wait for others."""
        return sum(unhealthy_node.blocked for unhealthy_node in self._patients.values())

    def _unhealthy_counts(self, due: float, key: str) -> UnhealthyCounts:
        usable = [claim for claim in self._indexes.claims() if managed(claim) and was_usable(claim)]
        line = [(p.due, other) for other, p in self._patients.items() if p.due is not None]
        return UnhealthyCounts(
            nodes=len(usable),
            unhealthy=len(self._patients),
            simultaneous=self._simultaneous(),
            going=sum(repair.deleted_by_repair(claim) for claim in usable),
            place=1 + sum(before < (due, key) for before in line),
        )

    def _simultaneous(self) -> int:
        """The most that fell sick within one window, of those that still are."""
        window = self._policy.repair_simultaneous_seconds
        onsets = sorted(unhealthy_node.since for unhealthy_node in self._patients.values())
        first, most = 0, 0
        for last, onset in enumerate(onsets):
            while onset - onsets[first] > window:
                first += 1
            most = max(most, last - first + 1)
        return most
