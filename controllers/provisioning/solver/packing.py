"""The packing problem: machines of many sizes and prices, and groups of equal pods, as numbers.

`Packing` answers what fits on one machine: `cheapest` for given pods, `fill` for as many as possible. Machines are bit
sets in the order of their prices, so that the cheapest machine for some pods is the lowest bit of an intersection.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from provisioner.api.requirements import Requirements

from .bitsets import AtLeast, bits
from .resources import UNLIMITED
from .sharing import Sharing

# A pattern: how many pods of which group are on one machine, sorted by group.
Pattern = tuple[tuple[int, int], ...]
# How many machines of which kind (candidate, pattern).
Fleet = Counter[tuple[int, Pattern]]
# Open labels are compared as value sets: so many times the cost of a group that is tried on a machine.
AGREE_STEPS = 10


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate as numbers. `free` is indexed by resource. `groups`: indices of the groups that may run on it.

    `anchors`: the groups for which it may be bought; the others may only join them. `anchored`: whether there are none.

    `open`: per group, the labels whose value the group would fix, as value sets. `uses`: what it counts towards limits.
    """

    price: float
    free: tuple[int, ...]
    groups: frozenset[int]
    anchors: frozenset[int]
    open: Mapping[int, Requirements]
    uses: Mapping[tuple[str, str], int]
    anchored: bool = False

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "anchored", self.anchors == self.groups)


class Rank(NamedTuple):
    """The order of results: least price, then fewest machines, then names."""

    price: float
    machines: int
    names: tuple[tuple[int, Pattern, int], ...]


class Order(NamedTuple):
    """Groups in the order in which a machine is filled. `least`: per position, the least request for each resource of
    this group and those after it.
    """

    groups: Sequence[int]
    least: Sequence[tuple[int, ...]]

    def left(self, demand: Container[int]) -> "Order":
        """The same order without the first groups that are not in the demand any more."""
        head = next((head for head, group in enumerate(self.groups) if group in demand), len(self.groups))
        return Order(self.groups[head:], self.least[head:]) if head else self


