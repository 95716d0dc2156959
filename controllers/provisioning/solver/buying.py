"""Which machines to buy for pods: the packing problem in numbers, and its result in candidates again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from provisioner.api.value_sets import ValueSet

from .bitsets import bits, of
from .budget import Budget
from .candidates import Candidate
from .limits import cover
from .offers import Offers
from .packing import Machine, Packing
from .requirements import Requirements
from .sharing import Sharing
from .topology import Selection
from .work import Work

Purchase = tuple[Candidate, list[tuple[Work, int]]]


def purchases(
    works: Sequence[Work],
    weights: Sequence[int],
    offers: Offers,
    *,
    selection: Selection,
    budget: Budget,
) -> list[Purchase]:
    """The machines to buy, each with its pods, as (work, units) pairs.

    `weights`: for each work, the weight of the NodePools from which its machines are bought. A machine of another
    NodePool may take its pods only together with pods for which it is bought.
    """
    resources = sorted({name for work in works for name, amount in work.requests.items() if amount > 0})
    options = _undominated(_options(works, weights, offers), resources)
    if not options:
        return []
    by_weight = {weight: of(g for g, one in enumerate(weights) if one == weight) for weight in {*weights}}
    machines = [
        Machine(
            price=one.candidate.price,
            free=tuple(max(0, one.candidate.allocatable.get(name, 0)) for name in resources),
            groups=frozenset(bits(one.groups)),
            anchors=frozenset(bits(one.groups & by_weight[one.candidate.pool.weight])),
            open=one.open,
            uses=budget.uses(one.candidate),
        )
        for one in options
    ]

    def agrees(index: int, groups: Iterable[int]) -> bool:
        return _agree(options[index].candidate.requirements, [options[index].open.get(g, {}) for g in groups])

    packing = Packing(
        machines=machines,
        requests=[
            tuple((r, work.requests[name]) for r, name in enumerate(resources) if work.requests.get(name, 0) > 0)
            for work in works
        ],
        sharing=Sharing([(work.spec, work.view.topology) for work in works], [work.size for work in works], selection),
        agrees=agrees,
    )
    fleet = cover(packing, {g: len(work.units) for g, work in enumerate(works)}, budget.limits, budget.most)
    return [
        (options[index].candidate, [(works[g], count) for g, count in pattern])
        for (index, pattern), number in sorted(fleet.items())
        for _ in range(number)
    ]


class _Option(NamedTuple):
    """A candidate, the groups that may run on it as bits, those that fit an empty machine, and their open labels."""

    candidate: Candidate
    groups: int
    fitting: int
    open: Mapping[int, Requirements]


def _options(works: Sequence[Work], weights: Sequence[int], offers: Offers) -> Iterable[_Option]:
    """The candidates, cheapest first."""
    groups, fitting = [0] * len(offers.candidates), [0] * len(offers.candidates)
    opened: list[dict[int, Requirements]] = [{} for _ in offers.candidates]
    for g, (work, weight) in enumerate(zip(works, weights, strict=True)):
        found, each = offers.compatible(work.spec, work.view)
        roomy = offers.roomy(work.requests)
        for index in bits(found):
            if weight < offers.candidates[index].pool.weight:
                continue
            groups[index] |= 1 << g
            if roomy >> index & 1:
                fitting[index] |= 1 << g
            if each[index].open:
                opened[index][g] = each[index].open
    options = map(_Option, offers.candidates, groups, fitting, opened)
    return (one for one in options if one.candidate.pool.weight in weights)


def _undominated(options: Iterable[_Option], resources: Sequence[str]) -> list[_Option]:
    """The options worth comparing: none that another one of its NodePool beats in price, room and pods."""
    kept: list[_Option] = []
    for option in options:
        if option.fitting and not any(_dominates(better, option, resources) for better in kept):
            kept.append(option)
    return kept


def _dominates(better: _Option, worse: _Option, resources: Iterable[str]) -> bool:
    """Options come in the order of prices, so an earlier one is never dearer."""
    one, other = better.candidate, worse.candidate
    if one.pool is not other.pool or (one.pool.limits and one.type_name != other.type_name):
        return False
    if worse.fitting & ~better.groups:
        return False
    if (better.open or worse.open) and any(better.open.get(g) != worse.open.get(g) for g in bits(worse.fitting)):
        return False
    return all(one.allocatable.get(name, 0) >= other.allocatable.get(name, 0) for name in resources)


def _agree(requirements: Requirements, parts: Iterable[Requirements]) -> bool:
    """Whether one value of each open label satisfies all parts."""
    agreed = dict[str, ValueSet]()
    for part in parts:
        for key, wanted in part.items():
            before = agreed.get(key) or requirements.get(key)
            if before is not None and not before.intersects(wanted):
                return False
            agreed[key] = wanted if before is None else before.intersection(wanted)
    return True
