"""What `plan` says of a claim before the API server does, held against a validator with a real CEL engine."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.api.crd import nodeclaim_crd
from provisioner.api.crd_check import RULES, claim_flaws
from provisioner.simulator.kube.schema import Schema

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
OPENAPI = nodeclaim_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SERVER = Schema(OPENAPI)
Json = dict[str, Any]
JUNK: tuple[Any, ...] = ("", "a b", "-x", "karpenter.sh/x", "1", "-1", 0, 7, 1.5, True, [], ["a"], {}, {"a": "b"}, None)


def example() -> Json:
    """A claim that has every field a person may write."""
    requirement = {"key": "example.com/n", "operator": "Gt", "values": ["3"]}
    choice = {"key": "example.com/c", "operator": "In", "values": ["a", "b"], "minValues": 2}
    size = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_NC4as_T4_v3"]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "gpu1", "labels": {"a": "b"}},
        "spec": {
            "expireAfter": "Never",
            "terminationGracePeriod": "1h30m",
            "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
            "requirements": [size, requirement, choice],
            "resources": {"requests": {"storage": "128Gi", "nvidia.com/gpu": 1}},
            "taints": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "s", "effect": "NoExecute", "timeAdded": "2026-03-01T12:00:00Z"}],
        },
    }


def server_fields(document: Json) -> set[str]:
    """The fields that the simulated API server finds wrong, or would drop."""
    unknown: list[str] = []
    shaped = SERVER.shape(document, unknown)
    wrong = {cause.field for cause in SERVER.causes(shaped, None) if cause.field != "<nil>"}
    return wrong | {field for field in unknown if not any(field.startswith(f"{one}.") for one in wrong)}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield from places(below, (*path, key))


def changed(path: tuple[Any, ...], value: Any) -> Json:
    document = copy.deepcopy(example())
    where: Any = document
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = copy.deepcopy(value)
    return document


PLACES = [path for path in places(example()["spec"]) if path]


@pytest.mark.parametrize("path", PLACES, ids=[".".join(map(str, path)) for path in PLACES])
def test_the_api_server_says_the_same(path: tuple[Any, ...]) -> None:
    """Whatever stands at this place: refused by both or by none, and each field that the server names is named."""
    for junk in JUNK:
        document = changed(("spec", *path), junk)
        found, said = {flaw.field for flaw in claim_flaws(document)}, server_fields(document)
        assert bool(found) == bool(said), (junk, found, said)
        assert said <= found, (junk, found, said)


@pytest.mark.parametrize("path", PLACES, ids=[".".join(map(str, path)) for path in PLACES])
def test_what_is_missing(path: tuple[Any, ...]) -> None:
    """A field left out is missed by both or by none."""
    document = example()
    where: Any = document["spec"]
    for key in path[:-1]:
        where = where[key]
    del where[path[-1]]
    assert {flaw.field for flaw in claim_flaws(document)} == server_fields(document)


def rules(schema: Any) -> Iterator[str]:
    for word, below in schema.items():
        if word == "x-kubernetes-validations":
            yield from (rule["rule"] for rule in below)
        elif isinstance(below, dict):
            yield from rules(below)


def test_each_rule_of_the_crd_has_its_predicate() -> None:
    """Those about updates aside; and none is kept that the CRD has no more."""
    assert {rule for rule in rules(OPENAPI) if "oldSelf" not in rule} == set(RULES)


@pytest.mark.parametrize("document", [example(), *(yaml.safe_load(path.read_text()) for path in EXAMPLES)])
def test_what_is_right_has_no_flaw(document: Json) -> None:
    """Our examples, and a claim with everything."""
    assert claim_flaws(document) == ()


BAD = [
    (("spec", "requirement"), [], "spec.requirement", "there is no such field", "write requirements"),
    (("kindd",), "x", "kindd", "there is no such field", "write kind"),
    (("metadata", "labels", "a"), True, "metadata.labels.a", "wrong type: boolean", "type string"),
    (("metadata", "name"), "GPU_1", "metadata.name", "not written as it must be", "match"),
    (("metadata", "lables"), {}, "metadata.lables", "there is no such field", "write labels"),
    (("spec", "expireAfter"), "30d", "spec.expireAfter", "not written as it must be", "Never"),
    (("spec", "expireAfter"), "720h\n", "spec.expireAfter", "not written as it must be", "Never"),
    (("spec", "requirements", 0, "operator"), "in", "spec.requirements[0].operator", "none of", "use one of In, NotIn"),
    (("spec", "requirements", 2, "minValues"), 51, "spec.requirements[2].minValues", "out of bounds", "at most 50"),
    (("spec", "requirements", 2, "minValues"), 3, "spec.requirements", "at least that many", "lower minValues"),
    (("spec", "startupTaints", 0, "timeAdded"), "now", "spec.startupTaints[0].timeAdded", "no time", "2026-03-01"),
    (("spec", "requirements"), [{"key": "a", "operator": "Exists"}] * 101, "spec.requirements", "too many", "100"),
    (("spec", "requirements", 0, "key"), "k" * 317, "spec.requirements[0].key", "too long", "316"),
    (("spec", "nodeClassRef"), None, "spec.nodeClassRef", "missing", "add it"),
]


@pytest.mark.parametrize(("path", "value", "field", "problem", "remedy"), BAD, ids=[str(row[:2])[:60] for row in BAD])
def test_flaws_say_what_to_do(path: tuple[Any, ...], value: Any, field: str, problem: str, remedy: str) -> None:
    """Field, cause, remedy; one for each flaw."""
    (flaw,) = claim_flaws(changed(path, value))
    assert flaw.field == field
    assert problem in flaw.problem
    assert remedy in flaw.remedy


def test_all_at_once() -> None:
    """One flaw hides no other, unless it is about the same value."""
    document = changed(("spec", "nodeClassRef"), {"group": "a/b", "name": "", "kin": "x"})
    document["spec"]["resources"]["requests"] = {"storage": "much", "cpu": []}
    document["spec"]["taints"][0] = {"key": "", "effect": "Never"}
    assert sorted(flaw.field for flaw in claim_flaws(document)) == [
        "spec.nodeClassRef.group",
        "spec.nodeClassRef.kin",
        "spec.nodeClassRef.kind",
        "spec.nodeClassRef.name",
        "spec.resources.requests.cpu",
        "spec.resources.requests.storage",
        "spec.taints[0].effect",
        "spec.taints[0].key",
    ]
