"""Fleets for a whole demand: `separate` is the exact optimum for each group on its own, `greedy` mixes groups."""

from collections import Counter
from collections.abc import Iterable, Mapping

from .packing import Fleet, Order, Packing, Pattern

# The exact optimum is computed for so many pods of one group; more are bulk.
EXACT_PODS = 2_000


def shares(packing: Packing, demand: Mapping[int, int], apart: Fleet) -> dict[int, float]:
    """What one pod of each group costs when its group has machines of its own. `apart`: the result of `separate`."""
    costs: dict[int, float] = dict.fromkeys(demand, 0.0)
    for (index, pattern), count in apart.items():
        costs[pattern[0][0]] += packing.prices[index] * count
    return {group: costs[group] / pods for group, pods in demand.items()}


def by_size(packing: Packing, demand: Iterable[int]) -> Order:
    """Groups by how much of the largest machine one pod takes, large ones first."""

    def size(group: int) -> float:
        return max((amount / packing.largest[r] for r, amount in packing.requests[group]), default=0.0)

    return packing.order(sorted(demand, key=lambda group: (-size(group), group)))


def by_density(packing: Packing, demand: Iterable[int], worth: Mapping[int, float]) -> Order:
    """Groups by what one pod is worth for its resources, dense ones first. `worth`: the result of `shares`."""

    def density(group: int) -> float:
        return worth[group] / (sum(amount / packing.largest[r] for r, amount in packing.requests[group]) or 1e-9)

    return packing.order(sorted(demand, key=lambda group: (-density(group), group)))


def separate(packing: Packing, demand: Mapping[int, int]) -> Fleet:
    """The cheapest machines for each group on its own: exact, because pods of a group are equal."""
    fleet: Fleet = Counter()
    for group, pods in demand.items():
        sizes: dict[int, tuple[float, int]] = {}
        for index in range(len(packing.machines)):
            carried = packing.alone(index, group, pods)
            if carried:
                sizes[carried] = min(sizes.get(carried, (float("inf"), 0)), (packing.prices[index], index))
        for carried, index in _change(pods, sizes):
            fleet[index, ((group, carried),)] += 1
    return fleet


def greedy(packing: Packing, demand: Mapping[int, int], worth: Mapping[int, float], order: Order, end: int) -> Fleet:
    """Machine by machine, the one whose pods are worth most of its price; alike machines are taken at once.

    After so many steps of the packing the rest has machines as in `separate`.
    """
    remaining = {g: n for g, n in demand.items() if n > 0}
    fleet: Fleet = Counter()
    patterns: dict[int, tuple[float, Pattern]] = {}
    # The order of the groups that may run on a machine, for machines with the same ones.
    own: dict[frozenset[int], Order] = {}
    while remaining:
        if 2 * len(remaining) < len(order.groups):
            order = packing.order(group for group in order.groups if group in remaining)
            own.clear()
        if packing.steps > end:
            return fleet + separate(packing, remaining)
        best: tuple[float, float, int, Pattern] | None = None
        for index, machine in enumerate(packing.machines):
            if index not in patterns:
                if machine.groups not in own:
                    own[machine.groups] = packing.order(g for g in order.groups if g in machine.groups)
                own[machine.groups] = own[machine.groups].left(remaining)
                pattern = packing.fill(index, remaining, own[machine.groups])
                value = sum(worth[g] * n for g, n in pattern)
                patterns[index] = (value / (packing.prices[index] or 1e-9), pattern)
            ratio, pattern = patterns[index]
            if pattern:
                option = (-ratio, packing.prices[index], index, pattern)
                best = option if best is None or option < best else best
        if best is None:
            break
        _, _, index, pattern = best
        count = min(remaining[g] // n for g, n in pattern)
        fleet[index, pattern] += count
        for group, pods in pattern:
            remaining[group] -= pods * count
        remaining = {g: n for g, n in remaining.items() if n > 0}
        patterns = {i: one for i, one in patterns.items() if all(remaining.get(g, 0) >= n for g, n in one[1])}
    return fleet


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
