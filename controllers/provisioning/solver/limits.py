"""Limits of NodePools, quotas, and the number of machines.

Limits are prices first (Lagrangian multipliers): the search is repeated with a growing surcharge on what is scarce
until the fleet is within the limits. If no fleet for all pods is, as many pods as possible are placed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from .fleets import by_size
from .packing import Fleet, Machine, Packing, Pattern, pods_of
from .search import search

Limits = Mapping[tuple[str, str], int]

# Surcharges on a machine that uses all of a limit, as parts of the highest price.
SURCHARGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
# How many fleets within the limits are improved, and by how many exchanges of one machine.
STARTS = 3
EXCHANGES = 20
# Nothing new is begun after so many steps of `Packing`, neither with surcharges nor from the fleets within the limits.
SEARCH_STEPS = 200_000


def cover(packing: Packing, demand: Mapping[int, int], limits: Limits, most: int | None) -> Fleet:
    """The best fleet for units by group within the limits; what it leaves out has no place.

    `limits`: what remains, by the keys of `Machine.uses`. `most`: how many machines there may be, None for any number.
    """
    placeable = {
        group: units
        for group, units in demand.items()
        if units and any(group in m.groups and m.anchors for m in packing.machines)
    }
    if not placeable:
        return Counter()
    fleet = search(packing, placeable)
    if not _exceeded(packing, fleet, limits, most):
        return fleet
    return _Scarcity(packing, placeable, limits, most).best(fleet)


def _exceeded(packing: Packing, fleet: Fleet, limits: Limits, most: int | None) -> list[tuple[str, str] | None]:
    """The limits that a fleet exceeds; None stands for the number of machines."""
    used: Counter[tuple[str, str]] = Counter()
    for (index, _), count in fleet.items():
        for key, amount in packing.machines[index].uses.items():
            used[key] += amount * count
    exceeded: list[tuple[str, str] | None] = [key for key, limit in limits.items() if used[key] > limit]
    if most is not None and fleet.total() > most:
        exceeded.append(None)
    return exceeded


class _Scarcity:
    """A packing problem whose best fleet exceeds the limits."""

    def __init__(self, packing: Packing, demand: Mapping[int, int], limits: Limits, most: int | None) -> None:
        self._packing = packing
        self._demand = demand
        self._limits = limits
        self._most = most
        self._large_first = by_size(packing, demand)
        self._small_first = packing.order(self._large_first.groups[::-1])
        self._uses = [[(key, n) for key, n in one.uses.items() if n and key in limits] for one in packing.machines]
        own = 1.0 / max(1, most) if most is not None else 0.0
        # The largest part of a limit that one machine uses.
        self._part = [max([own, *(n / max(1, limits[key]) for key, n in uses)]) or 1e-9 for uses in self._uses]

    def best(self, unlimited: Fleet) -> Fleet:
        """The cheapest fleet within the limits; if none takes all units, one that takes the most of them."""
        tried = [unlimited, *self._with_surcharges(unlimited)]
        found = [tried[-1], self._in_turn(tried)]
        self._packing.set_prices(lambda _: 0.0)
        if within := [one for one in found if not _exceeded(self._packing, one, self._limits, self._most)]:
            best = min(within, key=self._rank)
            if pods_of(best) == sum(self._demand.values()):
                return best
        alike = (self._alike(index) for index in range(len(self._packing.machines)))
        starts, end = list[Fleet](), self._packing.steps + SEARCH_STEPS
        for fleet in chain(tried[::-1], [Fleet()], alike):
            starts.append(self._filled_up(fleet))
            if self._packing.steps > end:
                break
        starts.sort(key=self._rank)
        return min((self._exchanged(fleet, end) for fleet in starts[:STARTS]), key=self._rank)

    def _rank(self, fleet: Fleet) -> tuple[int, object]:
        return -pods_of(fleet), self._packing.rank(fleet)

    def _with_surcharges(self, fleet: Fleet) -> list[Fleet]:
        """Fleets for growing surcharges on what is exceeded, up to the first one within the limits."""
        machines = self._packing.machines
        highest = max(machine.price for machine in machines) or 1.0
        surcharges: dict[tuple[str, str] | None, float] = {}
        tried: list[Fleet] = []
        end = self._packing.steps + SEARCH_STEPS

        def surcharge(machine: Machine) -> float:
            return sum(amount * (1 if key is None else machine.uses.get(key, 0)) for key, amount in surcharges.items())

        for part in SURCHARGES:
            if self._packing.steps > end and part != SURCHARGES[-1]:
                continue
            for key in _exceeded(self._packing, fleet, self._limits, self._most):
                largest = 1 if key is None else max(machine.uses.get(key, 0) for machine in machines) or 1
                surcharges[key] = part * highest / largest
            self._packing.set_prices(surcharge)
            fleet = search(self._packing, self._demand)
            tried.append(fleet)
            if not _exceeded(self._packing, fleet, self._limits, self._most):
                break
        return tried

    def _in_turn(self, fleets: Sequence[Fleet]) -> Fleet:
        """The machines of one fleet after the other while the limits allow them; the rest with the last surcharges.

        A surcharge alone replaces all machines that use a limit, or none of them.
        """
        remaining, left, kept = self._remaining(), dict(self._demand), Fleet()
        for fleet in fleets[:-1]:
            for index, pattern in sorted(fleet):
                allowed = remaining.fit(index), *(left[group] // units for group, units in pattern)
                if (count := min(fleet[index, pattern], *allowed)) > 0:
                    kept[index, pattern] += count
                    remaining.take(index, count)
                    for group, units in pattern:
                        left[group] -= units * count
        rest = {group: units for group, units in left.items() if units}
        return kept + search(self._packing, rest) if rest else kept

    def _exchanged(self, best: Fleet, end: int) -> Fleet:
        """A fleet within the limits, improved by exchanging single machines."""
        for _ in range(EXCHANGES):
            for kind in sorted(best):
                if self._packing.steps > end:
                    return best
                fewer = best.copy()
                fewer[kind] -= 1
                option = self._filled_up(+fewer)
                if self._rank(option) < self._rank(best):
                    best = option
                    break
            else:
                break
        return best

    def _alike(self, index: int) -> Fleet:
        """As many machines of one kind as the limits allow, small pods first."""
        remaining, left, fleet = self._remaining(), dict(self._demand), Fleet()
        while remaining.fit(index) > 0 and (pattern := self._packing.fill(index, left, self._small_first)):
            fleet[index, pattern] += 1
            remaining.take(index, 1)
            for group, units in pattern:
                left[group] -= units
        return fleet

    def _filled_up(self, fleet: Fleet) -> Fleet:
        """Machines of a fleet and further ones within the limits: most units for their part of the limits first."""
        remaining, left, kept = self._remaining(), dict(self._demand), Fleet()

        def take(index: int, pattern: Pattern, count: int) -> None:
            kept[index, pattern] += count
            remaining.take(index, count)
            for group, units in pattern:
                left[group] -= units * count

        def worth(index: int, pattern: Pattern) -> tuple[float, float]:
            return -sum(n for _, n in pattern) / self._part[index], self._packing.machines[index].price

        for index, pattern in sorted(fleet, key=lambda kind: (worth(*kind), kind)):
            count = min(fleet[index, pattern], remaining.fit(index))
            if count > 0:
                take(index, pattern, count)
        filled: dict[tuple[int, bool], tuple[tuple[float, float], int, Pattern]] = {}
        while True:
            self._packing.steps += len(self._packing.machines)
            for index in range(len(self._packing.machines)):
                possible = remaining.fit(index) > 0
                for reverse, order in enumerate((self._large_first, self._small_first)):
                    place = index, bool(reverse)
                    if not possible:
                        filled.pop(place, None)
                    elif place not in filled:
                        pattern = self._packing.fill(index, left, order)
                        filled[place] = worth(index, pattern), index, pattern
            options = [one for one in filled.values() if one[2]]
            if not options:
                return kept
            _, index, pattern = min(options)
            take(index, pattern, 1)
            filled = {p: one for p, one in filled.items() if all(left[g] >= n for g, n in one[2])}

    def _remaining(self) -> "_Remaining":
        return _Remaining(self._uses, dict(self._limits), self._most)


class _Remaining:
    """What remains of the limits. `uses`: what each machine uses of which limit, unless nothing."""

    def __init__(
        self,
        uses: Sequence[Sequence[tuple[tuple[str, str], int]]],
        limits: dict[tuple[str, str], int],
        most: int | None,
    ) -> None:
        self._uses = uses
        self._limits = limits
        self._most = most

    def fit(self, index: int) -> int:
        """How many machines of this kind the limits still allow."""
        found = 1_000_000 if self._most is None else self._most
        for key, amount in self._uses[index]:
            found = min(found, self._limits[key] // amount)
        return max(0, found)

    def take(self, index: int, count: int) -> None:
        """Count machines towards the limits."""
        for key, amount in self._uses[index]:
            self._limits[key] -= amount * count
        if self._most is not None:
            self._most -= count
