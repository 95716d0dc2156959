"""Reduces a plan that fails to a small one that fails in the same way.

Events go first, by fault and then by halves down to single ones (ddmin, Zeller, 2002), then whole features, then what
was drawn of Azure, machines and settings, then counts and durations. All passes repeat until none finds anything.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from .plan import NodePool, Plan, Workload
from .run import execute

MOST_RUNS = 200
OVERRIDES = ("facts", "policy", "nodes", "azure")
LISTS = ("events", "workloads", "claims")
SHORTEST_SECONDS = 60.0

Fails = Callable[[Plan], bool]


class Tried:
    """Which plans failed. `more` is False when `runs` plans were run or `expired()` is true."""

    def __init__(self, fails: Fails, *, runs: int, expired: Callable[[], bool]) -> None:
        self.runs = 0
        self._fails, self._most, self._expired = fails, runs, expired
        self._known: dict[bytes, bool] = {}

    @property
    def more(self) -> bool:
        return self.runs < self._most and not self._expired()

    def fails(self, plan: Plan) -> bool:
        """Whether the plan fails in the same way; False without a run if no more may be run."""
        key = msgspec.json.encode(plan)
        if key not in self._known:
            if not self.more:
                return False
            self.runs += 1
            self._known[key] = self._fails(plan)
        return self._known[key]


def shrink(
    plan: Plan, fails: Fails, *, runs: int = MOST_RUNS, expired: Callable[[], bool] = lambda: False
) -> tuple[Plan, int]:
    """The smallest plan found for which `fails` is true, as it is for `plan`, and the number of runs it took."""
    tried = Tried(fails, runs=runs, expired=expired)
    before = None
    while plan != before and tried.more:
        before = plan
        for step in (_kinds, _lists, _node_pools, _overrides, _amounts):
            plan = step(plan, tried)
    return plan, tried.runs


def same_failure(why: str) -> Fails:
    """Whether a plan fails with this `Outcome.why`."""
    return lambda plan: execute(plan).why == why


def _first(plan: Plan, candidates: Iterator[Plan], tried: Tried) -> Plan:
    """The first of the smaller plans that fails, or the plan itself."""
    return next((one for one in candidates if one != plan and tried.fails(one)), plan)


def _kinds(plan: Plan, tried: Tried) -> Plan:
    """Without all events of one fault."""
    for fault in dict.fromkeys(one.fault for one in plan.events):
        left = tuple(one for one in plan.events if one.fault != fault)
        plan = _first(plan, iter([_with(plan, events=left)]), tried)
    return plan


def _lists(plan: Plan, tried: Tried) -> Plan:
    """Without events, workloads and claims that do not matter."""
    for name in LISTS:

        def without(left: Sequence[Any], name: str = name, plan: Plan = plan) -> bool:
            return tried.fails(_with(plan, **{name: tuple(left)}))

        plan = _with(plan, **{name: tuple(_ddmin(getattr(plan, name), without))})
    return plan


def _ddmin(items: Sequence[Any], fails: Callable[[Sequence[Any]], bool]) -> Sequence[Any]:
    """A subsequence that fails, from which no single item can be left out."""
    size = len(items)
    while size:
        start = 0
        while start < len(items):
            left = [*items[:start], *items[start + size :]]
            if fails(left):
                items = left
            else:
                start += size
        size //= 2
    return items


def _node_pools(plan: Plan, tried: Tried) -> Plan:
    """Without one NodePool and the workloads that select it."""
    for one in plan.node_pools:
        pools = tuple(other for other in plan.node_pools if other.name != one.name)
        workloads = tuple(other for other in plan.workloads if other.node_pool != one.name)
        plan = _first(plan, iter([_with(plan, node_pools=pools, workloads=workloads)]), tried)
    return plan


def _overrides(plan: Plan, tried: Tried) -> Plan:
    """With the defaults of a whole group, or of one field, instead of what was drawn."""
    defaults = Plan(seed=plan.seed, faults_seconds=plan.faults_seconds)
    for name in OVERRIDES:
        if tried.fails(emptied := _with(plan, **{name: {}})):
            plan = emptied
            continue
        for field in getattr(plan, name):
            left = {key: value for key, value in getattr(plan, name).items() if key != field}
            plan = _first(plan, iter([_with(plan, **{name: left})]), tried)
    for name in ("window", "lease"):
        plan = _first(plan, iter([_with(plan, **{name: getattr(defaults, name)})]), tried)
    return plan


def _amounts(plan: Plan, tried: Tried) -> Plan:
    """With fewer machines and pods and with shorter faults; each amount is halved as often as the plan still fails."""
    for name, smaller in (("node_pools", _smaller_node_pools), ("workloads", _smaller_workloads)):
        for position in range(len(getattr(plan, name))):
            plan = _halved(plan, name, position, smaller, tried)
    for position in range(len(plan.events)):
        plan = _halved(plan, "events", position, _shorter, tried)
    while (half := _with(plan, faults_seconds=_shorter_phase(plan))) != plan and tried.fails(half):
        plan = half
    return plan


def _halved(plan: Plan, name: str, position: int, smaller: Callable[[Any], Iterator[Any]], tried: Tried) -> Plan:
    while True:
        items = getattr(plan, name)
        found = (
            _with(plan, **{name: (*items[:position], one, *items[position + 1 :])}) for one in smaller(items[position])
        )
        if (less := _first(plan, found, tried)) == plan:
            return plan
        plan = less


def _smaller_node_pools(one: NodePool) -> Iterator[NodePool]:
    plain = NodePool(name=one.name, sizes=one.sizes[:1])
    yield plain
    for field in ("capacity", "replicas", "budget", "policy", "after"):
        yield _with(one, **{field: getattr(plain, field)})
    yield _with(one, sizes=one.sizes[: (len(one.sizes) + 1) // 2])
    yield _with(one, replicas=one.replicas and (one.replicas + 1) // 2)


def _smaller_workloads(one: Workload) -> Iterator[Workload]:
    plain = Workload(at=one.at, name=one.name, node_pool=one.node_pool)
    yield plain
    for field in ("kind", "gpus", "seconds", "gone_at", "spec"):
        yield _with(one, **{field: getattr(plain, field)})
    yield _with(one, count=(one.count + 1) // 2)


def _shorter(event: Any) -> Iterator[Any]:
    if event.seconds:
        yield _with(event, seconds=0.0)
        yield _with(event, seconds=round(event.seconds / 2, 1))


def _shorter_phase(plan: Plan) -> float:
    """Half of the phase of faults, or as long as its last event, workload or claim needs."""
    ends = [
        *(one.at + one.seconds for one in plan.events),
        *(max(one.at, one.gone_at) for one in plan.workloads),
        *(max(one.at, one.gone_at) for one in plan.claims),
    ]
    return min(plan.faults_seconds, max([SHORTEST_SECONDS, plan.faults_seconds / 2, *ends]))


def _with(thing: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(thing, **fields)
