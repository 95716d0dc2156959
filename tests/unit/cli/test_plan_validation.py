"""Validation of manifests by `plan`: the same fields as the API server, each error with its value and its remedy."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.api.crd import nodeclaim_crd
from provisioner.apiextensions.schema import Schema
from provisioner.cli.commands.validation import claim_errors

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
OPENAPI = nodeclaim_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SERVER = Schema(OPENAPI)
Json = dict[str, Any]
JUNK: tuple[Any, ...] = ("", "a b", "-x", "karpenter.sh/x", "1", "-1", 0, 7, 1.5, True, [], ["a"], {}, {"a": "b"}, None)


def example() -> Json:
    """A claim with every field that a user may set."""
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
    """The fields that the API server rejects or prunes."""
    unknown: list[str] = []
    shaped = SERVER.shape(document, unknown)
    return {*unknown, *(error.field for error in SERVER.validate(shaped, None) if error.field != "<nil>")}


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
def test_the_fields_are_those_that_the_api_server_rejects(path: tuple[Any, ...]) -> None:
    """Each value in each field has an error if and only if the API server rejects it."""
    for junk in JUNK:
        document = changed(("spec", *path), junk)
        found, refused = {error.field for error in claim_errors(document)}, server_fields(document)
        assert bool(found) == bool(refused), (junk, found, refused)
        assert refused <= found, (junk, found, refused)


@pytest.mark.parametrize("document", [example(), *(yaml.safe_load(path.read_text()) for path in EXAMPLES)])
def test_valid_manifests_have_no_errors(document: Json) -> None:
    """The examples, and a claim with all fields."""
    assert claim_errors(document) == []


BAD = [
    (("spec", "requirement"), [], "spec.requirement", "[]", "unknown field", "write requirements"),
    (("kindd",), "x", "kindd", "x", "unknown field", "write kind"),
    (("metadata", "labels", "a"), True, "metadata.labels.a", "true", "of type string", 'write it in quotes: "true"'),
    (("metadata", "name"), "GPU_1", "metadata.name", "GPU_1", "should match", "use lower-case letters"),
    (("metadata", "lables"), {}, "metadata.lables", "{}", "unknown field", "write labels"),
    (("spec", "expireAfter"), "30d", "spec.expireAfter", "30d", "Never", "720h for 30 days"),
    (("spec", "expireAfter"), "720h\n", "spec.expireAfter", "720h\n", "Never", "720h for 30 days"),
    (
        ("spec", "requirements", 0, "operator"),
        "in",
        "spec.requirements[0].operator",
        "in",
        'supported values: "Gte", "Lte", "In", "NotIn"',
        "write In",
    ),
    (
        ("spec", "requirements", 2, "minValues"),
        51,
        "spec.requirements[2].minValues",
        "51",
        "less than or equal to 50",
        "set it to 50 or less",
    ),
    (
        ("spec", "requirements"),
        [{"key": "a", "operator": "In", "values": ["b"], "minValues": 2}],
        "spec.requirements",
        '[{"key":"a","operator":"In","values":["b"],"minValues":2}]',
        "at least that many",
        "lower minValues",
    ),
    (
        ("spec", "requirements", 0, "key"),
        "karpenter.sh/x",
        "spec.requirements[0].key",
        "karpenter.sh/x",
        'domain "karpenter.sh" is restricted',
        "remove this requirement",
    ),
    (
        ("spec", "startupTaints", 0, "timeAdded"),
        "now",
        "spec.startupTaints[0].timeAdded",
        "now",
        "of type date-time",
        "explain nodeclaim.spec.startupTaints.timeAdded",
    ),
    (
        ("spec", "requirements"),
        [{"key": "a", "operator": "Exists"}] * 101,
        "spec.requirements",
        '[{"key":"a","operator":"Exists"},{"key":"a","operator":"Exists"},{"key":"a","ope',
        "at most 100",
        "remove the excess items",
    ),
    (
        ("spec", "requirements", 0, "key"),
        "k" * 317,
        "spec.requirements[0].key",
        "k" * 80,
        "more than 316",
        "shorten it",
    ),
    (
        ("spec", "resources", "requests", "nvidia.com/gpu"),
        "many",
        "spec.resources.requests.nvidia.com/gpu",
        "many",
        "should match",
        "write a quantity such as",
    ),
    (("spec", "nodeClassRef"), None, "spec.nodeClassRef", "", "Required value", "add it"),
]


@pytest.mark.parametrize("row", BAD, ids=[str(row[:2])[:60] for row in BAD])
def test_an_error_has_field_value_message_and_remedy(row: tuple[Any, ...]) -> None:
    """One error for each mistake; the value is cut at 80 characters."""
    path, given, field, value, message, remedy = row
    (error,) = claim_errors(changed(path, given))
    assert (error.field, error.value) == (field, value)
    assert message in error.message
    assert remedy in error.remedy


def test_all_errors_are_returned_at_once() -> None:
    """An invalid field does not hide errors of other fields, rules included."""
    document = changed(("spec", "nodeClassRef"), {"group": "a/b", "name": "", "kin": "x"})
    document["spec"]["resources"]["requests"] = {"storage": "much", "cpu": []}
    document["spec"]["taints"][0] = {"key": "", "effect": "Never"}
    assert {error.field for error in claim_errors(document)} == {
        "spec.nodeClassRef.group",
        "spec.nodeClassRef.kin",
        "spec.nodeClassRef.kind",
        "spec.nodeClassRef.name",
        "spec.resources.requests.cpu",
        "spec.resources.requests.storage",
        "spec.taints[0].effect",
        "spec.taints[0].key",
    }


def test_null_metadata_fields_are_absent() -> None:
    """`kubectl create --dry-run=client -o yaml` writes a null creationTimestamp."""
    assert claim_errors(changed(("metadata", "creationTimestamp"), None)) == []
