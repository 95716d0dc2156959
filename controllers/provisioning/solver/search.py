"""The search for the cheapest fleet: exact for small demands, else the best of several constructions, improved.

The result never costs more than one machine for each pod. All steps are deterministic.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations_with_replacement, islice

from .fleets import by_density, by_size, greedy, separate, shares
from .packing import Fleet, Packing, Pattern, pods_of

# How many partial demands an exact solution compares at most, and how many parts of a fleet are solved anew.
EXACT_STATES = 20_000
PART_STATES = 1_000
ROUNDS = 40
PARTS = 400
# Of all constructions together, the cheapest one first, in steps of `Packing`.
IMPROVEMENT_STEPS = 200_000
# One construction may take one of so many parts of the steps that are left.
CONSTRUCTIONS = 2
SMALL_FLEET = 12
_MACHINES = 1 << 20
_NO_MACHINE = 1 << 120


def search(packing: Packing, demand: Mapping[int, int]) -> Fleet:
    """The cheapest fleet that was found for units by group; units that no machine takes are left out."""
    exact = _exact(packing, demand)
    if exact is not None:
        return exact
    apart = separate(packing, demand)
    options = [apart]
    if len(demand) > 1 or packing.sharing.interacting:
        worth = shares(packing, demand, apart)
        orders = by_size(packing, demand), by_density(packing, demand, worth)
        options += [greedy(packing, demand, worth, order, packing.part(CONSTRUCTIONS)) for order in orders]
    end = min(packing.steps + IMPROVEMENT_STEPS, packing.part(CONSTRUCTIONS))
    most = max(map(pods_of, options))
    options = sorted((one for one in options if pods_of(one) == most), key=packing.cost)
    return min((_improved(packing, option, end) for option in options), key=packing.rank)


def _exact(packing: Packing, demand: Mapping[int, int], most_states: int = EXACT_STATES) -> Fleet | None:
    """The cheapest partition of a small demand into machines; None if the demand is too large or has no cover.

    Each part of the demand has a number, in which the pods of each group are a digit, so that parts are subtracted as
    numbers. A cost is the price in units of 1e-9 USD, and the number of machines in the lowest bits.
    """
    groups = sorted(g for g, n in demand.items() if n)
    counts = [demand[g] for g in groups]
    states = 1
    for count in counts:
        states *= (count + 1) * (count + 2) // 2
        if states > most_states:
            return None
    packing.steps += states
    vectors = [*_vectors(counts)]
    patterns = [tuple((g, n) for g, n in zip(groups, vector, strict=True) if n) for vector in vectors]
    machines = [packing.cheapest(pattern) for pattern in patterns]
    prices = [_NO_MACHINE if m is None else round(packing.prices[m] * 1e9) * _MACHINES + 1 for m in machines]
    digits, size = list[int](), 1
    for count in reversed(counts):
        digits.insert(0, size)
        size *= count + 1
    costs, chosen = [0] * size, [0] * size
    for state in range(1, size):
        parts, first = [0], 1
        for digit, units in zip(digits, vectors[state], strict=True):
            if units:
                # The first group is part of each part, so that no partition is compared in two orders.
                parts = [part + digit * n for part in parts for n in range(first, units + 1)]
                first = 0
        options = [costs[state - part] + prices[part] for part in parts]
        costs[state] = min(options)
        chosen[state] = parts[options.index(costs[state])]
    if costs[-1] >= _NO_MACHINE:
        return None
    fleet: Fleet = Counter()
    state = size - 1
    while state:
        part = chosen[state]
        machine = machines[part]
        if machine is not None:
            fleet[machine, patterns[part]] += 1
        state -= part
    return fleet


def _improved(packing: Packing, fleet: Fleet, end: int) -> Fleet:
    """The fleet after local search: cheaper machines for the same pods, and small parts solved anew."""
    fleet = _resized(packing, fleet)
    for _ in range(ROUNDS):
        better = _resized(packing, _improvement(packing, fleet, end))
        if packing.cost(better) >= packing.cost(fleet):
            break
        fleet = better
    return fleet


def _resized(packing: Packing, fleet: Fleet) -> Fleet:
    resized: Fleet = Counter()
    for (index, pattern), count in fleet.items():
        best = packing.cheapest(pattern)
        resized[index if best is None else best, pattern] += count
    return resized


def _improvement(packing: Packing, fleet: Fleet, end: int) -> Fleet:
    """The fleet with small parts replaced whose own best solution is cheaper, or has fewer machines at that price."""
    least = {kind: packing.least_price(kind[1]) for kind in fleet}
    # Machines whose price is far above what their pods cost at least come first.
    kinds = sorted(fleet, key=lambda kind: (least[kind] / (packing.prices[kind[0]] or 1e-9), kind))
    whole = [[kind for kind in kinds for _ in range(fleet[kind])]] if 0 < fleet.total() <= SMALL_FLEET else []
    pairs = combinations_with_replacement(kinds, 2)
    apart = ([one, other] for one, other in pairs if fleet[one] > (one == other))
    parts = chain(whole, ([kind] for kind in kinds), apart)
    better = fleet.copy()
    for part in islice(parts, PARTS):
        if packing.steps > end:
            break
        before: Fleet = Counter(part)
        times = min(better[kind] // count for kind, count in before.items())
        price, _ = packing.cost(before)
        if times <= 0 or (len(part) == 1 and price <= sum(least[kind] for kind in part) + 1e-9):
            continue
        demand: Counter[int] = Counter()
        for _, pattern in part:
            for group, pods in pattern:
                demand[group] += pods
        solved = _solved(packing, tuple(sorted(demand.items())))
        if solved is not None and packing.cost(solved) < packing.cost(before):
            for kind, count in before.items():
                better[kind] -= count * times
            for kind, count in solved.items():
                better[kind] += count * times
    return +better


def _solved(packing: Packing, part: Pattern) -> Fleet | None:
    """The best fleet for a part of the demand; None if none was found."""
    if part not in packing.solved:
        demand = dict(part)
        found = _exact(packing, demand, PART_STATES)
        if found is None:
            apart = separate(packing, demand)
            end = packing.part(CONSTRUCTIONS)
            options = [apart, greedy(packing, demand, shares(packing, demand, apart), by_size(packing, demand), end)]
            covering = [one for one in options if pods_of(one) == sum(demand.values())]
            found = min(covering, key=packing.rank, default=None)
        packing.solved[part] = found
    return packing.solved[part]


def _vectors(most: Sequence[int]) -> Iterable[tuple[int, ...]]:
    """All vectors from zero up to `most`, in lexical order."""
    if not most:
        yield ()
        return
    for first in range(most[0] + 1):
        for rest in _vectors(most[1:]):
            yield (first, *rest)
