"""Which drifted machine of dynamic NodePools is replaced, and by what, as a table."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controllers.disruption.command import Evaluation
from controllers.disruption.drift import NO_BUDGET, drift
from controllers.disruption.retries import Undone
from controllers.disruption.search import WAITS
from provisioner.api import labels
from provisioner.api.nodepool import NodePool

from .fleet import A100, D2, D4, D8, D16, NOW, T4, UP, Fleet, pod, pool

SIZE, COST = labels.INSTANCE_TYPE, labels.COST_PER_HOUR
DRIFTED = (*UP, "Drifted")
GOING = (*DRIFTED, "DisruptionReason")


NEVER: dict[str, Any] = {"disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}}


def budget(nodes: str) -> NodePool:
    return pool(disruption={"budgets": [{"nodes": nodes, "reasons": ["Drifted"]}]})


@pytest.mark.parametrize(
    ("fleet", "machine", "replacements"),
    [
        (Fleet().add("a", T4, [(1, 1)]), None, ()),
        # As many as the pods need, of the same GPU model.
        (Fleet().add("a", T4, [(1, 1)], up=DRIFTED), "a", (T4,)),
        (Fleet().add("a", A100, [(1, 1)], up=DRIFTED), "a", (A100,)),
        # The pods have room elsewhere.
        (Fleet().add("a", D4, [(1, 0)], up=DRIFTED).add("b", D8, [(1, 0)]), "a", ()),
        # One is replaced by several where that is what the pods need.
        (
            Fleet(pool(requirements=[{"key": SIZE, "operator": "In", "values": [D4]}])).add(
                "a", D16, [(3, 0)] * 3, up=DRIFTED
            ),
            "a",
            (D4,) * 3,
        ),
        # Whatever the NodePool states about consolidation.
        (Fleet(pool(**NEVER)).add("a", T4, up=DRIFTED), "a", ()),
        (Fleet(pool(policy="WhenEmpty", **NEVER)).add("a", T4, [(1, 1)], up=DRIFTED), "a", (T4,)),
        # A limit in money, of which the old machine leaves its part.
        (Fleet(pool(limits={COST: "0.6"})).add("a", T4, [(1, 1)], up=DRIFTED), "a", (T4,)),
        (Fleet(pool(limits={COST: "0.5"})).add("a", T4, [(1, 1)], up=DRIFTED), None, ()),
        (Fleet(pool(limits={COST: "0.6"})).add("a", T4, [(1, 1)], up=DRIFTED).add("b", T4, [(1, 1)]), None, ()),
        # Labels that are only needed for a price.
        (Fleet().add("a", D4, [(1, 0)], up=DRIFTED, labels={labels.CAPACITY_TYPE: ""}), "a", (D2,)),
        (Fleet().add("a", D4, [(1, 0)], up=DRIFTED, labels={labels.ZONE: ""}), "a", (D2,)),
        (Fleet().add("a", D4, [(1, 0)], up=DRIFTED, labels={labels.INSTANCE_TYPE: ""}), "a", (D2,)),
        (Fleet().add("a", "Standard_X", [(1, 0)], up=DRIFTED), "a", (D2,)),
        # A machine without pods goes first.
        (Fleet().add("a", T4, [(1, 1)], up=DRIFTED).add("b", T4, up=DRIFTED), "b", ()),
        # Not while the first replacement is under way.
        (Fleet().add("a", T4, [(1, 1)], up=DRIFTED).add("b", T4, [(1, 1)], up=GOING), None, ()),
        # Static NodePools are others' task.
        (Fleet(pool(replicas=1)).add("a", T4, [(1, 1)], up=DRIFTED), None, ()),
    ],
)
def test_drift(fleet: Fleet, machine: str | None, replacements: tuple[str, ...]) -> None:
    command = drift(fleet.view()).command
    if command is None:
        assert machine is None
        return
    assert [one.claim.name for one in command.machines] == [machine]
    assert tuple(one.instance_types[0] for one in command.replacements) == replacements


@pytest.mark.parametrize(
    ("fleet", "why"),
    [
        (Fleet().add("a", T4, [(1, 1)], up=DRIFTED, blocked_eventually="protected"), "protected"),
        (
            Fleet().add("a", T4, [pod("p", on="a", nodeSelector={"disk": "fast"})], up=DRIFTED),
            "not all pods would schedule, default/p => ",
        ),
        (
            Fleet().add("a", T4, [pod("p", on="a", meta={"ownerReferences": []})], up=DRIFTED),
            "Pod would not be created again elsewhere (Pod=default/p)",
        ),
    ],
)
def test_what_keeps_a_drifted_machine(fleet: Fleet, why: str) -> None:
    found = drift(fleet.view())
    assert found.command is None
    assert found.kept["a"].startswith(why)


def test_a_condition_that_is_false_is_no_drift() -> None:
    fleet = Fleet().add("a", T4, [(1, 1)], up=DRIFTED)
    (claim,) = fleet.claims
    conditions = tuple(
        msgspec.structs.replace(one, status="False") if one.type == "Drifted" else one
        for one in claim.status.conditions
    )
    fleet.claims = [msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=conditions))]
    assert drift(fleet.view()).command is None


def test_the_longest_drifted_goes_first() -> None:
    fleet = Fleet()
    for name, minutes in (("a", 1), ("b", 3), ("c", 2)):
        fleet.add(name, T4, [(1, 1)], up=DRIFTED)
        claim = fleet.claims.pop()
        since = tuple(
            msgspec.structs.replace(one, last_transition_time=NOW - timedelta(minutes=minutes))
            for one in claim.status.conditions
        )
        fleet.claims.append(
            msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, conditions=since))
        )
    command = drift(fleet.view()).command
    assert command is not None
    assert [one.claim.name for one in command.machines] == ["b"]


def test_each_nodepool_has_its_own_budget() -> None:
    fleet = Fleet(budget("0"), pool("other", disruption={"budgets": [{"nodes": "1"}]}))
    found = drift(fleet.add("a", T4, [(1, 1)], up=DRIFTED).add("b", T4, [(1, 1)], of="other", up=DRIFTED).view())
    assert found.held == {"gpu": NO_BUDGET}
    assert found.command is not None
    assert [one.claim.name for one in found.command.machines] == ["b"]


@pytest.mark.parametrize(
    ("value", "replacements"), [("true", ()), ("15m", ()), ("", (D2,))], ids=["protected", "for a time", "not"]
)
def test_no_place_is_bought_for_a_pod_that_does_not_leave(value: str, replacements: tuple[str, ...]) -> None:
    """A terminationGracePeriod bounds the drain; until then the pod runs on, and is not expected elsewhere."""
    notes = {"annotations": {labels.DO_NOT_DISRUPT: value}} if value else {}
    fleet = Fleet().add("a", D4, up=DRIFTED)
    fleet.pods.append(msgspec.structs.replace(pod("p", on="a", meta=notes), started=NOW))
    (claim,) = fleet.claims
    spec = msgspec.structs.replace(claim.spec, termination_grace_period="1h")
    fleet.claims = [msgspec.structs.replace(claim, spec=spec)]
    command = drift(fleet.view()).command
    assert command is not None
    assert tuple(one.instance_types[0] for one in command.replacements) == replacements


def test_budgets_and_waits() -> None:
    """A NodePool whose budget is used up is named; one that waits after a failure is not looked at."""
    fleet = Fleet(budget("0")).add("a", T4, [(1, 1)], up=DRIFTED)
    assert drift(fleet.view()).held == {"gpu": NO_BUDGET}
    assert NO_BUDGET.startswith("No allowed disruptions")
    fleet = Fleet(budget("1")).add("a", T4, [(1, 1)], up=DRIFTED)
    assert drift(fleet.view()).command is not None
    found = drift(fleet.view(undone={"Drifted": Undone(pools={"gpu": "sold out"})}))
    assert (found.command, found.held) == (None, {"gpu": f"{WAITS}: sold out"})
    assert drift(fleet.view(node_pools=())).command is None


def stuck(number: int) -> Fleet:
    """So many drifted machines whose pods find no place, and `z` of another NodePool, whose pod finds one."""
    fleet = Fleet(pool("stuck"), pool("fine"))
    for index in range(number):
        name, rack = f"a{index:03}", {"rack": str(index)}
        fleet.add(name, T4, [pod(f"p{name}", 1, 1, name, nodeSelector=rack)], of="stuck", up=DRIFTED, labels=rack)
    return fleet.add("z", T4, [(1, 1)], of="fine", up=DRIFTED)


def test_the_search_goes_on_after_machines_that_find_no_place() -> None:
    found = drift(stuck(20).view())
    assert found.command is not None
    assert [one.claim.name for one in found.command.machines] == ["z"]
    assert len(found.kept) == 20


def test_every_machine_has_its_turn() -> None:
    """More machines than one pass simulates: another part of them comes first in each pass."""
    fleet = stuck(200)
    found = (drift(fleet.view(now=NOW + timedelta(seconds=10 * number))).command for number in range(20))
    assert any(one is not None and one.machines[0].claim.name == "z" for one in found)


def test_a_machine_whose_replacement_was_undone_goes_to_the_end() -> None:
    """It waits first; when it may be tried again, the others come before it."""
    fleet = Fleet().add("a", T4, [(1, 1)], up=DRIFTED).add("b", A100, [(1, 1)], up=DRIFTED)

    def first(found: Evaluation) -> str:
        return found.command.machines[0].claim.name if found.command is not None else ""

    assert first(drift(fleet.view())) == "a"
    found = drift(fleet.view(undone={"Drifted": Undone(waiting={"uid-a": "sold out"})}))
    assert (first(found), found.kept["a"].endswith("undone: sold out")) == ("b", True)
    for numbers, expected in (({"uid-a": 1}, "b"), ({"uid-a": 1, "uid-b": 2}, "a")):
        assert first(drift(fleet.view(undone={"Drifted": Undone(numbers=numbers)}))) == expected
