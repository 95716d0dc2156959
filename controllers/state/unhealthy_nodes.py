"""Counts of unhealthy Nodes over all keys: how many, how many at the same time, and the queue of due repairs.

Each pass updates its key. The queue has the order in which repairs became due. After a restart all unhealthy Nodes are
observed again before the first repair (`Policy.repair_watch_seconds`).
"""

from collections.abc import Callable

import msgspec

from controllers.model.conditions import was_usable
from controllers.model.deadlines import is_overdue
from controllers.model.facts import Unhealthy, UnhealthyCounts
from controllers.model.ownership import managed
from controllers.model.policy import Policy
from controllers.model.steps import Step, Wait
from provisioner.api.nodeclaim import NodeClaim

from .indexes import Indexes


class UnhealthyNode(msgspec.Struct):
    """`since`: not Ready; `due`: since when its repair is due, None if it is not. Loop times in seconds."""

    since: float
    due: float | None = None
    blocked: bool = False


class UnhealthyNodes:
    """Times are loop times in seconds.

    `deleted_by_repair`: whether a claim is being replaced; `blocked_by_limits`: why limits block a due repair, or "".
    """

    def __init__(
        self,
        *,
        indexes: Indexes,
        policy: Policy,
        deleted_by_repair: Callable[[NodeClaim], bool],
        blocked_by_limits: Callable[[Policy, UnhealthyCounts], str],
    ) -> None:
        self._indexes = indexes
        self._policy = policy
        self._deleted_by_repair = deleted_by_repair
        self._blocked_by_limits = blocked_by_limits
        self._unhealthy: dict[str, UnhealthyNode] = {}

    def update(self, key: str, unhealthy: Unhealthy | None, waiting: Step | None, now: float) -> UnhealthyCounts:
        """Record this key's Node; the counts for it. `waiting`: what its repair waits for, None if it is due."""
        if unhealthy is None:
            self._unhealthy.pop(key, None)
            return UnhealthyCounts()
        node = self._unhealthy.setdefault(key, UnhealthyNode(since=0.0))
        node.since = unhealthy.since
        if isinstance(waiting, Wait):
            node.due, node.blocked = None, False
        elif waiting is None and node.due is None:
            node.due = now
        # A Node whose repair needs a further read keeps its place.
        if waiting is not None or node.due is None:
            return UnhealthyCounts()
        counts = self._counts(node.due, key)
        node.blocked = bool(self._blocked_by_limits(self._policy, counts))
        return counts

    def forget(self, key: str) -> None:
        """Drop this key."""
        self._unhealthy.pop(key, None)

    def blocked(self) -> int:
        """The number of due repairs that the limits block."""
        return sum(node.blocked for node in self._unhealthy.values())

    def _counts(self, due: float, key: str) -> UnhealthyCounts:
        usable = [claim for claim in self._indexes.claims() if managed(claim) and was_usable(claim)]
        queue = [(node.due, other) for other, node in self._unhealthy.items() if node.due is not None]
        replaced = [claim for claim in usable if self._deleted_by_repair(claim)]
        overdue = sum(any(is_overdue(one.message) for one in claim.status.conditions) for claim in replaced)
        return UnhealthyCounts(
            nodes=len(usable),
            unhealthy=len(self._unhealthy),
            simultaneous=self._simultaneous(),
            going=len(replaced) - overdue,
            overdue=overdue,
            place=1 + sum(before < (due, key) for before in queue),
        )

    def _simultaneous(self) -> int:
        """The most Nodes that became unhealthy within one window and still are."""
        window = self._policy.repair_simultaneous_seconds
        onsets = sorted(node.since for node in self._unhealthy.values())
        first, most = 0, 0
        for last, onset in enumerate(onsets):
            while onset - onsets[first] > window:
                first += 1
            most = max(most, last - first + 1)
        return most
