"""Which drifted machines of a static NodePool are replaced, as a table."""

from datetime import timedelta

import msgspec
import pytest

from controllers.disruption.drift import NO_BUDGET
from controllers.disruption.machine import Machine
from controllers.disruption.static_drift import static_drift
from provisioner.api.conditions import DISRUPTION_REASON, DRIFTED
from provisioner.api.nodepool import Budget, Disruption, NodePool, NodePoolSpec
from tests.unit.builders import BORN, NOW, claim, node

UP = ("Launched", "Registered", "Initialized", "Ready")
NO_ROOM = "spec.limits[nodes] allows no replacement; raise it above spec.replicas, which is 2"


def machine(
    name: str, *kinds: str, up: tuple[str, ...] = UP, deleting: bool = False, younger: int = 0, **known: object
) -> Machine:
    """`kinds`: further conditions that are True. Conditions begin five minutes after BORN."""
    made = claim(name=name, uid=name, up=(*up, *kinds), deleting=deleting)
    meta = msgspec.structs.replace(made.metadata, creation_timestamp=BORN + timedelta(minutes=younger))
    return Machine(claim=msgspec.structs.replace(made, metadata=meta), node=node(), quiet_since=BORN, **known)  # type: ignore[arg-type]


def pool(replicas: int | None = 2, nodes: str = "100%") -> NodePool:
    budgets = (Budget(nodes=nodes, reasons=("Drifted",)),)
    return NodePool(spec=NodePoolSpec(replicas=replicas, disruption=Disruption(budgets=budgets)))


def limited(found: NodePool, nodes: str) -> NodePool:
    return NodePool(spec=msgspec.structs.replace(found.spec, limits={"nodes": nodes}))


A, B = machine("a", DRIFTED), machine("b", DRIFTED)
FINE = machine("fine", younger=6)
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
        # Budgets, also used by what is going or not Ready.
        (pool(3, nodes="1"), [A, B, FINE], "a", ""),
        (pool(3, nodes="1"), [A, GOING, B, FINE], "", NO_BUDGET),
        (pool(nodes="0"), [A, B], "", NO_BUDGET),
        # More than spec.replicas: a scale-down or an earlier replacement is under way.
        (pool(1), [A, B], "", ""),
        # The limit on Nodes.
        (limited(pool(), "2"), [A, B], "", NO_ROOM),
        (limited(pool(3), "4"), [A, B, FINE], "a", ""),
        # Machines that must not be disrupted.
        (pool(), [msgspec.structs.replace(A, blocked_eventually="do-not-disrupt"), B], "b", ""),
        (pool(), [msgspec.structs.replace(A, leaving=True), B, FINE], "b", ""),
    ],
)
def test_static_drift(node_pool: NodePool, machines: list[Machine], replaced: str, held: str) -> None:
    found = static_drift(node_pool, machines, NOW)
    assert (" ".join(one.claim.name for one in found.replace), found.held) == (replaced, held)
