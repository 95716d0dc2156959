"""Which sizes a machine may have: the cheapest ones that pod and NodePool allow, and how many `minValues` asks for.

Each row is a behavior that the instance selection tests of Karpenter specify, see docs/references/karpenter-suites.md.
"""

import itertools
from typing import Any

import pytest

from .cases import ZONE, decide, instance_type, node_pool, pod, pods

Json = dict[str, Any]
ARCH, OS, CAPACITY = "kubernetes.io/arch", "kubernetes.io/os", "karpenter.sh/capacity-type"
TYPE, GENERATION = "node.kubernetes.io/instance-type", "generation"
ON_DEMAND, SPOT = {CAPACITY: "on-demand"}, {CAPACITY: "spot"}
# The price of a size is that of its number; spot costs less, and zones differ.
BY_CAPACITY, BY_ZONE = {"on-demand": 1.0, "spot": 0.5}, {"z1": 0.03, "z2": 0.02, "z3": 0.01}


def kind(number: int, arch: str, system: str) -> Json:
    """A size whose number raises its price, in all zones and with both capacity types."""
    found = instance_type("cpu-4")
    others = [one for one in found["requirements"] if one["key"] not in (ARCH, OS)]
    own = [{"key": ARCH, "operator": "In", "values": [arch]}, {"key": OS, "operator": "In", "values": [system]}]
    offerings = [
        {"Zone": zone, "CapacityType": capacity, "Price": (number + extra) * factor, "Available": True}
        for capacity, factor in BY_CAPACITY.items()
        for zone, extra in BY_ZONE.items()
    ]
    return {**found, "name": f"{arch}-{system}-{number}", "requirements": [*others, *own], "offerings": offerings}


TYPES = [kind(n, arch, system) for n in (1, 2, 3) for arch in ("amd64", "arm64") for system in ("linux", "windows")]
WANTED: list[tuple[Json, Json]] = [
    ({}, {}),
    ({}, {ARCH: "amd64"}),
    ({}, {ARCH: "arm64"}),
    ({ARCH: "amd64"}, {}),
    ({ARCH: "arm64"}, {}),
    ({OS: "windows"}, {}),
    ({}, {OS: "windows"}),
    ({OS: "linux"}, {}),
    ({}, {OS: "linux"}),
    ({ZONE: "z2"}, {}),
    ({}, {ZONE: "z2"}),
    (SPOT, {}),
    ({}, SPOT),
    ({**ON_DEMAND, ZONE: "z1"}, {}),
    ({}, {**SPOT, ZONE: "z1"}),
    (SPOT, {ZONE: "z2"}),
    ({**ON_DEMAND, ZONE: "z1", ARCH: "arm64", OS: "windows"}, {}),
    ({**SPOT, ZONE: "z2"}, {ARCH: "amd64", OS: "linux"}),
    ({}, {**SPOT, ZONE: "z2", ARCH: "amd64", OS: "linux"}),
]


def requirements(labels: Json) -> list[Json]:
    either = [] if CAPACITY in labels else [{"key": CAPACITY, "operator": "In", "values": ["on-demand", "spot"]}]
    return [*either, *({"key": key, "operator": "In", "values": [value]} for key, value in labels.items())]


@pytest.mark.parametrize(("pool", "own"), WANTED)
def test_the_cheapest_offering_that_both_allow(pool: Json, own: Json) -> None:
    """The first size of the NodeClaim, at the least price of the offerings that NodePool and pod leave."""
    both = {**pool, **own}
    decision = decide(
        nodePools=[node_pool(requirements=requirements(pool))], instanceTypes=TYPES, pods=[pod("p", nodeSelector=own)]
    )
    (machine,) = decision.machines
    allowed = [
        (one["Price"], found["name"])
        for found in TYPES
        for one in found["offerings"]
        if both.get(ZONE, one["Zone"]) == one["Zone"] and both.get(CAPACITY, one["CapacityType"]) == one["CapacityType"]
        if all(part in found["name"].split("-") for key in (ARCH, OS) if (part := both.get(key)))
    ]
    assert machine.price == pytest.approx(min(allowed)[0])
    assert machine.instance_types[0] in {name for price, name in allowed if price == min(allowed)[0]}


@pytest.mark.parametrize(
    ("pool", "own", "available"),
    [({}, {ARCH: "arm"}, True), ({}, {ARCH: "arm64", ZONE: "z2"}, False), ({ARCH: "arm64"}, {ZONE: "z2"}, False)],
    ids=["another architecture", "not in the zone of the pod", "of the NodePool, not in the zone of the pod"],
)
def test_no_offering_is_left(pool: Json, own: Json, available: bool) -> None:
    """No machine is bought, and the pod has a cause."""
    types = [
        {**one, "offerings": [o for o in one["offerings"] if available or o["Zone"] != "z2" or "amd64" in one["name"]]}
        for one in TYPES
    ]
    decision = decide(
        nodePools=[node_pool(requirements=requirements(pool))], instanceTypes=types, pods=[pod("p", nodeSelector=own)]
    )
    assert not decision.machines
    assert decision.errors["default/p"]


def large(number: int) -> Json:
    found = kind(number, "amd64", "linux")
    return {**found, "capacity": {"cpu": str(8 * number), "memory": f"{16 * number}Gi", "pods": "110"}}


