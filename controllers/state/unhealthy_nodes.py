"""Counts of unhealthy Nodes over all keys: how many, how many at the same time, and the queue of due repairs.

Each pass updates its key. The queue has the order in which repairs became due. After a restart all unhealthy Nodes are
observed again before the first repair (`Policy.repair_watch_seconds`). Nodes whose signals replace no machine are not
counted.
"""

from collections.abc import Callable

import msgspec

from controllers.model.conditions import launched, was_usable
from controllers.model.deadlines import is_overdue
from controllers.model.facts import Unhealthy, UnhealthyCounts
from controllers.model.ownership import managed
from controllers.model.policy import Policy
from controllers.model.recent_repairs import RepairStage
from controllers.model.steps import Step, Wait
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import kaito_owner
from provisioner.api.repair_policy import GPU_PARTIAL, NOT_INITIALIZED, NOT_REGISTERED, READINESS_TIMEOUT

from .indexes import Indexes
from .repair_history import RepairHistory


class UnhealthyNode(msgspec.Struct):
    """`since`: of each group of signals that is present; `due`: since when its repair is due, None if it is not. Loop
    times in seconds. `stage`: of a machine whose repair is suspended.
    """

    since: dict[str, float] = {}
    due: float | None = None
    blocked: bool = False
    stage: RepairStage | None = None


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """`deleted_by_repair`: whether a claim is being replaced; `blocked_by_limits`: why limits block a due repair, "" if
    they do not.

    `suspended(policy, unhealthy, alike, others)`: whether a machine is kept because `alike` such machines were
    replaced, or because `others` are kept.
    """

    deleted_by_repair: Callable[[NodeClaim], bool]
    blocked_by_limits: Callable[[Policy, UnhealthyCounts], str]
    suspended: Callable[[Policy, Unhealthy, int, bool], bool]


class UnhealthyNodes:
    """Times are loop times in seconds. `history`: the repairs of young machines."""

    def __init__(self, *, indexes: Indexes, policy: Policy, rules: Rules) -> None:
        self.history = RepairHistory(policy.repair_alike_seconds)
        self._indexes = indexes
        self._policy = policy
        self._rules = rules
        self._unhealthy: dict[str, UnhealthyNode] = {}

    def update(self, key: str, unhealthy: Unhealthy | None, waiting: Step | None, now: float) -> UnhealthyCounts:
        """Record this key's Node; the counts for it. `waiting`: what its repair waits for, None if it is due."""
        if unhealthy is None or not (unhealthy.replaces or unhealthy.kept):
            self._unhealthy.pop(key, None)
            return UnhealthyCounts()
        node = self._unhealthy.setdefault(key, UnhealthyNode())
        node.since = {sight.group: sight.since for sight in unhealthy.sights} or {
            unhealthy.policy.group: unhealthy.since
        }
        suspended = self._is_suspended(key, unhealthy, now)
        if suspended and (waiting is None or unhealthy.kept):
            node.due, node.blocked, node.stage = None, False, unhealthy.stage
        elif isinstance(waiting, Wait):
            node.due, node.blocked, node.stage = None, False, None
        elif waiting is None and node.due is None:
            node.due, node.stage = now, None
        # A Node whose repair needs a further read keeps its place.
        if waiting is not None or node.due is None:
            return self._early_counts(unhealthy, suspended)
        counts = self._counts(node.due, key, unhealthy)
        node.blocked = bool(self._rules.blocked_by_limits(self._policy, counts))
        return counts

    def forget(self, key: str) -> None:
        """Drop this key."""
        self._unhealthy.pop(key, None)

    def blocked(self) -> int:
        """The number of due repairs that the limits block."""
        return sum(node.blocked for node in self._unhealthy.values())

    def suspended(self) -> int:
        """The number of machines that are kept because others of their size and image failed in the same way."""
        return sum(node.stage is not None for node in self._unhealthy.values())

    def not_made(self) -> int:
        """The number of repairs that are due, that no limit blocks, and that are not made in a dry run."""
        due = sum(node.due is not None and not node.blocked for node in self._unhealthy.values())
        return due if self._policy.repair_dry_run else 0

    def _is_suspended(self, key: str, unhealthy: Unhealthy, now: float) -> bool:
        stage = unhealthy.stage
        if stage is None:
            return False
        others = any(node.stage == stage for other, node in self._unhealthy.items() if other != key)
        return self._rules.suspended(self._policy, unhealthy, self.history.alike(stage, now), others)

    def _early_counts(self, unhealthy: Unhealthy, suspended: bool) -> UnhealthyCounts:
        """The counts for a repair that is not due: whether it is suspended, and what a cordon depends on."""
        if unhealthy.policy.group != GPU_PARTIAL:
            return UnhealthyCounts(suspended=suspended)
        nodes, simultaneous = len(self._machines(unhealthy)), self._simultaneous(GPU_PARTIAL)
        return UnhealthyCounts(nodes=nodes, simultaneous=simultaneous, suspended=suspended)

    def _machines(self, unhealthy: Unhealthy) -> list[NodeClaim]:
        """The claims whose machines were in the state in which this one became unhealthy."""
        starting = unhealthy.policy.signal in (NOT_REGISTERED, NOT_INITIALIZED, READINESS_TIMEOUT)
        return [c for c in self._indexes.claims() if managed(c) and (was_usable(c) or (starting and launched(c)))]

    def _counts(self, due: float, key: str, unhealthy: Unhealthy) -> UnhealthyCounts:
        usable = self._machines(unhealthy)
        replaced = [claim for claim in usable if self._rules.deleted_by_repair(claim)]
        overdue = [claim for claim in replaced if any(is_overdue(one.message) for one in claim.status.conditions)]
        busy = {owner for claim in replaced if claim not in overdue and (owner := kaito_owner(claim))}
        place = 1
        for before, other in sorted(
            (node.due, other) for other, node in self._unhealthy.items() if node.due is not None
        ):
            if (before, other) >= (due, key):
                break
            # A repair that its owner delays lets others pass.
            owner = self._owner(other)
            if owner not in busy:
                place += 1
                busy |= {owner} - {""}
        own = self._owner(key)
        return UnhealthyCounts(
            nodes=len(usable),
            unhealthy=len(self._unhealthy),
            simultaneous=self._simultaneous(unhealthy.policy.group),
            going=len(replaced) - len(overdue),
            overdue=len(overdue),
            place=place,
            owner=own if own in busy else "",
        )

    def _owner(self, key: str) -> str:
        """The owner of KAITO of this key's claim, "" without one."""
        return next((kaito_owner(claim) for claim in self._indexes.claims_of(key) if managed(claim)), "")

    def _simultaneous(self, group: str) -> int:
        """The most Nodes that got signals of this group within one window and still have one."""
        window = self._policy.repair_simultaneous_seconds
        onsets = sorted(since for node in self._unhealthy.values() if (since := node.since.get(group)) is not None)
        first, most = 0, 0
        for last, onset in enumerate(onsets):
            while onset - onsets[first] > window:
                first += 1
            most = max(most, last - first + 1)
        return most
