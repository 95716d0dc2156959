"""Lower bounds of what machines cost: never above what a decision pays, and the end of a search that reached them."""

from math import inf
from random import Random
from typing import Any

import pytest

from controllers.provisioning.solver.attempt import attempt
from controllers.provisioning.solver.bounds import Bound
from controllers.provisioning.solver.solver import Solver, solve

from .cases import SIZES, ZONE, instance_type, node, node_pool, pod, pods, read

Json = dict[str, Any]
SPREAD = [
    {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
]


def given(wanted: list[Json], nodes: list[Json] | None = None, **parts: Any) -> Any:
    types = [instance_type(name) for name in SIZES]
    scenario = {"nodePools": [node_pool()], "instanceTypes": types, "wellKnownLabels": ["model"], **parts}
    return read({**scenario, "pods": wanted, "nodes": nodes or []})


def bound(wanted: list[Json], nodes: list[Json] | None = None) -> Bound:
    found = given(wanted, nodes)
    return Solver(found).bound(found.pods)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        # The least price of a GPU is that of the machine with one: three of them.
        (pods(3, gpus=1), Bound(1.5, 1.5, 3)),
        # A pod with four GPUs needs the dear machine, those with one GPU do not.
        ([*pods(4, gpus=1), pod("large", gpus=4)], Bound(4 * 0.5 + 4.3, 4 * 0.5 + 4.3, 2)),
        # 3.9 CPUs of a small machine cost 0.2 USD.
        (pods(2, cpu="1950m"), Bound(0.2, 0.2, 1)),
        (pods(1, gpus=9), Bound(inf, inf)),
    ],
    ids=["one size", "two sizes", "a full machine", "no size"],
)
def test_the_bound_of_some_pods(wanted: list[Json], expected: Bound) -> None:
    """The price of the dearest machine that a pod needs, or the least price of all resources; and the machines."""
    found = bound(wanted)
    assert (found.alone, found.shared) == pytest.approx((expected.alone, expected.shared))
    assert found.machines == expected.machines


def test_pods_that_fit_an_existing_machine_cost_nothing() -> None:
    """Whether it has room for all of them is not compared; a machine that is leaving or full takes none."""
    found = given(pods(9, gpus=1), [node("n", "t4-1")])
    solver = Solver(found)
    assert solver.bound(found.pods) == Bound(0.0, 0.0, 0)
    assert solver.bound(found.pods, leaving=("n",)) == solver.bound(found.pods, full=("n",)) == Bound(4.5, 4.5, 9)


@pytest.mark.parametrize("seed", range(40))
def test_no_decision_costs_less_than_the_bound(seed: int) -> None:
    """At the price of the bound it has no fewer machines than the bound counts."""
    rng = Random(seed)
    wanted = [
        pod(f"p{number}", gpus=rng.choice((0, 0, 1, 1, 2, 4)), cpu=rng.choice(("100m", "1", "3", "3900m")))
        for number in range(rng.randint(1, 12))
    ]
    least, decision = bound(wanted), solve(given(wanted))
    assert not decision.errors
    assert decision.price >= least.alone - 1e-9
    if decision.price <= least.alone + 1e-9:
        assert len(decision.machines) >= least.machines


@pytest.mark.parametrize(
    ("wanted", "attempts"),
    [
        # Full machines of the best size: no order of choices is cheaper.
        (pods(6, gpus=1, cpu="3", topologySpreadConstraints=SPREAD), 1),
        # Half of each machine is empty, which another order may use.
        (pods(6, cpu="2", topologySpreadConstraints=SPREAD), None),
    ],
    ids=["reached", "not reached"],
)
def test_a_decision_ends_when_its_price_is_the_bound(
    monkeypatch: pytest.MonkeyPatch, wanted: list[Json], attempts: int | None
) -> None:
    """Other ways are tried only while a cheaper result is possible."""
    made = list[int]()

    def counted(*given: Any) -> Any:
        made.append(1)
        return attempt(*given)

    monkeypatch.setattr("controllers.provisioning.solver.solver.attempt", counted)
    assert not solve(given(wanted)).errors
    assert len(made) == attempts if attempts else len(made) > 1
