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
IMPROVEMENT_STEPS = 100_000
SMALL_FLEET = 12


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
        options += [greedy(packing, demand, worth, order) for order in orders]
    return min((_improved(packing, option) for option in options), key=packing.rank)


def _exact(packing: Packing, demand: Mapping[int, int], most_states: int = EXACT_STATES) -> Fleet | None:
    """The cheapest partition of a small demand into machines; None if the demand is too large or has no cover."""
    groups = sorted(g for g, n in demand.items() if n)
    counts = [demand[g] for g in groups]
    states = 1
    for count in counts:
        states *= (count + 1) * (count + 2) // 2
        if states > most_states:
            return None
    best: dict[tuple[int, ...], tuple[float, int, tuple[int, Pattern] | None, tuple[int, ...]]] = {
        (0,) * len(groups): (0.0, 0, None, ())
    }
    for state in _vectors(counts):
        if state in best:
            continue
        first = next(i for i, n in enumerate(state) if n)
        found: tuple[float, int, tuple[int, Pattern] | None, tuple[int, ...]] | None = None
        for part in _vectors(state):
            packing.steps += 1
            if not part[first]:
                continue
            pattern = tuple((groups[i], n) for i, n in enumerate(part) if n)
            index = packing.cheapest(pattern)
            rest = best.get(tuple(a - b for a, b in zip(state, part, strict=True)))
            if index is None or rest is None:
                continue
            option = (round(rest[0] + packing.prices[index], 9), rest[1] + 1, (index, pattern), part)
            if found is None or option[:2] < found[:2]:
                found = option
        if found is not None:
            best[state] = found
    fleet: Fleet = Counter()
    state = tuple(counts)
    if state not in best:
        return None
    while any(state):
        _, _, kind, part = best[state]
        if kind is None:
            break
        fleet[kind] += 1
        state = tuple(a - b for a, b in zip(state, part, strict=True))
    return fleet


def _improved(packing: Packing, fleet: Fleet) -> Fleet:
    """The fleet after local search: cheaper machines for the same pods, and small parts solved anew."""
    fleet = _resized(packing, fleet)
    end = packing.steps + IMPROVEMENT_STEPS
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
            options = [apart, greedy(packing, demand, shares(packing, demand, apart), by_size(packing, demand))]
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
