"""Drawn clusters, consolidated pass after pass: what holds for each command, and that the passes end.

The checks are those of `tests/oracle`, which know nothing of how commands are found: every pod has a place, the price
falls, no pod changes its GPU model, nothing that is blocked is touched, and the budgets are kept.
"""

import json
from typing import Any

import msgspec
import pytest

from cloudprovider.azure.cloud import AksCloud
from provisioner.api.time import parse_rfc3339
from provisioner.cli.commands.schedule_codec import Scenario, one_pass, types_of
from tests.oracle.disruption_cluster import apply, price, violations
from tests.oracle.disruption_scenarios import NOW, Kind, draw

pytestmark = pytest.mark.matrix(quick=6)
SEEDS = 50
PASSES_MAX = 30


def decided(scenario: dict[str, Any]) -> dict[str, Any]:
    now = parse_rfc3339(NOW)
    assert now is not None
    stated = msgspec.convert(scenario, Scenario)
    found: dict[str, Any] = json.loads(msgspec.json.encode(one_pass(stated, types_of(stated, AksCloud()), now)))
    return found


@pytest.mark.parametrize("kind", ["consolidation", "removal", "mixed"])
@pytest.mark.parametrize("first", range(0, 500, SEEDS))
def test_every_pass_keeps_the_rules(first: int, kind: Kind) -> None:
    """Fifty clusters at a time."""
    wrong = {}
    for seed in range(first, first + SEEDS):
        scenario = draw(seed, kind)
        for entry in scenario["nodes"]:
            # With one, drift does not wait for pods that nothing creates again; the check would look for their places.
            entry["nodeClaim"]["spec"].pop("terminationGracePeriod", None)
        if found := violations(scenario, decided(scenario)):
            wrong[seed] = found
    assert wrong == {}


@pytest.mark.parametrize("first", range(0, 500, SEEDS))
def test_consolidation_ends_and_each_pass_makes_the_fleet_cheaper(first: int) -> None:
    """Each pass is carried out before the next one."""
    saved = 0
    for seed in range(first, first + SEEDS):
        scenario = draw(seed, "consolidation")
        prices = [price(scenario)]
        for _ in range(PASSES_MAX):
            answer = decided(scenario)
            if not answer["commands"]:
                break
            assert violations(scenario, answer) == [], seed
            scenario = apply(scenario, answer)
            prices.append(price(scenario))
        assert len(prices) <= PASSES_MAX, f"seed {seed}: {prices}"
        assert prices == sorted(prices, reverse=True)
        assert len({*prices}) == len(prices), f"seed {seed}: {prices}"
        saved += prices[-1] < prices[0]
    assert saved


def test_the_same_cluster_has_the_same_answer() -> None:
    """Nothing depends on chance or on the order of the machines."""
    for seed in range(20):
        scenario = draw(seed, "consolidation")
        answers = [decided(one) for one in (scenario, scenario, {**scenario, "nodes": scenario["nodes"][::-1]})]
        assert answers[0] == answers[1] == answers[2], seed
