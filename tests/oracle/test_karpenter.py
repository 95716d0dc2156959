"""Drawn scenarios, answered by this program and by Karpenter's scheduler.

On every scenario this program places at least as many pods, passes an independent check, and pays no more.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .programs import OURS, answers
from .scenarios import draw
from .validity import violations

pytestmark = pytest.mark.oracle
BATCH = 100


@pytest.mark.parametrize("topology", [False, True], ids=["plain", "topology"])
@pytest.mark.parametrize("first", range(0, 1000, BATCH))
def test_no_fleet_costs_more_and_no_fewer_pods_are_placed(karpenter: Path, first: int, *, topology: bool) -> None:
    """A hundred scenarios at a time."""
    scenarios = [draw(seed, topology=topology) for seed in range(first, first + BATCH)]
    theirs, ours = answers((str(karpenter),), scenarios), answers(OURS, scenarios)
    wrong = [
        f"seed {first + number}: {text}"
        for number, parts in enumerate(zip(scenarios, theirs, ours, strict=True))
        for text in _compared(*parts)
    ]
    prices = [sum(_price(s, d) for s, d in zip(scenarios, decisions, strict=True)) for decisions in (theirs, ours)]
    print(f"seeds {first} to {first + BATCH - 1}: Karpenter {prices[0]:.2f} USD/h, this program {prices[1]:.2f} USD/h")
    assert not wrong


def test_the_check_finds_mistakes() -> None:
    """The independent check is not vacuous: each planted mistake is found."""
    scenario = draw(2, topology=False)
    (right,) = answers(OURS, [scenario])
    assert not violations(scenario, right)
    claim = right["newNodeClaims"][0]
    smaller = min(scenario["instanceTypes"], key=lambda one: float(one["capacity"]["cpu"]))["name"]
    for mistake in (
        {**right, "newNodeClaims": right["newNodeClaims"][1:]},
        {**right, "newNodeClaims": [*right["newNodeClaims"], claim]},
        {**right, "newNodeClaims": [{**claim, "pods": _every_pod(right), "instanceTypes": [smaller]}], "existing": {}},
    ):
        assert violations(scenario, mistake)


def _every_pod(decision: dict[str, Any]) -> list[str]:
    return [name for claim in decision["newNodeClaims"] for name in claim["pods"]]


def _compared(scenario: dict[str, Any], theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    yield from violations(scenario, ours)
    placed, wanted = _placed(ours), _placed(theirs)
    if placed < wanted:
        yield f"{placed} pods placed, Karpenter places {wanted}"
    paid, price = _price(scenario, ours), _price(scenario, theirs)
    if placed == wanted and paid > price + 1e-6:
        yield f"{paid:.4f} USD an hour, Karpenter pays {price:.4f}"


def _placed(decision: dict[str, Any]) -> int:
    return len(_every_pod(decision)) + sum(len(names) for names in decision["existing"].values())


def _price(scenario: dict[str, Any], decision: dict[str, Any]) -> float:
    """The price of the cheapest offering that each NodeClaim allows."""
    types = {one["name"]: one for one in scenario["instanceTypes"]}
    total = 0.0
    for claim in decision["newNodeClaims"]:
        required = {r["key"]: r for r in claim["requirements"]}
        total += min(
            offering["Price"]
            for name in claim["instanceTypes"]
            for offering in types[name]["offerings"]
            if offering["Available"]
            and _allows(required.get("topology.kubernetes.io/zone"), offering["Zone"])
            and _allows(required.get("karpenter.sh/capacity-type"), offering["CapacityType"])
        )
    return total


def _allows(requirement: dict[str, Any] | None, value: str) -> bool:
    if requirement is None or requirement["operator"] not in ("In", "NotIn"):
        return True
    return (value in requirement["values"]) == (requirement["operator"] == "In")
