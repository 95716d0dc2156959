"""What pods and the pods of DaemonSets request decides about the size: containers, init containers and overhead.

Each row is a behavior that the provisioning tests of Karpenter specify, see docs/references/karpenter-suites.md.
"""

from typing import Any

import pytest

from .cases import ZONE, bought, decide, instance_type, node, node_pool, pod, pods

Json = dict[str, Any]
ALWAYS = {"restartPolicy": "Always"}


def size(cpus: int, **changes: Any) -> Json:
    """A size with so many vCPUs and GiB, priced by them."""
    found = instance_type("cpu-4", **changes)
    capacity = {"cpu": str(cpus), "memory": f"{cpus}Gi", "pods": "110"}
    offerings = [{**one, "Price": cpus / 10} for one in found["offerings"]]
    return {**found, "name": f"cpu-{cpus:02}", "capacity": capacity, "overhead": {}, "offerings": offerings}


def container(cpu: str, of: str = "requests", **fields: Any) -> Json:
    return {"resources": {of: {"cpu": cpu}}, **fields}


SIZES = [size(cpus) for cpus in (10, 11, 12)]
REQUESTS: list[tuple[str, Json, str]] = [
    ("an init container before a sidecar", {"containers": [container("6")],
     "initContainers": [container("10"), container("4900m", **ALWAYS)]}, "cpu-11"),
    ("a sidecar before a small init container", {"containers": [container("6")],
     "initContainers": [container("4900m", **ALWAYS), container("5")]}, "cpu-11"),
    ("a sidecar before a large init container", {"containers": [container("5")],
     "initContainers": [container("4900m", **ALWAYS), container("6")]}, "cpu-11"),
    ("requests of the pod", {"containers": [container("5")], "initContainers": [container("6"),
     container("4", **ALWAYS)], "resources": {"requests": {"cpu": "9900m"}, "limits": {"cpu": "10"}}}, "cpu-10"),
    ("a large init container", {"containers": [container("5")], "initContainers": [container("11500m")]}, "cpu-12"),
    ("an init container that no size holds", {"containers": [container("1")], "initContainers": [container("99")]}, ""),
    ("limits without requests", {"containers": [container("11500m", of="limits")]}, "cpu-12"),
    ("nothing", {"containers": [{}]}, "cpu-10"),
    ("zero", {"containers": [{"resources": {"requests": {"cpu": "0", "example.com/none": "0"}}}]}, "cpu-10"),
    ("overhead of its runtime class", {"containers": [container("9")], "overhead": {"cpu": "2"}}, "cpu-11"),
    ("more than any size", {"containers": [container("13")]}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), [row[1:] for row in REQUESTS], ids=[row[0] for row in REQUESTS])
def test_requests_of_a_pod(spec: Json, expected: str) -> None:
    """The smallest size that holds them, or none."""
    wanted = {"metadata": {"name": "p", "labels": {}}, "spec": spec}
    decision = decide(instanceTypes=SIZES, pods=[wanted])
    assert bought(decision) == ([expected] if expected else [])
    assert bool(decision.errors) is not bool(expected)


