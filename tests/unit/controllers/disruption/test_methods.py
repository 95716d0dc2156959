"""One pass of the methods of disruption: their order, what a command leaves to the methods after it, and the causes."""

from typing import Any

import msgspec
import pytest

from controllers.disruption.blockers import NOMINATED, Unreported
from controllers.disruption.drift import NO_BUDGET
from controllers.disruption.emptiness import BUDGET
from controllers.disruption.methods import METHODS, Pass
from controllers.disruption.search import NOT_CHEAPER
from controllers.disruption.static_drift import NO_AGENT_POOL, static_drift
from provisioner.api import labels
from provisioner.api.time import EARLIEST

from .fleet import D8, NOW, T4, T4_16, T4_64, UP, Fleet, pool

DRIFTED = (*UP, "Drifted")
QUIET: dict[str, Any] = {"quiet_since": EARLIEST}
FULL = (
    "spec.limits[nodes] is 4 and counts NodeClaims that are being deleted or replaced: others are replaced after them"
)


def budget(nodes: str, **spec: Any) -> Fleet:
    return Fleet(pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": nodes}]}, **spec))


def one_of_each(nodes: str) -> Fleet:
    """A machine that is empty, one that has drifted, one that is too large for its pod, and one that is as needed."""
    fleet = budget(nodes).add("empty", T4, **QUIET).add("drifted", T4, [(1, 1)], up=DRIFTED)
    return created_since(fleet.add("large", T4_16, [(1, 1)]).add("fine", T4, [(1, 1)]))


def created_since(fleet: Fleet) -> Fleet:
    """The last machine is younger than the drift: others are replaced without waiting for the first one."""
    since = msgspec.structs.replace(fleet.claims[-1].metadata, creation_timestamp=NOW)
    fleet.claims[-1] = msgspec.structs.replace(fleet.claims[-1], metadata=since)
    return fleet


def run(fleet: Fleet, **view: Any) -> Pass:
    done = Pass(fleet.view(**view))
    done.run_all()
    return done


def found(done: Pass) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.reason, tuple(machine.claim.name for machine in one.machines)) for one in done.commands]


@pytest.mark.parametrize(
    ("nodes", "commands", "kept"),
    [
        ("0", "", {"empty": BUDGET, "drifted": NO_BUDGET}),
        ("1", "empty", {"drifted": NO_BUDGET}),
        ("2", "empty drifted", {}),
        ("3", "empty drifted large", {"fine": NOT_CHEAPER}),
    ],
)
def test_a_command_uses_the_budgets_of_the_methods_after_it(nodes: str, commands: str, kept: dict[str, str]) -> None:
    """Emptiness first, then drift, then consolidation."""
    done = run(one_of_each(nodes))
    assert found(done) == list(
        zip(("Empty", "Drifted", "Underutilized"), ((one,) for one in commands.split()), strict=False)
    )
    assert {name: why for name, why in done.kept.items() if name in kept} == kept
    assert not {*commands.split()} & done.kept.keys()


def test_the_controller_takes_the_first_command_that_is_found() -> None:
    """It runs one method after the other, and those after it another time."""
    one_pass = Pass(one_of_each("3").view())
    assert [bool(one_pass.run(method).command) for method in METHODS] == [True, False, True, True]


def test_a_cause_of_drift_comes_before_that_of_emptiness() -> None:
    """Both methods look at the machine; the budgets let neither act."""
    done = run(budget("0").add("a", T4, up=DRIFTED, **QUIET))
    assert done.kept == {"a": NO_BUDGET}
    assert isinstance(done.kept["a"], Unreported)


@pytest.mark.parametrize(("spec", "pods"), [({"replicas": 1}, []), ({}, [(1, 1)])])
def test_a_machine_that_takes_pods_of_a_command_is_kept(spec: dict[str, Any], pods: list[tuple[float, int]]) -> None:
    """As in the controller, which expects the pods there: neither another method nor the same one removes it."""
    fleet = Fleet(pool("first", **spec), pool("other"))
    fleet.add("a", T4_64, [(1, 1)], of="first", up=DRIFTED).add("b", T4_64, pods, of="other", up=DRIFTED)
    done = run(fleet)
    assert found(done) == [("Drifted", ("a",))]
    assert done.commands[0].destinations == ("b",)
    assert done.kept == {"b": NOMINATED}


def static(limit: str = "", names: str = "abc") -> Fleet:
    """A static NodePool of drifted machines, and of one that was created since."""
    limits: dict[str, Any] = {"limits": {"nodes": limit}} if limit else {}
    fleet = Fleet(pool(replicas=len(names), **limits))
    for name in names:
        fleet.add(name, T4, [(1, 1)], up=DRIFTED if name != "c" else UP)
    return created_since(fleet)


@pytest.mark.parametrize(
    ("fleet", "max_new", "replaced", "kept"),
    [
        (static(), None, "a b", {}),
        # The replacements do not exist yet; they count all the same.
        (static("4"), None, "a", {"b": FULL}),
        (static(), 1, "a", {"b": NO_AGENT_POOL}),
        (static(), 0, "", {"a": NO_AGENT_POOL, "b": NO_AGENT_POOL}),
    ],
)
def test_replacements_of_static_nodepools_count(
    fleet: Fleet, max_new: int | None, replaced: str, kept: dict[str, str]
) -> None:
    done = run(fleet, max_new=max_new)
    assert found(done) == [("Drifted", (name,)) for name in replaced.split()]
    assert done.kept == {"c": done.kept.get("c"), **kept}


@pytest.mark.parametrize(("most", "replaced"), [("1.6", ""), ("2.2", "a"), ("2.7", "a b")])
def test_replacements_of_static_nodepools_cost_what_the_limit_leaves(most: str, replaced: str) -> None:
    """Each of three machines costs 0.526 USD an hour, and so does a replacement beside them."""
    required = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4]}]
    owner = pool(replicas=3, requirements=required)
    meta = msgspec.structs.replace(owner.metadata, annotations={labels.COST_PER_HOUR: most})
    fleet = Fleet(msgspec.structs.replace(owner, metadata=meta))
    for name in "abc":
        fleet.add(name, T4, [(1, 1)], up=DRIFTED if name != "c" else UP)
    done = run(created_since(fleet))
    assert found(done) == [("Drifted", (name,)) for name in replaced.split()]
    held = [done.kept[name] for name in "ab" if name not in replaced]
    assert all(f"is {most}: its machines cost 1.578 USD an hour, another one up to 0.526" in why for why in held)


def test_an_error_of_one_nodepool_is_its_own() -> None:
    """A requirement that cannot be read ends the drift of its NodePool only."""
    wrong = pool("wrong", replicas=1, requirements=[{"key": "disk", "operator": "Near", "values": ["fast"]}])
    fleet = Fleet(wrong, pool(replicas=1)).add("a", T4, of="wrong", up=DRIFTED).add("b", D8, up=DRIFTED)
    evaluation = static_drift(fleet.view())
    assert evaluation.failed.keys() == {"wrong"}
    assert evaluation.command is not None
    assert [one.claim.name for one in evaluation.command.machines] == ["b"]
    with pytest.raises(ValueError, match="disk"):
        run(fleet)
