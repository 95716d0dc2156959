"""Required anti-affinity by hostname of pods on machines with room: what it costs, and who pays for it."""

from collections import Counter
from typing import Any

import pytest

from controllers.provisioning.solver import exclusion, term_budget
from controllers.provisioning.solver import steps as solver_steps
from controllers.provisioning.solver.model import Decision, PodSpec
from controllers.provisioning.solver.steps import TERMS_A_STEP, Steps

from .cases import HOSTNAME, decide, node, pod

Json = dict[str, Any]
NODES, PODS, TERMS = 60, 300, 100


def apart(*selectors: Json) -> Json:
    """Required anti-affinity by hostname from the pods of all namespaces, one term for each selector."""
    terms = [{"topologyKey": HOSTNAME, "labelSelector": one, "namespaceSelector": {}} for one in selectors]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def selector(kind: str, number: int, term: int) -> Json:
    """One that lists a value that no pod has, or one that must be compared with each pod: it selects all, or none."""
    if kind == "listed":
        return {"matchLabels": {"job": f"{number}-{term}"}}
    unlisted = {"key": "job", "operator": "NotIn", "values": [f"{number}-{term}"]}
    absent = [{"key": "absent", "operator": "Exists"}] if kind == "none" else []
    return {"matchExpressions": [unlisted, *absent]}


def tenant(body: Json) -> Json:
    return {**body, "metadata": {**body["metadata"], "namespace": "evil"}}


def evil(kind: str, number: int, terms: int, cpu: str = "1m") -> Json:
    """A pod of a tenant with terms of its own."""
    affinity = apart(*(selector(kind, number, term) for term in range(terms)))
    return tenant(pod(f"evil-{number:03}", cpu=cpu, labels={"x": "y"}, affinity=affinity))


def roomy(*running: Json) -> list[Json]:
    """Nodes with room, each with one of these pods."""
    return [node(f"n{number:03}", "cpu-4", running=[one]) for number, one in enumerate(running)]


def jobs(count: int) -> list[Json]:
    """Pods of which no two are interchangeable."""
    return [pod(f"good-{n:03}", cpu=f"{100 + n}m", labels={"job": f"job-{n}"}) for n in range(count)]


def full() -> Decision:
    """The decision where all Nodes are full."""
    return decide(pods=jobs(PODS), nodes=roomy(*(pod(f"large-{n}", cpu="4") for n in range(NODES))))


@pytest.mark.parametrize("terms", [1, TERMS])
def test_nodes_whose_pods_keep_others_out_cost_those_no_more_than_full_nodes(terms: int) -> None:
    """The comparisons count for the namespace of the running pods, once for each kind of both."""
    calm = full()
    decision = decide(pods=jobs(PODS), nodes=roomy(*(evil("all", number, terms) for number in range(NODES))))
    assert (decision.errors, decision.price) == ({}, calm.price)
    indexed = NODES * terms // TERMS_A_STEP
    assert decision.steps <= calm.steps + indexed + 2 * NODES * PODS // TERMS_A_STEP


def test_pods_are_not_set_aside_for_terms_of_running_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if these take all steps of the first attempt."""
    calm = full()
    monkeypatch.setattr(solver_steps, "STEPS_MAX", 3 * calm.steps)
    decision = decide(pods=jobs(PODS), nodes=roomy(*(evil("all", number, TERMS) for number in range(NODES))))
    assert (decision.errors, decision.price) == ({}, calm.price)


def test_nodes_with_pods_of_one_deployment_are_compared_once(compared: Counter[str]) -> None:
    """With each kind of pod, whatever the number of Nodes."""
    calm = full()
    compared.clear()
    replicas = [tenant(pod(f"r{n}", cpu="1m", labels={"x": "y"}, affinity=apart({}))) for n in range(NODES)]
    decision = decide(pods=jobs(PODS), nodes=roomy(*replicas))
    assert (decision.errors, decision.price) == ({}, calm.price)
    assert compared["terms"] <= PODS
    assert decision.steps <= calm.steps + PODS


@pytest.mark.parametrize(("kind", "most"), [("listed", 0), ("none", 3 * PODS * TERMS)])
def test_terms_of_running_pods_are_compared_with_pods_that_they_may_select(
    compared: Counter[str], kind: str, most: int
) -> None:
    """All pods have room on the Nodes, and only the Nodes that are tried are compared."""
    decision = decide(pods=jobs(PODS), nodes=roomy(*(evil(kind, number, TERMS) for number in range(NODES))))
    assert (decision.errors, decision.price) == ({}, 0.0)
    assert len({name for names in decision.existing.values() for name in names}) == PODS
    assert compared["terms"] <= most


@pytest.mark.parametrize(("budget", "buys"), [(4_000, True), (400_000, False)])
def test_nodes_with_terms_beyond_the_budget_are_no_room(
    monkeypatch: pytest.MonkeyPatch, compared: Counter[str], budget: int, buys: bool
) -> None:
    """A machine is bought for the pods that these might select; Nodes of other namespaces take pods as before."""
    monkeypatch.setattr(term_budget, "TERMS_MAX", budget)
    nodes = roomy(*(evil("none", number, TERMS) for number in range(10)))
    decision = decide(pods=jobs(100), nodes=nodes)
    assert not decision.errors
    assert bool(decision.machines) == buys
    assert not buys or compared["terms"] <= budget // 2
    other = node("other", "cpu-4", running=[pod("alone", cpu="1m", affinity=apart({"matchLabels": {"job": "job-0"}}))])
    decision = decide(pods=jobs(20), nodes=[*nodes, other])
    assert "default/good-000" not in decision.existing.get("other", ())
    assert not buys or decision.existing["other"]


def test_terms_of_placed_pods_count_for_these(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines with such pods cost others the same, however many terms these have."""
    taken, count = Counter[str](), Steps.count

    def counted(self: Steps, spec: PodSpec, steps: int) -> None:
        taken[spec.namespace] += steps
        count(self, spec, steps)

    monkeypatch.setattr(Steps, "count", counted)
    nodes = [node(f"n{number:03}", "cpu-4") for number in range(NODES + 20)]

    def decided(terms: int) -> tuple[Decision, int]:
        taken.clear()
        placed = [evil("all", number, terms, cpu="2") for number in range(NODES)]
        return decide(pods=[*placed, *jobs(100)], nodes=nodes), taken["default"]

    (few, others), (many, others_then) = decided(1), decided(TERMS)
    assert (many.existing, many.errors) == (few.existing, {})
    assert others_then == others


def test_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that were dropped are found again."""
    nodes = roomy(*(evil("none", number, 2) for number in range(5)))
    expected = decide(pods=jobs(20), nodes=nodes)
    monkeypatch.setattr(exclusion, "ANSWERS_MAX", 3)
    decision = decide(pods=jobs(20), nodes=nodes)
    assert (decision.existing, decision.machines) == (expected.existing, expected.machines)
