"""Drawn decisions, bound by the filter plugins of kube-scheduler."""

from pathlib import Path
from typing import Any

import pytest

from .kube_scheduler import cases, unbound
from .programs import OURS, answers
from .scenarios import draw
from .validity import violations
from .verdicts import for_karpenter

pytestmark = pytest.mark.oracle
BATCH = 100
# Karpenter leaves the order of binding open in some of these, so that both checks have something to find.
COMPARED = range(100)
TOPOLOGY = 42


def bound_nowhere(binder: Path, scenarios: dict[int, Any], decisions: list[Any]) -> dict[int, dict[str, str]]:
    """The seeds whose decision leaves pods, with these pods and the reasons."""
    listed = [
        (seed, case)
        for (seed, one), decision in zip(scenarios.items(), decisions, strict=True)
        for case in cases(one, decision, seed)
    ]
    results = answers((str(binder),), [case for _, case in listed])
    return {seed: found for (seed, _), found in zip(listed, results, strict=True) if found}


@pytest.mark.parametrize("first", range(0, 1000, BATCH))
def test_each_pod_is_bound_to_the_machine_that_the_decision_names(binder: Path, first: int) -> None:
    """kube-scheduler's plugins let each pod on its machine, in whatever order the pods are tried."""
    scenarios = {seed: draw(seed).scenario for seed in range(first, first + BATCH)}
    assert bound_nowhere(binder, scenarios, answers(OURS, [*scenarios.values()])) == {}


def test_the_check_of_validity_agrees_with_kube_scheduler(karpenter: Path, binder: Path) -> None:
    """Of Karpenter's decisions both find the same ones wrong."""
    scenarios = {seed: draw(seed).scenario for seed in COMPARED}
    theirs = answers((str(karpenter),), [for_karpenter(one) for one in scenarios.values()])
    wrong = {seed for (seed, one), run in zip(scenarios.items(), theirs, strict=True) if violations(one, run, seed)}
    assert wrong
    assert {*bound_nowhere(binder, scenarios, theirs)} == wrong


def test_a_pod_on_a_machine_without_room_is_not_bound(binder: Path) -> None:
    """All pods on the first machine do not fit it, and the reason says so."""
    scenario = draw(TOPOLOGY).scenario
    (right,) = answers(OURS, [scenario])
    first = right["newNodeClaims"][0]
    pods = [name for claim in right["newNodeClaims"] for name in claim["pods"]]
    wrong = {**right, "newNodeClaims": [{**first, "pods": pods}]}
    assert all("Insufficient" in why for one in unbound(binder, scenario, wrong) for why in one.values())
    assert all(unbound(binder, scenario, wrong))
