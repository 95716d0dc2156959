"""Which drifted machines of a static NodePool are replaced, as a table."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from controllers.disruption.drift import NO_BUDGET
from controllers.disruption.machine import Machine
from controllers.disruption.retries import Undone
from controllers.disruption.search import WAITS
from controllers.disruption.static_drift import NO_AGENT_POOL, Due, due_now
from controllers.nodepool.replica_schedules import desired
from provisioner.api.conditions import DISRUPTION_REASON, DRIFTED
from provisioner.api.nodepool import Budget, Disruption, NodePool, NodePoolSpec
from tests.unit.builders import BORN, NOW, claim, node

UP = ("Launched", "Registered", "Initialized", "Ready")
NO_ROOM = "spec.limits[nodes] allows no replacement; raise it above spec.replicas, which is 2"
FULL = (
    "spec.limits[nodes] is 3 and counts NodeClaims that are being deleted or replaced: others are replaced after them"
)
SURPLUS = (
    "Waiting for the deletion of 1 NodeClaims beyond spec.replicas, which is 1, before others are replaced; Events of"
    " NodeClaims state which deletions are refused"
)


def machine(
    name: str, *kinds: str, up: tuple[str, ...] = UP, deleting: bool = False, younger: int = 0, **known: object
) -> Machine:
    """`kinds`: further conditions that are True. Conditions begin five minutes after BORN."""
    made = claim(name=name, uid=name, up=(*up, *kinds), deleting=deleting)
    meta = msgspec.structs.replace(made.metadata, creation_timestamp=BORN + timedelta(minutes=younger))
    return Machine(claim=msgspec.structs.replace(made, metadata=meta), node=node(), quiet_since=BORN, **known)  # type: ignore[arg-type]


def due(node_pool: NodePool, machines: list[Machine], now: datetime, **known: Any) -> Due:
    """Without a schedule."""
    return due_now(node_pool, machines, now, target=desired(node_pool, (), now), **known)


def pool(replicas: int | None = 2, nodes: str = "100%") -> NodePool:
    budgets = (Budget(nodes=nodes, reasons=("Drifted",)),)
    return NodePool(spec=NodePoolSpec(replicas=replicas, disruption=Disruption(budgets=budgets)))


def limited(found: NodePool, nodes: str) -> NodePool:
    return NodePool(spec=msgspec.structs.replace(found.spec, limits={"nodes": nodes}))


A, B = machine("a", DRIFTED), machine("b", DRIFTED)
FINE = machine("fine", younger=6)
BOOTING = machine("new", up=("Launched",), younger=6)
GOING = machine("going", DRIFTED, DISRUPTION_REASON)


@pytest.mark.parametrize(
    ("node_pool", "machines", "replaced", "held"),
    [
        (pool(None), [A, B], "", ""),
        (pool(), [machine("a"), machine("b")], "", ""),
        # The first one alone, until a machine that was created since is Initialized.
        (pool(), [B, A], "a", ""),
        (pool(), [A, GOING], "", ""),
        (pool(), [A, GOING, machine("new", up=(), younger=6)], "", ""),
        (pool(3), [A, GOING, B, FINE], "a b", ""),
        (pool(3), [A, B, FINE], "a b", ""),
        (pool(3), [A, B, machine("before")], "a", ""),
        # Without replicas there is nothing to replace.
        (pool(0), [], "", ""),
        (pool(0), [machine("gone", DRIFTED, deleting=True)], "", ""),
        # Budgets, also used by what is going or not Ready.
        (pool(3, nodes="1"), [A, B, FINE], "a", ""),
        (pool(3, nodes="1"), [A, GOING, B, FINE], "", NO_BUDGET),
        # A command uses the budget once, though its replacement boots; a machine whose instance goes does not use it.
        (pool(4, nodes="2"), [A, GOING, BOOTING, FINE, machine("other")], "a", ""),
        (pool(3, nodes="1"), [A, B, FINE, machine("gone", "InstanceTerminating", deleting=True)], "a", ""),
        (pool(3, nodes="1"), [A, B, FINE, machine("drains", deleting=True)], "", NO_BUDGET),
        (pool(nodes="0"), [A, B], "", NO_BUDGET),
        (pool(10, nodes="10%"), [A, B, *(machine(f"n{n}", younger=6) for n in range(8))], "a", ""),
        # More than spec.replicas: a scale-down is under way, or the API server refuses it.
        (pool(1), [A, B], "", SURPLUS),
        (pool(1), [A, GOING, FINE], "", SURPLUS),
        # The limit on Nodes.
        (limited(pool(), "2"), [A, B], "", NO_ROOM),
        (limited(pool(3), "4"), [A, B, FINE], "a", ""),
        # It is high enough: one that was replaced is still being deleted, or one is being replaced.
        (limited(pool(), "3"), [A, FINE, machine("gone", "InstanceTerminating", deleting=True)], "", FULL),
        (limited(pool(), "3"), [A, GOING, BOOTING], "", FULL),
        # Machines that must not be disrupted.
        (pool(), [msgspec.structs.replace(A, blocked_eventually="do-not-disrupt"), B], "b", ""),
        (pool(), [msgspec.structs.replace(A, leaving=True), B, FINE], "b", ""),
    ],
)
def test_due_now(node_pool: NodePool, machines: list[Machine], replaced: str, held: str) -> None:
    found = due(node_pool, machines, NOW)
    assert (" ".join(one.claim.name for one in found.replace), found.held) == (replaced, held)


def test_a_condition_that_is_false_is_no_drift() -> None:
    made = claim(name="a", uid="a", up=UP, down={DRIFTED: "NoDrift"})
    found = due(pool(1), [Machine(claim=made, node=node(), quiet_since=BORN)], NOW)
    assert (found.replace, found.held, found.kept) == ((), "", {})


def since(one: Machine, days: float) -> Machine:
    """It has drifted for so many days, and was created a week before NOW."""
    at = NOW - timedelta(days=days)
    conditions = tuple(
        msgspec.structs.replace(found, last_transition_time=at) if found.type == DRIFTED else found
        for found in one.claim.status.conditions
    )
    meta = msgspec.structs.replace(one.claim.metadata, creation_timestamp=NOW - timedelta(days=7))
    status = msgspec.structs.replace(one.claim.status, conditions=conditions)
    return msgspec.structs.replace(one, claim=msgspec.structs.replace(one.claim, metadata=meta, status=status))


KEPT = msgspec.structs.replace(since(machine("kept", DRIFTED), 30), blocked_eventually="do-not-disrupt")
TODAY = [since(machine(name, DRIFTED), 0) for name in ("c", "d", "e")]
LAST_WEEK = since(machine("fine"), 0)


@pytest.mark.parametrize(
    ("machines", "replaced"),
    [
        # A machine that drifted a month ago and stays: machines of last week prove nothing about the drift of today.
        ([KEPT, *TODAY], "c"),
        ([KEPT, *TODAY, LAST_WEEK], "c"),
        # What was created since the older drift proves that one, unless it has drifted as well.
        ([since(machine("a", DRIFTED), 30), *TODAY], "a"),
        ([since(machine("a", DRIFTED), 30), since(machine("b", DRIFTED), 29), *TODAY, LAST_WEEK], "a b c"),
    ],
)
def test_each_drift_needs_its_own_proof(machines: list[Machine], replaced: str) -> None:
    found = due(pool(len(machines)), machines, NOW)
    assert " ".join(one.claim.name for one in found.replace) == replaced


@pytest.mark.parametrize(("max_new", "replaced", "held"), [(None, "a b", ""), (1, "a", ""), (0, "", NO_AGENT_POOL)])
def test_room_under_the_limit_on_agent_pools(max_new: int | None, replaced: str, held: str) -> None:
    found = due(pool(3), [A, B, FINE], NOW, max_new=max_new)
    assert (" ".join(one.claim.name for one in found.replace), found.held) == (replaced, held)


def test_a_machine_whose_replacement_was_undone_goes_to_the_end() -> None:
    def names(**known: object) -> str:
        found = due(pool(3, nodes="2"), [A, B, FINE], NOW, **known)
        return " ".join(one.claim.name for one in found.replace)

    assert names() == "a b"
    assert names(undone=Undone(numbers={"a": 1})) == "b a"
    assert names(undone=Undone(numbers={"a": 1}, waiting={"a": "no place"})) == "b"


@pytest.mark.parametrize(
    ("machines", "budget", "kept"),
    [
        ([A, B], "100%", {"a": f"{WAITS}: no place"}),
        ([machine("b", DRIFTED, blocked_eventually="do-not-disrupt")], "100%", {"b": "do-not-disrupt"}),
        ([machine("a", DRIFTED, blocked_eventually="do-not-disrupt")], "100%", {"a": "do-not-disrupt"}),
        # The Event of the NodePool states the budget. What has not drifted, or is going, needs no cause.
        ([A, B], "0", {}),
        ([machine("a", blocked_eventually="do-not-disrupt"), GOING], "100%", {}),
    ],
)
def test_why_machines_are_kept(machines: list[Machine], budget: str, kept: dict[str, str]) -> None:
    found = due(pool(len(machines), nodes=budget), machines, NOW, undone=Undone(waiting={"a": "no place"}))
    assert found.kept == kept
