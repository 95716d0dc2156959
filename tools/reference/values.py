"""`docs/reference/values.md`: every key of the chart, from `values.yaml`, its comments, and `values.schema.json`.

Each key has a row with the comment above it, in the order of the file; a key without a comment is an error. Keys below
a value that the chart copies to a manifest unchanged (an affinity, labels) have no rows.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from .markdown import code, page, table

CHARTS = Path(__file__).parents[2] / "charts"
CHART = CHARTS / "gpu-provisioner"
LONGEST_DEFAULT = 60
HEADS = ["Key", "Default", "Meaning", "Value"]

INTRODUCTION = """\
The keys of the chart `gpu-provisioner`. `values.schema.json` contains all of them: Helm rejects an unknown key or a
value of a wrong type. `gpu-provisioner values` writes the values for an existing cluster. Keys that the chart of
Azure/gpu-provisioner has too have the same meaning."""

ACCEPTED_HEAD = """\
## Accepted for compatibility

The chart also accepts these keys of the chart of Azure/gpu-provisioner."""


class Key(NamedTuple):
    """One key: its path such as `controller.image.tag`, its default, its comment, and its schema."""

    path: str
    default: Any
    words: str
    schema: Mapping[str, Any]


class Part(NamedTuple):
    """Keys of one top-level map, or consecutive top-level keys, with the comment for all of them."""

    words: str
    keys: tuple[Key, ...]


def render() -> str:
    """The page."""
    source = "charts/gpu-provisioner/values.yaml and values.schema.json"
    return page("Chart values", source, INTRODUCTION, *reference())


def reference() -> Iterator[str]:
    """The tables, and the comments between them."""
    for part in parts():
        if part.words:
            yield part.words
        yield table(HEADS, [[code(key.path), _default(key), key.words, _accepts(key.schema)] for key in part.keys])
    rows = [[code(path), schema.get("description", "")] for path, schema in accepted()]
    yield ACCEPTED_HEAD
    yield table(["Key", "Meaning"], rows)


@cache
def parts() -> tuple[Part, ...]:
    """All keys of values.yaml. Raises ValueError for a key without a comment."""
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    root: Any = yaml.compose("\n".join(lines))
    found: list[Part] = []
    alone: list[Key] = []
    words = ""
    for key, value in root.value:
        own, before = _above(lines, key), _paragraph(lines, key)
        schema = _schema()["properties"][key.value]
        if (before or "properties" in schema) and alone:
            found.append(Part(words, tuple(alone)))
            alone, words = [], ""
        words = before or words
        if "properties" in schema:
            found.append(Part(own, tuple(_keys(lines, value, schema, key.value))))
        else:
            alone.append(_key(key.value, value, own, schema))
    if alone:
        found.append(Part(words, tuple(alone)))
    return tuple(found)


def accepted() -> list[tuple[str, Mapping[str, Any]]]:
    """The keys of the schema that are not in values.yaml."""
    known = {key.path for part in parts() for key in part.keys}
    return [(path, schema) for path, schema in _allowed(_schema()) if path not in known]


def _keys(lines: list[str], node: yaml.MappingNode, schema: Mapping[str, Any], above: str) -> Iterator[Key]:
    for key, value in node.value:
        path, below = f"{above}.{key.value}", schema["properties"][key.value]
        if "properties" in below:
            yield from _keys(lines, value, below, path)
        else:
            yield _key(path, value, _above(lines, key), below)


def _key(path: str, value: yaml.Node, words: str, schema: Mapping[str, Any]) -> Key:
    if not words:
        raise ValueError(f"charts/gpu-provisioner/values.yaml: {path} has no comment")
    return Key(path, yaml.safe_load(yaml.serialize(value)), words, schema)


def _above(lines: list[str], key: yaml.Node) -> str:
    """The comment directly above a key, as one line."""
    first = last = key.start_mark.line
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(line.lstrip().removeprefix("#").strip() for line in lines[first:last])


def _paragraph(lines: list[str], key: yaml.Node) -> str:
    """The comment of a group of keys: the one that an empty line separates from the first key's own comment."""
    line = key.start_mark.line
    while line and lines[line - 1].lstrip().startswith("#"):
        line -= 1
    if line < 2 or lines[line - 1] or not lines[line - 2].startswith("#"):
        return ""
    first = line - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return " ".join(text.removeprefix("#").strip() for text in lines[first : line - 1]) if first else ""


@cache
def _schema() -> Mapping[str, Any]:
    read: Mapping[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return read


def _allowed(schema: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, below in schema["properties"].items():
        if "properties" in below:
            yield from _allowed(below, f"{above}{key}.")
        else:
            yield f"{above}{key}", below


def _default(key: Key) -> str:
    text = json.dumps(key.default, ensure_ascii=False)
    return code(text) if len(text) <= LONGEST_DEFAULT else "see values.yaml"


def _accepts(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(code(one) for one in schema["enum"] if one)
    types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    names = " or ".join(name for name in types if name != "null")
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{names}, {low} to {high}"
    return f"{names}, at least {low}" if low is not None else names
