"""Which machines to buy for pods: the packing problem in numbers, and its result in candidates again."""

from collections.abc import Iterable, Mapping, Sequence

from .candidates import Candidate, compatible
from .limits import cover
from .packing import Machine, Packing
from .requirements import Requirements, ValueSet
from .resources import fits
from .topology import host_room, interacts
from .work import Work

NODES = "nodes"
Limits = Mapping[tuple[str, str], int]
Purchase = tuple[Candidate, list[tuple[Work, int]]]


def purchases(
    works: Sequence[Work],
    weights: Sequence[int],
    offered: Iterable[Candidate],
    *,
    well_known: frozenset[str],
    limits: Limits,
    most: int | None,
) -> list[Purchase]:
    """The machines to buy, each with its pods, as (work, units) pairs.

    `weights`: for each work, the weight of the NodePools from which its machines are bought. A machine of another
    NodePool may take its pods only together with pods for which it is bought. `limits`: what remains, by NodePool and
    resource, in thousandths. `most`: how many machines may be made, None for any number.
    """
    tier = [candidate for candidate in offered if candidate.pool.weight in weights]
    fitting = {
        (i, g): found.open
        for i, candidate in enumerate(tier)
        for g, work in enumerate(works)
        if weights[g] >= candidate.pool.weight
        and (found := compatible(candidate, work.spec, work.view, well_known)) is not None
    }
    chosen = [tier[i] for i in _undominated(tier, works, fitting)]
    if not chosen:
        return []
    positions = {id(candidate): i for i, candidate in enumerate(tier)}
    resources = sorted({name for work in works for name, amount in work.requests.items() if amount > 0})
    machines = []
    for candidate in chosen:
        i = positions[id(candidate)]
        groups = [g for g in range(len(works)) if (i, g) in fitting]
        machines.append(
            Machine(
                price=candidate.price,
                free=tuple(max(0, candidate.allocatable.get(name, 0)) for name in resources),
                groups=frozenset(groups),
                anchors=frozenset(g for g in groups if weights[g] == candidate.pool.weight),
                open={g: fitting[i, g] for g in groups if fitting[i, g]},
                uses=uses(candidate, limits),
            )
        )
    packing = _packing(works, machines, chosen, resources)
    fleet = cover(packing, {g: len(work.units) for g, work in enumerate(works)}, limits, most)
    return [
        (chosen[index], [(works[g], count) for g, count in pattern])
        for (index, pattern), number in sorted(fleet.items())
        for _ in range(number)
    ]


def uses(candidate: Candidate, limits: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """What one machine counts towards the limits of its NodePool, in thousandths."""
    return {
        (pool, resource): 1000 if resource == NODES else candidate.capacity.get(resource, 0)
        for pool, resource in limits
        if pool == candidate.pool.name
    }


def _packing(works: Sequence[Work], machines: list[Machine], chosen: list[Candidate], resources: list[str]) -> Packing:
    specs = [(work.spec, work.view.topology) for work in works]
    sizes = [work.size for work in works]

    def room(pattern: Mapping[int, int], group: int) -> int:
        free = host_room([(*specs[g], n * sizes[g]) for g, n in pattern.items() if n], *specs[group])
        return free if sizes[group] == 1 else min(1, free)

    def agrees(index: int, groups: Iterable[int]) -> bool:
        return _agree(chosen[index].requirements, [machines[index].open.get(g, {}) for g in groups])

    return Packing(
        machines=machines,
        requests=[
            tuple((r, work.requests[name]) for r, name in enumerate(resources) if work.requests.get(name, 0) > 0)
            for work in works
        ],
        room=room,
        interacting=interacts(specs),
        agrees=agrees,
    )


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


def _undominated(
    tier: list[Candidate], works: Sequence[Work], fitting: Mapping[tuple[int, int], Requirements]
) -> list[int]:
    """The candidates worth comparing: none that another one of its NodePool beats in price, room and pods."""
    names = sorted({name for work in works for name in work.requests})

    def dominates(better: int, worse: int, groups: set[int]) -> bool:
        # Candidates come in the order of prices, so an earlier one is never dearer.
        one, other = tier[better], tier[worse]
        if one.pool is not other.pool or (one.pool.limits and one.type_name != other.type_name):
            return False
        if any((better, g) not in fitting or fitting[better, g] != fitting[worse, g] for g in groups):
            return False
        return all(one.allocatable.get(n, 0) >= other.allocatable.get(n, 0) for n in names)

    kept: list[int] = []
    for i, candidate in enumerate(tier):
        groups = {g for g, work in enumerate(works) if (i, g) in fitting and fits(work.requests, candidate.allocatable)}
        if groups and not any(dominates(j, i, groups) for j in kept):
            kept.append(i)
    return kept
