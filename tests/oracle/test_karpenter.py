"""Drawn scenarios, answered by this program and several times by Karpenter's scheduler, and compared one by one.

ORACLE_SEEDS, such as 1000-4999, replaces the seeds.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .figures import Figures, compare_seeds
from .programs import OURS, answers
from .scenarios import draw
from .validity import violations
from .verdicts import Verdict, compared

pytestmark = pytest.mark.oracle
BATCH = 100
# A scenario without features, of nine machines.
PLAIN = 170
# The scenarios that break a promise: which one, and why.
KNOWN = {
    8: ("left", "pods that share a machine are one unit at limits, whatever their number"),
    163: ("price", "a spread over zones does not use machines outside all zones where zones can be bought"),
    181: ("price", "a machine is bought for a preference that another pod of the group gives up later"),
    462: ("price", "which of two groups uses which existing machine is not searched"),
    764: ("price", "of several node affinity terms a machine keeps the first one that it satisfies"),
    # Karpenter pays less in one of three runs, by the zone that it draws.
    826: ("price", "of two preferences a pod keeps the one of greater weight, which needs a machine of its own"),
    # Karpenter places them in one of seven runs, by the order that it draws for pods of equal size.
    911: ("left", "at a limit, a pod that needs a whole machine comes before two that share one"),
}
FIRST, LAST = (int(part) for part in os.environ.get("ORACLE_SEEDS", "0-999").split("-"))


@pytest.mark.parametrize("first", range(FIRST, LAST + 1, BATCH))
def test_each_scenario_keeps_the_promises(karpenter: Path, first: int) -> None:
    """Each decision is valid, leaves no pod that Karpenter places, and costs no more than the best of its runs.

    Karpenter chooses among equals at random: a scenario fails if it breaks a promise against three further runs, too.
    See docs/references/karpenter.md#comparison-of-scheduling.
    """
    verdicts = compare_seeds(karpenter, range(first, min(first + BATCH, LAST + 1)))
    found = broken(verdicts)
    again = broken(compare_seeds(karpenter, found))
    print(Figures.of(verdicts).line(f"seeds {first} to {first + len(verdicts) - 1}"), found)
    assert {
        seed: kinds for seed, kinds in again.items() if {*kinds} & {*found[seed]} - {KNOWN.get(seed, ("",))[0]}
    } == {}


def broken(verdicts: dict[int, Verdict]) -> dict[int, dict[str, list[str]]]:
    """What is wrong with the scenarios that break a promise, by seed."""
    return {seed: one.wrong for seed, one in verdicts.items() if one.wrong}


def test_scenarios_without_features_keep_every_promise(karpenter: Path) -> None:
    """Where pods differ in requests and selectors only, nothing is wrong."""
    verdicts = compare_seeds(karpenter, range(0, 1000, 10))
    assert {seed: one.wrong for seed, one in verdicts.items() if one.wrong} == {}


Mistake = Callable[[dict[str, Any]], dict[str, Any]]


def _without_its_last_claim(right: dict[str, Any]) -> dict[str, Any]:
    return {**right, "newNodeClaims": right["newNodeClaims"][:-1]}


def _with_a_claim_twice(right: dict[str, Any]) -> dict[str, Any]:
    return {**right, "newNodeClaims": [*right["newNodeClaims"], right["newNodeClaims"][0]]}


def _with_all_pods_on_one_machine(right: dict[str, Any]) -> dict[str, Any]:
    pods = [name for claim in right["newNodeClaims"] for name in claim["pods"]]
    return {**right, "newNodeClaims": [{**right["newNodeClaims"][0], "pods": pods}]}


@pytest.mark.parametrize("mistake", [_without_its_last_claim, _with_a_claim_twice, _with_all_pods_on_one_machine])
def test_a_wrong_decision_is_not_valid(mistake: Mistake) -> None:
    """The check of decisions finds planted mistakes."""
    scenario = draw(PLAIN).scenario
    (right,) = answers(OURS, [scenario])
    assert violations(scenario, right) == []
    assert violations(scenario, mistake(right)) != []


def test_a_pod_that_karpenter_places_and_a_dearer_fleet_are_found() -> None:
    """The comparison finds a pod left pending, and a fleet that costs more than another one."""
    scenario = draw(PLAIN).scenario
    (right,) = answers(OURS, [scenario])
    claim = right["newNodeClaims"][0]
    left = {**right, "newNodeClaims": right["newNodeClaims"][1:], "errors": dict.fromkeys(claim["pods"], "pending")}
    assert "left" in compared(scenario, left, [right], PLAIN).wrong
    largest = max(scenario["instanceTypes"], key=lambda kind: float(kind["offerings"][0]["Price"]))
    for offering in largest["offerings"]:
        offering["Available"] = True
    requirements = [one for one in claim["requirements"] if one["key"].startswith("karpenter.sh/nodepool")]
    dear = {**claim, "instanceTypes": [largest["name"]], "requirements": requirements}
    dearer = {**right, "newNodeClaims": [dear, *right["newNodeClaims"][1:]]}
    assert "price" in compared(scenario, dearer, [right], PLAIN).wrong
