"""The steps of a decision: all attempts share one budget, and what one tenant spends is not missing to the others."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from controllers.provisioning.solver import steps as solver_steps
from controllers.provisioning.solver.model import Decision, Pod, PodSpec
from controllers.provisioning.solver.solver import solve
from controllers.provisioning.solver.steps import Steps
from controllers.provisioning.solver.turns import Turn, in_turn
from controllers.provisioning.solver.work import grouped

from .cases import HOSTNAME, SIZES, ZONE, decide, given, instance_type, node, node_pool, pod, pods

Json = dict[str, Any]
SERVED = {"default/p00", "default/p01", "default/p02"}


def spread(app: str, key: str = ZONE) -> Json:
    selector = {"matchLabels": {"app": app}}
    term = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [term]}


def of(namespace: str, pods: Iterable[Json]) -> list[Json]:
    return [{**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in pods]


def kinds(count: int, namespace: str = "hostile", *, replicas: int = 30) -> list[Json]:
    """Larger pods than those of other tenants, each kind with a spread of its own."""
    made = [
        pod(f"h{kind:03}-{number:02}", cpu="2", labels={"app": f"h{kind}"}, **spread(f"h{kind}"))
        for kind in range(count)
        for number in range(replicas)
    ]
    return of(namespace, made)


def placed(decision: Decision) -> set[str]:
    found = {name for one in decision.machines for name in one.pods}
    return found | {name for names in decision.existing.values() for name in names}


def test_pods_that_take_most_steps_are_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others get their machines in the same decision."""
    monkeypatch.setattr(solver_steps, "STEPS_MAX", 100)
    costly = [pod(f"costly{number:02}", **spread("a")) for number in range(60)]
    decision = decide(pods=[*costly, *pods(3, cpu="2", labels={"app": "b"})])
    assert {name for one in decision.machines for name in one.pods} == SERVED
    assert decision.set_aside == decision.errors.keys() == {f"default/costly{number:02}" for number in range(60)}
    assert "of which its kind of pods or its namespace took many" in decision.errors["default/costly00"]


def test_no_fleet_is_searched_where_no_machine_may_be_bought() -> None:
    """At the limit of agent pools a decision about waiting pods is made every ten seconds."""
    waiting = [pod(f"p{number:03}", cpu=f"{1000 + 100 * (number % 50)}m") for number in range(200)]
    decision = decide(pods=waiting, maxNewNodeClaims=0)
    assert decision.errors.keys() == {f"default/p{number:03}" for number in range(200)}
    assert decision.steps < 10 * len(waiting)


