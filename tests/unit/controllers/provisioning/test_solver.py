"""The decisions of the solver: which machines are bought, which pods stay pending, and why."""

import itertools
from collections import Counter
from typing import Any

import msgspec
import pytest

from controllers.provisioning.solver.model import Misfits
from controllers.provisioning.solver.solver import solve

from . import cases
from .cases import GPU, HOSTNAME, ZONE, bought, decide, given, instance_type, node, node_pool, pod, pods, read

TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
TOLERATES = [{"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]
SELECTOR = {"matchLabels": {"app": "a"}}


def _spread(key: str, skew: int = 1, when: str = "DoNotSchedule") -> list[dict[str, Any]]:
    return [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": SELECTOR}]


def _near(kind: str, key: str) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": SELECTOR}]}}


@pytest.mark.parametrize(
    ("count", "gpus", "expected"),
    [
        (1, 1, ["t4-1"]),
        (2, 1, ["t4-1"] * 2),
        (8, 1, ["t4-1"] * 8),
        (1, 2, ["t4-4"]),
        (3, 4, ["t4-4"] * 3),
        (1, 8, ["a100-8"]),
    ],
)
def test_the_cheapest_machines_are_bought(count: int, gpus: int, expected: list[str]) -> None:
    """Eight pods of one GPU get eight small machines, not one machine with eight GPUs."""
    assert bought(decide(pods=pods(count, gpus=gpus))) == expected


def test_pods_share_a_machine_where_that_is_cheaper() -> None:
    """CPU pods join a GPU machine that is bought anyway."""
    assert bought(decide(pods=[pod("gpu", gpus=4), *pods(20, cpu="2")])) == ["t4-4"]


def test_room_on_existing_nodes_is_used_first() -> None:
    """What is paid for already takes pods before a machine is bought."""
    decision = decide(pods=pods(3, gpus=1), nodes=[node("n1", "t4-1"), node("n2", "t4-1", running=[pod("r", gpus=1)])])
    assert decision.existing == {"n1": ("default/p00",)}
    assert bought(decision) == ["t4-1", "t4-1"]


def test_a_node_claim_without_a_node_counts_as_capacity() -> None:
    """A NodeClaim whose machine is on its way takes pods; nothing is bought twice."""
    claim = {
        "metadata": {"name": "c1", "labels": {"karpenter.sh/nodepool": "gpu"}},
        "spec": {"requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["t4-1"]}]},
    }
    decision = decide(pods=pods(1, gpus=1), nodes=[{"nodeClaim": claim}])
    assert decision.existing == {"c1": ("default/p00",)}
    assert not decision.machines


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"nodePools": []}, "no NodePool is ready"),
        ({"nodePools": [node_pool(taints=[TAINT])]}, "did not tolerate taint (taint=sku=gpu:NoSchedule)"),
        ({"pods": pods(1, nodeSelector={"model": "h100"})}, "model In [h100], the machines have [a100 cpu t4]"),
        ({"pods": pods(1, nodeSelector={"tier": "gold"})}, "tier In [gold], the machines do not have this label"),
        ({"pods": pods(1, gpus=9)}, "nvidia.com/gpu 9 requested, at most 8 on one machine"),
        (
            {"nodePools": [node_pool(limits={"nvidia.com/gpu": 0})]},
            "limits of the NodePool are exhausted: nvidia.com/gpu",
        ),
        ({"nodePools": [node_pool(limits={"nodes": 0})]}, "limits of the NodePool are exhausted: nodes"),
        ({"maxNewNodeClaims": 0}, "the limit of 0 new agent pools is reached"),
        (
            {"nodePools": [node_pool(requirements=[{"key": "model", "operator": "In", "values": ["h100"]}])]},
            "no instance type with an available offering satisfies its requirements",
        ),
    ],
)
def test_a_pod_without_a_place_states_the_cause(change: dict[str, Any], why: str) -> None:
    """The error names the NodePool, the taint, the label or the limit."""
    decision = decide(**{"pods": pods(1, gpus=1), **change})
    assert not decision.machines
    assert why in decision.errors["default/p00"]


