"""The cheapest multiset of machines that covers a demand: a bin covering problem with machines of many sizes.

`Packing` builds fleets: `separate` has the exact optimum for each group of identical pods on its own, `greedy` mixes
groups. `search` chooses among them and improves the result. All steps are deterministic.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from .requirements import Requirements

# A pattern: how many pods of which group are on one machine, sorted by group.
Pattern = tuple[tuple[int, int], ...]
# How many machines of which kind (candidate, pattern).
Fleet = Counter[tuple[int, Pattern]]

# The exact optimum is computed for so many pods of one group; more are bulk.
EXACT_PODS = 2_000


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate as numbers. `free` is indexed by resource. `groups`: indices of the groups that may run on it.

    `anchors`: the groups for which it may be bought; the others may only join them.

    `open`: per group, the labels whose value the group would fix, as value sets. `uses`: what it counts towards limits.
    """

    price: float
    free: tuple[int, ...]
    groups: frozenset[int]
    anchors: frozenset[int]
    open: Mapping[int, Requirements]
    uses: Mapping[tuple[str, str], int]


class Rank(NamedTuple):
    """The order of results: least price, then fewest machines, then least sum of resources, then names."""

    price: float
    machines: int
    names: tuple[tuple[int, Pattern, int], ...]


class Packing:
    """One packing problem.

    `requests`: for each group (resource index, amount) pairs. `room(pattern, group)`: how many units of the group may
    join the pattern, resources aside; it is called for the groups in `interacting` only. `agrees(machine, groups)`:
    whether the groups agree on the open labels of a machine.
    """

    def __init__(
        self,
        *,
        machines: Sequence[Machine],
        requests: Sequence[tuple[tuple[int, int], ...]],
        room: Callable[[Mapping[int, int], int], int],
        interacting: frozenset[int],
        agrees: Callable[[int, Iterable[int]], bool],
    ) -> None:
        self.machines = machines
        self._requests = requests
        self._room = room
        self.interacting = interacting
        self._agrees = agrees
        self.prices = [machine.price for machine in machines]
        self._cheapest: dict[Pattern, tuple[float, int] | None] = {}
        self._least: dict[int, float] = {}
        # The best fleets of parts of the demand, as far as the search has found them.
        self.solved: dict[Pattern, Fleet | None] = {}
        columns = zip(*(machine.free for machine in machines), strict=True)
        self._largest = [max(column) or 1 for column in columns]

    def set_prices(self, surcharge: Callable[[Machine], float]) -> None:
        """Search with these surcharges on the prices of the machines from now on."""
        self.prices = [machine.price + surcharge(machine) for machine in self.machines]
        self._cheapest.clear()
        self._least.clear()
        self.solved.clear()

    def rank(self, fleet: Fleet) -> Rank:
        """Sorts fleets, the best one first."""
        price = sum(self.prices[index] * count for (index, _), count in fleet.items())
        names = tuple(sorted((index, pattern, count) for (index, pattern), count in fleet.items()))
        return Rank(round(price, 6), fleet.total(), names)

    def least_price(self, pattern: Pattern) -> float:
        """A lower bound of the price for the pods of a pattern: each takes its largest share of the best machine."""
        for group, _ in pattern:
            if group not in self._least:
                self._least[group] = min(
                    price * max((a / m.free[r] if m.free[r] else 1.0 for r, a in self._requests[group]), default=0.0)
                    for price, m in zip(self.prices, self.machines, strict=True)
                    if group in m.groups
                )
        return sum(self._least[group] * pods for group, pods in pattern)

    def cheapest(self, pattern: Pattern) -> int | None:
        """The cheapest machine that takes a pattern, None if none does."""
        if pattern not in self._cheapest:
            found = min(
                ((self.prices[index], index) for index in range(len(self.machines)) if self.takes(index, pattern)),
                default=None,
            )
            self._cheapest[pattern] = found
        best = self._cheapest[pattern]
        return None if best is None else best[1]

    def takes(self, index: int, pattern: Pattern) -> bool:
        """Whether a machine takes all pods of a pattern."""
        machine = self.machines[index]
        if any(group not in machine.groups for group, _ in pattern) or not any(
            g in machine.anchors for g, _ in pattern
        ):
            return False
        free = list(machine.free)
        for group, pods in pattern:
            for resource, amount in self._requests[group]:
                free[resource] -= amount * pods
                if free[resource] < 0:
                    return False
        if machine.open and not self._agrees(index, [group for group, _ in pattern]):
            return False
        return self._may_share(pattern)

    def _may_share(self, pattern: Pattern) -> bool:
        if not any(group in self.interacting for group, _ in pattern):
            return True
        # Each order of joining must be possible, so the last pod of each group is looked at.
        counts = dict(pattern)
        for group, pods in pattern:
            others = {g: n for g, n in counts.items() if g != group}
            if self._room(others, group) < pods:
                return False
        return True

    def shares(self, demand: Mapping[int, int], separate: Fleet) -> dict[int, float]:
        """What one pod of each group costs when its group has machines of its own."""
        costs: dict[int, float] = dict.fromkeys(demand, 0.0)
        for (index, pattern), count in separate.items():
            costs[pattern[0][0]] += self.prices[index] * count
        return {group: costs[group] / pods for group, pods in demand.items()}

    def by_size(self, demand: Iterable[int]) -> list[int]:
        """Groups by how much of the largest machine one pod takes, large ones first."""
        return sorted(
            demand, key=lambda g: (-max((a / self._largest[r] for r, a in self._requests[g]), default=0.0), g)
        )

    def by_density(self, demand: Iterable[int], shares: Mapping[int, float]) -> list[int]:
        return sorted(
            demand,
            key=lambda g: (-shares[g] / (sum(a / self._largest[r] for r, a in self._requests[g]) or 1e-9), g),
        )

    def fill(self, index: int, demand: Mapping[int, int], order: Iterable[int]) -> Pattern:
        """One machine filled with the demand, group after group."""
        machine = self.machines[index]
        groups, free = machine.groups, list(machine.free)
        pattern: dict[int, int] = {}
        for group in self._anchored(machine, demand, order):
            pods = demand.get(group, 0)
            if pods <= 0 or group not in groups:
                continue
            for resource, amount in self._requests[group]:
                pods = min(pods, free[resource] // amount)
                if pods <= 0:
                    break
            if pods <= 0:
                continue
            if self.interacting and (group in self.interacting or not self.interacting.isdisjoint(pattern)):
                pods = self._sharing(pattern, group, pods)
                if pods <= 0:
                    continue
            if machine.open and not self._agrees(index, [*pattern, group]):
                continue
            pattern[group] = pods
            for resource, amount in self._requests[group]:
                free[resource] -= amount * pods
        return tuple(sorted(pattern.items()))

    @staticmethod
    def _anchored(machine: Machine, demand: Mapping[int, int], order: Iterable[int]) -> Iterable[int]:
        """The order, with the first possible anchor at its head; nothing without one."""
        groups = [*order]
        first = next((g for g in groups if g in machine.anchors and g in machine.groups and demand.get(g, 0) > 0), None)
        if first is None:
            return ()
        return groups if groups[0] == first else (first, *(g for g in groups if g != first))

    def _sharing(self, pattern: Mapping[int, int], group: int, pods: int) -> int:
        pods = min(pods, self._room(pattern, group))
        while pods > 0 and not self._may_share(tuple(sorted({**pattern, group: pods}.items()))):
            pods -= 1
        return pods

    def separate(self, demand: Mapping[int, int]) -> Fleet:
        """The cheapest machines for each group on its own: exact, because pods of a group are equal."""
        fleet: Fleet = Counter()
        for group, pods in demand.items():
            sizes: dict[int, tuple[float, int]] = {}
            for index, machine in enumerate(self.machines):
                if group in machine.groups:
                    filled = self.fill(index, {group: pods}, (group,))
                    if filled:
                        carried = filled[0][1]
                        sizes[carried] = min(sizes.get(carried, (float("inf"), 0)), (self.prices[index], index))
            for carried, index in _change(pods, sizes):
                fleet[index, ((group, carried),)] += 1
        return fleet

    def greedy(self, demand: Mapping[int, int], shares: Mapping[int, float], order: list[int]) -> Fleet:
        """Machine by machine, the one whose pods are worth most of its price; alike machines are taken at once."""
        remaining = {g: n for g, n in demand.items() if n > 0}
        fleet: Fleet = Counter()
        patterns: dict[int, tuple[float, Pattern]] = {}
        while remaining:
            best: tuple[float, float, int, Pattern] | None = None
            for index in range(len(self.machines)):
                if index not in patterns:
                    pattern = self.fill(index, remaining, order)
                    worth = sum(shares[g] * n for g, n in pattern)
                    patterns[index] = (worth / (self.prices[index] or 1e-9), pattern)
                ratio, pattern = patterns[index]
                if pattern:
                    option = (-ratio, self.prices[index], index, pattern)
                    best = option if best is None or option < best else best
            if best is None:
                break
            _, _, index, pattern = best
            count = min(remaining[g] // n for g, n in pattern)
            fleet[index, pattern] += count
            for group, pods in pattern:
                remaining[group] -= pods * count
            changed = {g for g, n in pattern if remaining[g] < n}
            remaining = {g: n for g, n in remaining.items() if n > 0}
            patterns = {
                i: entry
                for i, entry in patterns.items()
                if all(remaining.get(g, 0) >= n for g, n in entry[1]) and not changed & {g for g, _ in entry[1]}
            }
        return fleet


def pods_of(fleet: Fleet) -> int:
    """The units on all machines."""
    return sum(pods * count for (_, pattern), count in fleet.items() for _, pods in pattern)


def _change(pods: int, sizes: Mapping[int, tuple[float, int]]) -> list[tuple[int, int]]:
    """The cheapest machines for equal pods, as (pods, machine) pairs. `sizes`: price and machine by pods carried."""
    if not sizes:
        return []
    chosen: list[tuple[int, int]] = []
    if pods > EXACT_PODS:
        # A whole number of the machines with the least price a pod is optimal except for the last part.
        carried, (_, index) = min(sizes.items(), key=lambda item: (item[1][0] / item[0], item[1][1]))
        bulk = (pods - EXACT_PODS) // carried + 1
        chosen += [(carried, index)] * bulk
        pods -= carried * bulk
    best: list[tuple[float, int]] = [(0.0, 0)]
    last = [0]
    order = sorted(sizes.items(), key=lambda item: (-item[0], item[1]))
    for wanted in range(1, pods + 1):
        found, size = (float("inf"), 0), 0
        for carried, (price, _) in order:
            rest = best[max(0, wanted - carried)]
            option = (round(rest[0] + price, 9), rest[1] + 1)
            if option < found:
                found, size = option, carried
        best.append(found)
        last.append(size)
    while pods > 0:
        carried = last[pods]
        chosen.append((min(carried, pods), sizes[carried][1]))
        pods -= carried
    return chosen