@pytest.mark.parametrize(
    ("cpu", "memory"), [*itertools.product(("100m", "1", "2500m", "8", "16"), ("100Mi", "1Gi", "8Gi", "32Gi"))]
)
def test_every_listed_size_has_room_for_all_pods(cpu: str, memory: str) -> None:
    """Three pods on one machine: each size that its NodeClaim lists holds their requests and its overhead."""
    types = [large(number) for number in range(1, 9)]
    wanted = pods(3)
    for one in wanted:
        one["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu, "memory": memory}
    decision = decide(instanceTypes=types, pods=wanted, maxNewNodeClaims=1)
    (machine,) = decision.machines
    assert len(machine.pods) == 3
    cpus = float(cpu.removesuffix("m")) / (1000 if cpu.endswith("m") else 1)
    gib = float(memory[:-2]) / (1024 if memory.endswith("Mi") else 1)
    for name in machine.instance_types:
        (size,) = (one["capacity"] for one in types if one["name"] == name)
        assert 3 * cpus + 0.1 <= float(size["cpu"])
        assert 3 * gib <= float(size["memory"].removesuffix("Gi"))


def test_the_capacity_type_that_cannot_be_used_does_not_order_the_sizes() -> None:
    """A NodePool on demand: the size that is cheaper on demand is bought, whatever spot costs."""
    types = [kind(1, "amd64", "linux"), kind(2, "amd64", "linux")]
    for one in types[1]["offerings"]:
        if one["CapacityType"] == "spot":
            one["Price"] = 0.01
    pool = node_pool(requirements=requirements(ON_DEMAND))
    (machine,) = decide(nodePools=[pool], instanceTypes=types, pods=[pod("p")]).machines
    assert machine.instance_types[0] == "amd64-linux-1"


# Name, vCPUs and generation of three sizes.
GENERATIONS = [("a", 2, "2"), ("b", 2, "3"), ("c", 8, "4")]


def generation(name: str, cpus: int, number: str) -> Json:
    found = instance_type("cpu-4")
    own = {"key": GENERATION, "operator": "In", "values": [number]}
    return {
        **found,
        "name": name,
        "capacity": {**found["capacity"], "cpu": str(cpus)},
        "requirements": [*found["requirements"], own],
    }


def at_least(least: int, operator: str, *values: str, key: str = GENERATION) -> Json:
    return {"key": key, "operator": operator, "minValues": least, **({"values": [*values]} if values else {})}


# What the NodePool requires; what the pods require; the sizes that each NodeClaim has at least, none without machines.
MIN_VALUES: list[tuple[str, list[Json], list[Json], set[str]]] = [
    ("types", [at_least(3, "In", "a", "b", "c", key=TYPE)], [], {"a", "b", "c"}),
    ("Gt", [at_least(2, "Gt", "2")], [], {"b", "c"}),
    ("Gt of the pods leaves too few", [at_least(3, "Exists")],
     [{"key": GENERATION, "operator": "Gt", "values": ["2"]}], set()),
    ("Lt", [at_least(2, "Lt", "4")], [], {"a", "b"}),
    ("Lt of the pods leaves too few", [at_least(3, "Exists")],
     [{"key": GENERATION, "operator": "Lt", "values": ["4"]}], set()),
    ("the largest of In and NotIn", [at_least(1, "In", "a", "b", "c", key=TYPE), at_least(2, "NotIn", "a", key=TYPE)],
     [], {"b", "c"}),
    ("the largest of Gt and Lt", [at_least(1, "Gt", "1"), at_least(2, "Lt", "4")], [], {"a", "b"}),
    ("more than there are", [at_least(4, "In", "a", "b", "c", key=TYPE)], [], set()),
    ("the largest of equal operators", [at_least(1, "Exists", key=TYPE), at_least(3, "In", "a", "b", "c", key=TYPE)],
     [], {"a", "b", "c"}),
    ("of two labels", [at_least(2, "Exists", key=TYPE), at_least(3, "Exists")], [], {"a", "b", "c"}),
    ("zones", [at_least(2, "Exists", key=ZONE)], [], {"c"}),
    ("more zones than there are", [at_least(4, "Exists", key=ZONE)], [], set()),
]  # fmt: skip


@pytest.mark.parametrize(("pool", "own", "sizes"), [row[1:] for row in MIN_VALUES], ids=[row[0] for row in MIN_VALUES])
def test_min_values_of_operators(pool: list[Json], own: list[Json], sizes: set[str]) -> None:
    """Two pods that one large machine holds get machines that leave enough sizes, or none and the cause."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": own}]}}
    affinity = {"affinity": {"nodeAffinity": required}} if own else {}
    decision = decide(
        nodePools=[node_pool(requirements=pool)],
        instanceTypes=[generation(*one) for one in GENERATIONS],
        wellKnownLabels=["model", GENERATION],
        pods=pods(2, cpu="1", **affinity),
    )
    assert bool(decision.errors) is (not sizes)
    assert bool(decision.machines) is bool(sizes)
    assert all(sizes <= set(machine.instance_types) for machine in decision.machines)
    assert all("minValues" in cause for cause in decision.errors.values())
