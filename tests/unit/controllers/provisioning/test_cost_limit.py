"""The limit of a NodePool on its cost binds what pods, and the replacements of machines, buy."""

from typing import Any

import msgspec
import pytest

from cloudprovider.azure.cloud import AksCloud
from controllers.provisioning.cost import cost_of, price_of
from controllers.provisioning.instances import InstanceTypeCache
from controllers.provisioning.solver.solver import solve
from provisioner.api import labels
from provisioner.api.labels import COST_PER_HOUR
from provisioner.api.requirements import Requirement

from .cases import decide, instance_type, node_pool, pods
from .observed import TOLERATES, TYPES, claim, node, observe
from .observed import node_pool as observed_pool
from .observed import pod as observed_pod

TYPE = "node.kubernetes.io/instance-type"
T4, A100 = "Standard_NC4as_T4_v3", "Standard_NC24ads_A100_v4"


def limited(most: str, **changes: Any) -> dict[str, Any]:
    return node_pool(limits={COST_PER_HOUR: most}, **changes)


def priced(name: str, price: float | None, **changes: Any) -> dict[str, Any]:
    found = instance_type(name, **changes)
    for one in found["offerings"]:
        one["Price"] = price
    return found


BOUGHT: list[tuple[str, str, int, int, str]] = [
    ("for all", "1.5", 3, 3, ""),
    ("for some", "1.4", 3, 2, "do not allow another machine"),
    ("for none", "0.4", 3, 0, "its machines cost 0 of 0.4 USD an hour, another one 0.5"),
    ("nothing", "0", 1, 0, "its machines cost 0 of 0 USD an hour, another one 0.5"),
    ("huge", "1e30", 3, 3, ""),
]


@pytest.mark.parametrize(("most", "wanted", "bought", "error"), [row[1:] for row in BOUGHT], ids=[r[0] for r in BOUGHT])
def test_machines_within_the_limit(most: str, wanted: int, bought: int, error: str) -> None:
    decision = decide(pods=pods(wanted, gpus=1), instanceTypes=[instance_type("t4-1")], nodePools=[limited(most)])
    assert len(decision.machines) == bought
    assert len(decision.errors) == wanted - bought
    assert all(error in one for one in decision.errors.values())


def test_the_cheapest_fleet_within_the_limit_takes_most_pods() -> None:
    """4 pods: four small machines cost 2.0, one of four GPUs 4.3."""
    types = [instance_type("t4-1"), instance_type("t4-4")]
    decision = decide(pods=pods(4, gpus=1), instanceTypes=types, nodePools=[limited("2")])
    assert [one.instance_types for one in decision.machines] == [("t4-1",)] * 4


def test_a_machine_without_a_price_is_not_bought() -> None:
    types = [priced("t4-1", None)]
    (error,) = decide(pods=pods(1, gpus=1), instanceTypes=types, nodePools=[limited("1e30")]).errors.values()
    assert error == (
        "NodePool gpu: limits of the NodePool are exhausted: gpu-provisioner.sh/cost-per-hour (the price of another"
        " machine is not known: state it with a NodeOverlay or --prices)"
    )
    assert len(decide(pods=pods(1, gpus=1), instanceTypes=types).machines) == 1
    dearer = [*types, instance_type("t4-4")]
    decision = decide(pods=pods(1, gpus=1), instanceTypes=dearer, nodePools=[limited("5")])
    assert [one.instance_types for one in decision.machines] == [("t4-4",)]


def test_a_nodeclaim_lists_nothing_dearer_than_what_was_counted() -> None:
    types = [priced("t4-1", 1.0), priced("t4-4", 1.1)]
    for pool, listed in ((limited("1"), ("t4-1",)), (node_pool(), ("t4-1", "t4-4"))):
        (machine,) = decide(pods=pods(1, gpus=1), instanceTypes=types, nodePools=[pool]).machines
        assert machine.instance_types == listed


@pytest.mark.parametrize(("pool", "listed"), [(limited("1"), 1), (node_pool(), 2)])
def test_no_combination_of_what_a_nodeclaim_lists_is_dearer(pool: dict[str, Any], listed: int) -> None:
    """The first type costs 1.1 on demand; the second one is sold on demand only, for 1.0."""
    first, second = priced("t4-1", 1.1, zones=("z1",)), priced("t4-4", 1.0, zones=("z1",))
    first["offerings"].append({**first["offerings"][0], "CapacityType": "spot", "Price": 1.0})
    (machine,) = decide(pods=pods(1, gpus=1), instanceTypes=[first, second], nodePools=[pool]).machines
    assert len(machine.instance_types) == listed