@pytest.mark.parametrize("namespaces", [1, 5])
@pytest.mark.parametrize("count", [40, 120])
def test_many_cheap_kinds_of_one_tenant_delay_no_other_tenant(
    monkeypatch: pytest.MonkeyPatch, count: int, namespaces: int
) -> None:
    """Each kind takes few steps, all together take more than the decision has, and none of them is tried in time."""
    monkeypatch.setattr(solver_steps, "STEPS_MAX", 2_000)
    hostile = [one for n in range(namespaces) for one in kinds(count // namespaces, f"hostile{n}")]
    decision = decide(pods=[*hostile, *pods(3)])
    assert placed(decision) >= SERVED
    assert decision.set_aside
    assert not {name for name in decision.errors if not name.startswith("hostile")}
    assert all("decided again" in decision.errors[name] for name in decision.set_aside)


def test_what_was_decided_before_the_steps_ended_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod has a place or a reason, never both, and the pods of no constraint are divided as it demands."""
    monkeypatch.setattr(solver_steps, "STEPS_MAX", 2_000)
    decision = decide(pods=[*kinds(60, replicas=6), *pods(3)])
    names = {f"hostile/h{kind:03}-{number:02}" for kind in range(60) for number in range(6)} | SERVED
    assert placed(decision) | decision.errors.keys() == names
    assert not placed(decision) & decision.errors.keys()
    zones = {
        name: next(iter(machine.requirements[ZONE].values))
        for machine in decision.machines
        for name in machine.pods
        if name.startswith("hostile")
    }
    for kind in range(60):
        counts = [sum(zones.get(f"hostile/h{kind:03}-{n:02}") == zone for n in range(6)) for zone in ("z1", "z2", "z3")]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("most", [3_000, 30_000])
def test_all_attempts_share_the_steps(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Ways, rounds of minValues and the attempts without costly pods end together; one operation may exceed them."""
    monkeypatch.setattr(solver_steps, "STEPS_MAX", most)
    wanted = kinds(20, replicas=12)
    pool = node_pool(
        requirements=[{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 3}],
        limits={"cpu": "40"},
    )
    decision = decide(nodePools=[pool, node_pool("other", limits={"nodes": "9"})], pods=[*wanted, *pods(3)])
    assert 0 < decision.steps <= 1.5 * most


def test_a_search_without_steps_left_buys_machines_for_each_group_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pods have a place, at no more than one machine for each, and at no less than the search with all steps."""
    wanted = [pod(f"p{n:03}", cpu=f"{100 + 7 * n}m", labels={"app": f"a{n}"}) for n in range(150)]
    best = decide(pods=wanted)
    monkeypatch.setattr(solver_steps, "STEPS_MAX", best.steps // 4)
    decision = decide(pods=wanted)
    assert not decision.errors
    assert len(placed(decision)) == len(wanted)
    assert decision.steps < best.steps
    assert best.price <= decision.price <= len(wanted) * SIZES["cpu-4"][3]


@pytest.mark.parametrize(("namespaces", "apps"), [(24, 25), (600, 1), (1, 600)])
def test_each_decision_places_some_pods(monkeypatch: pytest.MonkeyPatch, namespaces: int, apps: int) -> None:
    """Small pods with room on existing machines: their constraints together need more steps than a decision has."""
    monkeypatch.setattr(solver_steps, "STEPS_MAX", 20_000)
    nodes = [node(f"n{number}", "cpu-4") for number in range(10)]
    for number, one in enumerate(nodes):
        one["node"]["metadata"]["labels"]["rack"] = f"r{number}"
    apart = [pod(f"p{n}", cpu="1m", labels={"app": f"{n}"}, **spread(f"{n}", "rack")) for n in range(apps)]
    waiting = [one for number in range(namespaces) for one in of(f"n{number}", apart)]
    for number in range(3):
        decision = solve(given(nodes=nodes, pods=waiting), number)
        assert len(placed(decision)) >= 30
        assert decision.set_aside == decision.errors.keys()
        assert decision.steps < 1.1 * 20_000
        waiting = [one for one in waiting if "{namespace}/{name}".format(**one["metadata"]) in decision.errors]


def test_every_kind_of_pod_is_the_first_one_in_some_decision() -> None:
    """The oldest one in decision 0; namespaces that took many more steps come after the others."""
    names = [f"{namespace}/{number}" for namespace in "ab" for number in range(7)]
    names += [f"c/{number}" for number in range(3)]
    kinds = [Pod(name=name, spec=PodSpec(namespace=name[0]), key=name.encode()) for name in names]
    ages = {name: age for age, name in enumerate(names)}

    def order(number: int) -> list[str]:
        found = in_turn(grouped(kinds), Counter(a=5_000, b=5_001, c=50_000), Turn(number, ages, ()))
        return [work.units[0][0] for work in found]

    assert order(0)[:6] == ["a/0", "b/0", "c/0", "a/1", "b/1", "c/1"]
    assert all(sorted(order(number)) == sorted(names) and order(number)[2][0] == "c" for number in range(40))
    assert {order(number)[0] for number in range(40)} == {name for name in names if name[0] != "c"}


@pytest.mark.parametrize("limits", [{}, {"cpu": "4"}])
def test_steps_are_in_proportion_to_node_pools(monkeypatch: pytest.MonkeyPatch, limits: Json) -> None:
    """Machines of different NodePools are not compared with each other, and no piece of work exceeds what is left."""
    monkeypatch.setattr(solver_steps, "STEPS_MAX", 20_000)
    beyond, count = list[int](), Steps.count

    def counted(self: Steps, spec: PodSpec, steps: int) -> None:
        beyond.append(steps - self.remaining)
        count(self, spec, steps)

    monkeypatch.setattr(Steps, "count", counted)
    few, many = (
        decide(nodePools=[node_pool(f"team-{n}", limits=limits) for n in range(number)], pods=pods(20))
        for number in (20, 200)
    )
    assert len(placed(many)) == len(placed(few)) == 20
    assert many.price == few.price
    assert many.steps <= 12 * few.steps
    assert max(beyond) <= 0


def test_every_existing_machine_that_is_compared_is_counted() -> None:
    """Pods that no Node takes because of the pods on it: each set of preferences is compared with each Node."""
    apart = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
    preferred = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": f"b{n}", "operator": "DoesNotExist"}]}}
        for n in range(10)
    ]
    affinity = {
        "podAntiAffinity": apart,
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
    }
    nodes = [node(f"n{number:03}", "cpu-4", running=[pod(f"r{number:03}", cpu="100m")]) for number in range(100)]
    one = decide(nodes=nodes, nodePools=[], pods=[pod("p", affinity={"podAntiAffinity": apart})]).steps
    assert one >= len(nodes)
    assert decide(nodes=nodes, nodePools=[], pods=[pod("p", affinity=affinity)]).steps >= 10 * len(nodes)


def test_the_same_pods_take_the_same_steps() -> None:
    """Whatever their order."""
    wanted = [*kinds(5, replicas=5), *pods(3)]
    types = [instance_type(name) for name in SIZES]
    assert decide(pods=wanted, instanceTypes=types) == decide(pods=wanted[::-1], instanceTypes=types)
