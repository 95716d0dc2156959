"""Counts of unhealthy Nodes over all keys: how many, how many at the same time, and the queue of due repairs.

Each pass updates its key. The queue has the order in which repairs became due. After a restart all unhealthy Nodes are
observed again before the first repair (`Policy.repair_watch_seconds`). Nodes whose signals replace no machine are not
counted.
"""

import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import msgspec

from controllers.model.conditions import was_usable
from controllers.model.facts import Unhealthy, UnhealthyCounts
from controllers.model.gpu_devices import requires_gpus
from controllers.model.ownership import managed
from controllers.model.policy import Policy
from controllers.model.recent_repairs import RepairStage
from controllers.model.reported import reported
from controllers.model.steps import Step, Wait
from provisioner.api import labels
from provisioner.api.conditions import DEPENDENTS, INITIALIZED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import kaito_owner
from provisioner.api.repair_policy import OF_GPUS, STARTING

from .indexes import Indexes, MachineState
from .repair_history import RepairHistory

# In place of the creation of a claim that is gone: no machine is newer.
LATEST = datetime.max.replace(tzinfo=UTC)


def repair_owner(claim: NodeClaim) -> str:
    """What creates another machine in place of this one: its NodePool, or its owner of KAITO; "" without one."""
    pool = claim.metadata.labels.get(labels.NODEPOOL, "")
    of_pool = f"NodePool {pool}" if pool not in ("", labels.DEFAULT_NODEPOOL) else ""
    return kaito_owner(claim) or of_pool


def _created(claim: NodeClaim, wall: datetime, now: float) -> float:
    """When the claim was created, as a loop time."""
    return now - (wall - claim.metadata.creation_timestamp).total_seconds()


class UnhealthyNode(msgspec.Struct):
    """`since`: of each group of signals that is present; `due`: since when its repair is due, None if it is not. Loop
    times in seconds. `replaces`: it is not only cordoned. `stage`: of a machine whose repair is suspended. `lasting`:
    the groups that count as a common cause for as long as they are present.
    """

    since: dict[str, float] = {}
    due: float | None = None
    blocked: bool = False
    replaces: bool = False
    stage: RepairStage | None = None
    lasting: frozenset[str] = frozenset()


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """`deleted_by_repair`: whether a claim is being replaced; `blocked_by_limits`: why limits block a due repair, "" if
    they do not.

    `suspended(policy, unhealthy, alike, in_turn, others)`: whether a machine is kept because `alike` such machines were
    replaced, `in_turn` of its owner one after the other, or because `others` are kept.
    """

    deleted_by_repair: Callable[[NodeClaim], bool]
    blocked_by_limits: Callable[[Policy, UnhealthyCounts], str]
    suspended: Callable[[Policy, Unhealthy, int, int, bool], bool]


def _all_at_once(unhealthy: Unhealthy, simultaneous: int, nodes: int) -> bool:
    """Whether it is every machine of several; those that were never usable have no pods to lose."""
    return simultaneous >= nodes > 1 and unhealthy.policy.signal not in STARTING


def _state(unhealthy: Unhealthy) -> MachineState:
    """That in which a machine became unhealthy."""
    return "launched" if unhealthy.policy.signal in STARTING else "usable"