@pytest.mark.parametrize(("most", "bought"), [("4.2", 0), ("4.3", 1), ("8.6", 2)])
def test_min_values_count_by_the_dearest_type(most: str, bought: int) -> None:
    requirements = [{"key": TYPE, "operator": "Exists", "minValues": 2}]
    types = [instance_type("t4-1"), instance_type("t4-4")]
    pool = limited(most, requirements=requirements)
    decision = decide(pods=pods(2, gpus=1, cpu="3"), instanceTypes=types, nodePools=[pool])
    assert len(decision.machines) == bought
    assert all(one.instance_types == ("t4-1", "t4-4") for one in decision.machines)


@pytest.mark.parametrize(("most", "bought"), [("1", 0), ("9", 1)])
def test_min_values_count_each_combination_that_may_be_launched(most: str, bought: int) -> None:
    """The first type costs 9 on demand, and the second one is sold on demand only: a launch may combine them."""
    first, second = priced("t4-1", 9.0, zones=("z1",)), priced("t4-4", 1.0, zones=("z1",))
    first["offerings"].append({**first["offerings"][0], "CapacityType": "spot", "Price": 0.5})
    requirements = [{"key": TYPE, "operator": "Exists", "minValues": 2}]
    pool = limited(most, requirements=requirements)
    decision = decide(pods=pods(1, gpus=1), instanceTypes=[first, second], nodePools=[pool])
    assert len(decision.machines) == bought


def machine(name: str, size: str, *, term: str = "on-demand", **meta: Any) -> Any:
    known = {labels.NODEPOOL: "gpu", labels.INSTANCE_TYPE: size, labels.CAPACITY_TYPE: term}
    shown = {**known, labels.INITIALIZED: "true"}
    return claim(name, size=size, node=f"n-{name}", labels=known, **meta), node(f"n-{name}", labels=shown)


@pytest.mark.parametrize(("leaving", "most", "bought"), [(False, 2, 1), (False, 1, 0), (True, 1, 0), (True, 2, 1)])
def test_machines_count_until_they_are_gone(leaving: bool, most: int, bought: int) -> None:
    """`most`: T4 machines that the limit allows."""
    price = TYPES.price("gpu", T4, "on-demand", "")
    assert price is not None
    meta = {"deletionTimestamp": "2026-03-01T12:00:00Z"} if leaving else {}
    one, its = machine("a", T4, **meta)
    pool = observed_pool(limits={COST_PER_HOUR: str(price * most + 0.01)})
    used = (observed_pod("old", on="n-a"), observed_pod("p", tolerations=TOLERATES))
    found = observe(node_pools=(pool,), nodes=(its,), claims=(one,), pods=used)
    assert len(solve(found.snapshot).machines) == bought


def test_a_machine_without_a_price_lets_nothing_be_bought() -> None:
    one, its = machine("a", "Standard_NC999_X_v1")
    pool = observed_pool(limits={COST_PER_HOUR: "1e30"})
    used = (observed_pod("old", on="n-a"), observed_pod("p", tolerations=TOLERATES))
    found = observe(node_pools=(pool,), nodes=(its,), claims=(one,), pods=used)
    assert "(the price of a machine of it is not known: state it" in solve(found.snapshot).errors["default/p"]


def test_a_size_that_is_not_decided_counts_as_the_dearest() -> None:
    types, (launched, its) = InstanceTypeCache(AksCloud()).in_region("eastus"), machine("a", T4)
    several = [{"key": TYPE, "operator": "In", "values": [T4, A100]}]
    spec = msgspec.structs.replace(launched.spec, requirements=msgspec.convert(several, tuple[Requirement, ...]))
    undecided = msgspec.structs.replace(claim("b"), spec=spec)
    small, large = (types.price("gpu", size, "on-demand", "") for size in (T4, A100))
    assert small is not None
    assert large is not None
    assert price_of(launched, its, types) == small < large == price_of(undecided, None, types)
    assert price_of(claim("c", size="Standard_NC999_X_v1"), None, types) is None
    found = cost_of([(launched, its), (undecided, None), (claim("c", size="Standard_NC999_X_v1"), None)], types)
    assert (found.thousandths, found.unpriced) == (round(1000 * (small + large)), ("c",))
