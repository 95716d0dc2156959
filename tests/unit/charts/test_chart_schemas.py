"""What the chart renders, with each key at each of its values, is what Kubernetes' own schemas allow.

Source: the OpenAPI of Kubernetes as the package kubernetes-validate carries it, unknown fields refused; a validator of
ours reads it, as the package's own takes minutes. Kinds that a cluster does not have by itself are in
`test_chart_objects.py`.
"""

import importlib.util
import json
from functools import cache
from pathlib import Path

import jsonschema_rs
import pytest

from .chart_values import NEEDED, Json, before_and_after, leaves, render

# From the oldest that the chart takes to the newest there is.
MINORS = ("1.30", "1.34", "1.35", "1.36", "1.37")
FOREIGN = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}


@cache
def variants() -> tuple[Json, ...]:
    """Every distinct object of every rendering."""
    found: dict[str, Json] = {}
    for values in (NEEDED, *(one for path in leaves() for one in before_and_after(path))):
        for obj in render(values):
            if obj["kind"] not in FOREIGN:
                found[json.dumps(obj, sort_keys=True)] = obj
    return tuple(found.values())


def folder(minor: str) -> Path:
    """Where the strict schemas of that minor are."""
    package = importlib.util.find_spec("kubernetes_validate")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "kubernetes-json-schema" / f"v{minor}.0-local-strict"


@cache
def definitions(minor: str) -> Json:
    """What all kinds of that minor refer to."""
    read: Json = json.loads((folder(minor) / "_definitions.json").read_text(encoding="utf-8"))
    return read


@cache
def validator(minor: str, api_version: str, kind: str) -> jsonschema_rs.Validator:
    """What checks one kind."""
    group, _, version = api_version.rpartition("/")
    name = "-".join(part for part in (kind.lower(), group.partition(".")[0], version) if part)
    schema = json.loads((folder(minor) / f"{name}.json").read_text(encoding="utf-8"))
    return jsonschema_rs.validator_for(schema, retriever=lambda _: definitions(minor))


def problems(minor: str, obj: Json) -> list[str]:
    """All that is wrong with an object."""
    return [str(error.message) for error in validator(minor, obj["apiVersion"], obj["kind"]).iter_errors(obj)]


@pytest.mark.parametrize("minor", MINORS)
def test_every_rendering_is_valid(minor: str) -> None:
    """Each object of each rendering, in each minor."""
    assert {obj["kind"] for obj in variants()} >= {"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Pod"}
    wrong = {f"{obj['kind']}: {problem}" for obj in variants() for problem in problems(minor, obj)}
    assert wrong == set()


@pytest.mark.parametrize("minor", MINORS)
def test_an_unknown_field_would_be_noticed(minor: str) -> None:
    """A misspelt field is refused at any depth, as is a wrong type."""
    deployment = next(obj for obj in variants() if obj["kind"] == "Deployment")
    text = json.dumps(deployment)
    for written, miswritten in (('"replicas"', '"replcas"'), ('"httpGet"', '"httpGt"'), (': "Exists"', ": 1")):
        assert problems(minor, json.loads(text.replace(written, miswritten)))
