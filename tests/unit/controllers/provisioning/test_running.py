"""Constraints of running pods: what they cost, who pays for them, and that those within the budget are honored."""

from collections import Counter
from typing import Any

import pytest

from controllers.provisioning.solver import selection, term_budget
from controllers.provisioning.solver import steps as solver_steps
from controllers.provisioning.solver.model import Decision, LabelSelector, PodSpec, TopologyTerm
from controllers.provisioning.solver.selection import Selection
from controllers.provisioning.solver.steps import TERMS_A_STEP, Steps
from provisioner.api.value_sets import one_of

from .cases import ZONE, decide, node, pod

Json = dict[str, Any]
JOB = "batch.kubernetes.io/job-name"


def apart(*selectors: Json, key: str = ZONE, namespaces: Json | None = None) -> Json:
    """Required anti-affinity, one term for each selector; by default from the pods of all namespaces."""
    terms = [
        {"topologyKey": key, "labelSelector": one, "namespaceSelector": {} if namespaces is None else namespaces}
        for one in selectors
    ]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def expression(operator: str, *values: str, key: str = JOB) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": [*values]} if values else {})}]}


def selectors(kind: str, number: int, count: int) -> list[Json]:
    """Selectors of which no two select the same pods."""
    match kind:
        case "listed":
            return [expression("In", f"{number}-{i}", "q") for i in range(count)]
        case "none":
            absent = expression("Exists", key="absent")["matchExpressions"]
            return [
                {"matchExpressions": [*absent, *expression("NotIn", f"{number}-{i}")["matchExpressions"]]}
                for i in range(count)
            ]
    return [expression("NotIn", f"{number}-{i}") for i in range(count)]


def hostile(kind: str, pods: int, terms: int, *more: Json, zone: str = "z1") -> Json:
    """A Node without room for others, with small pods of one tenant that have many terms each."""
    made = [
        pod(f"evil-{n}", cpu="1m", affinity=apart(*selectors(kind, n, terms)), labels={"x": "y"}) for n in range(pods)
    ]
    for one in made:
        one["metadata"]["namespace"] = "evil"
    return node("system", "cpu-4", zone=zone, running=[*made, *more, pod("large", cpu="3")])


def jobs(count: int) -> list[Json]:
    return [pod(f"good-{n}", cpu="3", labels={JOB: f"job-{n}"}) for n in range(count)]


def zones(decision: Decision) -> Counter[str]:
    return Counter(zone for one in decision.machines for zone in one.requirements[ZONE].values)


@pytest.mark.parametrize(("kind", "most"), [("listed", 0), ("none", 20_000), ("all", 20_000)])
def test_terms_of_running_pods_have_a_budget(
    monkeypatch: pytest.MonkeyPatch, compared: Counter[str], kind: str, most: int
) -> None:
    """One tenant's terms are compared with the pods that they list, else up to half of all that may be compared."""
    monkeypatch.setattr(term_budget, "TERMS_MAX", 40_000)
    calm = decide(pods=jobs(40), nodes=[hostile(kind, 1, 1)])
    compared.clear()
    decision = decide(pods=jobs(40), nodes=[hostile(kind, 20, 200)])
    assert len(decision.machines) == 40
    assert compared["terms"] <= most
    assert decision.steps <= calm.steps + 2 * most // TERMS_A_STEP + 100


@pytest.mark.parametrize(("budget", "expected"), [(4_000, "z2"), (400_000, "z3")])
def test_terms_of_one_namespace_beyond_its_budget_are_left_out(
    monkeypatch: pytest.MonkeyPatch, budget: int, expected: str
) -> None:
    """Those of others are honored: a service that wants its zone for itself has it, whatever another tenant runs."""
    monkeypatch.setattr(term_budget, "TERMS_MAX", budget)
    service = pod("service", cpu="3", labels={"app": "service"}, affinity=apart(expression("Exists")))
    last = pod("evil-last", cpu="1m", labels={"x": "y"}, affinity=apart(expression("Exists")))
    last["metadata"]["namespace"] = "evil"
    nodes = [hostile("none", 10, 200, last, zone="z2"), node("taken", "cpu-4", zone="z1", running=[service])]
    assert zones(decide(pods=jobs(30), nodes=nodes)) == {expected: 30}


def test_terms_over_labels_of_no_machine_do_not_count_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running pods with terms over thousands of labels: pods with a spread of their own are served as without them."""
    monkeypatch.setattr(solver_steps, "STEPS_MAX", 3_000)
    term = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    wanted = [
        pod(
            f"good-{n}",
            labels={JOB: f"job-{n}"},
            topologySpreadConstraints=[{**term, "labelSelector": {"matchLabels": {JOB: f"job-{n}"}}}],
        )
        for n in range(20)
    ]
    evil = [
        pod(
            f"evil-{n}",
            cpu="1m",
            affinity={
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": f"k{n}-{i}", "labelSelector": {"matchLabels": {"a": "b"}}} for i in range(100)
                    ]
                }
            },
        )
        for n in range(20)
    ]
    calm = decide(pods=wanted, nodes=[node("system", "cpu-4", running=[pod("large", cpu="3")])])
    decision = decide(pods=wanted, nodes=[node("system", "cpu-4", running=[*evil, pod("large", cpu="3")])])
    assert not decision.errors
    assert decision.steps <= calm.steps + 100
    assert decision.price == calm.price


@pytest.mark.parametrize("kind", ["listed", "none", "all"])
def test_terms_of_pending_pods_are_counted(compared: Counter[str], kind: str) -> None:
    """For the pods that have them: those of others have their machines."""
    evil = [pod(f"evil-{n}", cpu="2", labels={"x": f"{n}"}, affinity=apart(*selectors(kind, n, 60))) for n in range(20)]
    for one in evil:
        one["metadata"]["namespace"] = "evil"
    decision = decide(pods=[*jobs(40), *evil])
    assert {name for one in decision.machines for name in one.pods} >= {f"default/good-{n}" for n in range(40)}
    assert compared["terms"] <= TERMS_A_STEP * decision.steps


def test_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many kinds of terms and pods are compared."""
    monkeypatch.setattr(selection, "ANSWERS_MAX", 100)
    found = Selection()
    for number in range(30):
        chosen = LabelSelector(expressions=frozenset({("a", one_of((f"{number}",)))}))
        term = TopologyTerm(kind="affinity", key=ZONE, selector=chosen, namespaces=())
        for other in range(30):
            assert found.selects(term, PodSpec(labels={"a": f"{other}"})) == (number == other)
    assert len(found._answers) <= 100


def test_steps_of_running_pods_count_for_their_namespace() -> None:
    """Pending pods of that namespace come last, and those of others are not left out for them."""
    steps, theirs, others = Steps(), PodSpec(namespace="evil"), PodSpec(namespace="default")
    steps.compare_running("evil", 1_000 * TERMS_A_STEP)
    steps.count(theirs, 10)
    steps.count(others, 500)
    assert steps.by_namespace() == {"evil": 1_010, "default": 500}
    assert steps.costly(kept=500) == {id(theirs)}
