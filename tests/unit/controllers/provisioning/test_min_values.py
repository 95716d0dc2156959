"""`minValues` count the types that take all pods of a machine, within the limits of the NodePool."""

from typing import Any

import pytest

from .cases import decide, instance_type, node_pool, pods

TYPE = "node.kubernetes.io/instance-type"


def choosing(least: int, **changes: Any) -> dict[str, Any]:
    return node_pool(requirements=[{"key": TYPE, "operator": "Exists", "minValues": least}], **changes)


def test_pods_do_not_share_a_machine_that_leaves_too_few_types() -> None:
    """Two machines of the type that one machine for both would have: each pod alone fits all three types."""
    small = instance_type("t4-1")
    for offering in small["offerings"]:
        offering["Price"] = 5.0
    types = [small, instance_type("t4-4"), instance_type("a100-8")]
    decision = decide(pods=pods(2, gpus=1), instanceTypes=types, nodePools=[choosing(3)])
    assert decision.price == pytest.approx(2 * 4.3)
    assert [len(machine.instance_types) for machine in decision.machines] == [3, 3]


@pytest.mark.parametrize(("cpus", "machines", "left"), [("64", 0, 2), ("96", 1, 0), ("160", 1, 0)])
def test_types_that_count_more_towards_a_limit_are_listed_where_it_allows_them(
    cpus: str, machines: int, left: int
) -> None:
    """Both pods share a machine with 64 vCPUs; the second type has 96."""
    types = [instance_type("t4-4"), instance_type("a100-8")]
    decision = decide(pods=pods(2, gpus=2), instanceTypes=types, nodePools=[choosing(2, limits={"cpu": cpus})])
    assert (len(decision.machines), len(decision.errors)) == (machines, left)
    assert all(machine.instance_types == ("t4-4", "a100-8") for machine in decision.machines)


def test_a_limit_is_shared_by_the_largest_types_of_all_machines() -> None:
    """Each of three pods has a machine of its own; 200 vCPUs allow two of them to be as large as 96."""
    types = [instance_type("t4-4"), instance_type("a100-8")]
    decision = decide(pods=pods(3, gpus=4), instanceTypes=types, nodePools=[choosing(2, limits={"cpu": "200"})])
    assert (len(decision.machines), len(decision.errors)) == (2, 1)
