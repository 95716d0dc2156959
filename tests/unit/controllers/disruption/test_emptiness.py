"""Which machines are removed because they are empty, as a table."""

import math
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controllers.disruption.emptiness import VALIDATION_SECONDS, decide
from controllers.disruption.machine import Machine, count_of
from controllers.provisioning.pods import CachedPod
from provisioner.api.nodepool import Budget, Disruption, NodePool, NodePoolSpec
from tests.unit.builders import NOW, claim, node

UP = ("Launched", "Registered", "Initialized", "Ready")
TERMINATING = "InstanceTerminating"
NOT_READY = {"Initialized": "NodeNotReady"}
DUE = 240.0 + VALIDATION_SECONDS


def machine(name: str, seconds: float = 260.0, **known: Any) -> Machine:
    """A machine that has been quiet for so long."""
    own = {key: known.pop(key) for key in ("down", "deleting") if key in known}
    made = claim(name=name, uid=name, up=known.pop("up", UP), **own)
    return Machine(**{"claim": made, "node": node(), "quiet_since": NOW - timedelta(seconds=seconds), **known})


def pool(after: str = "4m", nodes: str = "100%", **spec: Any) -> NodePool:
    disruption = Disruption(consolidate_after=after, budgets=(Budget(nodes=nodes),))
    return NodePool(spec=NodePoolSpec(disruption=disruption, **spec))


@pytest.mark.parametrize(
    ("node_pool", "machines", "removed", "blocked", "after"),
    [
        (pool(), [], (), 0, math.inf),
        (pool(), [machine("a", DUE)], ("a",), 0, math.inf),
        (pool(), [machine("a", DUE - 1)], (), 0, 1.0),
        (pool(), [machine("a", nominated_seconds=7.0)], (), 0, 7.0),
        (pool(), [machine("a", DUE - 9, nominated_seconds=7.0)], (), 0, 9.0),
        (pool("0s"), [machine("a", VALIDATION_SECONDS)], ("a",), 0, math.inf),
        (pool("Never"), [machine("a")], (), 0, math.inf),
        (pool("soon"), [machine("a")], (), 0, math.inf),
        (pool(replicas=1), [machine("a")], (), 0, math.inf),
        (pool(), [machine("a"), machine("b", 290.0)], ("b", "a"), 0, math.inf),
        (pool(nodes="1"), [machine("a"), machine("b", 290.0)], ("b",), 1, math.inf),
        (pool(nodes="0"), [machine("a")], (), 1, math.inf),
        # What is being removed, and what is not Ready, uses the budget.
        (pool(nodes="1"), [machine("a"), machine("b", deleting=True)], (), 1, math.inf),
        (pool(nodes="1"), [machine("a"), machine("b", leaving=True)], (), 1, math.inf),
        (
            pool(nodes="1"),
            [machine("a"), machine("b", up=UP[:2], down=NOT_READY)],
            (),
            1,
            math.inf,
        ),
        (pool(nodes="2"), [machine("a"), machine("b", leaving=True)], ("a",), 0, math.inf),
        # A NodeClaim that waits for capacity, boots or was never launched is no machine yet, also while it is deleted.
        (pool(nodes="1"), [machine("a"), machine("b", up=("Launched",))], ("a",), 0, math.inf),
        (pool(nodes="1"), [machine("a"), machine("b", up=(), down={"Launched": "NoCapacity"})], ("a",), 0, math.inf),
        (pool(nodes="1"), [machine("a"), machine("b", up=("Launched",), deleting=True)], ("a",), 0, math.inf),
        # A percentage is of machines only.
        (pool(nodes="10%"), [machine("a"), *(machine(f"n{n}", up=()) for n in range(30))], ("a",), 0, math.inf),
        # The machine is gone but for its instance.
        (pool(nodes="1"), [machine("a"), machine("b", up=(*UP, TERMINATING), deleting=True)], ("a",), 0, math.inf),
        # No candidates.
        (pool(), [machine("a", pods=(CachedPod(),))], (), 0, math.inf),
        (pool(), [machine("a", leaving=True)], (), 0, math.inf),
        (pool(), [machine("a", deleting=True)], (), 0, math.inf),
        (pool(), [machine("a", node=None)], (), 0, math.inf),
        (pool(), [machine("a", up=UP[:2])], (), 0, math.inf),
        (pool(), [machine("a", blocked="a reason")], (), 0, math.inf),
    ],
)
def test_decide(
    node_pool: NodePool, machines: list[Machine], removed: tuple[str, ...], blocked: int, after: float
) -> None:
    """The conditions of the machines are five minutes old."""
    found = decide(node_pool, machines, count_of(machines), NOW)
    assert (tuple(one.claim.name for one in found.remove), found.blocked) == (removed, blocked)
    assert found.after == pytest.approx(after)


def test_blocked_machines_that_could_go_are_named() -> None:
    """One that is not empty for long enough is not named: nothing would be done to it."""
    machines = [machine("a", blocked="why"), machine("b", 1.0, blocked="why")]
    kept = decide(pool(), machines, count_of(machines), NOW).kept
    assert [one.claim.name for one in kept] == ["a"]


def test_the_time_begins_when_the_machine_is_initialized() -> None:
    """A machine that became usable a minute ago is not empty for longer."""
    young = machine("a")
    changed = tuple(
        msgspec.structs.replace(one, last_transition_time=NOW - timedelta(minutes=1))
        for one in young.claim.status.conditions
    )
    status = msgspec.structs.replace(young.claim.status, conditions=changed)
    young = msgspec.structs.replace(young, claim=msgspec.structs.replace(young.claim, status=status))
    found = decide(pool(), [young], count_of([young]), NOW)
    assert not found.remove
    assert found.after == pytest.approx(DUE - 60.0)
