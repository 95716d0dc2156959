"""Which drifted machine of dynamic NodePools is replaced, and by what, as a table."""

import pytest

from controllers.disruption.drift import NO_BUDGET, drift
from provisioner.api.nodepool import NodePool

from .fleet import A100, D4, D8, T4, UP, Fleet, pod, pool

DRIFTED = (*UP, "Drifted")
GOING = (*DRIFTED, "DisruptionReason")


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


def test_budgets_and_waits() -> None:
    """A NodePool whose budget is used up is named; one that waits after a failure is not looked at."""
    fleet = Fleet(budget("0")).add("a", T4, [(1, 1)], up=DRIFTED)
    assert drift(fleet.view()).no_budget == ("gpu",)
    assert NO_BUDGET.startswith("No allowed disruptions")
    fleet = Fleet(budget("1")).add("a", T4, [(1, 1)], up=DRIFTED)
    assert drift(fleet.view()).command is not None
    assert drift(fleet.view(), waits=lambda _: True).command is None
