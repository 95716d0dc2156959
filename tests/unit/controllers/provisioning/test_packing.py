"""The packing of pods, compared with a search over all partitions."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from controllers.provisioning.solver.fleets import greedy
from controllers.provisioning.solver.limits import cover
from controllers.provisioning.solver.packing import Machine, Packing, pods_of
from controllers.provisioning.solver.sharing import Part, Sharing

from .cases import HOSTNAME, given, pod

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
        agree=lambda _, agreed, __: agreed,
        allows=lambda *_: True,
        most_steps=10**9,
    )
    fleet = cover(packing, dict(enumerate(demand)), {}, None)
    left = sum(demand) - pods_of(fleet)
    wanted = _least(machines, requests, demand)
    if wanted is None:
        assert left
    else:
        assert not left
        assert sum(machines[index][0] * count for (index, _), count in fleet.items()) == pytest.approx(wanted)


@pytest.mark.parametrize(("price", "index"), [(3.0, 0), (5.0, 1)])
def test_machines_with_the_most_for_their_price_come_first(price: float, index: int) -> None:
    """The large one takes four pods for `price`, the small one a pod for 1.0; the large one takes no other group."""
    sizes = [(price, 4, frozenset({0})), (1.0, 1, frozenset({0, 1}))]
    packing = Packing(
        machines=[Machine(price=p, free=(free,), groups=g, anchors=g, open={}, uses={}) for p, free, g in sizes],
        requests=[((0, 1),)] * 2,
        sharing=Sharing(),
        agree=lambda _, agreed, __: agreed,
        allows=lambda *_: True,
        most_steps=10**9,
    )
    fleet = greedy(packing, {0: 4, 1: 1}, {0: 1.0, 1: 1.0}, packing.order([0, 1]), 10**9)
    assert fleet == {(index, ((0, 4 - 3 * index),)): 1 + 3 * index, (1, ((1, 1),)): 1}


def _of_one_size(open_labels: dict[int, Any], most_steps: int) -> Packing:
    """Four groups, each pod of which takes half a machine."""
    groups = frozenset(range(4))

    def agree(_: int, agreed: Any, group: int) -> Any:
        wanted = open_labels[group]
        return None if any(agreed.get(key, value) != value for key, value in wanted.items()) else {**agreed, **wanted}

    return Packing(
        machines=[Machine(price=1.0, free=(2,), groups=groups, anchors=groups, open=open_labels, uses={})],
        requests=[((0, 1),)] * 4,
        sharing=Sharing(),
        agree=agree,
        allows=lambda *_: True,
        most_steps=most_steps,
    )


def test_groups_share_a_machine_if_they_agree_on_its_open_labels() -> None:
    """The comparisons of labels are counted for the groups that have them, not for the others."""
    packing = _of_one_size({0: {"zone": "a"}, 1: {"zone": "b"}, 2: {"zone": "a"}}, 10**9)
    fleet = cover(packing, dict.fromkeys(range(3), 1), {}, None)
    assert sorted(pattern for _, pattern in fleet) == [((0, 1), (2, 1)), ((1, 1),)]
    packing = _of_one_size({0: {"zone": "a"}, 1: {"zone": "b"}}, 10**9)
    assert pods_of(cover(packing, dict.fromkeys(range(4), 9), {}, None)) == 36
    assert packing.steps_of.keys() == {0, 1}
    assert 0 < packing.steps_of.total() < packing.steps


def test_nothing_fits_after_the_last_step() -> None:
    """Every search ends then, whatever is left of the demand."""
    demand = dict.fromkeys(range(4), 2_000)
    assert pods_of(cover(_of_one_size({}, 10**9), demand, {}, None)) == 8_000
    assert not cover(_of_one_size({}, -1), demand, {}, None)
    packing = _of_one_size({}, 2)
    assert pods_of(cover(packing, demand, {}, None)) < 8_000
    assert packing.steps < 1_000


@pytest.mark.parametrize(("units", "allowed"), [(1, True), (2, False)])
def test_a_machine_satisfies_each_constraint_over_hostnames(units: int, allowed: bool) -> None:
    """Of two constraints one counts the pods, the other one counts none."""
    terms = [
        {
            "topologyKey": HOSTNAME,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
        for app in ("a", "b")
    ]
    (one,) = given(pods=[pod("p", topologySpreadConstraints=terms)]).pods
    sharing = Sharing([[Part(one.spec, one.spec.topology)]])
    assert sharing.allows({0: units}) is allowed
