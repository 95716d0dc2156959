"""Consolidation: the Nodes that take pods, and what pods and NodePools prefer or require, as tables."""

from typing import Any

import msgspec
import pytest

from controllers.disruption.candidates import candidates
from controllers.disruption.command import Command
from controllers.disruption.consolidation import consolidate, validated
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.pods import CachedPod
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodepool import NodePool
from tests.unit.controllers.provisioning.observed import TYPES

from .fleet import D2, D4, D8, D16, T4_16, T4_64, UP, Fleet, pod, pool

WEB: dict[str, Any] = {"labels": {"app": "web"}}
APART: dict[str, Any] = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
REQUIRED: dict[str, Any] = {
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}
}
PREFERRED: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": APART}]
        }
    }
}
NEVER: dict[str, Any] = {"disruption": {"consolidateAfter": "Never"}}
YOUNG, STARTING = UP[:-1], UP[:2]


def not_ready(name: str) -> NodePool:
    """As the controller leaves a NodePool that is invalid, or whose class does not exist."""
    found = pool(name)
    conditions = tuple(msgspec.structs.replace(one, status="False") for one in found.status.conditions)
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, conditions=conditions))


def sizes(*names: str, fewest: int | None = None) -> list[dict[str, Any]]:
    found: dict[str, Any] = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [*names]}
    return [{**found, "minValues": fewest} if fewest is not None else found]


def shape(command: Command | None) -> tuple[str, str]:
    """The machines removed, and the first size of each replacement."""
    if command is None:
        return "", ""
    removed = sorted(one.claim.name for one in command.machines)
    return " ".join(removed), " ".join(sorted(one.instance_types[0] for one in command.replacements))


def web(name: str, on: str, **spec: Any) -> CachedPod:
    return pod(name, 0.5, on=on, meta=WEB, **spec)


def beside_many() -> Fleet:
    """A place on one machine among a hundred that boot."""
    fleet = Fleet().add("a", D2, [(1, 0)]).add("b", D4, [(1, 0)], blocked="-")
    for number in range(100):
        fleet.add(f"n{number}", D16, up=STARTING)
    return fleet


CASES: list[tuple[str, Fleet, tuple[str, str]]] = [
    ("a NodePool with Never takes pods", Fleet(pool(), pool("b", **NEVER)).add("a", D2, [(1, 0)])
     .add("b", D16, [(1, 0)], of="b", up=YOUNG), ("a", "")),
    ("one with a time does not yet", Fleet(pool(), pool("b")).add("a", D2, [(1, 0)])
     .add("b", D16, [(1, 0)], of="b", up=YOUNG), ("", "")),
    ("new machines have no such time", Fleet().add("a", D16, [(1, 0)]).add("b", D2, [(0.5, 0)], up=YOUNG), ("a", D2)),
    ("one that is Initialized among many that boot", beside_many(), ("a", "")),
    ("a pod that no machine takes is pending", Fleet().add("a", D4, [(1, 0)]).add("b", D4, [(2, 0)])
     .pending(pod("p", 500)), ("a", "")),
    ("a machine that was bought for pods of one that goes", Fleet().add("a", D4, [(1, 0), (1, 0)], leaving=True)
     .add("b", D4, [(1, 0)]).add("c", D4, [(3, 0)], blocked="-"), ("", "")),
    ("required anti-affinity", Fleet().add("a", D2, [web("p", "a", **REQUIRED)])
     .add("b", D2, [web("q", "b", **REQUIRED)]), ("", "")),
    ("preferred anti-affinity keeps nothing", Fleet().add("a", D2, [web("p", "a", **PREFERRED)])
     .add("b", D2, [web("q", "b", **PREFERRED)]), ("a", "")),
    ("two do not become one of the same size", Fleet().add("a", D4, [(1.5, 0)]).add("b", D4, [(1.5, 0)]), ("a", "")),
    ("enough sizes for minValues", Fleet(pool(requirements=sizes(D2, D4, D8, fewest=2))).add("a", D8, [(1, 0)]),
     ("a", D2)),
    ("too few of them cost less", Fleet(pool(requirements=sizes(D2, D4, D8, fewest=3))).add("a", D8, [(1, 0)]),
     ("", "")),
    ("a NodePool without a size beside it", Fleet(pool(), pool("b", requirements=sizes("none")))
     .add("a", D16, [(1, 0)]), ("a", D2)),
    ("a NodePool that is not Ready beside it", Fleet(pool(), not_ready("b")).add("a", D4, [(1, 0)])
     .add("b", D4, [(2, 0)]), ("a", "")),
    ("a machine without the label of a zone", Fleet().add("a", D16, [(1, 0)], labels={labels.ZONE: ""}), ("a", D2)),
]  # fmt: skip


