"""Whether a Node with taints is capacity for a pending pod, before and after its initialization.

Each row is a behavior that the scheduling tests of Karpenter specify, see docs/references/karpenter-suites.md.
"""

from typing import Any

import msgspec
import pytest

from controllers.provisioning.solver.solver import solve
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from .observed import claim, node, node_pool, observe, pod

Json = dict[str, Any]
INITIALIZED = {"karpenter.sh/initialized": "true", "karpenter.sh/registered": "true"}
OTHER: Json = {"key": "foo.com/taint", "value": "tainted", "effect": "NoSchedule"}
NOT_READY: Json = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}


def tainted(*taints: Json, labels: dict[str, str] | None = None) -> Node:
    made = node("n", labels=labels)
    spec = msgspec.convert({"taints": [*taints]}, type(made.spec))
    return msgspec.structs.replace(made, spec=spec)


def starting_with(*taints: Json) -> NodeClaim:
    made = claim("c", node="n")
    spec = msgspec.convert({**msgspec.to_builtins(made.spec), "startupTaints": [*taints]}, type(made.spec))
    return msgspec.structs.replace(made, spec=spec)


ROWS: list[tuple[str, NodeClaim, Node, bool]] = [
    ("no taint", starting_with(), tainted(), True),
    ("not ready before its initialization", starting_with(), tainted(NOT_READY), True),
    ("not ready afterwards", starting_with(), tainted(NOT_READY, labels=INITIALIZED), False),
    ("another taint", starting_with(), tainted(OTHER, labels=INITIALIZED), False),
    ("another taint before its initialization", starting_with(), tainted(OTHER), False),
    ("a startup taint", starting_with(OTHER), tainted(OTHER), True),
    ("a startup taint after its initialization", starting_with(OTHER), tainted(OTHER, labels=INITIALIZED), False),
]


@pytest.mark.parametrize(("made", "shown", "taken"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_nodes_with_taints(made: NodeClaim, shown: Node, taken: bool) -> None:
    """Startup taints and those of a starting Node end with its initialization; until then it takes pods."""
    pool = node_pool()
    template = msgspec.structs.replace(pool.spec.template.spec, taints=())
    pool = msgspec.structs.replace(
        pool,
        spec=msgspec.structs.replace(pool.spec, template=msgspec.structs.replace(pool.spec.template, spec=template)),
    )
    found = observe(node_pools=(pool,), claims=(made,), nodes=(shown,), pods=(pod("p"),))
    decision = solve(found.snapshot)
    assert not decision.errors
    assert [*decision.existing] == (["n"] if taken else [])
    assert len(decision.machines) == (not taken)
