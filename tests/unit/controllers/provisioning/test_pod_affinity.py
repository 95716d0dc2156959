"""Pod affinity and anti-affinity over zones, architectures and machines: who is placed with whom, and who waits.

Each row is a behavior that the topology tests of Karpenter specify, see docs/references/karpenter-suites.md.
"""

from typing import Any

import pytest

from .cases import HOSTNAME, ZONE, decide, instance_type, node, pod

Json = dict[str, Any]
ARCH = "kubernetes.io/arch"
A, B = {"app": "a"}, {"app": "b"}


def kind(arch: str, zone: str = "") -> Json:
    found = instance_type("cpu-4", **({"zones": (zone,)} if zone else {}))
    others = [one for one in found["requirements"] if one["key"] != ARCH]
    own = {"key": ARCH, "operator": "In", "values": [arch]}
    return {**found, "name": f"cpu-4-{arch}", "requirements": [*others, own]}


TYPES = [kind("amd64"), kind("arm64")]


def near(key: str, selected: dict[str, str], *, preferred: bool = False, kind: str = "podAffinity") -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": selected}}
    if preferred:
        found: Json = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
        }
    else:
        found = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {kind: found}


def apart(key: str, selected: dict[str, str], *, preferred: bool = False) -> Json:
    return near(key, selected, preferred=preferred, kind="podAntiAffinity")


def large(name: str, labels: dict[str, str], affinity: Json | None = None, **selector: str) -> Json:
    """A pod that fills a machine."""
    return pod(name, cpu="3", labels=labels, affinity=affinity or {}, nodeSelector=selector)


def three_zones(affinity: Json | None = None) -> list[Json]:
    return [pod(f"z{n}", cpu="3", labels=B, affinity=affinity or {}, nodeSelector={ZONE: f"z{n}"}) for n in (1, 2, 3)]


# The pods; the names of those that wait.
ROWS: list[tuple[str, list[Json], set[str]]] = [
    ("empty affinity", [large("p", A, {"podAffinity": {}, "podAntiAffinity": {}})], set()),
    ("a preference that nobody satisfies", [large("p", A, near(ZONE, B, preferred=True))], set()),
    ("a preference to be apart that all zones violate",
     [*three_zones(), large("p", A, apart(ZONE, B, preferred=True))], set()),
    ("apart from pods of all zones", [*three_zones(), large("p", A, apart(ZONE, B))], {"p"}),
    ("one of the pods of all zones that are apart from it", [*three_zones(apart(ZONE, A)), pod("p", labels=A)], {"z1"}),
    ("pods of all zones that prefer to be apart from it",
     [*three_zones(apart(ZONE, A, preferred=True)), large("p", A)], set()),
    ("near a pod that does not exist", [large("p", A, near(ZONE, B))], {"p"}),
    ("near a pod that cannot be placed", [large("p", A, near(ZONE, B)), pod("huge", cpu="64", labels=B)],
     {"p", "huge"}),
    ("near a pod of any zone", [large("p", A, near(ZONE, B)), large("q", A, near(ZONE, B)), large("target", B)], set()),
    ("itself, with other zones", [pod("p", labels=A, affinity=near(ZONE, A), nodeSelector={ZONE: "z2"}),
     pod("q", labels=B, affinity=near(ZONE, B), nodeSelector={ZONE: "z3"})], set()),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "waiting"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_which_pods_wait(wanted: list[Json], waiting: set[str]) -> None:
    """A required term keeps a pod waiting exactly if no zone satisfies it; a preference never does."""
    decision = decide(instanceTypes=TYPES, pods=wanted)
    assert set(decision.errors) == {f"default/{name}" for name in waiting}


@pytest.mark.parametrize(("term", "same"), [(near, True), (apart, False)])
def test_affinity_over_architectures(term: Any, same: bool) -> None:
    """The label of a type is a topology like a zone."""
    wanted = [large("p", A, term(ARCH, B)), large("q", B, apart(HOSTNAME, A))]
    decision = decide(instanceTypes=TYPES, pods=wanted)
    assert not decision.errors
    found = [values.single for one in decision.machines if (values := one.requirements.get(ARCH)) is not None]
    by_type = {name.rsplit("-", 1)[1] for one in decision.machines for name in one.instance_types[:1]}
    assert len(set(found) | by_type) == (1 if same else 2)


@pytest.mark.parametrize("preferred", [False, True])
def test_running_pods_keep_others_out_of_their_zones(preferred: bool) -> None:
    """Pods that run in all zones and are to be apart from it, unless they only prefer that."""
    nodes = []
    for one in three_zones(apart(ZONE, A, preferred=preferred)):
        name = one["metadata"]["name"]
        one["spec"]["nodeName"] = f"n-{name}"
        nodes.append(node(f"n-{name}", "cpu-4", zone=name, running=[one]))
    decision = decide(instanceTypes=TYPES, nodes=nodes, pods=[large("p", A)])
    assert bool(decision.errors) is not preferred
    assert len(decision.machines) == preferred


def test_pods_near_themselves_and_a_zone() -> None:
    """All pods are in the zone that they select."""
    own = [pod(f"p{n}", cpu="100m", labels=A, affinity=near(ZONE, A), nodeSelector={ZONE: "z3"}) for n in range(10)]
    (machine,) = decide(instanceTypes=TYPES, pods=own).machines
    assert machine.requirements[ZONE].values == {"z3"}


def test_pods_near_themselves_fill_one_machine() -> None:
    """Over hostnames: what does not fit on it waits, as another machine is another domain."""
    own = [pod(f"p{n}", cpu="1", labels=A, affinity=near(HOSTNAME, A)) for n in range(10)]
    decision = decide(instanceTypes=TYPES, pods=own)
    assert len(decision.machines) == 1
    assert len(decision.machines[0].pods) == 3
    assert len(decision.errors) == 7


def test_a_follower_joins_its_leader_over_each_topology() -> None:
    """The zone or the machine of the pod that it needs."""
    for key in (ZONE, HOSTNAME):
        wanted = [pod("p", labels=A, affinity=near(key, B)), pod("q", labels=B, nodeSelector={ZONE: "z2"})]
        decision = decide(instanceTypes=TYPES, pods=wanted)
        assert {value for one in decision.machines for value in one.requirements[ZONE].values} == {"z2"}
        assert len(decision.machines) == 1


def test_pods_near_themselves_join_a_machine_on_its_way() -> None:
    """One of them caused it and is not bound yet: the next one goes to the same zone and buys nothing."""
    terms = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["cpu-4-amd64"]},
        {"key": ZONE, "operator": "In", "values": ["z2"]},
    ]
    metadata = {"name": "c1", "labels": {"karpenter.sh/nodepool": "gpu"}}
    coming = {"nodeClaim": {"metadata": metadata, "spec": {"requirements": terms}}}
    own = [pod(f"p{n}", labels=A, affinity=near(ZONE, A)) for n in range(2)]
    decision = decide(instanceTypes=TYPES, nodes=[coming], pods=own)
    assert decision.existing == {"c1": ("default/p0", "default/p1")}
    assert not decision.machines
