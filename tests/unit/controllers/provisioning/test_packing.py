"""The packing of pods, compared with a search over all partitions."""

import random
from collections.abc import Iterator, Sequence

import pytest

from controllers.provisioning.solver.limits import cover
from controllers.provisioning.solver.packing import Machine, Packing, pods_of
from controllers.provisioning.solver.sharing import Sharing

Vector = tuple[int, ...]


def _partitions(demand: Vector) -> Iterator[list[Vector]]:
    """All multisets of non-empty parts that sum up to the demand."""
    if not any(demand):
        yield []
        return
    first = next(index for index, count in enumerate(demand) if count)
    for part in _below(demand):
        if part[first]:
            rest = tuple(a - b for a, b in zip(demand, part, strict=True))
            for others in _partitions(rest):
                yield [part, *others]


def _below(most: Vector) -> Iterator[Vector]:
    if not most:
        yield ()
        return
    for head in range(most[0] + 1):
        for tail in _below(most[1:]):
            yield (head, *tail)


def _least(machines: Sequence[tuple[float, Vector]], requests: Sequence[Vector], demand: Vector) -> float | None:
    def price(part: Vector) -> float | None:
        needed = [sum(n * r[i] for n, r in zip(part, requests, strict=True)) for i in range(len(requests[0]))]
        return min((p for p, free in machines if all(a <= b for a, b in zip(needed, free, strict=True))), default=None)

    totals = []
    for parts in _partitions(demand):
        prices = [price(part) for part in parts]
        if None not in prices:
            totals.append(sum(p for p in prices if p is not None))
    return min(totals, default=None)


@pytest.mark.matrix(quick=40)
@pytest.mark.parametrize("seed", range(200))
def test_small_demands_are_covered_at_the_least_price(seed: int) -> None:
    """No partition of the pods into machines is cheaper."""
    rng = random.Random(seed)
    machines = [
        (round(rng.uniform(0.1, 9), 2), (rng.randint(1, 16), rng.randint(0, 4))) for _ in range(rng.randint(1, 5))
    ]
    requests = [(rng.randint(1, 5), rng.randint(0, 2)) for _ in range(rng.randint(1, 3))]
    demand = tuple(rng.randint(1, 3) for _ in requests)
    groups = frozenset(range(len(requests)))
    packing = Packing(
        machines=[Machine(price=p, free=free, groups=groups, anchors=groups, open={}, uses={}) for p, free in machines],
        requests=[tuple((i, amount) for i, amount in enumerate(request) if amount) for request in requests],
        sharing=Sharing(),
        agrees=lambda _, __: True,
    )
    fleet = cover(packing, dict(enumerate(demand)), {}, None)
    left = sum(demand) - pods_of(fleet)
    wanted = _least(machines, requests, demand)
    if wanted is None:
        assert left
    else:
        assert not left
        assert sum(machines[index][0] * count for (index, _), count in fleet.items()) == pytest.approx(wanted)