class UnhealthyNodes:
    """Times are loop times in seconds. `history`: the repairs of the last days."""

    def __init__(self, *, indexes: Indexes, policy: Policy, rules: Rules) -> None:
        self.history = RepairHistory(policy.repair_history_seconds)
        self._indexes = indexes
        self._policy = policy
        self._rules = rules
        self._unhealthy: dict[str, UnhealthyNode] = {}
        # What `_at_once` computed since the signals of a Node changed last, by group.
        self._most: dict[str, int] = {}

    def update(
        self, key: str, unhealthy: Unhealthy | None, waiting: Step | None, wall: datetime, now: float
    ) -> UnhealthyCounts:
        """Record this key's Node; the counts for it. `waiting`: what its repair waits for, None if it is due."""
        self._record_success(key, unhealthy, wall, now)
        if unhealthy is None or not (unhealthy.acting or unhealthy.kept):
            self.forget(key)
            return UnhealthyCounts()
        node = self._unhealthy.setdefault(key, UnhealthyNode())
        since = {sight.group: sight.since for sight in unhealthy.sights if sight.group in unhealthy.acting} or {
            unhealthy.policy.group: unhealthy.since
        }
        if since != node.since:
            node.since = since
            self._most.clear()
        # A fleet that had the signal before it was looked at is no less a common cause.
        node.lasting = frozenset(sight.group for sight in unhealthy.sights if sight.some_gpus)
        node.replaces = unhealthy.replaces or unhealthy.kept
        if not node.replaces:
            node.due, node.blocked, node.stage = None, False, None
            return self._early_counts(unhealthy, now, suspended=False)
        suspended = self._is_suspended(key, unhealthy, wall, now)
        if suspended and (waiting is None or unhealthy.kept):
            node.due, node.blocked, node.stage = None, False, unhealthy.stage
        elif isinstance(waiting, Wait):
            node.due, node.blocked, node.stage = None, False, None
        elif waiting is None and node.due is None:
            node.due, node.stage = now, None
        # A Node whose repair needs a further read keeps its place.
        if waiting is not None or node.due is None:
            return self._early_counts(unhealthy, now, suspended=suspended)
        counts = self._counts(node.due, key, unhealthy, wall, now)
        node.blocked = bool(self._rules.blocked_by_limits(self._policy, counts))
        return counts

    def forget(self, key: str) -> None:
        """Drop this key."""
        if self._unhealthy.pop(key, None) is not None:
            self._most.clear()

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

    def _is_suspended(self, key: str, unhealthy: Unhealthy, wall: datetime, now: float) -> bool:
        stage, claim = unhealthy.stage, self._claim(key)
        if stage is None:
            return False
        owner, in_turn = repair_owner(claim) if claim is not None else "", 0
        if claim is not None:
            in_turn = self.history.in_turn(stage, owner, claim.uid, _created(claim, wall, now), now)
        others = stage.young and self._others_kept(key, stage, owner, wall)
        alike = self.history.alike(stage, owner, now)
        return self._rules.suspended(self._policy, unhealthy, alike, in_turn, others)

    def _others_kept(self, key: str, stage: RepairStage, owner: str, wall: datetime) -> bool:
        """Whether machines beside this one are kept for the same, and none works that was created after them."""
        kept = [other for other, node in self._unhealthy.items() if other != key and node.stage == stage]
        return bool(kept) and not self._works_after(kept, stage, owner, wall)

    def _works_after(self, keys: Iterable[str], stage: RepairStage, owner: str, wall: datetime) -> bool:
        """Whether a machine works that was created after those of these keys, which are kept: others have no part in
        what is wrong with these. After those of this owner, it has to be one of this owner.
        """
        newest = dict[str, datetime]()
        for claim in map(self._claim, keys):
            of = owner if claim is not None and repair_owner(claim) == owner else ""
            created = claim.metadata.creation_timestamp if claim is not None else LATEST
            newest[of] = max(created, newest.get(of, created))
        for claim in self._indexes.claims():
            after = [of for of, at in newest.items() if claim.metadata.creation_timestamp > at]
            shown = [of for of in after if of in ("", repair_owner(claim))]
            if shown and managed(claim) and self._works(claim, stage, wall):
                newest = {of: at for of, at in newest.items() if of not in shown}
            if not newest:
                return True
        return False

    def _works(self, claim: NodeClaim, stage: RepairStage, wall: datetime) -> bool:
        """Whether the machine is one of this size and image, usable, and old enough for what others failed by."""
        if claim.deleting or claim.condition(INITIALIZED, "True") is None:
            return False
        key, age = self._indexes.key_of(claim), (wall - claim.metadata.creation_timestamp).total_seconds()
        if claim.metadata.labels.get(labels.INSTANCE_TYPE, "") != stage.size or not self._proves(claim, stage):
            return False
        images = {one.metadata.labels.get(labels.AKS_IMAGE_VERSION, "") for one in self._indexes.nodes_of(key)}
        if not any(stage.has_image(image) for image in images):
            return False
        least = 0.0 if stage.stage in STARTING else self._policy.repair_young_seconds
        return age > least and (key not in self._unhealthy or stage.stage not in self._unhealthy[key].since)

    def _proves(self, claim: NodeClaim, stage: RepairStage) -> bool:
        """Whether a usable machine does not have what others failed by: one that may lack its GPUs shows nothing."""
        return stage.stage not in OF_GPUS or requires_gpus(self._policy, claim)

    def _early_counts(self, unhealthy: Unhealthy, now: float, *, suspended: bool) -> UnhealthyCounts:
        """The counts for a repair that is not due: whether it is suspended, and what a cordon depends on."""
        nodes, simultaneous = self._indexes.number_of(_state(unhealthy)), self._simultaneous(unhealthy)
        return UnhealthyCounts(
            nodes=nodes,
            simultaneous=simultaneous,
            all_at_once=_all_at_once(unhealthy, simultaneous, nodes),
            suspended=suspended,
            affected=self._affected(unhealthy, now),
        )

    def _counts(self, due: float, key: str, unhealthy: Unhealthy, wall: datetime, now: float) -> UnhealthyCounts:
        state = _state(unhealthy)
        nodes = self._indexes.number_of(state)
        replaced = [claim for claim in self._indexes.deleting(state) if self._rules.deleted_by_repair(claim)]
        # Starting machines are replaced because those deadlines have passed.
        overdue = [claim for claim in replaced if not set(DEPENDENTS).issuperset(reported(claim).overdue)]
        busy = {owner for claim in replaced if claim not in overdue and (owner := kaito_owner(claim))}
        place = 1
        for before, other in sorted(
            (node.due, other) for other, node in self._unhealthy.items() if node.due is not None
        ):
            if (before, other) >= (due, key):
                break
            # A machine does not count if another repair of the same owner goes first.
            owner = self._owner(other)
            if owner not in busy:
                place += 1
                busy |= {owner} - {""}
        own, simultaneous = self._owner(key), self._simultaneous(unhealthy)
        return UnhealthyCounts(
            nodes=nodes,
            unhealthy=sum(node.replaces for node in self._unhealthy.values()),
            simultaneous=simultaneous,
            all_at_once=_all_at_once(unhealthy, simultaneous, nodes),
            going=len(replaced) - len(overdue),
            overdue=len(overdue),
            place=place,
            serves=unhealthy.serves,
            owner=own if own in busy else "",
            affected=self._affected(unhealthy, now),
            successor=self._successor(key, unhealthy, wall, now),
        )

    def _affected(self, unhealthy: Unhealthy, now: float) -> int:
        """The most machines that had signals of one of its groups within a day, those included that were replaced."""
        if not unhealthy.serves or unhealthy.allowed:
            return 0
        began = now - self._policy.repair_rollout_seconds
        return max((self._affected_by(group, began, now) for group in unhealthy.acting), default=0)

    def _affected_by(self, group: str, began: float, now: float) -> int:
        uids = set(self.history.of_group(group, began, now))
        for key, node in self._unhealthy.items():
            if node.since.get(group, -math.inf) >= began or group in node.lasting:
                uids |= {claim.uid for claim in self._indexes.claims_of(key)[:1]}
        return len(uids)

    def _successor(self, key: str, unhealthy: Unhealthy, wall: datetime, now: float) -> str:
        """The owner whose last replacement for signals of this group is not Ready; "" if there is none."""
        own = self._claim(key)
        owner = repair_owner(own) if own is not None else ""
        last = self.history.last(unhealthy.policy.group, owner, now) if owner else None
        if (
            last is None
            or unhealthy.allowed
            or not unhealthy.serves
            or now - last > self._policy.repair_rollout_seconds
        ):
            return ""
        after = [
            claim
            for claim in self._indexes.claims()
            if managed(claim) and repair_owner(claim) == owner and _created(claim, wall, now) >= last - 1.0
        ]
        # A machine that was created since then does not wait for itself.
        if any(was_usable(claim) or claim is own for claim in after):
            return ""
        coming = any(not claim.deleting for claim in after)
        return owner if coming or now - last < self._policy.repair_successor_seconds else ""

    def _record_success(self, key: str, unhealthy: Unhealthy | None, wall: datetime, now: float) -> None:
        """A machine that is usable, and old enough for what others failed by, ends a row of failures before it."""
        claim = self._claim(key)
        if claim is None or claim.deleting or claim.condition(INITIALIZED, "True") is None:
            return
        created, size = _created(claim, wall, now), claim.metadata.labels.get(labels.INSTANCE_TYPE, "")
        owner, acting = repair_owner(claim), unhealthy.acting if unhealthy is not None else ()
        images = [node.metadata.labels.get(labels.AKS_IMAGE_VERSION, "") for node in self._indexes.nodes_of(key)]

        def shows(stage: RepairStage) -> bool:
            is_one = stage.size == size and any(map(stage.has_image, images))
            return is_one and self._proves(claim, stage) and stage.stage not in acting

        self.history.works(claim.uid, owner, created, now, shows)
        for stage in self.history.young_stages():
            age = 0.0 if stage.stage in STARTING else self._policy.repair_young_seconds
            if now - created > age and shows(stage):
                self.history.usable(stage, owner, created, now)

    def _claim(self, key: str) -> NodeClaim | None:
        return next((one for one in self._indexes.claims_of(key) if managed(one)), None)

    def _owner(self, key: str) -> str:
        """The owner of KAITO of this key's claim, "" without one."""
        claim = self._claim(key)
        return kaito_owner(claim) if claim is not None else ""

    def _simultaneous(self, unhealthy: Unhealthy) -> int:
        """The most Nodes that got signals of one of its groups within one window and still have one."""
        return max((self._at_once(group) for group in {unhealthy.policy.group, *unhealthy.acting}), default=0)

    def _at_once(self, group: str) -> int:
        if group not in self._most:
            self._most[group] = self._count_at_once(group)
        return self._most[group]

    def _count_at_once(self, group: str) -> int:
        window = self._policy.repair_simultaneous_seconds
        onsets = sorted(since for node in self._unhealthy.values() if (since := node.since.get(group)) is not None)
        first, most = 0, 0
        for last, onset in enumerate(onsets):
            while onset - onsets[first] > window:
                first += 1
            most = max(most, last - first + 1)
        return most