def term(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": [*values]} if values else {})}


def node_affinity(*alternatives: Json, kind: str = "required") -> Json:
    terms = [{"matchExpressions": [one]} for one in alternatives]
    if kind == "required":
        found: Any = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    else:
        found = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": terms[0]}]}
    return {"affinity": {"nodeAffinity": found}}


def sized(name: str, cpus: int) -> Json:
    found = size(cpus)
    return {**found, "requirements": [*found["requirements"], term("size", "In", name)]}


TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
DAEMONS: list[tuple[str, Json, Json, str]] = [
    ("each machine", {}, {}, "cpu-04"),
    ("none: its taint is not tolerated", {"taints": [TAINT]}, {}, "cpu-02"),
    ("those with a taint that it tolerates", {"taints": [TAINT]}, {"tolerations": [{"operator": "Exists"}]}, "cpu-04"),
    ("those with a taint to avoid if possible", {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}, {}, "cpu-04"),
    ("none: no machine has the label", {}, {"nodeSelector": {"disk": "fast"}}, "cpu-02"),
    ("none: no such instance type", {}, node_affinity(term("node.kubernetes.io/instance-type", "In", "x")), "cpu-02"),
    ("those with a label of the template", {"labels": {"purpose": "x"}}, {"nodeSelector": {"purpose": "x"}}, "cpu-04"),
    ("those without a value of a label", {}, node_affinity(term("disk", "NotIn", "fast")), "cpu-04"),
    ("one of its terms", {"labels": {"a": "b"}}, node_affinity(term("a", "In", "x"), term("a", "In", "b")), "cpu-04"),
    ("whatever it prefers", {}, node_affinity(term("a", "In", "x"), kind="preferred"), "cpu-04"),
    ("those with a startup taint", {"startup_taints": [TAINT]}, {}, "cpu-04"),
    ("those of a size only", {}, {"nodeSelector": {"size": "large"}}, "cpu-02"),
    ("initialized ones", {}, node_affinity(term("karpenter.sh/initialized", "In", "true")), "cpu-04"),
    ("registered ones", {}, node_affinity(term("karpenter.sh/registered", "In", "true")), "cpu-04"),
]  # fmt: skip


@pytest.mark.parametrize(("pool", "daemon", "expected"), [row[1:] for row in DAEMONS], ids=[row[0] for row in DAEMONS])
def test_which_machines_a_daemon_pod_uses(pool: Json, daemon: Json, expected: str) -> None:
    """A pod of one vCPU fits two vCPUs, unless a pod of a DaemonSet takes two of them there."""
    tolerates = [{"key": "sku", "operator": "Exists"}]
    decision = decide(
        nodePools=[node_pool(**pool)],
        instanceTypes=[sized("small", 2), sized("medium", 4), sized("large", 16)],
        wellKnownLabels=["model", "size"],
        daemonPods=[pod("daemon", cpu="2", labels={"app": "d"}, **daemon)],
        pods=[pod("p", tolerations=tolerates)],
    )
    assert bought(decision) == [expected]


def test_startup_taints_need_no_toleration() -> None:
    """They are removed before pods are bound; other taints of the NodePool keep the pod out."""
    (machine,) = decide(nodePools=[node_pool(startup_taints=[TAINT])], instanceTypes=SIZES, pods=[pod("p")]).machines
    assert machine.pods == ("default/p",)
    assert not decide(nodePools=[node_pool(taints=[TAINT])], instanceTypes=SIZES, pods=[pod("p")]).machines


def test_requests_of_a_machine() -> None:
    """Those of its pods and, once, of its daemon pods."""
    daemon = pod("daemon", cpu="500m", labels={"app": "d"})
    (machine,) = decide(instanceTypes=[size(10)], daemonPods=[daemon], pods=pods(2)).machines
    assert (machine.requests["cpu"], machine.daemon_requests["cpu"]) == (2500, 500)


def with_port(body: Json, port: int) -> Json:
    body["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    return body


@pytest.mark.parametrize(("selector", "machines"), [({}, 0), ({"size": "large"}, 1)], ids=["everywhere", "elsewhere"])
def test_host_ports_of_daemon_pods(selector: dict[str, str], machines: int) -> None:
    """A pod with the port of a DaemonSet has no machine where that runs."""
    decision = decide(
        instanceTypes=[sized("small", 4), sized("large", 16)],
        wellKnownLabels=["model", "size"],
        daemonPods=[with_port(pod("daemon", labels={"app": "d"}, nodeSelector=selector), 8080)],
        pods=[with_port(pod("p", nodeSelector={"size": "small"}), 8080)],
    )
    assert len(decision.machines) == machines
    assert bool(decision.errors) is not bool(machines)


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}
LIMITS: list[tuple[str, Json, list[str], int]] = [
    ("exactly met", {"cpu": "2"}, ["1750m"], 1),
    ("met by one of two", {"cpu": "3"}, ["1500m", "1500m"], 1),
    ("exceeded", {"cpu": "2"}, ["2100m"], 0),
    ("of nodes", {"nodes": "2"}, ["1500m"] * 3, 2),
    ("of another resource", {"pods": "1"}, ["1"], 0),
]


@pytest.mark.parametrize(("limits", "cpus", "machines"), [row[1:] for row in LIMITS], ids=[row[0] for row in LIMITS])
def test_machines_within_limits(limits: Json, cpus: list[str], machines: int) -> None:
    """Pods that do not share a machine get as many as the limits of the NodePool allow, the others an error."""
    wanted = [pod(f"p{n}", cpu=cpu, affinity=APART) for n, cpu in enumerate(cpus)]
    decision = decide(nodePools=[node_pool(limits=limits)], instanceTypes=[size(2), size(4)], pods=wanted)
    assert len(decision.machines) == machines
    assert len(decision.errors) == len(cpus) - machines


@pytest.mark.parametrize(
    ("count", "cpu", "most", "machines"),
    [(5, "100m", 110, ["cpu-02"]), (40, "4500m", 110, ["cpu-10"] * 20), (9, "1m", 3, ["cpu-02"] * 3)],
    ids=["small pods share", "two of ten vCPUs each", "pods of a machine"],
)
def test_pods_of_one_machine(count: int, cpu: str, most: int, machines: list[str]) -> None:
    """As many as a machine has room for, the cheapest fleet of them all."""
    types = [size(2), size(10)]
    for one in types:
        one["capacity"]["pods"] = str(most)
    wanted = pods(count)
    for one in wanted:
        one["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    assert bought(decide(instanceTypes=types, pods=wanted)) == machines


def test_small_pods_fill_what_large_ones_leave() -> None:
    """Forty pods of 4.5 vCPUs and twenty of one: twenty machines of ten vCPUs, none more."""
    large = [pod(f"l{n:02}", cpu="4500m") for n in range(40)]
    small = [pod(f"s{n:02}", cpu="1") for n in range(20)]
    decision = decide(instanceTypes=[size(10)], pods=[*large, *small])
    assert len(decision.machines) == 20
    assert not decision.errors


@pytest.mark.parametrize(("sizes", "machines"), [((2, 6, 12), ["cpu-06"]), ((2, 5), ["cpu-02", "cpu-05"])])
def test_machines_are_no_larger_than_their_pods_need(sizes: tuple[int, ...], machines: list[str]) -> None:
    """Two pods share the smallest machine that holds both; where none does, each has the smallest that holds it."""
    decision = decide(instanceTypes=[size(one) for one in sizes], pods=[pod("a", cpu="4500m"), pod("b", cpu="1")])
    assert bought(decision) == machines


def test_a_size_that_is_large_enough_and_not_allowed() -> None:
    """The NodePool allows another architecture only, whose sizes are too small: nothing is bought."""
    large = size(16)
    arm = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
    large["requirements"] = [one if one["key"] != arm["key"] else arm for one in large["requirements"]]
    pool = node_pool(requirements=[{**arm, "values": ["amd64"]}])
    decision = decide(nodePools=[pool], instanceTypes=[size(4), large], pods=[pod("p", cpu="14")])
    assert not decision.machines
    assert decision.errors


@pytest.mark.parametrize("key", [ZONE, "kubernetes.io/hostname"])
def test_a_preference_that_cannot_be_met_divides_no_pods(key: str) -> None:
    """A pod with it shares the machine of one without it."""
    prefers = node_affinity(term(key, "In", "unknown"), kind="preferred")
    decision = decide(instanceTypes=SIZES, pods=[pod("a", cpu="2"), pod("b", **prefers)])
    assert [set(one.pods) for one in decision.machines] == [{"default/a", "default/b"}]


def of_daemon_set(name: str, on: str) -> Json:
    made = pod(name, cpu="1", labels={"app": "d"}, nodeName=on)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": name, "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


@pytest.mark.parametrize(
    ("running", "cpu", "taken"),
    [([], "3", True), ([], "3500m", False), (["agent"], "3", True), (["other"], "3500m", False)],
    ids=["room is kept for it", "no more than that", "it is there already", "another one is there"],
)
def test_daemon_pods_of_an_existing_node(running: list[str], cpu: str, taken: bool) -> None:
    """A Node of four vCPUs keeps one for its DaemonSet, once, and has what unexpected daemon pods leave."""
    there = node("n1", "cpu-4", running=[of_daemon_set(name, "n1") for name in running])
    daemon = pod("agent", cpu="1", labels={"app": "d"})
    decision = decide(nodes=[there], daemonPods=[daemon], instanceTypes=[size(10)], pods=[pod("p", cpu=cpu)])
    assert bool(decision.existing) is taken


def test_soft_taints_are_avoided_while_another_node_pool_serves() -> None:
    """A NodePool with a PreferNoSchedule taint is used for pods whose zone no other has."""
    soft = node_pool("soft", taints=[{"key": "x", "effect": "PreferNoSchedule"}])
    plain = node_pool("plain", requirements=[term(ZONE, "In", "z1")])
    wanted = [pod("any"), pod("there", nodeSelector={ZONE: "z2"})]
    decision = decide(nodePools=[soft, plain], instanceTypes=SIZES, pods=wanted)
    assert {one.node_pool: one.pods for one in decision.machines} == {
        "plain": ("default/any",),
        "soft": ("default/there",),
    }


def test_a_node_pool_that_a_pod_selects() -> None:
    """By its name, whatever the weight of others."""
    pools = [node_pool("light"), node_pool("heavy", weight=100)]
    selecting = pod("p", nodeSelector={"karpenter.sh/nodepool": "light"})
    for wanted, expected in ((selecting, "light"), (pod("p"), "heavy")):
        (machine,) = decide(nodePools=pools, instanceTypes=SIZES, pods=[wanted]).machines
        assert machine.node_pool == expected