@pytest.mark.parametrize(("fleet", "expected"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_what_moves(fleet: Fleet, expected: tuple[str, str]) -> None:
    assert shape(consolidate(fleet.view()).command) == expected


def test_a_node_of_another_provisioner_takes_pods() -> None:
    """It has no NodeClaim, and is never removed."""
    fleet = Fleet().add("a", D4, [(1, 0)])
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    meta = {"name": "other", "uid": "other", "labels": {"kubernetes.io/hostname": "other"}}
    fleet.nodes.append(msgspec.convert({"metadata": meta, "status": status}, Node))
    view = Fleet().add("a", D4, [(1, 0)]).view()
    found = consolidate(
        msgspec.structs.replace(view, observed=msgspec.structs.replace(view.observed, nodes=fleet.nodes))
    )
    assert shape(found.command) == ("a", "")
    assert found.command is not None
    assert found.command.destinations == ("other",)


@pytest.mark.parametrize(("fewest", "expected"), [(1, ("a b c d", T4_64)), (2, ("", ""))])
def test_min_values_of_the_machine_that_several_become(fewest: int, expected: tuple[str, str]) -> None:
    """The size of those that are removed does not count."""
    fleet = Fleet(pool(requirements=sizes(T4_16, T4_64, fewest=fewest)))
    for name in "abcd":
        fleet.add(name, T4_16, [(10, 1)])
    assert shape(consolidate(fleet.view()).command) == expected


@pytest.mark.parametrize("policy", ["WhenEmptyOrUnderutilized", "Balanced"])
def test_the_order_is_that_of_price_by_disruption(policy: str) -> None:
    """Of machines of the same price the one with the fewest pods first, and a dear one before both."""
    fleet = Fleet(pool(policy=policy)).add("many", D4, [(0.1, 0)] * 4).add("few", D4, [(0.1, 0)])
    fleet.add("dear", D16, [(0.1, 0)]).add("cheap", D2, [(0.1, 0)])
    found, _ = candidates(fleet.view())
    assert [one.node for one in found] == ["dear", "few", "cheap", "many"]
    assert [round(one.price / one.cost, 4) for one in found] == [0.384, 0.096, 0.048, 0.0384]
    assert shape(consolidate(fleet.view(budgets={"gpu": 1})).command) == ("dear", "")


def test_a_replacement_is_in_the_zone_that_a_spread_requires() -> None:
    term = {
        "topologyKey": labels.ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    fleet = Fleet()
    for number, (name, size) in enumerate(zip("abc", (D16, D2, D2), strict=True), 1):
        own = web(name, name, topologySpreadConstraints=[term])
        fleet.add(name, size, [own], labels={labels.ZONE: f"eastus-{number}"})
    command = consolidate(fleet.view()).command
    assert shape(command) == ("a", D2)
    assert command is not None
    assert command.replacements[0].requirements[labels.ZONE].values == {"eastus-1"}


def with_prices(term: str, **changed: float) -> InstanceTypes:
    """What can be bought, with other prices of some sizes."""
    found = tuple(
        msgspec.structs.replace(
            kind,
            offerings=tuple(
                msgspec.structs.replace(one, price=changed.get(kind.name, one.price))
                if one.capacity_type == term
                else one
                for one in kind.offerings
            ),
        )
        for kind in TYPES.types
    )
    return InstanceTypes(types=found, well_known=TYPES.well_known, cloud=TYPES.cloud)


def test_a_replacement_that_costs_more_meanwhile_is_not_bought() -> None:
    """The second look finds other sizes, or none."""
    fleet = Fleet(pool(requirements=sizes(D2, D4))).add("a", D4, [(1, 0)])
    command = consolidate(fleet.view()).command
    assert shape(command) == ("a", D2)
    assert command is not None
    later = Fleet(*fleet.pools, types=with_prices("on-demand", **{D2: 1.0})).add("a", D4, [(1, 0)])
    assert isinstance(validated(command, later.view()), str)


def test_when_several_cannot_go_together_another_one_can() -> None:
    """Pods are bound to the machines of the proposal, which is given up; the next search finds the third machine."""
    fleet = Fleet().add("a", D8, [(1, 0)]).add("b", D8, [(1, 0)]).add("c", D8, [(1, 0)])
    command = consolidate(fleet.view()).command
    assert shape(command) == ("a b", "")
    assert command is not None
    later = Fleet().add("a", D8, [(1, 0), (5, 0)]).add("b", D8, [(1, 0), (5, 0)]).add("c", D8, [(1, 0)]).view()
    assert isinstance(validated(command, later), str)
    assert shape(consolidate(later).command) == ("c", "")


@pytest.mark.parametrize(
    ("terms", "spot", "saves"),
    [
        (["on-demand"], 9.0, 0.096),
        (["on-demand"], 0.001, 0.096),
        (["on-demand", "spot"], 0.001, 0.191),
        (["on-demand", "spot"], 9.0, 0.096),
    ],
)
def test_a_spot_price_counts_only_where_spot_is_bought(terms: list[str], spot: float, saves: float) -> None:
    """A replacement is of the cheaper one only, so that the other one may cost anything."""
    required = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": terms}
    fleet = Fleet(
        pool(policy="Balanced", requirements=[*sizes(D2, D4), required]), types=with_prices("spot", **{D2: spot})
    )
    command = consolidate(
        fleet.add("a", D4, [pod("p", 1, on="a", tolerations=[{"operator": "Exists"}])]).view()
    ).command
    assert command is not None
    assert round(command.saving, 3) == saves
