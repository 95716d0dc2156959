"""Which machines to buy for pods: the packing problem in numbers, and its result in candidates again."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import ge
from typing import NamedTuple

from provisioner.api.requirements import Requirements
from provisioner.api.value_sets import ValueSet

from .bitsets import bits, of
from .budget import Budget
from .candidates import Candidate
from .limits import cover
from .min_values import Choices
from .offers import Offers
from .packing import Machine, Packing, pods_of
from .selection import Selection
from .sharing import Part, Sharing
from .steps import GROUPS_A_STEP, TERMS_A_STEP, Steps
from .work import Work

# So many candidates are read, and so many pairs of them are compared, in one step.
CANDIDATES_A_STEP, PAIRS_A_STEP = 3, 4
# A purchase that takes so few steps to read the candidates is possible without any left, so that pods that have their
# domain have their machine, too.
STEPS_BEYOND = 1_000
# The part of the steps that are left which one packing may take.
PACKING_SHARE = 0.75
Purchase = tuple[Candidate, list[tuple[Work, int]]]


def purchases(
    demand: Sequence[Work],
    weighed: Sequence[int],
    offers: Offers,
    *,
    selection: Selection,
    budget: Budget,
    steps: Steps,
) -> list[Purchase]:
    """The machines to buy, each with its pods, as (work, units) pairs.

    `weighed`: for each work, the weight of the NodePools from which its machines are bought. A machine of another
    NodePool may take its pods only together with pods for which it is bought. None is bought if the
    steps that are left do not suffice to read many candidates.
    """
    read = len(offers.candidates) // CANDIDATES_A_STEP
    if read > max(steps.left, STEPS_BEYOND):
        steps.end()
        return []
    sharing = Sharing([_parts(work) for work in demand], selection)
    for number, compared in sharing.compared.items():
        steps.count(demand[number].spec, compared // TERMS_A_STEP)
    groups = _groups(demand, weighed, offers, sharing.interacting)
    works, weights = [demand[group[0]] for group in groups], [weighed[group[0]] for group in groups]
    resources = sorted({name for work in works for name, amount in work.requests.items() if amount > 0})
    options, pairs = _undominated(_options(works, weights, offers), resources, budget)
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

    def agree(index: int, agreed: Requirements, group: int) -> Requirements | None:
        return _agree(options[index].candidate.requirements, agreed, options[index].open[group])

    choices = Choices(works, offers)
    packing = Packing(
        machines=machines,
        requests=[
            tuple((r, work.requests[name]) for r, name in enumerate(resources) if work.requests.get(name, 0) > 0)
            for work in works
        ],
        sharing=Sharing([_parts(work) for work in works], selection),
        agree=agree,
        allows=lambda index, pattern: choices.leaves(options[index].candidate, pattern),
        most_steps=int(GROUPS_A_STEP * steps.left * PACKING_SHARE),
    )
    packing.steps += GROUPS_A_STEP * (read + pairs // PAIRS_A_STEP)
    units = {g: sum(len(demand[one].units) for one in group) for g, group in enumerate(groups)}
    fleet = cover(packing, units, budget.limits, budget.most)
    _count(steps, packing, [[demand[one] for one in group] for group in groups])
    if packing.ended and pods_of(fleet) < sum(units.values()):
        # Some of them may have no machine for this reason only.
        steps.end()
    left = [[(demand[one], len(demand[one].units)) for one in reversed(group)] for group in groups]
    return [
        (options[index].candidate, [part for g, count in pattern for part in _taken(left[g], count)])
        for (index, pattern), number in sorted(fleet.items())
        for _ in range(number)
    ]


def _count(steps: Steps, packing: Packing, groups: Sequence[Sequence[Work]]) -> None:
    """Count the steps of a packing: those that a group has caused for it, the others for all groups alike."""
    shared = (packing.steps - packing.steps_of.total()) / sum(map(len, groups))
    so_far = counted = 0.0
    for number, group in enumerate(groups):
        for work in group:
            so_far += shared + packing.steps_of[number] / len(group)
            steps.count(work.spec, added := int(so_far / GROUPS_A_STEP + 1e-6 - counted))
            counted += added


def _groups(
    works: Sequence[Work], weights: Sequence[int], offers: Offers, interacting: Collection[int]
) -> list[list[int]]:
    """The works, those together that the packing cannot tell apart: Deployments with constraints of their own."""
    groups: dict[Hashable, list[int]] = {}
    for number, (work, weight) in enumerate(zip(works, weights, strict=True)):
        key: Hashable = number
        if number not in interacting and not work.followers:
            opens = id(offers.opened(work.view)) if offers.opened(work.view) else 0
            key = weight, offers.compatible(work.spec, work.view), opens, frozenset(work.requests.items())
        groups.setdefault(key, []).append(number)
    return [*groups.values()]


def _taken(left: list[tuple[Work, int]], count: int) -> Iterator[tuple[Work, int]]:
    """So many units of the works of a group, from the end of the list, which is shortened by them."""
    while count:
        work, units = left.pop()
        if units > count:
            left.append((work, units - count))
        yield work, min(units, count)
        count -= min(units, count)


def _parts(work: Work) -> list[Part]:
    others = (Part(one.spec, one.view.topology, number) for one, number in work.followers)
    return [Part(work.spec, work.view.topology, work.size), *others]


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
        found, opens = offers.compatible(work.spec, work.view), offers.opened(work.view)
        for follower, _ in work.followers:
            found &= offers.compatible(follower.spec, follower.view)
        roomy = offers.roomy(work.requests)
        for index in bits(found):
            if weight < offers.candidates[index].pool.weight:
                continue
            groups[index] |= 1 << g
            if roomy >> index & 1:
                fitting[index] |= 1 << g
            if index in opens:
                opened[index][g] = opens[index]
    options = map(_Option, offers.candidates, groups, fitting, opened)
    return (one for one in options if one.candidate.pool.weight in weights)


def _undominated(options: Iterable[_Option], resources: Sequence[str], budget: Budget) -> tuple[list[_Option], int]:
    """The options to compare: within the limits, not beaten by one of its NodePool in price, room, pods and quota.

    Options come in the order of prices, so that an earlier one is never dearer. Also returns how many pairs were
    compared: those of different NodePools are not, so that their number is in proportion to that of the NodePools.
    """
    kept, pairs, scarce = list[_Option](), 0, [*budget.left]
    rivals: dict[tuple[str, str], list[tuple[_Option, list[int]]]] = {}
    for option in options:
        one = option.candidate
        if not option.fitting or not budget.allows(one):
            continue
        worth = [one.allocatable.get(name, 0) for name in resources] + [-one.quotas.get(name, 0) for name in scarce]
        # What a type counts towards the limits of its NodePool is its own.
        known = rivals.setdefault((one.pool.name, one.type_name if one.pool.limits else ""), [])
        pairs += len(known)
        if not any(all(map(ge, better, worth)) and _takes_all(other, option) for other, better in known):
            kept.append(option)
            known.append((option, worth))
    return kept, pairs


def _takes_all(better: _Option, worse: _Option) -> bool:
    """Whether all groups that may run on one option may run on the other one, with the same open labels."""
    if worse.fitting & ~better.groups:
        return False
    return not ((better.open or worse.open) and any(_differ(better.open, worse.open, g) for g in bits(worse.fitting)))


def _differ(one: Mapping[int, Requirements], other: Mapping[int, Requirements], group: int) -> bool:
    return one.get(group) is not other.get(group) and one.get(group) != other.get(group)


def _agree(requirements: Requirements, agreed: Requirements, wanted: Requirements) -> Requirements | None:
    """What satisfies `wanted` and what was agreed before, of open labels; None if nothing does for one of them."""
    found = dict[str, ValueSet](agreed)
    for key, values in wanted.items():
        before = found.get(key) or requirements.get(key)
        if before is not None and not before.compatible(values):
            return None
        found[key] = values if before is None else before.intersection(values)
    return found
