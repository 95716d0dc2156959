"""How many pods each domain of a spread constraint has, with the pods that run already.

Each row is a behavior that the topology tests of Karpenter specify, see docs/references/karpenter-suites.md.
"""

from collections import Counter
from typing import Any

import pytest

from controllers.provisioning.solver.model import Decision

from .cases import HOSTNAME, ZONE, decide, instance_type, node, node_pool, pod, pods

Json = dict[str, Any]
CAPACITY, ARCH = "karpenter.sh/capacity-type", "kubernetes.io/arch"


def kind(arch: str) -> Json:
    """A size with both capacity types in each zone."""
    found = instance_type("cpu-4")
    others = [one for one in found["requirements"] if one["key"] != ARCH]
    offerings = [{**one, "CapacityType": kind} for one in found["offerings"] for kind in ("on-demand", "spot")]
    return {
        **found,
        "name": f"cpu-4-{arch}",
        "requirements": [*others, {"key": ARCH, "operator": "In", "values": [arch]}],
        "offerings": offerings,
    }


TYPES = [kind("amd64"), kind("arm64")]
BOTH = {"key": CAPACITY, "operator": "In", "values": ["on-demand", "spot"]}


def spread(key: str, skew: int = 1, when: str = "DoNotSchedule", **more: Any) -> Json:
    selector = {"matchLabels": {"app": "a"}}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": selector, **more}


def among(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": [*values]}


def running(zone: str, number: int) -> Json:
    """A full Node with so many pods of the app."""
    small = [pod(f"{zone}-{n}", cpu="10m") for n in range(number)]
    full = pod(f"full-{zone}", cpu="3900m", labels={"app": "other"})
    found = node(f"n-{zone}", "cpu-4", zone=zone, running=[*small, full])
    for one in found["pods"]:
        one["spec"]["nodeName"] = f"n-{zone}"
    found["node"]["metadata"]["labels"] |= {CAPACITY: "on-demand", ARCH: "amd64"}
    return found


def counts(decision: Decision, key: str, nodes: list[Json]) -> list[int]:
    """Pods of the app by domain, sorted."""
    found = Counter[str]()
    for number, machine in enumerate(decision.machines):
        values = machine.requirements[key].values if key != HOSTNAME else {str(number)}
        (domain,) = values or {"none"}
        found[domain] += len(machine.pods)
    for one in nodes:
        own = sum(each["metadata"]["labels"]["app"] == "a" for each in one["pods"])
        found[one["node"]["metadata"]["labels"][key]] += own + len(
            decision.existing.get(one["node"]["metadata"]["name"], ())
        )
    return sorted(number for number in found.values() if number)


def affine(*terms: Json) -> Json:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [*terms]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}}


def prefers(*terms: Json) -> Json:
    weighted = [{"weight": 1, "preference": {"matchExpressions": [*terms]}}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}


# The constraint; what the NodePool requires; the pods that run in zones; how many pods come, with what besides; the
# pods of each domain.
ROWS: list[tuple[str, Json, list[Json], dict[str, int], int, Json, list[int]]] = [
    ("zones", spread(ZONE), [], {}, 4, {}, [1, 1, 2]),
    ("zones by expression", spread(ZONE, labelSelector={"matchExpressions": [among("app", "a")]}), [], {}, 4, {},
     [1, 1, 2]),
    ("all zones of the NodePool", spread(ZONE), [among(ZONE, "z1", "z2", "z3")], {}, 4, {}, [1, 1, 2]),
    ("two zones of the NodePool", spread(ZONE), [among(ZONE, "z1", "z2")], {}, 4, {}, [2, 2]),
    ("one zone of the NodePool", spread(ZONE), [among(ZONE, "z1")], {}, 4, {}, [4]),
    ("a pod in a zone that the NodePool lacks", spread(ZONE), [among(ZONE, "z1", "z2")], {"z3": 1}, 6, {}, [1, 2, 2]),
    ("the only zone that is left, within a skew of five", spread(ZONE, 5), [among(ZONE, "z3")], {"z1": 1, "z2": 1},
     10, {}, [1, 1, 6]),
    ("zones with fewest pods first", spread(ZONE), [], {"z1": 3}, 3, {}, [1, 2, 3]),
    ("a zone that is not the NodePool's holds the others back", spread(ZONE), [among(ZONE, "z2", "z3")], {"z1": 1},
     10, {}, [1, 2, 2]),
    ("pods beside those that are counted", spread(ZONE), [], {"z1": 2, "z2": 1}, 2, {}, [1, 2, 2]),
    ("fewer zones than minDomains", spread(ZONE, minDomains=3), [among(ZONE, "z1", "z2")], {}, 3, {}, [1, 1]),
    ("as many zones as minDomains", spread(ZONE, minDomains=3), [], {}, 11, {}, [3, 4, 4]),
    ("more zones than minDomains", spread(ZONE, minDomains=2), [], {}, 11, {}, [3, 4, 4]),
    ("hostnames", spread(HOSTNAME), [], {}, 4, {}, [1, 1, 1, 1]),
    ("hostnames within a skew of four", spread(HOSTNAME, 4), [], {}, 4, {}, [4]),
    ("capacity types", spread(CAPACITY), [BOTH], {}, 4, {}, [2, 2]),
    ("the capacity type of the NodePool", spread(CAPACITY), [among(CAPACITY, "on-demand")], {}, 4, {}, [4]),
    ("a capacity type that is not the NodePool's", spread(CAPACITY), [among(CAPACITY, "spot")], {"z1": 1}, 5, {},
     [1, 2]),
    ("a preference for capacity types", spread(CAPACITY, when="ScheduleAnyway"), [among(CAPACITY, "spot")], {"z1": 1},
     5, {}, [1, 5]),
    ("capacity types and the pod's own", spread(CAPACITY), [BOTH], {}, 4, affine(among(CAPACITY, "on-demand", "spot")),
     [2, 2]),
    ("architectures", spread(ARCH), [], {}, 4, {}, [2, 2]),
    ("zones of a node selector", spread(ZONE), [], {}, 10, {"nodeSelector": {ZONE: "z1"}}, [10]),
    ("zones of a required term", spread(ZONE), [], {}, 10, affine(among(ZONE, "z1", "z2")), [5, 5]),
    ("zones whatever is preferred", spread(ZONE), [], {}, 6, prefers(among(ZONE, "z1")), [2, 2, 2]),
    ("capacity types of a node selector", spread(CAPACITY), [BOTH], {}, 4, {"nodeSelector": {CAPACITY: "spot"}}, [4]),
    ("capacity types of a required term", spread(CAPACITY), [BOTH], {}, 4, affine(among(CAPACITY, "spot")), [4]),
    ("a label that does not exist", spread("unknown"), [], {}, 2, {}, []),
]  # fmt: skip