def test_one_pod_without_a_place_holds_nobody_up() -> None:
    """A pod that fits nowhere does not keep others from their machines."""
    decision = decide(pods=[*pods(2, gpus=1), pod("huge", gpus=64)])
    assert bought(decision) == ["t4-1", "t4-1"]
    assert list(decision.errors) == ["default/huge"]


@pytest.mark.parametrize(
    ("spec", "zones"),
    [
        ({"topologySpreadConstraints": _spread(ZONE)}, [2, 2, 2]),
        ({"affinity": _near("podAffinity", ZONE)}, [6]),
        ({"affinity": _near("podAntiAffinity", ZONE)}, [1, 1, 1]),
        ({"nodeSelector": {ZONE: "z2"}}, [6]),
    ],
)
def test_zones(spec: dict[str, Any], zones: list[int]) -> None:
    """Pods per zone of six alike pods, under spread, affinity, anti-affinity and a selector."""
    decision = decide(pods=pods(6, gpus=1, **spec))
    placed: dict[str, int] = {}
    for machine in decision.machines:
        zone = machine.requirements[ZONE].single or "any"
        placed[zone] = placed.get(zone, 0) + len(machine.pods)
    assert sorted(placed.values()) == zones


@pytest.mark.parametrize(
    ("spec", "machines"),
    [
        ({}, 1),
        ({"topologySpreadConstraints": _spread(HOSTNAME)}, 3),
        ({"topologySpreadConstraints": _spread(HOSTNAME, skew=2)}, 2),
        ({"affinity": _near("podAntiAffinity", HOSTNAME)}, 3),
        ({"affinity": _near("podAffinity", HOSTNAME)}, 1),
    ],
)
def test_hostnames(spec: dict[str, Any], machines: int) -> None:
    """How many machines three small pods get, under constraints over the hostname."""
    assert len(decide(pods=pods(3, **spec)).machines) == machines


@pytest.mark.parametrize("key", [ZONE, HOSTNAME])
def test_a_preference_of_placed_pods_keeps_no_pod_out(key: str) -> None:
    """Pods that prefer to be apart run beside each other where there are more of them than places."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "a"}}}
    preferred = [{"weight": 50, "podAffinityTerm": term}]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    most = {} if key == ZONE else {"maxNewNodeClaims": 2}
    decision = decide(pods=pods(8, gpus=1, affinity=affinity), instanceTypes=[instance_type("t4-4")], **most)
    assert not decision.errors


def test_machines_whose_pods_others_avoid_stay_where_they_were_planned() -> None:
    """A pod without constraints of its own is kept in the zone that pods with anti-affinity to it do not use."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "noisy"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    quiet = pod("quiet", gpus=1, affinity=affinity)
    decision = decide(pods=[pod("noisy", gpus=1, labels={"app": "noisy"}), quiet])
    zones = {machine.pods[0]: machine.requirements[ZONE].values for machine in decision.machines}
    assert len(zones["default/noisy"]) == 1
    assert not zones["default/noisy"] & zones["default/quiet"]


def test_room_goes_to_pods_that_few_machines_take() -> None:
    """A pod that runs on any machine leaves the only one that suits another pod, which would cost a new machine."""
    nodes = [node("n1", "t4-1"), node("n2", "t4-1")]
    nodes[0]["node"]["metadata"]["labels"]["disk"] = "fast"
    pool = node_pool(labels={"disk": "fast"})
    any_machine, one_machine = pod("a", gpus=1, cpu="2"), pod("b", gpus=1, nodeSelector={"disk": "fast"})
    decision = decide(nodes=nodes, nodePools=[pool], pods=[any_machine, one_machine])
    assert not decision.machines
    assert decision.existing == {"n1": ("default/b",), "n2": ("default/a",)}


