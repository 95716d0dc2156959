"""JSONPath of CRD printer columns.

Supports fields (dots escaped by a backslash), indexes, `[*]`, quoted keys, and filters `[?(@.field=="value")]`. A
path is compiled once, to a function that gives the list of values found.

Source: https://kubernetes.io/docs/reference/kubectl/jsonpath/,
https://github.com/kubernetes/apiextensions-apiserver/tree/master/pkg/registry/customresource/tableconvertor.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

Step = Callable[[Any], Iterator[Any]]

_STEP = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\\])+)
      | \[\?\(@\.(?P<on>[^=!)]+?)\s*(?P<op>==|!=)\s*(?P<quote>["'])(?P<value>.*?)(?P=quote)\s*\)\]
      | \[(?P<q>["'])(?P<key>.*?)(?P=q)\]
      | \[(?P<index>-?\d+|\*)\]""",
    re.VERBOSE,
)


def compile_path(path: str) -> Callable[[Any], list[Any]]:
    """A function from a JSON value to the values at `path`. Raises ValueError for an invalid path."""
    steps, position = [], 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"cannot understand the JSONPath {path!r} at {position}")
        steps.append(_step(match))
        position = match.end()

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [below for one in found for below in step(one)]
        return found

    return find


def _step(match: re.Match[str]) -> Step:
    if match["field"] is not None:
        return _field(re.sub(r"\\(.)", r"\1", match["field"]))
    if match["key"] is not None:
        return _field(match["key"])
    if match["on"] is not None:
        return _filter(match["on"].split("."), match["value"], wanted=match["op"] == "==")
    return _item(match["index"])


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _item(index: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            if index == "*":
                yield from value
            elif -len(value) <= int(index) < len(value):
                yield value[int(index)]

    return step


def _filter(path: list[str], expected: str, *, wanted: bool) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else []:
            found = item
            for name in path:
                found = found.get(name) if isinstance(found, dict) else None
            if found is not None and (str(found) == expected) is wanted:
                yield item

    return step
