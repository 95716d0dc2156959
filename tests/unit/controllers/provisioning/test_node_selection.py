"""Node selectors and node affinity of a pod with requirements of its NodePool: where its machine is, or that none is.

Each row is a behavior that the scheduling tests of Karpenter specify, see docs/references/karpenter-suites.md.
"""

from typing import Any

import pytest

from controllers.provisioning.solver.model import NewMachine

from .cases import ZONE, decide, instance_type, node_pool, pod

Json = dict[str, Any]
TYPE, ARCH, OS, CAPACITY = (
    "node.kubernetes.io/instance-type",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "karpenter.sh/capacity-type",
)


def term(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": [*values]} if values else {})}


def required(*terms: Json | list[Json]) -> Json:
    """Terms that are lists of expressions are alternatives; expressions that follow each other are one term."""
    expressions = [one for one in terms if isinstance(one, dict)]
    alternatives = [one for one in terms if isinstance(one, list)] or [expressions]
    selector = {"nodeSelectorTerms": [{"matchExpressions": one} for one in alternatives]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": selector}


def preferred(*weighted: tuple[int, list[Json]]) -> Json:
    terms = [{"weight": weight, "preference": {"matchExpressions": one}} for weight, one in weighted]
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}


def affine(*parts: Json, **spec: Any) -> Json:
    return {"affinity": {"nodeAffinity": {key: one for part in parts for key, one in part.items()}}, **spec}


def sized(name: str, cores: str, price: float, exotic: Json) -> Json:
    """A type with a label that is a number, and with one that only some types have."""
    kind = instance_type("cpu-4")
    kind["requirements"] = [*kind["requirements"], term("cores", "In", cores), exotic]
    kind["offerings"] = [{**one, "Price": price} for one in kind["offerings"]]
    return {**kind, "name": name}


ARM: Json = instance_type("cpu-4")
ARM = {
    **ARM,
    "name": "arm-4",
    "requirements": [
        term(ARCH, "In", "arm64"),
        *(one for one in ARM["requirements"] if one["key"] != ARCH),
        term("cores", "In", "4"),
        term("exotic", "DoesNotExist"),
    ],
    "offerings": [{**one, "Price": 0.3} for one in ARM["offerings"]],
}
TYPES = [
    sized("small", "2", 0.1, term("exotic", "DoesNotExist")),
    sized("large", "16", 0.4, term("exotic", "In", "yes")),
    ARM,
]
ALL_ZONES = ("z1", "z2", "z3")
KNOWN = ["model", "cores", "exotic"]

# What the NodePool requires; what the pod requires; a label of the machine with its values, or None without a machine.
ROWS: list[tuple[str, list[Json], Json, tuple[str, set[str]] | None]] = [
    ("the zone of the NodePool", [term(ZONE, "In", "z2")], {}, (ZONE, {"z2"})),
    ("a selector among its zones", [term(ZONE, "In", "z1", "z2")], {"nodeSelector": {ZONE: "z2"}}, (ZONE, {"z2"})),
    ("a selector outside its zones", [term(ZONE, "In", "z1")], {"nodeSelector": {ZONE: "z2"}}, None),
    ("a selector of a zone that does not exist", [], {"nodeSelector": {ZONE: "unknown"}}, None),
    ("a selector of a hostname", [], {"nodeSelector": {"kubernetes.io/hostname": "red"}}, None),
    ("In", [], affine(required(term(ZONE, "In", "z3"))), (ZONE, {"z3"})),
    ("In without a value that exists", [], affine(required(term(ZONE, "In", "unknown"))), None),
    ("NotIn", [], affine(required(term(ZONE, "NotIn", "z1", "z2", "unknown"))), (ZONE, {"z3"})),
    ("NotIn of all values", [], affine(required(term(ZONE, "NotIn", *ALL_ZONES, "unknown"))), None),
    ("Gt of the NodePool", [term("cores", "Gt", "8")], {}, ("cores", {"16"})),
    ("Lt of the NodePool", [term("cores", "Lt", "8")], {}, ("cores", {"2"})),
    ("Gte of the NodePool", [term("cores", "Gte", "16")], {}, ("cores", {"16"})),
    ("Lte of the NodePool", [term("cores", "Lte", "2")], {}, ("cores", {"2"})),
    (
        "a preference among what is required",
        [],
        affine(required(term(ZONE, "In", *ALL_ZONES, "unknown")), preferred((1, [term(ZONE, "In", "z2", "unknown")]))),
        (ZONE, {"z2"}),
    ),
    (
        "a preference for no value that exists",
        [],
        affine(required(term(ZONE, "In", *ALL_ZONES, "unknown")), preferred((1, [term(ZONE, "In", "unknown")]))),
        (ARCH, {"amd64"}),
    ),
    (
        "a preference against values",
        [],
        affine(required(term(ZONE, "In", *ALL_ZONES)), preferred((1, [term(ZONE, "NotIn", "z1", "z3")]))),
        (ZONE, {"z2"}),
    ),
    (
        "a preference against all values",
        [],
        affine(required(term(ZONE, "In", *ALL_ZONES)), preferred((1, [term(ZONE, "NotIn", *ALL_ZONES)]))),
        (ARCH, {"amd64"}),
    ),
    (
        "selector, requirement and preference",
        [],
        affine(
            required(term(ZONE, "In", *ALL_ZONES)),
            preferred((1, [term(ZONE, "In", *ALL_ZONES)])),
            nodeSelector={ZONE: "z3"},
        ),
        (ZONE, {"z3"}),
    ),
    (
        "selectors, requirements and preferences of two labels",
        [],
        affine(
            required(term(ZONE, "In", "z1", "z3"), term(TYPE, "In", "small", "arm-4")),
            preferred((1, [term(ZONE, "NotIn", "unknown"), term(TYPE, "NotIn", "unknown")])),
            nodeSelector={ZONE: "z3", TYPE: "arm-4"},
        ),
        (ARCH, {"arm64"}),
    ),
    ("a preference that its requirement excludes", [],
     affine(required(term(ZONE, "In", "z3")), preferred((1, [term(ZONE, "NotIn", "z3")]))), (ZONE, {"z3"})),
    ("a preference that excludes itself", [],
     affine(preferred((1, [term(ZONE, "In", "unknown"), term(ZONE, "NotIn", "unknown")]))), (ARCH, {"amd64"})),
    ("preferences for what does not exist", [],
     affine(preferred((1, [term(ZONE, "In", "unknown")]), (1, [term(TYPE, "In", "unknown")]))), (ARCH, {"amd64"})),
    ("the heaviest preference that can be met", [term(ZONE, "In", "z1", "z2")],
     affine(preferred((100, [term(TYPE, "In", "z3")]), (50, [term(ZONE, "In", "z2")]), (1, [term(ZONE, "In", "z1")]))),
     (ZONE, {"z2"})),
    ("the only required term cannot be met", [term(ZONE, "In", "z1")],
     affine(required([term(ZONE, "In", "unknown")])), None),
    ("the first required term that can be met", [],
     affine(required([term(ZONE, "In", "unknown")], [term(ZONE, "In", "none")], [term(ZONE, "In", "z1")],
                     [term(ZONE, "In", "z2")])), (ZONE, {"z1"})),
    ("an arbitrary label of the system", [], {"nodeSelector": {"karpenter.sh/test": "x"}}, None),
    ("a label of the kubelet", [], {"nodeSelector": {"node.kubernetes.io/test": "x"}}, None),
    ("an instance type", [], {"nodeSelector": {TYPE: "large"}}, ("cores", {"16"})),
    ("an architecture", [], {"nodeSelector": {ARCH: "arm64"}}, (ARCH, {"arm64"})),
    ("an operating system", [], {"nodeSelector": {OS: "linux"}}, (OS, {"linux"})),
    ("an operating system that no type has", [], {"nodeSelector": {OS: "windows"}}, None),
    ("a capacity type", [], {"nodeSelector": {CAPACITY: "on-demand"}}, (CAPACITY, {"on-demand"})),
    ("a label of some types", [], affine(required(term("exotic", "Exists"))), ("cores", {"16"})),
    ("types without a label", [], affine(required(term("exotic", "DoesNotExist"))), ("cores", {"2"})),
    ("a label of another type than the one that it selects", [],
     {"nodeSelector": {TYPE: "small", "exotic": "yes"}}, None),
    ("the architecture of the NodePool", [term(ARCH, "In", "arm64")], {}, (ARCH, {"arm64"})),
    ("a type of another architecture", [term(ARCH, "In", "amd64")], {"nodeSelector": {TYPE: "arm-4"}}, None),
    ("In of a label that is not defined", [], affine(required(term("team", "In", "a"))), None),
    ("NotIn of a label that is not defined", [], affine(required(term("team", "NotIn", "a"))), ("team", set())),
    ("Exists of a label that is not defined", [], affine(required(term("team", "Exists"))), None),
    ("DoesNotExist of a label that is not defined", [], affine(required(term("team", "DoesNotExist"))),
     ("team", set())),
    ("a label that the pod does not mention", [term("team", "In", "a")], {}, ("team", {"a"})),
    ("In of a label of the NodePool", [term("team", "In", "a")], affine(required(term("team", "In", "a"))),
     ("team", {"a"})),
    ("NotIn of its value", [term("team", "In", "a")], affine(required(term("team", "NotIn", "a"))), None),
    ("Exists of a label of the NodePool", [term("team", "In", "a")], affine(required(term("team", "Exists"))),
     ("team", {"a"})),
    ("DoesNotExist of a label of the NodePool", [term("team", "In", "a")],
     affine(required(term("team", "DoesNotExist"))), None),
    ("In of another value", [term("team", "In", "a")], affine(required(term("team", "In", "b"))), None),
    ("NotIn of another value", [term("team", "In", "a")], affine(required(term("team", "NotIn", "b"))),
     ("team", {"a"})),
]  # fmt: skip


def _values(machine: NewMachine, key: str) -> set[str]:
    """The values of a label that the NodeClaim allows, or those of its types."""
    required = machine.requirements.get(key)
    if required is not None and required.values:
        return set(required.values)
    types = [one for one in TYPES if one["name"] in machine.instance_types]
    terms = [one for kind in types for one in kind["requirements"] if one["key"] == key]
    return {value for one in terms for value in one.get("values", ())}


@pytest.mark.parametrize(("pool", "spec", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_where_the_machine_of_a_pod_is(pool: list[Json], spec: Json, expected: tuple[str, set[str]] | None) -> None:
    """A pod has a machine exactly if the requirements of pod and NodePool and the types agree, with these labels."""
    decision = decide(
        nodePools=[node_pool(requirements=pool)], instanceTypes=TYPES, wellKnownLabels=KNOWN, pods=[pod("p", **spec)]
    )
    assert bool(decision.errors) is (expected is None)
    assert len(decision.machines) == (expected is not None)
    if expected is not None:
        key, values = expected
        assert _values(decision.machines[0], key) == values


def test_labels_of_the_template() -> None:
    """A pod selects the labels of the NodePool's template, with their values only."""
    pools = [node_pool(labels={"team": "a"})]
    wanted = [pod("same", nodeSelector={"team": "a"}), pod("other", nodeSelector={"team": "b"})]
    decision = decide(nodePools=pools, pods=wanted)
    assert [one.pods for one in decision.machines] == [("default/same",)]
    assert [*decision.errors] == ["default/other"]


@pytest.mark.parametrize(
    ("selectors", "machines"),
    [
        ([{"team": "a"}, {"team": "a"}], 1),
        ([{"team": "a"}, {"team": "b"}], 2),
        ([{"team": "a"}, {}], 1),
        ([{ARCH: "amd64"}, {ARCH: "arm64"}], 2),
        ([{TYPE: "small"}, {"beta.kubernetes.io/instance-type": "large"}], 2),
        ([{ZONE: "z1"}, {ZONE: "z2"}], 2),
    ],
    ids=["the same", "other values", "one without", "architectures", "types, also by the beta label", "zones"],
)
def test_pods_share_a_machine_if_their_selectors_agree(selectors: list[dict[str, str]], machines: int) -> None:
    """Two pods that one machine could hold."""
    decision = decide(
        nodePools=[node_pool(requirements=[term("team", "In", "a", "b")])],
        instanceTypes=TYPES,
        wellKnownLabels=KNOWN,
        pods=[pod(f"p{n}", cpu="1", nodeSelector=one) for n, one in enumerate(selectors)],
    )
    assert not decision.errors
    assert len(decision.machines) == machines
    assert {name for one in decision.machines for name in one.pods} == {"default/p0", "default/p1"}


def test_a_pod_that_only_requires_a_label_keeps_its_value() -> None:
    """Exists of one pod does not widen the value that another pod on the same machine requires."""
    pool = node_pool(requirements=[term("team", "In", "a", "b")])
    wanted = [pod("one", nodeSelector={"team": "b"}), pod("any", **affine(required(term("team", "Exists"))))]
    (machine,) = decide(nodePools=[pool], pods=wanted).machines
    assert machine.requirements["team"].values == {"b"}
    assert set(machine.pods) == {"default/one", "default/any"}


def extended(name: str, resource: str) -> Json:
    kind = instance_type("cpu-4")
    return {**kind, "name": name, "capacity": {**kind["capacity"], resource: "2"}}


@pytest.mark.parametrize(
    ("requests", "machines"),
    [
        ([{"example.com/x": "1"}, {"example.com/y": "1"}], ["with-x", "with-y"]),
        ([{"example.com/x": "1", "example.com/y": "1"}], []),
    ],
    ids=["two pods", "one pod"],
)
def test_resources_that_no_type_has_together(requests: list[Json], machines: list[str]) -> None:
    """Two pods get a machine each; a pod that requests both gets none."""
    types = [extended("with-x", "example.com/x"), extended("with-y", "example.com/y")]
    wanted = [pod(f"p{n}") for n in range(len(requests))]
    for one, more in zip(wanted, requests, strict=True):
        one["spec"]["containers"][0]["resources"]["requests"] |= more
    decision = decide(instanceTypes=types, pods=wanted)
    assert sorted(one.instance_types[0] for one in decision.machines) == machines
    assert bool(decision.errors) is not bool(machines)