@pytest.mark.parametrize("case", [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_pods_of_each_domain(case: tuple[Json, list[Json], dict[str, int], int, Json, list[int]]) -> None:
    """With machines as small as the pods, so that nothing but the constraint decides."""
    constraint, pool, there, count, more, expected = case
    nodes = [running(zone, number) for zone, number in there.items()]
    wanted = pods(count, cpu="900m", topologySpreadConstraints=[constraint], **more)
    decision = decide(nodePools=[node_pool(requirements=pool)], instanceTypes=TYPES, nodes=nodes, pods=wanted)
    assert counts(decision, constraint["topologyKey"], nodes) == expected
    assert len(decision.errors) == count + sum(there.values()) - sum(expected)


COMBINED = [
    ("hostnames and zones", [spread(ZONE), spread(HOSTNAME, 3)], 9),
    ("zones and capacity types", [spread(ZONE, 1), spread(CAPACITY, 1)], 11),
    ("hostnames, zones and capacity types", [spread(CAPACITY, 1), spread(ZONE, 2), spread(HOSTNAME, 3)], 15),
]


@pytest.mark.parametrize(("constraints", "count"), [row[1:] for row in COMBINED], ids=[row[0] for row in COMBINED])
def test_several_constraints_hold_together(constraints: list[Json], count: int) -> None:
    """All pods have a machine, and no constraint is violated."""
    wanted = pods(count, topologySpreadConstraints=constraints)
    decision = decide(nodePools=[node_pool(requirements=[BOTH])], instanceTypes=TYPES, pods=wanted)
    assert not decision.errors
    for one in constraints:
        found = counts(decision, one["topologyKey"], [])
        least = 0 if one["topologyKey"] == HOSTNAME else min(found)
        assert max(found) - least <= one["maxSkew"]


def test_the_revisions_of_a_workload_are_spread_each() -> None:
    """matchLabelKeys: pods of each value of the label count alone; a key that the pods lack changes nothing."""
    for keys, expected in ((["rev"], [2, 2]), (["none"], [4])):
        constraint = spread(HOSTNAME, matchLabelKeys=keys)
        wanted = [
            pod(f"p{n}", cpu="100m", labels={"app": "a", "rev": str(n % 2)}, topologySpreadConstraints=[constraint])
            for n in range(4)
        ]
        decision = decide(instanceTypes=TYPES, pods=wanted)
        sizes = Counter(len(machine.pods) for machine in decision.machines)
        assert sizes == ({2: 2} if expected == [2, 2] else {1: 4})


def test_two_workloads_share_machines() -> None:
    """Each is spread over hostnames alone: two machines with a pod of each, also if one could run elsewhere."""

    def of(app: str) -> Json:
        return {"topologyKey": HOSTNAME, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": app}}}  # fmt: skip

    wanted = [
        pod(f"{app}{n}", cpu="100m", labels={"app": app}, topologySpreadConstraints=[of(app)])
        for app in ("a", "b")
        for n in range(2)
    ]
    decision = decide(instanceTypes=TYPES, pods=wanted)
    assert sorted(len(machine.pods) for machine in decision.machines) == [2, 2]


def test_workloads_of_two_architectures() -> None:
    """Each is spread over the machines of its architecture."""
    wanted = [
        pod(f"{arch}{n}", cpu="100m", labels={"app": "a", "arch": arch}, nodeSelector={ARCH: arch},
            topologySpreadConstraints=[spread(HOSTNAME, labelSelector={"matchLabels": {"arch": arch}})])
        for arch in ("amd64", "arm64")
        for n in range(2)
    ]  # fmt: skip
    decision = decide(instanceTypes=TYPES, pods=wanted)
    assert not decision.errors
    assert [len(machine.pods) for machine in decision.machines] == [1] * 4


def on_its_way(number: int, zone: str) -> Json:
    terms = [among("node.kubernetes.io/instance-type", "cpu-4-amd64"), among(ZONE, zone)]
    metadata = {"name": f"c{number}", "labels": {"karpenter.sh/nodepool": "gpu"}}
    return {"nodeClaim": {"metadata": metadata, "spec": {"requirements": terms}}}


@pytest.mark.parametrize(
    ("key", "bought", "existing"), [(ZONE, 0, [3, 3, 3]), (HOSTNAME, 6, [1, 1, 1])], ids=["zones", "hostnames"]
)
def test_machines_on_their_way_are_domains(key: str, bought: int, existing: list[int]) -> None:
    """Nine small pods on one NodeClaim in each zone, and as many machines besides as the constraint needs."""
    coming = [on_its_way(number, f"z{number}") for number in (1, 2, 3)]
    wanted = pods(9, cpu="100m", topologySpreadConstraints=[spread(key)])
    decision = decide(instanceTypes=TYPES, nodes=coming, pods=wanted)
    assert not decision.errors
    assert len(decision.machines) == bought
    assert sorted(len(found) for found in decision.existing.values()) == existing


def test_a_label_whose_values_several_node_pools_have() -> None:
    """Four pods for each of five values: four fifths of the machines are spot."""
    key = "capacity.spread"
    spot = node_pool("spot", requirements=[among(CAPACITY, "spot"), among(key, "2", "3", "4", "5")])
    on_demand = node_pool("on-demand", requirements=[among(CAPACITY, "on-demand"), among(key, "1")])
    wanted = pods(20, topologySpreadConstraints=[spread(key)])
    decision = decide(nodePools=[spot, on_demand], instanceTypes=TYPES, pods=wanted)
    assert not decision.errors
    assert counts(decision, key, []) == [4, 4, 4, 4, 4]
    assert counts(decision, CAPACITY, []) == [4, 16]


@pytest.mark.parametrize(
    ("there", "policy", "placed"), [(True, "Honor", 4), (True, "Ignore", 1), (False, "Honor", 4), (False, "Ignore", 4)]
)
def test_a_domain_with_a_taint(there: bool, policy: str, placed: int) -> None:
    """A value that tainted Nodes have bounds the other one if taints are ignored; one that no Node has is no domain."""
    taint = {"key": "t", "value": "x", "effect": "NoSchedule"}
    pools = [
        node_pool("plain", requirements=[among("side", "left")]),
        node_pool("tainted", requirements=[among("side", "right")], taints=[taint]),
    ]
    tainted = node("n1", "cpu-4")
    tainted["node"]["metadata"]["labels"]["side"] = "right"
    tainted["node"]["spec"] = {"taints": [taint]}
    wanted = pods(4, topologySpreadConstraints=[spread("side", nodeTaintsPolicy=policy)])
    decision = decide(nodePools=pools, instanceTypes=TYPES, nodes=[tainted] if there else [], pods=wanted)
    assert sum(len(machine.pods) for machine in decision.machines) == placed


def test_node_pools_with_taints_that_share_a_value() -> None:
    """Each of two workloads tolerates one NodePool and is spread over the values of that one."""
    pools = [
        node_pool(name, requirements=[among("side", "left", other)], taints=[{"key": name, "effect": "NoSchedule"}])
        for name, other in (("a", "middle"), ("b", "right"))
    ]
    wanted = [
        pod(
            f"{app}{number}",
            labels={"app": app},
            tolerations=[{"key": app, "operator": "Exists"}],
            topologySpreadConstraints=[
                spread("side", labelSelector={"matchLabels": {"app": app}}, nodeTaintsPolicy="Honor")
            ],
        )
        for app in ("a", "b")
        for number in range(2)
    ]
    decision = decide(nodePools=pools, instanceTypes=TYPES, pods=wanted)
    assert not decision.errors
    found = [(one.node_pool, *one.requirements["side"].values) for one in decision.machines]
    assert sorted(found) == [("a", "left"), ("a", "middle"), ("b", "left"), ("b", "right")]
