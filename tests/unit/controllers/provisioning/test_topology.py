"""Spread constraints, pod affinity and their selectors: the solver decides what kube-scheduler decides.

Source: https://github.com/kubernetes/kubernetes/tree/v1.34.4/pkg/scheduler/framework/plugins/podtopologyspread,
https://github.com/kubernetes/kubernetes/tree/v1.34.4/pkg/scheduler/framework/plugins/interpodaffinity.
"""

from typing import Any

import msgspec
import pytest

from controllers.model.storage import Storage
from controllers.provisioning.podspecs import podspec
from controllers.provisioning.solver.model import Decision
from controllers.provisioning.solver.selection import NAMESPACE_NAME, Selection
from controllers.provisioning.solver.solver import solve
from provisioner.api.meta import ObjectMeta
from provisioner.api.namespace import Namespace, NamespaceDigest, labels_of
from provisioner.api.node import Node
from provisioner.api.pod import Pod
from provisioner.api.volume import PersistentVolume, PersistentVolumeClaim

from .cases import HOSTNAME, ZONE, bought, decide, node, pod, pods
from .observed import TOLERATES, observe
from .observed import node as observed_node
from .observed import pod as observed_pod

Json = dict[str, Any]


def near(key: str, selected: Json | None, kind: str = "podAffinity", **term: Any) -> Json:
    one = {"topologyKey": key, **({} if selected is None else {"labelSelector": selected}), **term}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [one]}}


def spread(selected: Json | None, **more: Any) -> list[Json]:
    one = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selected}
    return [{**one, **more}]


def labels(**selected: str) -> Json:
    return {"matchLabels": selected}


def within(name: str, body: Json) -> Json:
    body["metadata"]["namespace"] = name
    return body


def bound(on: str, body: Json) -> Json:
    body["spec"]["nodeName"] = on
    return body


def zones(decision: Decision) -> list[str]:
    return sorted(zone for machine in decision.machines for zone in machine.requirements[ZONE].values)


# Node inclusion policies


