"""Metrics of voluntary disruption: commands, budgets and candidates."""

from collections.abc import Sequence
from typing import Any

import pytest

from controllers.disruption.command import Command
from controllers.disruption.commands_under_way import Replacement
from controllers.disruption.machine import Machine, count_of
from controllers.provisioning.solver.model import NewMachine
from provisioner.api.causes import REASONS, Reason
from provisioner.api.conditions import DISRUPTION_REASON, DRIFTED
from provisioner.api.meta import ObjectMeta
from provisioner.api.nodepool import Budget, Disruption, NodePool, NodePoolSpec
from provisioner.metrics.definitions import karpenter, own
from provisioner.metrics.observers.disruption import DisruptionMetrics
from provisioner.metrics.observers.label_values import NAMES_MAX
from provisioner.runtime.metrics import Metrics
from tests.unit.builders import NOW, claim, node, with_reason

UP = ("Launched", "Registered", "Initialized", "Ready")
VOLUNTARY = "karpenter_voluntary_disruption_"
ALLOWED, USED = "karpenter_nodepools_allowed_disruptions", "karpenter_nodepools_nodes_consuming_budgets"
NEW = NewMachine(node_pool="gpu", pods=(), instance_types=("s",), requirements={}, requests={}, price=1.0)


class At:
    """A clock that stands still."""

    def now(self) -> Any:
        return NOW


def machine(name: str, *kinds: str, down: dict[str, str] | None = None, **known: Any) -> Machine:
    """`kinds`: further conditions that are True."""
    made = claim(name=name, uid=name, up=() if down else (*UP, *kinds), down=down)
    return Machine(claim=made, node=node(), quiet_since=NOW, **known)


def pool(*budgets: Budget, name: str = "gpu") -> NodePool:
    disruption = Disruption(consolidate_after="0s", budgets=budgets)
    return NodePool(metadata=ObjectMeta(name=name), spec=NodePoolSpec(disruption=disruption))


def made(pools: Sequence[NodePool] = (), machines: Sequence[Machine] = ()) -> tuple[DisruptionMetrics, Metrics]:
    metrics = Metrics()
    errors = metrics.counter(own.OBSERVATION_ERRORS)
    clock: Any = At()
    observer = DisruptionMetrics(
        metrics,
        errors,
        clock,
        node_pools=lambda: pools,
        count=lambda _: count_of(machines),
        drifted=lambda _: machines,
    )
    return observer, metrics


def values(metrics: Metrics, name: str) -> dict[str, float]:
    """By the values of the labels of each series."""
    found = (one for family in metrics.registry.collect() for one in family.samples if one.name == name)
    return {" ".join(one.labels.values()): one.value for one in found}


def replaced(reason: str, *names: str) -> Replacement:
    return Replacement(id="c", old=tuple(with_reason(claim(name=name, uid=name), reason) for name in names), wanted=1)


@pytest.mark.parametrize(
    ("command", "labels"),
    [
        (Command(reason="Empty", machines=(machine("a"), machine("b"))), "delete empty empty"),
        (Command(reason="Drifted", machines=(machine("a"),), replacements=(NEW,)), "replace drifted "),
        (Command(reason="Drifted", machines=(machine("a"),)), "delete drifted "),
        (
            Command(reason="Underutilized", machines=(machine("a"),), replacements=(NEW,)),
            "replace underutilized single",
        ),
        (Command(reason="Underutilized", machines=(machine("a"), machine("b"))), "delete underutilized multi"),
    ],
)
def test_a_command_counts_once(command: Command, labels: str) -> None:
    observer, metrics = made()
    observer.decided(command)
    assert values(metrics, f"{VOLUNTARY}decisions_total") == {labels: 1}


def test_only_consolidation_saves() -> None:
    """A command that seems to cost more, because its prices changed, does not reduce the sum."""
    observer, metrics = made()
    for saving in (1.5, 2.0, -1.0):
        observer.decided(Command(reason="Underutilized", machines=(machine("a"),), saving=saving))
    observer.decided(Command(reason="Empty", machines=(machine("a"),), saving=9.0))
    assert values(metrics, own.CONSOLIDATION_SAVING.name) == {"": 3.5}


