"""The catalogue of faults: complete, and each fault is injected, by the tests that it names or by its verb."""

import ast
import re
from pathlib import Path

import pytest

from tests.swarm import catalogue
from tests.swarm.plan import Claim, Event, NodePool, Plan, Workload
from tests.swarm.run import execute
from tests.swarm.verbs import VERBS

ROOT = Path(__file__).parents[2]
RELIABILITY, RULES = ROOT / "docs/references/reliability.md", ROOT / "docs/references/rules.md"
ROWS = catalogue.faults()
INJECTED = [one for one in ROWS.values() if one.verb]
T4 = "Standard_NC4as_T4_v3"
FAULTS_SECONDS = 300.0


def known_faults() -> set[int]:
    """The numbers of docs/references/reliability.md#faults."""
    text = RELIABILITY.read_text().partition("## Faults\n")[2].partition("\n## ")[0]
    return {int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}


def known_invariants() -> set[str]:
    return set(re.findall(r"^\| (I\d+) \|", RULES.read_text(), re.MULTILINE))


def test_each_known_fault_has_a_row() -> None:
    """Names are unique because `faults()` has as many rows as the file."""
    ids = [one.id for one in ROWS.values()]
    assert len(ids) == len(set(ids)) == catalogue.FILE.read_text().count("[[fault]]")
    assert known_faults() == set(range(1, 71))
    assert known_faults() <= set(ids)


def test_each_row_is_injected() -> None:
    """By a verb, which has a rate, or by tests; each verb has a row."""
    for one in ROWS.values():
        assert one.verb or one.tests, one.name
        assert not one.verb or 0.0 < one.per_hour[0] <= one.per_hour[1], one.name
        assert one.seconds[0] <= one.seconds[1], one.name
    assert {one.verb for one in INJECTED} == set(VERBS)


def test_what_must_hold_is_an_invariant() -> None:
    for one in ROWS.values():
        assert one.must_hold, one.name
        assert set(one.must_hold) <= known_invariants(), one.name


@pytest.mark.parametrize("test", sorted({test for one in ROWS.values() for test in one.tests}))
def test_the_tests_exist(test: str) -> None:
    path, _, name = test.partition("::")
    defined = ast.walk(ast.parse((ROOT / path).read_text()))
    assert name in {one.name for one in defined if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def small_plan(fault: catalogue.Fault) -> Plan:
    """Two claims, one of which is deleted, a NodePool of spot machines, and a static one; the fault strikes them often.

    With several picks, because a fault of one of several verbs of Azure strikes only requests of this verb.
    """
    moments = ((0.5, 0.05), (40.0, 0.8), (130.0, 0.3), (200.0, 0.55))
    seconds = min(max(fault.seconds[0], 60.0), fault.seconds[1])
    return Plan(
        seed=1,
        faults_seconds=FAULTS_SECONDS,
        azure={"create_seconds": (30.0, 40.0), "delete_seconds": (20.0, 30.0)},
        nodes={"gpu_seconds": (1.0, 2.0), "ready_seconds": (1.0, 2.0)},
        policy={"max_agent_pools": 10},
        facts={"nvsentinel": True},
        node_pools=(
            NodePool(name="spot", sizes=(T4,), capacity=("spot",)),
            NodePool(name="fixed", sizes=(T4,), replicas=1),
        ),
        workloads=(Workload(at=1.0, name="w", node_pool="spot"),),
        claims=(Claim(at=0.0, name="stays", size=T4), Claim(at=1.5, name="goes", size=T4, gone_at=150.0)),
        events=tuple(Event(at=at, fault=fault.name, pick=pick, seconds=seconds) for at, pick in moments),
    )


@pytest.mark.parametrize("name", [one.name for one in INJECTED])
def test_each_verb_strikes(name: str) -> None:
    """And no invariant is violated meanwhile."""
    outcome = execute(small_plan(ROWS[name]), whole=False)
    assert not outcome.why, outcome.error
    assert outcome.happened[name] > 0