def test_of_the_zones_that_a_spread_allows_the_cheapest_is_used() -> None:
    """Two pods with a skew of two may share the zone in which a machine is cheap."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}, "whenUnsatisfiable": "DoNotSchedule"}
    types = [instance_type("t4-1", zones=("z2",)), instance_type("a100-8", zones=("z1",))]
    decision = decide(instanceTypes=types, pods=pods(2, gpus=1, topologySpreadConstraints=[{**term, "maxSkew": 2}]))
    assert bought(decision) == ["t4-1", "t4-1"]


def test_no_pods_are_placed_that_limits_leave_beyond_the_skew() -> None:
    """Where limits end the machines of one zone, the other zones take no more pods than the skew allows."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}, "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**term, "maxSkew": 1}]
    zonal = [{"key": ZONE, "operator": "In", "values": ["z1"]}]
    other = [{"key": ZONE, "operator": "In", "values": ["z2"]}]
    pools = [node_pool("many", requirements=zonal), node_pool("few", requirements=other, limits={"nodes": "2"})]
    some = pods(12, gpus=1, topologySpreadConstraints=spread)
    decision = decide(nodePools=pools, instanceTypes=[instance_type("t4-1")], pods=some)
    zones = Counter(next(iter(machine.requirements[ZONE].values)) for machine in decision.machines)
    assert zones == {"z1": 3, "z2": 2}
    assert len(decision.errors) == 7


