"""All renderings of the chart are valid under the OpenAPI schemas of Kubernetes.

The strict schemas, which reject unknown fields, are from the package kubernetes-validate. Its own validator takes
minutes, so jsonschema-rs evaluates them. Kinds of other projects are not checked here.
"""

import importlib.util
import json
from functools import cache
from pathlib import Path

import jsonschema_rs
import pytest

from .chart_values import NEEDED, Json, before_and_after, leaves, render

# From the oldest version that the chart supports to the newest.
MINORS = ("1.30", "1.34", "1.35", "1.36", "1.37")
FOREIGN = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}


@cache
def variants() -> tuple[Json, ...]:
    """All distinct objects of all renderings."""
    found: dict[str, Json] = {}
    for values in (NEEDED, *(one for path in leaves() for one in before_and_after(path))):
        for obj in render(values):
            if obj["kind"] not in FOREIGN:
                found[json.dumps(obj, sort_keys=True)] = obj
    return tuple(found.values())


def folder(minor: str) -> Path:
    """The folder of the strict schemas of that minor version."""
    package = importlib.util.find_spec("kubernetes_validate")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "kubernetes-json-schema" / f"v{minor}.0-local-strict"


@cache
def definitions(minor: str) -> Json:
    """The definitions that the schemas of that minor version refer to."""
    read: Json = json.loads((folder(minor) / "_definitions.json").read_text(encoding="utf-8"))
    return read


@cache
def validator(minor: str, api_version: str, kind: str) -> jsonschema_rs.Validator:
    """The validator of one kind."""
    group, _, version = api_version.rpartition("/")
    name = "-".join(part for part in (kind.lower(), group.partition(".")[0], version) if part)
    schema = json.loads((folder(minor) / f"{name}.json").read_text(encoding="utf-8"))
    return jsonschema_rs.validator_for(schema, retriever=lambda _: definitions(minor))


def problems(minor: str, obj: Json) -> list[str]:
    """The violations of an object."""
    return [str(error.message) for error in validator(minor, obj["apiVersion"], obj["kind"]).iter_errors(obj)]


@pytest.mark.matrix(quick=0)
@pytest.mark.parametrize("minor", MINORS)
def test_every_rendering_is_valid(minor: str) -> None:
    """The renderings with the default and with another value of each key."""
    assert {obj["kind"] for obj in variants()} >= {"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Pod"}
    wrong = {f"{obj['kind']}: {problem}" for obj in variants() for problem in problems(minor, obj)}
    assert wrong == set()


@pytest.mark.parametrize("minor", MINORS)
def test_an_invalid_object_is_rejected(minor: str) -> None:
    """Unknown fields at any depth, and a wrong type."""
    deployment = next(obj for obj in render(NEEDED) if obj["kind"] == "Deployment")
    text = json.dumps(deployment)
    for written, miswritten in (('"replicas"', '"replcas"'), ('"httpGet"', '"httpGt"'), (': "Exists"', ": 1")):
        assert problems(minor, json.loads(text.replace(written, miswritten)))