class Packing:
    """One packing problem.

    `requests`: for each group (resource index, amount) pairs. `agree(machine, agreed, group)`: the open labels of a
    machine on which a group agrees with those before it, None if it does not. `steps` counts the work that was done,
    so that a search can end without a clock, and `steps_of` the part that a group alone has caused; after `most_steps`
    nothing more fits, so that every search ends.
    """

    def __init__(
        self,
        *,
        machines: Sequence[Machine],
        requests: Sequence[tuple[tuple[int, int], ...]],
        sharing: Sharing,
        agree: Callable[[int, Requirements, int], Requirements | None],
        allows: Callable[[int, Pattern], bool],
        most_steps: int,
    ) -> None:
        self.machines = machines
        self.requests = requests
        self.sharing = sharing
        self._agree = agree
        self._allows = allows
        self._most_steps = most_steps
        self._cheapest: dict[Pattern, int | None] = {}
        self._alone: dict[tuple[int, int], int] = {}
        self._least: dict[int, float] = {}
        self.steps = 0
        self.steps_of: Counter[int] = Counter()
        # The best fleets of parts of the demand, as far as the search has found them.
        self.solved: dict[Pattern, Fleet | None] = {}
        self.largest = [max(column) or 1 for column in zip(*(machine.free for machine in machines), strict=True)]
        self.set_prices(lambda _: 0.0)

    @property
    def ended(self) -> bool:
        """Whether more than `most_steps` were made."""
        return self.steps > self._most_steps

    def part(self, parts: int) -> int:
        """The steps after which something ends that may take one of so many parts of those that are left."""
        return self.steps + max(0, self._most_steps - self.steps) // parts

    def set_prices(self, surcharge: Callable[[Machine], float]) -> None:
        """Search with these surcharges on the prices of the machines from now on."""
        self.prices = [machine.price + surcharge(machine) for machine in self.machines]
        self._cheapest.clear()
        self._least.clear()
        self.solved.clear()
        self._sort()

    def _sort(self) -> None:
        """The machines by price, and as bit sets: those that may run or anchor a group, those with enough room."""
        self._order = sorted(range(len(self.machines)), key=lambda index: (self.prices[index], index))
        ordered = [self.machines[index] for index in self._order]
        self._runs, self._anchors = [0] * len(self.requests), [0] * len(self.requests)
        for position, machine in enumerate(ordered):
            bit = 1 << position
            for group in machine.groups:
                self._runs[group] |= bit
            for group in machine.anchors:
                self._anchors[group] |= bit
        self._roomy = [AtLeast([m.free[resource] for m in ordered]) for resource in range(len(self.largest))]

    def rank(self, fleet: Fleet) -> Rank:
        """Sorts fleets, the best one first."""
        names = tuple(sorted((index, pattern, count) for (index, pattern), count in fleet.items()))
        return Rank(*self.cost(fleet), names)

    def cost(self, fleet: Fleet) -> tuple[float, int]:
        """Price and number of machines."""
        price = sum(self.prices[index] * count for (index, _), count in fleet.items())
        return round(price, 6), fleet.total()

    def least_price(self, pattern: Pattern) -> float:
        """A lower bound of the price for the pods of a pattern: each takes its largest share of the best machine."""
        for group, _ in pattern:
            if group not in self._least:
                self._least[group] = min(
                    price * max((a / m.free[r] if m.free[r] else 1.0 for r, a in self.requests[group]), default=0.0)
                    for price, m in zip(self.prices, self.machines, strict=True)
                    if group in m.groups
                )
        return sum(self._least[group] * pods for group, pods in pattern)

    def cheapest(self, pattern: Pattern) -> int | None:
        """The cheapest machine that takes a pattern, None if none does."""
        if pattern not in self._cheapest:
            self._cheapest[pattern] = self._find(pattern)
        return self._cheapest[pattern]

    def _find(self, pattern: Pattern) -> int | None:
        found, anchored = -1, 0
        totals = [0] * len(self.largest)
        for group, units in pattern:
            found &= self._runs[group]
            anchored |= self._anchors[group]
            for resource, amount in self.requests[group]:
                totals[resource] += amount * units
        found &= anchored
        for roomy, total in zip(self._roomy, totals, strict=True):
            found &= roomy.of(total)
        if not found or (self.sharing.interacting and not self.sharing.allows(dict(pattern))):
            return None
        for position in bits(found):
            index = self._order[position]
            if self._agreed(index, pattern) and self._allows(index, pattern):
                return index
        return None

    def _agreed(self, index: int, pattern: Pattern) -> bool:
        """Whether the groups of a pattern agree on the open labels of a machine."""
        agreed: Requirements = {}
        for group, _ in pattern:
            joined = self._joined(index, agreed, group)
            if joined is None:
                return False
            agreed = joined
        return True

    def _joined(self, index: int, agreed: Requirements, group: int) -> Requirements | None:
        if group not in self.machines[index].open:
            return agreed
        self.steps += AGREE_STEPS
        self.steps_of[group] += AGREE_STEPS
        return self._agree(index, agreed, group)

    def order(self, groups: Iterable[int]) -> Order:
        """An order in which machines are filled."""
        ordered = [*groups]
        least: list[tuple[int, ...]] = []
        so_far = [1 << 80] * len(self.largest)
        for group in reversed(ordered):
            requested = dict(self.requests[group])
            so_far = [min(amount, requested.get(resource, 0)) for resource, amount in enumerate(so_far)]
            least.append(tuple(so_far))
        return Order(ordered, least[::-1])

    def fill(self, index: int, demand: Mapping[int, int], order: Order) -> Pattern:
        """One machine filled with the demand, group after group; empty after `most_steps`."""
        if self.ended:
            return ()
        machine = self.machines[index]
        groups, free, interacting = machine.groups, [*machine.free], self.sharing.interacting
        pattern: dict[int, int] = {}
        agreed: Requirements = {}
        present, counted = 0, self.sharing.empty()
        anchored, position = self._anchored(machine, demand, order), 0
        for position, group in enumerate(anchored.groups):
            pods = demand.get(group, 0)
            if not pods or group not in groups:
                continue
            for resource, amount in self.requests[group]:
                if free[resource] < amount * pods:
                    pods = free[resource] // amount
                    if not pods:
                        break
            if not pods:
                continue
            if group in interacting:
                pods = min(pods, self.sharing.room(counted, present, group))
                if not pods:
                    continue
            pods = self._allowed(index, pattern, group, pods)
            joined = self._joined(index, agreed, group) if pods else None
            if joined is None:
                continue
            agreed = joined
            pattern[group] = pods
            if interacting:
                present |= 1 << group
                self.sharing.add(counted, group, pods)
            for resource, amount in self.requests[group]:
                free[resource] -= amount * pods
            after = position + 1
            if after < len(anchored.least) and any(map(int.__lt__, free, anchored.least[after])):
                break
        self.steps += position + 1
        return tuple(sorted(pattern.items()))

    def _allowed(self, index: int, pattern: Mapping[int, int], group: int, pods: int) -> int:
        """How many pods of a group, up to `pods`, a machine takes besides others that it has."""

        def allows(number: int) -> bool:
            return self._allows(index, tuple(sorted({**pattern, group: number}.items())))

        if allows(pods):
            return pods
        return bisect_left(range(1, pods), True, key=lambda number: not allows(number))

    def _anchored(self, machine: Machine, demand: Mapping[int, int], order: Order) -> Order:
        """The order, with the first possible anchor at its head; nothing without one."""
        if machine.anchored:
            return order
        possible = machine.anchors & machine.groups
        first = next((g for g in order.groups if g in possible and demand.get(g, 0) > 0), None)
        if first is None:
            return Order((), ())
        return Order((first, *(g for g in order.groups if g != first)), ())

    def alone(self, index: int, group: int, pods: int) -> int:
        """How many pods of one group a machine takes without others."""
        if (index, group) not in self._alone:
            filled = self.fill(index, {group: UNLIMITED}, Order((group,), ()))
            self._alone[index, group] = filled[0][1] if filled else 0
        return min(pods, self._alone[index, group])


def pods_of(fleet: Fleet) -> int:
    """The units on all machines."""
    return sum(pods * count for (_, pattern), count in fleet.items() for _, pods in pattern)
