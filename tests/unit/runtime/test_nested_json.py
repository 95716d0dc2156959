"""Objects with values that are nested as deeply as the API server accepts: they, and all others, are decoded."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from provisioner.api.byte_budget import ByteBudget
from provisioner.api.pod import Pod
from provisioner.runtime.decoding import decoded, metadata_page, page
from provisioner.runtime.nested_json import DEPTH_MAX, shallow
from provisioner.runtime.resources import PODS
from provisioner.runtime.watch import cut_event, event
from provisioner.runtime.watched_objects import WatchedObject, reduced

# Below, at and above the limits of Python 3.11 and of later versions; the last is above what the API server accepts.
DEPTHS = (50, 900, 990, 1500, 9_985, 9_994, 30_000)
NESTED = {
    "objects": lambda depth: b'{"f:a":' * depth + b"{}" + b"}" * depth,
    "arrays": lambda depth: b"[" * depth + b"]" * depth,
}


def pod(name: str, nested: bytes) -> bytes:
    return (
        b'{"kind":"Pod","metadata":{"name":"%b","resourceVersion":"7","managedFields":[{"fieldsV1":%b}],'
        b'"labels":{"app":"[{\\"x"}},"spec":{"nodeName":"n"}}' % (name.encode(), nested)
    )


def whole(found: Pod) -> bool:
    meta = found.metadata
    return (meta.labels, found.spec.node_name, meta.unreadable) == ({"app": '[{"x'}, "n", ())


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
def test_nested_values_hide_nothing(nested: Callable[[int], bytes], depth: int) -> None:
    """In a single object, a page, an event, an event that was cut, and a page of metadata."""
    deep = pod("deep", nested(depth))
    assert whole(decoded(deep, PODS, "get"))
    items = b",".join((pod("a", b"{}"), deep, pod("b", b"{}")))
    body = b'{"kind":"%b","metadata":{"resourceVersion":"9","continue":"t"},"items":[%b]}'
    found, version, token = page(body % (b"PodList", items), PODS, "list")
    assert [(one.metadata.name, whole(one)) for one in found] == [("a", True), ("deep", True), ("b", True)]
    assert (version, token) == ("9", "t")
    line = b'{"type":"ADDED","object":%b}' % deep
    seen = event(line, PODS, "watch")
    assert seen.object is not None
    assert (whole(seen.object), seen.resource_version) == (True, "7")
    cut = cut_event(line[: line.index(b'"nodeName')], PODS, "watch")
    assert cut.object is not None
    assert (cut.object.metadata.name, cut.object.metadata.labels) == ("deep", {"app": '[{"x'})
    bare, _, _ = metadata_page(body % (b"PartialObjectMetadataList", items), PODS, "list")
    assert [one.metadata.name for one in bare] == ["a", "deep", "b"]


@pytest.mark.parametrize("depth", DEPTHS)
def test_fields_of_a_watched_resource_may_be_nested(depth: int) -> None:
    """What is kept of it is as deep as the limit, whatever the decoder could follow."""
    body = b'{"metadata":{"name":"x"},"spec":{"a":%b,"b":1}}' % NESTED["arrays"](depth)
    found = reduced(msgspec.json.decode(shallow(body), type=WatchedObject), frozenset({("spec",)}), ByteBudget())
    assert found.member("spec")["b"] == 1
    assert len(msgspec.json.encode(found.kept)) < 1000


def generated(rng: Random, depth: int) -> Any:
    """A value whose strings have brackets, quotes and backslashes."""
    if depth == 0 or rng.random() < 0.1:
        return rng.choice((1, None, True, 1.5, '"[{\\', "]}", "\\\\", "", [], {}))
    width = rng.choice((1, 1, 1, 2, 3))
    if rng.random() < 0.5:
        return [generated(rng, depth - 1) for _ in range(width)]
    return {f'{number}\\{rng.choice("[]{}")}"': generated(rng, depth - 1) for number in range(width)}


def cut(value: Any, depth: int = 0) -> Any:
    if not isinstance(value, dict | list):
        return value
    if depth == DEPTH_MAX:
        return None
    if isinstance(value, list):
        return [cut(one, depth + 1) for one in value]
    return {name: cut(one, depth + 1) for name, one in value.items()}


@pytest.mark.parametrize("seed", range(20))
def test_values_below_the_limit_are_null_and_nothing_else_changes(seed: int) -> None:
    """As a recursive function over the decoded value has it."""
    rng = Random(seed)
    value: Any = [generated(rng, rng.choice((5, 12))) for _ in range(20)]
    for _ in range(DEPTH_MAX - rng.randint(0, 8)):
        value = [rng.choice(("}", '"')), value, {}]
    text = json.dumps(value, separators=rng.choice(((",", ":"), (", ", ": ")))).encode()
    assert json.loads(shallow(text)) == cut(value)


@pytest.mark.parametrize(
    "text", [b'["' + b'\\"' * 1_000_000, b'{"a":' * 500 + b'"', b"]" * 1000, b"[" * 1000, b'"\\', b"[" * 300 + b'{"\\']
)
def test_text_that_is_no_json_is_scanned_once(text: bytes) -> None:
    """Also an unterminated string of escaped quotes, whose every quote could be the beginning of another one."""
    assert len(shallow(text)) <= len(text) + len(b"null")