def test_rejected_machines_count_each() -> None:
    """The series exist before the first one."""
    observer, metrics = made()
    name = f"{VOLUNTARY}failed_validations_total"
    assert values(metrics, name) == {"empty": 0, "single": 0, "multi": 0}
    observer.rejected(Command(reason="Underutilized", machines=(machine("a"), machine("b"))))
    assert values(metrics, name) == {"empty": 0, "single": 0, "multi": 2}


@pytest.mark.parametrize(
    ("command", "labels"),
    [
        (replaced("Drifted", "a"), "replace drifted "),
        (replaced("Underutilized", "a"), "replace underutilized single"),
        (replaced("Underutilized", "a", "b"), "replace underutilized multi"),
    ],
)
def test_an_undone_command_has_the_labels_of_its_decision(command: Replacement, labels: str) -> None:
    """They are read from the objects: the decision may have been that of another process."""
    observer, metrics = made()
    observer.undone(command)
    assert values(metrics, f"{VOLUNTARY}queue_failures_total") == {labels: 1}


@pytest.mark.parametrize(
    ("reason", "labels"), [("Empty", "empty empty"), ("Drifted", "drifted "), ("Underutilized", "underutilized ")]
)
def test_durations_of_searches(reason: Reason, labels: str) -> None:
    observer, metrics = made()
    observer.evaluated(reason, 0.25)
    assert values(metrics, f"{VOLUNTARY}decision_evaluation_duration_seconds_sum") == {labels: 0.25}


NOT_READY, GOING = machine("not-ready", down={"Initialized": "NodeNotReady"}), machine("going", DISRUPTION_REASON)
NONE = dict.fromkeys(karpenter.VOLUNTARY, 0)
ONE_DRIFTED = Budget(nodes="1", reasons=("Drifted",))


def each(number: int) -> dict[str, float]:
    return {f"gpu {reason}": number for reason in REASONS}


@pytest.mark.parametrize(
    ("budgets", "machines", "allowed", "used"),
    [
        ((), [machine("a")], {}, {}),
        ((ONE_DRIFTED,), [machine("a"), GOING], {"gpu Drifted": 1}, {"gpu Drifted": 1}),
        ((Budget(nodes="50%"),), [machine("a"), machine("b"), NOT_READY, GOING], each(2), each(2)),
        ((Budget(nodes="soon"),), [machine("a")], each(0), each(0)),
    ],
)
def test_budgets(
    budgets: tuple[Budget, ...], machines: list[Machine], allowed: dict[str, float], used: dict[str, float]
) -> None:
    """Without a limit for a reason there are no series; a budget that cannot be read allows nothing."""
    _, metrics = made([pool(*budgets)], machines)
    assert (values(metrics, ALLOWED), values(metrics, USED)) == (allowed, used)


def test_eligible_machines() -> None:
    """Drifted ones are counted at the scrape; those that are going already or must not be disrupted do not count."""
    machines = [
        machine("fine"),
        machine("kept", DRIFTED, blocked="no", blocked_eventually="no"),
        machine("drifted", DRIFTED, blocked="pods"),
        machine("going", DRIFTED, DISRUPTION_REASON),
    ]
    pools = [pool(Budget(nodes="0"))]
    observer, metrics = made(pools, machines)
    name = f"{VOLUNTARY}eligible_nodes"
    assert values(metrics, name) == NONE | {"drifted": 1}
    observer.candidates("Underutilized", 3)
    observer.candidates("Empty", 2, "gpu")
    observer.candidates("Empty", 5, "deleted")
    assert values(metrics, name) == NONE | {"empty": 2, "drifted": 1, "underutilized": 3}
    observer.candidates("Underutilized", 0)
    assert values(metrics, name)["underutilized"] == 0


def test_no_series_without_node_pools() -> None:
    """Another replica, which disrupts nothing, exports none either."""
    observer, metrics = made()
    observer.candidates("Underutilized", 3)
    assert not values(metrics, f"{VOLUNTARY}eligible_nodes")


def test_names_of_node_pools_are_bounded() -> None:
    pools = [pool(Budget(nodes="1"), name=f"n{number}") for number in range(NAMES_MAX + 5)]
    _, metrics = made(pools, [machine("a")])
    assert len(values(metrics, ALLOWED)) == len(REASONS) * NAMES_MAX