def test_a_tainted_node_is_no_domain_of_a_spread_that_honors_taints() -> None:
    """With nodeTaintsPolicy Honor the zone of Nodes that the pods do not tolerate needs no pod."""
    system = node("system", "cpu-4", zone="0")
    system["node"]["spec"] = {"taints": [{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]}
    wanted = pods(6, gpus=1, topologySpreadConstraints=spread(labels(app="a"), nodeTaintsPolicy="Honor"))
    assert not decide(nodes=[system], pods=wanted).errors


def test_a_tainted_node_is_a_domain_by_default() -> None:
    """Without nodeTaintsPolicy the empty zone of such a Node permits one pod in each other zone."""
    system = node("system", "cpu-4", zone="0")
    system["node"]["spec"] = {"taints": [{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]}
    decision = decide(nodes=[system], pods=pods(6, gpus=1, topologySpreadConstraints=spread(labels(app="a"))))
    assert zones(decision) == ["z1", "z2", "z3"]


def in_zones(*names: str) -> Json:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [*names]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(("policy", "machines"), [("Ignore", 2), ("Honor", 4)])
def test_a_zone_that_node_affinity_excludes(policy: str, machines: int) -> None:
    """Its Nodes are a domain with nodeAffinityPolicy Ignore only: each other zone may then have one pod more."""
    constraints = spread(labels(app="a"), nodeAffinityPolicy=policy)
    wanted = pods(4, gpus=1, affinity=in_zones("z1", "z2"), topologySpreadConstraints=constraints)
    decision = decide(nodes=[node("other", "cpu-4", zone="z3")], pods=wanted)
    assert len(decision.machines) == machines


@pytest.mark.parametrize(("policy", "expected"), [("Honor", ["z1", "z2", "z3"]), ("Ignore", ["z2", "z2", "z3"])])
def test_pods_on_nodes_that_node_affinity_excludes(policy: str, expected: list[str]) -> None:
    """Pods on CPU Nodes, which the node selector excludes, count with nodeAffinityPolicy Ignore only."""
    running = [bound("cpu", pod(f"c{n}", cpu="100m")) for n in range(2)]
    full = bound("gpu", pod("full", gpus=1, labels={"app": "other"}))
    nodes = [node("cpu", "cpu-4", running=running), node("gpu", "t4-1", running=[full])]
    constraints = spread(labels(app="a"), nodeAffinityPolicy=policy)
    wanted = pods(3, gpus=1, nodeSelector={"model": "t4"}, topologySpreadConstraints=constraints)
    assert zones(decide(nodes=nodes, pods=wanted)) == expected


def test_a_node_without_the_label_of_another_constraint() -> None:
    """kube-scheduler counts no pod on a Node that lacks the label of one of the pod's spread constraints."""
    running = [bound("n1", pod(f"c{n}", cpu="100m")) for n in range(2)]
    full = bound("n1", pod("full", gpus=1, labels={"app": "other"}))
    constraints = [*spread(labels(app="a")), *spread(labels(app="a"), topologyKey="model", maxSkew=9)]
    without = node("n1", "t4-1", running=[*running, full])
    del without["node"]["metadata"]["labels"]["model"]
    decision = decide(nodes=[without], pods=pods(3, gpus=1, topologySpreadConstraints=constraints))
    assert zones(decision) == ["z1", "z2", "z3"]


# Pods that are counted


def test_terminating_pods_are_not_spread() -> None:
    """A rolling update spreads the new pods as if the old ones had ended."""
    old = [bound("n1", pod(f"old{n}", cpu="100m")) for n in range(2)]
    for one in old:
        one["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    full = bound("n1", pod("full", gpus=1, labels={"app": "other"}))
    constraints = spread(labels(app="a"))
    wanted = pods(3, gpus=1, nodeSelector={"model": "t4"}, topologySpreadConstraints=constraints)
    decision = decide(nodes=[node("n1", "t4-1", running=[*old, full])], pods=wanted)
    assert zones(decision) == ["z1", "z2", "z3"]


def test_terminating_pods_keep_others_away() -> None:
    """Anti-affinity counts a terminating pod until it has ended."""
    old = bound("n1", pod("old"))
    old["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    apart = near(HOSTNAME, labels(app="a"), "podAntiAffinity")
    decision = decide(nodes=[node("n1", "cpu-4", running=[old])], pods=[pod("new", affinity=apart)])
    assert (bought(decision), decision.existing) == (["cpu-4"], {})


def test_a_terminating_pod_of_the_same_machine() -> None:
    """A spread over machines does not count it either: its Node takes the new pod."""
    old = bound("n1", pod("old"))
    old["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    constraints = spread(labels(app="a"), topologyKey=HOSTNAME)
    decision = decide(
        nodes=[node("n1", "cpu-4", running=[old])], pods=[pod("new", topologySpreadConstraints=constraints)]
    )
    assert decision.existing == {"n1": ("default/new",)}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (labels(app="a"), ["z2", "z3"]),
        ({}, ["z1", "z1"]),
        (None, ["z1", "z1"]),
    ],
)
def test_which_pods_a_selector_of_a_spread_counts(selector: Json | None, expected: list[str]) -> None:
    """An empty selector counts no pod, as one that is missing: each zone may have any number."""
    running = [bound("n1", pod("c", cpu="100m")), bound("n1", pod("full", gpus=1, labels={"app": "other"}))]
    constraints = spread(selector)
    wanted = pods(2, gpus=1, nodeSelector={"model": "t4"}, topologySpreadConstraints=constraints)
    assert zones(decide(nodes=[node("n1", "t4-1", running=running)], pods=wanted)) == expected


EXPRESSIONS: list[tuple[str, list[Json], dict[str, str], bool]] = [
    ("exists and not in, absent", [{"operator": "Exists"}, {"operator": "NotIn", "values": ["x"]}], {}, False),
    ("exists and not in, other", [{"operator": "Exists"}, {"operator": "NotIn", "values": ["x"]}], {"k": "y"}, True),
    ("in two values, absent", [{"operator": "In", "values": ["x"]}, {"operator": "In", "values": ["y"]}], {}, False),
    ("in and not in, absent", [{"operator": "In", "values": ["x"]}, {"operator": "NotIn", "values": ["x"]}], {}, False),
    ("not in, absent", [{"operator": "NotIn", "values": ["x"]}], {}, True),
    ("does not exist, absent", [{"operator": "DoesNotExist"}], {}, True),
]


@pytest.mark.parametrize(("expressions", "found", "selected"), [row[1:] for row in EXPRESSIONS])
def test_expressions_of_one_label(expressions: list[Json], found: dict[str, str], selected: bool) -> None:
    """Every expression must hold; a combination that no value satisfies selects no pod, with or without the label."""
    selector = {"matchExpressions": [{"key": "k", **one} for one in expressions]}
    other = bound("n1", pod("other", labels={"app": "b", **found}))
    apart = near(HOSTNAME, selector, "podAntiAffinity")
    wanted = pod("p", labels={"app": "a", "k": "x"}, affinity=apart)
    decision = decide(nodes=[node("n1", "cpu-4", running=[other])], pods=[wanted])
    assert len(decision.machines) == selected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [({"matchLabelKeys": ["version"]}, {}), ({"mismatchLabelKeys": ["version"]}, {"n1": ("default/p",)})],
)
def test_keys_of_the_pods_own_labels(keys: Json, expected: Json) -> None:
    """matchLabelKeys demand the pod's own value of a label, mismatchLabelKeys another one."""
    other = bound("n1", pod("other", labels={"app": "a", "version": "1"}))
    apart = near(HOSTNAME, labels(app="a"), "podAffinity", **keys)
    wanted = pod("p", labels={"app": "b", "version": "2"}, affinity=apart)
    assert decide(nodes=[node("n1", "cpu-4", running=[other])], pods=[wanted]).existing == expected


def test_terms_of_pod_affinity_select_the_same_pods() -> None:
    """A pod that satisfies one of two terms does not count for either: only n2 has one that satisfies both."""
    both = near(HOSTNAME, labels(app="a"))
    terms = both["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms.append({"topologyKey": ZONE, "labelSelector": labels(tier="b")})
    half = [bound("n1", pod("x", labels={"app": "a"})), bound("n1", pod("y", labels={"tier": "b"}))]
    whole = bound("n2", pod("z", labels={"app": "a", "tier": "b"}))
    nodes = [node("n1", "cpu-4", running=half), node("n2", "cpu-4", running=[whole])]
    assert decide(nodes=nodes, pods=[pod("p", labels={"app": "c"}, affinity=both)]).existing == {"n2": ("default/p",)}


# Namespaces


def test_pods_of_two_namespaces_are_not_alike() -> None:
    """Anti-affinity with an empty selector concerns the pods of one namespace only."""
    alone = bound("n1", within("z", pod("alone", affinity=near(HOSTNAME, {}, "podAntiAffinity"))))
    wanted = [within("a", pod("x")), within("z", pod("y"))]
    decision = decide(nodes=[node("n1", "cpu-4", running=[alone])], pods=wanted)
    assert decision.existing == {"n1": ("a/x",)}


NAMESPACES: list[tuple[str, Json, bool]] = [
    ("no selector", {}, False),
    ("names", {"namespaces": ["team-b"]}, True),
    ("selector of another label", {"namespaceSelector": labels(team="a")}, False),
    ("selector of the label", {"namespaceSelector": labels(team="b")}, True),
    ("selector of the name", {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-b"}}}, True),
    ("empty selector", {"namespaceSelector": {}}, True),
    ("names or selector", {"namespaces": ["team-b"], "namespaceSelector": labels(team="a")}, True),
]


@pytest.mark.parametrize(("term", "excluded"), [row[1:] for row in NAMESPACES], ids=[row[0] for row in NAMESPACES])
def test_which_namespaces_a_term_concerns(term: Json, excluded: bool) -> None:
    """Anti-affinity that concerns their namespace keeps a pod of team a from the zones of team b's pods."""
    others = [within("team-b", bound(f"n{n}", pod(f"o{n}"))) for n in (1, 2, 3)]
    nodes = [node(f"n{n}", "cpu-4", zone=f"z{n}", running=[other]) for n, other in zip((1, 2, 3), others, strict=True)]
    apart = near(ZONE, labels(app="a"), "podAntiAffinity", **term)
    named = [{"metadata": {"name": name, "labels": {"team": name[-1]}}} for name in ("team-a", "team-b")]
    decision = decide(nodes=nodes, pods=[within("team-a", pod("p", gpus=1, affinity=apart))], namespaces=named)
    assert bool(decision.errors) == excluded


UNKNOWN: list[tuple[str, Json, bool, bool]] = [
    ("no selector", {}, False, False),
    ("names", {"namespaces": ["team-b"]}, True, True),
    ("selector of a label", {"namespaceSelector": labels(team="c")}, True, False),
    ("selector of its name", {"namespaceSelector": labels(**{NAMESPACE_NAME: "team-b"})}, True, True),
    ("selector of another name", {"namespaceSelector": labels(**{NAMESPACE_NAME: "c"})}, False, False),
    ("selector of another name too", {"namespaceSelector": labels(team="b", **{NAMESPACE_NAME: "c"})}, False, False),
    ("empty selector", {"namespaceSelector": {}}, True, True),
]


@pytest.mark.parametrize(("term", "apart", "near_them"), [row[1:] for row in UNKNOWN], ids=[row[0] for row in UNKNOWN])
def test_a_namespace_whose_labels_are_not_known(term: Json, apart: bool, near_them: bool) -> None:
    """A selector that compares them keeps its pods apart and finds none of them; other namespaces are not concerned."""
    known = {"team-a": {"team": "a"}, "team-b": None}

    def selects(namespace: str, kind: str) -> bool:
        body = within("team-a", pod("p", affinity=near(ZONE, labels(app="a"), kind, **term)))
        (one,) = podspec(msgspec.convert(body, Pod)).topology
        other = podspec(msgspec.convert(within(namespace, pod("o")), Pod))
        return Selection(known).selects(one, other)

    assert (selects("team-b", "podAntiAffinity"), selects("team-b", "podAffinity")) == (apart, near_them)
    assert selects("team-a", "podAntiAffinity") == selects("team-a", "podAffinity")


def test_one_namespace_with_megabytes_of_labels() -> None:
    """Its labels are not known, and those of other namespaces are."""
    digest = NamespaceDigest()
    meta = ObjectMeta(name="big", uid="u", labels={f"l{number}": "x" for number in range(20_000)})
    found = digest(Namespace(metadata=meta))
    assert labels_of(found) is None
    assert "metadata.labels: it has" in found.metadata.unreadable[0]
    small = digest(Namespace(metadata=ObjectMeta(name="small", labels={"team": "a"}, annotations={"a": "b"})))
    assert (labels_of(small), small.metadata.annotations) == ({"team": "a"}, {})


# Node affinity by name


def by_name(kind: str) -> Json:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    return {"matchFields": fields} if kind == "required" else {"weight": 1, "preference": {"matchFields": fields}}


def test_a_preference_for_a_node_by_name() -> None:
    """It keeps no pod from a new machine."""
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [by_name("preferred")]}
    assert bought(decide(pods=[pod("p", affinity={"nodeAffinity": preferred})])) == ["cpu-4"]


def test_a_node_by_name_or_a_label() -> None:
    """A required term that names a Node leaves the other terms, any of which suffices."""
    terms = [by_name("required"), {"matchExpressions": [{"key": "model", "operator": "In", "values": ["t4"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert bought(decide(pods=[pod("p", affinity={"nodeAffinity": required})])) == ["t4-1"]


# Volumes


def zonal_volume(zone: str) -> Storage:
    expression = {"key": "topology.disk.csi.azure.com/zone", "operator": "In", "values": [zone]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    volume = {"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": required}}}
    claim = {"metadata": {"name": "data"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}
    return Storage(
        requested=frozenset(("default/data",)),
        claims={"default/data": msgspec.convert(claim, PersistentVolumeClaim)},
        volumes={"v": msgspec.convert(volume, PersistentVolume)},
    )


def zoned(number: int) -> Node:
    name = f"n{number}"
    return observed_node(name, labels={HOSTNAME: name, ZONE: f"eastus-{number}", "kubernetes.io/os": "linux"})


def replica(name: str, *, on: str = "", gpus: int = 1, **more: Any) -> Any:
    volumes = [] if on else [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return observed_pod(
        name,
        gpus=gpus,
        on=on,
        meta={"labels": {"app": "a"}},
        tolerations=TOLERATES,
        topologySpreadConstraints=spread(labels(app="a"), **more),
        volumes=volumes,
    )


def test_domains_of_a_pod_with_a_zonal_volume() -> None:
    """The zone of a volume restricts where the pod may run, not the domains that minDomains counts."""
    running = tuple(replica(f"r{n}", on=f"n{n}") for n in (1, 2, 3))
    nodes = tuple(zoned(n) for n in (1, 2, 3))
    found = observe(nodes=nodes, pods=(*running, replica("p", minDomains=3)), storage=zonal_volume("eastus-1"))
    decision = solve(found.snapshot)
    assert [one.pods for one in decision.machines] == [("default/p",)], decision.errors


def test_skew_of_a_pod_with_a_zonal_volume() -> None:
    """Three pods run in the zone of its volume, one in each other zone: a fourth pod has no place there."""
    nodes = tuple(zoned(n) for n in (1, 2, 3))
    many = tuple(replica(f"a{n}", on="n1", gpus=int(n == 0)) for n in range(3))
    running = (*many, replica("b", on="n2"), replica("c", on="n3"))
    found = observe(nodes=nodes, pods=(*running, replica("p")), storage=zonal_volume("eastus-1"))
    assert not solve(found.snapshot).machines


def test_replicas_whose_volumes_are_in_one_zone() -> None:
    """Without Nodes in other zones kube-scheduler compares one domain, in which all replicas may run."""
    found = observe(pods=(replica("p"), replica("q")), storage=zonal_volume("eastus-1"))
    decision = solve(found.snapshot)
    assert sum(len(one.pods) for one in decision.machines) == 2


def with_mode(mode: str) -> Storage:
    storage = zonal_volume("eastus-1")
    (claim,) = storage.claims.values()
    spec = msgspec.structs.replace(claim.spec, access_modes=(mode,))
    return msgspec.structs.replace(storage, claims={"default/data": msgspec.structs.replace(claim, spec=spec)})


def user(name: str, on: str = "") -> Any:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return observed_pod(name, on=on, tolerations=TOLERATES, volumes=volumes)


@pytest.mark.parametrize(
    ("mode", "users", "waiting"),
    [
        ("ReadWriteOnce", (user("p"), user("q")), []),
        ("ReadWriteOncePod", (user("p"), user("q")), ["default/q"]),
        ("ReadWriteOncePod", (user("a", on="n1"), user("p")), ["default/p"]),
        ("ReadWriteOncePod", (user("p"),), []),
    ],
)
def test_volumes_of_one_pod(mode: str, users: tuple[Any, ...], waiting: list[str]) -> None:
    """A pod waits for its claim with ReadWriteOncePod while another one uses it, bound or pending."""
    found = observe(nodes=(zoned(1),), pods=users, storage=with_mode(mode))
    assert sorted(found.errors) == waiting
    assert all("ReadWriteOncePod" in error for error in found.errors.values())
