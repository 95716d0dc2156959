"""A document against a schema of ours, as the API server would judge it: everything that is wrong, at once.

Promise: pure, and complete for the words that our own definitions use: unknown fields, types, patterns, bounds, and the
CEL rules, each of which stands here as a predicate under its own text (a test holds them against a real CEL engine).
Rules about updates (`oldSelf`) are not for a document that is new.
Left to others: the definitions (`crd.py`), what a claim means (`cloudprovider.azure`).

Source: Kubernetes documentation, structural schemas and validation rules; karpenter.md §1.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any

import msgspec

from .crd import nodeclaim_crd
from .schema import Schema

SHOWN_CHARACTERS = 80
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_ANYTHING: Schema = {"x-kubernetes-preserve-unknown-fields": True}
# The API server's own rules for ObjectMeta, as far as a person writes it.
METADATA: Schema = {
    "type": "object",
    "properties": {
        "name": {
            "type": "string",
            "maxLength": 253,
            "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        },
        "generateName": {"type": "string"},
        "namespace": {"type": "string"},
        "uid": {"type": "string"},
        "creationTimestamp": {"type": "string", "format": "date-time"},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "resourceVersion": {"type": "string"},
        "generation": {"type": "integer"},
        "deletionGracePeriodSeconds": {"type": "integer"},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "ownerReferences": _ANYTHING,
        "managedFields": _ANYTHING,
        "selfLink": {"type": "string"},
    },
}


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """`field` is a path such as `spec.requirements[0].key`; `value` is what stands there, "" for nothing."""

    field: str
    value: str = ""
    problem: str
    remedy: str


class Rule(msgspec.Struct, frozen=True):
    """What a CEL rule says of a value that fits its schema, and what to do if it does not hold."""

    holds: Callable[[Any], bool]
    remedy: str


def _not_empty(value: str) -> bool:
    return value != ""


def _open_domain(key: str) -> bool:
    return key in ("karpenter.sh/capacity-type", "karpenter.sh/nodepool") or not key.split("/", 1)[0].endswith(
        "karpenter.sh"
    )


def _in_has_values(wanted: list[Any]) -> bool:
    return all(one.get("values") for one in wanted if one["operator"] == "In")


def _bounds_are_numbers(wanted: list[Any]) -> bool:
    values: list[list[str]] = [
        one.get("values") or [] for one in wanted if one["operator"] in ("Gt", "Lt", "Gte", "Lte")
    ]
    return all(len(v) == 1 and _WHOLE.fullmatch(v[0]) is not None and int(v[0]) >= 0 for v in values)


def _enough_values(wanted: list[Any]) -> bool:
    return all(len(one.get("values") or ()) >= (one.get("minValues") or 0) for one in wanted if one["operator"] == "In")


RULES: Mapping[str, Rule] = {
    "self != ''": Rule(_not_empty, "write its name"),
    'self in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"]'
    ' || !self.find("^([^/]+)").endsWith("karpenter.sh")': Rule(_open_domain, "leave this requirement out"),
    'self != "kubernetes.io/hostname"': Rule(
        lambda key: bool(key != "kubernetes.io/hostname"), "leave it out: the machine gets its name from AKS"
    ),
    "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)": Rule(_in_has_values, "add a value"),
    "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte')"
    " ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)": Rule(
        _bounds_are_numbers, "write exactly one whole number of at least 0"
    ),
    "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)": Rule(
        _enough_values, "add values, or lower minValues"
    ),
}
_KINDS: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def claim_flaws(document: Mapping[str, Any]) -> tuple[Flaw, ...]:
    """What the API server would refuse, or drop, of a NodeClaim that is new."""
    schema: Schema = nodeclaim_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties = {**schema["properties"], "metadata": METADATA}
    return tuple(flaws(document, {**schema, "properties": properties}))


def flaws(value: Any, schema: Schema, path: str = "") -> Iterator[Flaw]:
    """Everything wrong with a value; the rules of a node are asked only if all below it has the right shape."""
    wrong = [*_misshapen(value, schema, path)]
    if not wrong:
        wrong = [*_below(value, schema, path)]
    yield from wrong
    if wrong:
        return
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" not in rule["rule"] and not RULES[rule["rule"]].holds(value):
            yield _flaw(path, value, rule["message"], RULES[rule["rule"]].remedy)


def _misshapen(value: Any, schema: Schema, path: str) -> Iterator[Flaw]:
    """What is wrong with the value itself."""
    wanted = ("integer", "string") if schema.get("x-kubernetes-int-or-string") else (schema.get("type", ""),)
    if any(wanted) and not any(_is(value, kind) for kind in wanted):
        yield _flaw(path, value, f"it is of the wrong type: {_kind_of(value)}", f"write a value of type {wanted[-1]}")
        return
    if "enum" in schema and value not in schema["enum"]:
        yield _flaw(path, value, "it is none of the values that are known", f"use one of {', '.join(schema['enum'])}")
    if isinstance(value, str):
        yield from _misspelt(value, schema, path)
    elif isinstance(value, int):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            bounds = " and ".join(f"{how} {schema[word]}" for word, how in _BOUNDS if word in schema)
            yield _flaw(path, value, "it is out of bounds", f"write a number of {bounds}")
    elif isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        yield _flaw(path, f"{len(value)} items", "there are too many", f"keep at most {schema['maxItems']}")


_BOUNDS = (("minimum", "at least"), ("maximum", "at most"))


def _misspelt(text: str, schema: Schema, path: str) -> Iterator[Flaw]:
    if len(text) < schema.get("minLength", 0):
        yield _flaw(path, text, "it is empty", "write its name")
    elif len(text) > schema.get("maxLength", len(text)):
        yield _flaw(path, text, "it is too long", f"write at most {schema['maxLength']} characters")
    elif "pattern" in schema and re.search(_python(schema["pattern"]), text) is None:
        yield _flaw(path, text, "it is not written as it must be", f"it must match {schema['pattern']}")
    elif schema.get("format") == "date-time" and not _is_time(text):
        yield _flaw(path, text, "it is no time", "write it as in 2026-03-01T12:00:00Z")


def _below(value: Any, schema: Schema, path: str) -> Iterator[Flaw]:
    """What is wrong with the fields or items of a value."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from flaws(item, schema.get("items", {}), f"{path}[{index}]")
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    known, other = schema.get("properties", {}), schema.get("additionalProperties")
    for name, field in value.items():
        where, below = f"{path}.{name}" if path else str(name), known.get(name) or other
        if below is None:
            near = get_close_matches(str(name), known, n=1)
            remedy = f"write {near[0]}" if near else f"remove it; here are {', '.join(known)}"
            yield _flaw(where, field, "there is no such field", remedy)
        elif field is not None:  # null is the same as absent
            yield from flaws(field, below, where)
    for name in schema.get("required", ()):
        if value.get(name) is None:
            yield Flaw(field=f"{path}.{name}".lstrip("."), problem="it is missing", remedy="add it")


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _kind_of(value: Any) -> str:
    return next((kind for kind in _KINDS if _is(value, kind)), "null")


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _python(pattern: str) -> str:
    """Go's `$` is the end of the text; Python's also stands before a newline at the end."""
    return re.sub(r"(?<!\\)\$$", r"\\Z", pattern)


def _flaw(path: str, value: Any, problem: str, remedy: str) -> Flaw:
    shown = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return Flaw(field=path, value=shown[:SHOWN_CHARACTERS], problem=problem, remedy=remedy)