def test_machines_of_other_pods_add_domains() -> None:
    """A machine for other pods in a zone where spread pods have none bounds how many of them run elsewhere."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}, "whenUnsatisfiable": "DoNotSchedule"}
    types = [instance_type("t4-1", zones=("z1",)), instance_type("cpu-4", zones=("z2",))]
    both = [
        *pods(3, gpus=1, topologySpreadConstraints=[{**term, "maxSkew": 1}]),
        pod("cpu", cpu="3", labels={"b": "c"}),
    ]
    decision = decide(instanceTypes=types, pods=both)
    zones = Counter(next(iter(machine.requirements[ZONE].values)) for machine in decision.machines)
    assert zones == {"z1": 1, "z2": 1}


def test_pods_that_must_share_a_machine_and_cannot_are_placed_alone() -> None:
    """One of two pods with affinity to each other and the same host port is placed."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    both = pods(2, gpus=1, affinity=affinity)
    for one in both:
        one["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    decision = decide(pods=both)
    assert [machine.pods for machine in decision.machines] == [("default/p00",)]


IDLE, USES = {"name": "a"}, {"name": "b", "ports": [{"containerPort": 8080, "hostPort": 80}]}
PORTS: dict[str, tuple[dict[str, Any], int]] = {
    "container": ({"containers": [USES]}, 2),
    "sidecar": ({"containers": [IDLE], "initContainers": [{**USES, "restartPolicy": "Always"}]}, 2),
    "container that ends": ({"containers": [IDLE], "initContainers": [USES]}, 1),
    "own network": ({"containers": [{"ports": [{"containerPort": 80}]}]}, 1),
    "network of the Node": ({"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]}, 2),
}


@pytest.mark.parametrize("case", PORTS)
def test_host_ports_are_not_shared(case: str) -> None:
    """Two pods that use the same port of their Node as long as they run get two machines."""
    spec, machines = PORTS[case]
    wanted = [{"metadata": {"name": f"p{n}"}, "spec": spec} for n in range(2)]
    assert len(decide(pods=wanted).machines) == machines


@pytest.mark.parametrize(("container", "expected"), [({"requests": {"cpu": "1"}}, 1000), ({}, 40_000)])
def test_a_limit_of_a_pod_is_its_request_where_no_container_states_one(container: Any, expected: int) -> None:
    """As the API server completes a pod: a manifest says what is read of it there."""
    spec = {"resources": {"limits": {"cpu": "40"}}, "containers": [{"resources": container}]}
    (machine,) = decide(pods=[{"metadata": {"name": "p"}, "spec": spec}]).machines
    assert machine.requests["cpu"] == expected


def test_a_host_port_of_a_daemon_pod_is_the_reason() -> None:
    """Labels and taints would allow each machine."""
    container = {"resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}
    one, daemon = ({"metadata": {"name": name}, "spec": {"containers": [container]}} for name in ("p", "d"))
    decision = decide(pods=[one], daemonPods=[daemon])
    assert "host ports or daemon pods conflict" in decision.errors["default/p"]


def test_a_request_of_0_fits_where_too_much_is_used() -> None:
    """Of a resource that a pod requests none of, running pods may use more than the Node has."""
    existing = node("n", "t4-1", running=[pod("r", gpus=2)])
    container = {"resources": {"requests": {"cpu": "1", GPU: "0"}}}
    decision = decide(pods=[{"metadata": {"name": "p"}, "spec": {"containers": [container]}}], nodes=[existing])
    assert decision.existing == {"n": ("default/p",)}


def test_a_node_pool_that_waits_is_not_bought_from() -> None:
    """Its machines did not take such a pod before; those of other NodePools may."""
    found = given(pods=pods(1, gpus=1), nodePools=[node_pool("one", weight=10), node_pool("two")])
    (waiting,) = found.pods
    spec = msgspec.structs.replace(waiting.spec, misfits=Misfits(node_pools=(("one", "it waits"),)))
    decision = solve(msgspec.structs.replace(found, pods=(msgspec.structs.replace(waiting, spec=spec),)))
    assert [one.node_pool for one in decision.machines] == ["two"]


def test_a_heavier_node_pool_comes_first() -> None:
    """Weight is a preference of the user: price decides within one weight only."""
    heavy = node_pool("heavy", weight=10, requirements=[{"key": "model", "operator": "In", "values": ["a100"]}])
    decision = decide(nodePools=[node_pool("light"), heavy], pods=pods(1, gpus=1))
    assert [(m.node_pool, m.instance_types[0]) for m in decision.machines] == [("heavy", "a100-8")]


def test_the_next_node_pool_takes_what_the_limits_of_the_first_leave() -> None:
    """A NodePool whose limit is reached passes the rest of the pods on."""
    heavy = node_pool("heavy", weight=10, limits={"nvidia.com/gpu": 2})
    decision = decide(nodePools=[node_pool("light"), heavy], pods=pods(3, gpus=1))
    assert sorted(machine.node_pool for machine in decision.machines) == ["heavy", "heavy", "light"]


def test_pods_that_must_be_together_go_where_limits_allow_all_of_them() -> None:
    """The NodePool of the cheapest zone has room for one machine; another zone takes all pods."""
    elsewhere = [{"key": ZONE, "operator": "In", "values": ["z2", "z3"]}]
    pools = [node_pool("first", weight=10, limits={"nvidia.com/gpu": 1}), node_pool("second", requirements=elsewhere)]
    decision = decide(nodePools=pools, pods=pods(3, gpus=1, affinity=_near("podAffinity", ZONE)))
    assert not decision.errors
    (zone,) = {machine.requirements[ZONE].single for machine in decision.machines}
    assert zone in ("z2", "z3")


@pytest.mark.parametrize(("most", "expected"), [(8, ["t4-1"] * 8), (2, ["t4-4", "t4-4"]), (1, ["a100-8"])])
def test_where_machines_are_scarce_larger_ones_are_bought(most: int, expected: list[str]) -> None:
    """The number of agent pools is a constraint: within it the cheapest fleet is found."""
    assert bought(decide(pods=pods(8, gpus=1), maxNewNodeClaims=most)) == expected


def test_a_preference_is_given_up_only_when_it_cannot_be_met() -> None:
    """A preferred zone is used if machines can be bought there, and costs no pod its machine if they cannot."""
    preferred = {"weight": 1, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z2"]}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    met = decide(pods=pods(1, gpus=1, affinity=affinity))
    assert met.machines[0].requirements[ZONE].single == "z2"
    elsewhere = [cases.instance_type("t4-1", zones=("z1",))]
    assert decide(pods=pods(1, gpus=1, affinity=affinity), instanceTypes=elsewhere).machines


def test_claims_list_what_costs_little_more() -> None:
    """The NodeClaim lists all types within 15 % of the price, cheapest first, and no dearer one."""
    types = [{**cases.instance_type("t4-1"), "name": name} for name in ("a", "b", "c")]
    for kind, price in zip(types, (0.55, 0.5, 0.6), strict=True):
        kind["offerings"] = [{**one, "Price": price} for one in kind["offerings"]]
    decision = decide(pods=pods(1, gpus=1), instanceTypes=types)
    assert decision.machines[0].instance_types == ("b", "a")


def test_min_values_extend_the_list() -> None:
    """`minValues` wants distinct values of a label, so dearer types are listed besides."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 2}
    decision = decide(pods=pods(1, gpus=1), nodePools=[node_pool(requirements=[requirement])])
    assert decision.machines[0].instance_types == ("t4-1", "t4-4")
    few = decide(pods=pods(1, gpus=1), nodePools=[node_pool(requirements=[{**requirement, "minValues": 9}])])
    assert "minValues of node.kubernetes.io/instance-type are not met" in few.errors["default/p00"]


def test_another_node_pool_takes_what_min_values_leave() -> None:
    """Pods whose machines have too few types in one NodePool get smaller ones there, or machines of the next one."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 3}
    pools = [node_pool("several", requirements=[requirement], weight=9), node_pool("any")]
    decision = decide(nodePools=pools, pods=[pod("small", gpus=1), pod("large", gpus=8)])
    assert {one.pods[0]: one.node_pool for one in decision.machines} == {
        "default/small": "several",
        "default/large": "any",
    }


def test_min_values_are_met_with_smaller_machines() -> None:
    """Eight pods together fit one size only; on machines of their own each keeps both."""
    few = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["t4-4", "a100-8"], "minValues": 2}
    small, large = cases.instance_type("t4-4"), cases.instance_type("a100-8")
    large["offerings"] = [{**one, "Price": 4.5} for one in large["offerings"]]
    demand = {"nodePools": [node_pool(requirements=[few])], "pods": pods(8, gpus=1)}
    decision = decide(**demand, instanceTypes=[small, large])
    assert not decision.errors
    assert all(set(one.instance_types) == {"t4-4", "a100-8"} for one in decision.machines)


def test_an_unknown_price_is_chosen_last() -> None:
    """A type without a price is bought only if nothing else takes the pod, and no price is reported."""
    unknown = cases.instance_type("t4-1")
    unknown["offerings"] = [{**one, "Price": None} for one in unknown["offerings"]]
    both = [unknown, cases.instance_type("t4-4")]
    assert bought(decide(pods=pods(1, gpus=1), instanceTypes=both)) == ["t4-4"]
    decision = decide(pods=pods(1, gpus=1), instanceTypes=[unknown])
    assert decision.machines[0].price is None


def test_daemon_pods_take_room() -> None:
    """A machine must have room for the DaemonSet pods that tolerate its taints."""
    daemon = pod("daemon", cpu="2")
    assert bought(decide(pods=pods(1, gpus=1, cpu="3"), daemonPods=[daemon])) == ["t4-4"]
    assert bought(decide(pods=pods(1, gpus=1, cpu="3"))) == ["t4-1"]


def test_labels_that_nobody_selects_do_not_divide_pods() -> None:
    """The pods of an indexed Job differ in one label and are still placed as equal pods."""
    indexed = [pod(f"p{n}", gpus=1, labels={"batch.kubernetes.io/job-completion-index": str(n)}) for n in range(50)]
    found = read({"pods": indexed})
    assert len({one.key for one in found.pods}) == 1


def test_the_order_of_the_input_does_not_matter() -> None:
    """The same snapshot in any order has the same decision."""
    wanted = [*pods(3, gpus=1), pod("x", gpus=2), pod("y", cpu="3")]
    decisions = [decide(pods=[*order]) for order in itertools.islice(itertools.permutations(wanted), 0, 120, 17)]
    assert all(decision == decisions[0] for decision in decisions)


@pytest.mark.parametrize("available", [True, False])
def test_no_combination_of_a_claim_is_dearer(available: bool) -> None:
    """The 15 % hold for each size with each capacity type that the NodeClaim lists."""
    terms = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}
    small, large = instance_type("t4-1"), instance_type("t4-4")
    small["offerings"] = [{"Zone": "z1", "CapacityType": "on-demand", "Price": 0.5, "Available": True}]
    large["offerings"] = [
        {"Zone": "z1", "CapacityType": "spot", "Price": 0.5, "Available": True},
        {"Zone": "z1", "CapacityType": "on-demand", "Price": 4.3, "Available": available},
    ]
    pools = [node_pool(requirements=[terms])]
    (machine,) = decide(nodePools=pools, instanceTypes=[small, large], pods=[pod("p", gpus=1)]).machines
    assert machine.requirements["karpenter.sh/capacity-type"].values == {"on-demand"}
    assert machine.instance_types == ("t4-1",)
