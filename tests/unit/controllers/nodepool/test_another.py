"""Whether a NodePool allows another machine in the place of one that is deleted."""

import msgspec
import pytest

from controllers.nodepool.counter import Usage, exceeded_limit
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool, NodePoolSpec
from tests.unit.builders import claim, node


def machine(name: str, **capacity: str) -> NodeClaim:
    made = claim(name=name, uid=name)
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, capacity=capacity))


LIMITS: list[tuple[str, dict[str, str | int | float], int, str]] = [
    ("no limit", {}, 3, ""),
    ("a limit that is used up is free again", {"nodes": "3"}, 3, ""),
    ("a limit that was lowered is not", {"nodes": "2"}, 3, "limit nodes: 2, needed 3"),
    ("no machine at all", {"nodes": "0"}, 1, "limit nodes: 0, needed 1"),
    ("GPUs that are used up", {"nvidia.com/gpu": "24"}, 3, ""),
    ("fewer GPUs", {"nvidia.com/gpu": 16}, 3, "limit nvidia.com/gpu: 16, needed 24"),
    ("CPUs", {"cpu": "250"}, 3, "limit cpu: 250, needed 288"),
    ("a resource that it does not have", {"amd.com/gpu": "0"}, 3, ""),
    ("a limit that cannot be read", {"nodes": "many"}, 3, ""),
]


@pytest.mark.parametrize(("case", "limits", "machines", "expected"), LIMITS, ids=[row[0] for row in LIMITS])
def test_limits(case: str, limits: dict[str, str | int | float], machines: int, expected: str) -> None:
    """The machine counts out first."""
    capacity = {"cpu": "96", "nvidia.com/gpu": "8"}
    found = [(machine(f"m{number}", **capacity), None) for number in range(machines)]
    assert exceeded_limit(NodePool(spec=NodePoolSpec(limits=limits)), found[0][0], Usage(found)) == expected, case


def test_the_other_machine_has_all_gpus() -> None:
    """One whose plugin shows 7 of 8 counts with 7 as long as it is there, and its replacement with 8."""
    old, pool = machine("a", **{"nvidia.com/gpu": "8"}), NodePool(spec=NodePoolSpec(limits={"nvidia.com/gpu": "7"}))
    assert exceeded_limit(pool, old, Usage([(old, node())])) == "limit nvidia.com/gpu: 7, needed 8"
