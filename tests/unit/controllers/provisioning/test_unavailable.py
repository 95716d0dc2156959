"""Machines that are not available: what is bought instead, and what the error of a pod states."""

from typing import Any

import pytest

from provisioner.api.labels import CAPACITY_TYPE

from .cases import SIZES, decide, instance_type, node_pool, pod

NO_QUOTA, RESTRICTED, NO_CAPACITY = "no quota is left", "it is restricted", "Azure has no capacity"
Causes = dict[str, str]


def types(causes: Causes) -> list[dict[str, Any]]:
    """All sizes; those with a cause are not available."""
    found = [instance_type(name) for name in SIZES]
    for one in found:
        for offering in one["offerings"]:
            offering |= {"Available": one["name"] not in causes, "Cause": causes.get(one["name"], "")}
    return found


EVERY = {"t4-1": NO_QUOTA, "t4-4": NO_QUOTA, "a100-8": RESTRICTED}


@pytest.mark.parametrize(
    ("causes", "wanted", "expected"),
    [
        (EVERY, {"gpus": 1}, f"(not available now: {NO_QUOTA}, {RESTRICTED})"),
        ({**EVERY, "t4-4": NO_CAPACITY}, {"gpus": 1}, f"(not available now: {NO_QUOTA}, {NO_CAPACITY} and 1 more)"),
        ({"a100-8": NO_QUOTA}, {"gpus": 8}, f"8 requested, at most 4 on one machine (not available now: {NO_QUOTA})"),
        ({"a100-8": NO_QUOTA}, {"nodeSelector": {"model": "a100"}}, f"(not available now: {NO_QUOTA})"),
        ({"a100-8": NO_QUOTA}, {"gpus": 9}, "at most 4 on one machine"),
        ({"a100-8": NO_QUOTA}, {"nodeSelector": {"model": "h100"}}, "the machines have [cpu t4]"),
        ({"a100-8": ""}, {"gpus": 8}, "8 requested, at most 4 on one machine"),
    ],
    ids=["all", "two are shown", "too small", "another model", "fits none", "is none", "unknown"],
)
def test_causes(causes: Causes, wanted: dict[str, Any], expected: str) -> None:
    """Only of machines that would take the pod, the cheapest first."""
    decision = decide(instanceTypes=types(causes), pods=[pod("p", **wanted)])
    (error,) = decision.errors.values()
    assert error.endswith(expected)


@pytest.mark.parametrize(
    ("spot", "available", "expected"),
    [
        (0.2, True, (["spot"], 0.2)),
        (0.45, True, (["on-demand", "spot"], 0.45)),
        (0.5, True, (["on-demand", "spot"], 0.5)),
        (0.2, False, (["on-demand"], 0.5)),
    ],
)
def test_the_cheaper_capacity_type_is_bought(spot: float, available: bool, expected: tuple[list[str], float]) -> None:
    """A NodePool with both: all within 15 % of the cheapest that is available."""
    kind = instance_type("t4-1", zones=("",), requirements=[])
    on_demand = {"Zone": "", "CapacityType": "on-demand", "Price": 0.5}
    kind["offerings"] = [on_demand, {**on_demand, "CapacityType": "spot", "Price": spot, "Available": available}]
    (machine,) = decide(instanceTypes=[kind], pods=[pod("p", gpus=1)]).machines
    assert (sorted(machine.requirements[CAPACITY_TYPE].values), machine.price) == expected


def test_nothing_is_available() -> None:
    """The cause is that of the NodePool whose requirements the machine satisfies."""
    only = [{"key": "model", "operator": "In", "values": ["a100"]}]
    decision = decide(nodePools=[node_pool(requirements=only)], instanceTypes=types(EVERY), pods=[pod("p", gpus=1)])
    assert decision.errors["default/p"] == (
        "NodePool gpu: no instance type with an available offering satisfies its requirements"
        f" (not available now: {RESTRICTED})"
    )
