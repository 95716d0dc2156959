"""The three patch formats, and what a patch cannot do."""

from typing import Any

import pytest

from .server import JSON_PATCH, MERGE, STRATEGIC, Json, Server
from .things import CLAIMS, NODES, at, claim, node

pytestmark = pytest.mark.asyncio

REFUSED = "the server rejected our request due to an error in our request"
TAINT, OTHER = {"key": "k", "effect": "NoSchedule"}, {"key": "o", "effect": "NoExecute"}


async def failed(server: Server, path: str, *operations: Json) -> None:
    """Expect that a JSON patch does not apply: 422 without a name, a cause or the failed part."""
    result = await server.refused(422, "Invalid", "PATCH", path, list(operations), how=JSON_PATCH)
    assert result["message"] == REFUSED
    assert result["details"] == {}


async def tainted(server: Server, **fields: Any) -> Json:
    """A Node with exactly one taint; the server sets one on new Nodes."""
    made = await node(server, **fields)
    return await server.patch(at(NODES, made), {"spec": {"taints": [TAINT]}})


# Merge patches


async def test_merge_patch(server: Server) -> None:
    """In a merge patch objects merge, null removes, everything else replaces."""
    made = await node(server, labels={"a": "1", "b": "2"}, annotations={"x/y": "z"})
    body = {"metadata": {"labels": {"a": None, "c": "3"}, "annotations": None}, "spec": {"unschedulable": True}}
    patched = await server.patch(at(NODES, made), body)
    assert patched["metadata"]["labels"] == {"b": "2", "c": "3", "case": server.case}
    assert "annotations" not in patched["metadata"]
    assert patched["spec"]["unschedulable"] is True


async def test_a_merge_patch_replaces_lists(server: Server) -> None:
    """A merge patch replaces whole lists and loses entries of other writers."""
    made = await tainted(server)
    patched = await server.patch(at(NODES, made), {"spec": {"taints": [OTHER]}})
    assert patched["spec"]["taints"] == [OTHER]
    patched = await server.patch(at(NODES, made), {"spec": {"taints": []}})
    assert "taints" not in patched["spec"]


async def test_a_malformed_patch_is_refused(server: Server) -> None:
    """Truncated JSON, a list instead of an object and an object instead of a list are 400."""
    made = await node(server)
    for how, body in ((MERGE, b"{"), (MERGE, []), (JSON_PATCH, b"["), (JSON_PATCH, {"op": "test"})):
        result = await server.refused(400, "BadRequest", "PATCH", at(NODES, made), body, how=how)
        assert result["message"].startswith("error decoding patch: ")


async def test_unsupported_patch_formats_are_415(server: Server) -> None:
    """Plain JSON is no patch format; custom resources have no strategic merge patch."""
    made, other = await node(server), await claim(server)
    await server.refused(415, "UnsupportedMediaType", "PATCH", at(NODES, made), {}, how="application/json")
    result = await server.refused(415, "UnsupportedMediaType", "PATCH", at(CLAIMS, other), {}, how=STRATEGIC)
    assert result["message"].startswith(
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json"
    )


# JSON patches


async def test_a_list_is_replaced_under_a_test(server: Server) -> None:
    """A JSON patch replaces a list if it is unchanged; otherwise nothing of the patch is applied."""
    made = await tainted(server)
    path = at(NODES, made)
    replace = [
        {"op": "test", "path": "/spec/taints", "value": [TAINT]},
        {"op": "add", "path": "/spec/taints", "value": [TAINT, OTHER]},
    ]
    assert (await server.patch(path, replace, JSON_PATCH))["spec"]["taints"] == [TAINT, OTHER]
    await failed(server, path, {"op": "add", "path": "/metadata/labels/late", "value": "x"}, *replace)
    found = await server.get(path)
    assert found["spec"]["taints"] == [TAINT, OTHER]
    assert "late" not in found["metadata"]["labels"]


async def test_equality_of_lists_and_objects(server: Server) -> None:
    """A test compares the order of a list, and not the order of fields."""
    made = await tainted(server)
    path = at(NODES, made)
    await server.patch(path, {"spec": {"taints": [TAINT, OTHER]}})
    await failed(server, path, {"op": "test", "path": "/spec/taints", "value": [OTHER, TAINT]})
    turned = [{"effect": "NoSchedule", "key": "k"}, {"effect": "NoExecute", "key": "o"}]
    await server.patch(path, [{"op": "test", "path": "/spec/taints", "value": turned}], JSON_PATCH)


async def test_an_absent_member_tests_equal_to_null(server: Server) -> None:
    """A test for null passes for an absent member, which can then be added."""
    made = await claim(server)
    path = at(CLAIMS, made)
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/finalizers", "value": None},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/a"]},
    ]
    patched = await server.patch(path, operations, JSON_PATCH)
    assert patched["metadata"]["finalizers"] == ["example.com/a"]
    await failed(server, path, *operations)


async def test_an_absent_member_tests_equal_to_nothing_else(server: Server) -> None:
    """A test of an absent member fails for an empty list and for any value, and below an absent parent."""
    made = await node(server)
    values: tuple[Any, ...] = ([], ["example.com/a"], {}, "")
    for value in values:
        await failed(server, at(NODES, made), {"op": "test", "path": "/metadata/finalizers", "value": value})
    await failed(server, at(NODES, made), {"op": "test", "path": "/metadata/none/deeper", "value": None})


async def test_absent_paths_cannot_be_removed_or_reached(server: Server) -> None:
    """A missing member, a missing parent and an index beyond the end fail."""
    made = await tainted(server)
    path = at(NODES, made)
    await failed(server, path, {"op": "remove", "path": "/metadata/finalizers"})
    await failed(server, path, {"op": "add", "path": "/metadata/none/deeper", "value": "x"})
    await failed(server, path, {"op": "add", "path": "/spec/taints/7", "value": OTHER})
    await failed(server, path, {"op": "test", "path": "", "value": {}})


async def test_replacing_an_absent_member_adds_it(server: Server) -> None:
    """Replacing an absent member adds it, unlike in RFC 6902."""
    made = await node(server)
    operation = {"op": "replace", "path": "/metadata/labels/new", "value": "x"}
    patched = await server.patch(at(NODES, made), [operation], JSON_PATCH)
    assert patched["metadata"]["labels"]["new"] == "x"


async def test_malformed_operations_do_not_apply(server: Server) -> None:
    """An unknown or missing op, a missing path and a path without a slash fail."""
    made = await node(server)
    for operation in (
        {"op": "nope", "path": "/metadata/labels/a", "value": "x"},
        {"path": "/metadata/labels/a", "value": "x"},
        {"op": "add", "value": "x"},
        {"op": "add", "path": "metadata/labels/a", "value": "x"},
    ):
        await failed(server, at(NODES, made), operation)


async def test_keys_with_slashes_and_tildes_are_escaped(server: Server) -> None:
    """~1 is a slash, and an operation can copy or move what an earlier one added."""
    made = await node(server)
    operations = [
        {"op": "add", "path": "/metadata/labels/example.com~1a", "value": "x"},
        {"op": "copy", "from": "/metadata/labels/example.com~1a", "path": "/metadata/labels/b"},
        {"op": "move", "from": "/metadata/labels/b", "path": "/metadata/labels/c"},
    ]
    patched = await server.patch(at(NODES, made), operations, JSON_PATCH)
    assert patched["metadata"]["labels"] == {"case": server.case, "example.com/a": "x", "c": "x"}


async def test_list_entries_by_index(server: Server) -> None:
    """A minus is the end of the list; removing an entry moves the following ones."""
    made = await tainted(server)
    operations = [
        {"op": "add", "path": "/spec/taints/-", "value": OTHER},
        {"op": "remove", "path": "/spec/taints/0"},
    ]
    patched = await server.patch(at(NODES, made), operations, JSON_PATCH)
    assert patched["spec"]["taints"] == [OTHER]


# Strategic merge patches


async def test_conditions_are_merged_by_type(server: Server) -> None:
    """A kubelet's conditions merge by type with those of other writers; $patch deletes an entry."""
    made = await node(server)
    path = at(NODES, made, "status")
    for conditions, expected in (
        (
            [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "True"}],
            {"Ready": "False", "Disk": "True"},
        ),
        ([{"type": "Ready", "status": "True"}], {"Ready": "True", "Disk": "True"}),
        ([{"$patch": "delete", "type": "Disk"}], {"Ready": "True"}),
        ([{"$patch": "replace"}, {"type": "Only", "status": "True"}], {"Only": "True"}),
    ):
        patched = await server.patch(path, {"status": {"conditions": conditions}}, STRATEGIC)
        assert {c["type"]: c["status"] for c in patched["status"]["conditions"]} == expected
    body = {"status": {"conditions": [{"status": "True"}]}}
    result = await server.refused(500, "", "PATCH", path, body, how=STRATEGIC)
    assert result["message"].endswith("does not contain declared merge key: type")


async def test_finalizers_are_merged_as_a_set(server: Server) -> None:
    """Each writer adds and removes its own finalizers."""
    made = await node(server)
    path = at(NODES, made)
    for name in ("example.com/a", "example.com/b"):
        patched = await server.patch(path, {"metadata": {"finalizers": [name]}}, STRATEGIC)
    assert sorted(patched["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    body = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    assert (await server.patch(path, body, STRATEGIC))["metadata"]["finalizers"] == ["example.com/b"]


async def test_taints_are_not_merged(server: Server) -> None:
    """The list of taints is atomic: the last writer's taints replace all."""
    made = await tainted(server)
    patched = await server.patch(at(NODES, made), {"spec": {"taints": [OTHER]}}, STRATEGIC)
    assert patched["spec"]["taints"] == [OTHER]


async def test_a_map_can_be_replaced(server: Server) -> None:
    """$patch: replace replaces a map of labels; an unknown directive is refused."""
    made = await node(server, labels={"a": "b"})
    body = {"metadata": {"labels": {"$patch": "replace", "case": server.case}}}
    assert (await server.patch(at(NODES, made), body, STRATEGIC))["metadata"]["labels"] == {"case": server.case}
    body = {"metadata": {"labels": {"$patch": "odd", "a": "b"}}}
    await server.refused(500, "", "PATCH", at(NODES, made), body, how=STRATEGIC)


# Validation


async def test_the_result_of_a_patch_is_validated(server: Server) -> None:
    """Values of the wrong type are 422 with the cause `patch`."""
    made, other = await node(server), await claim(server)
    for path, body in (
        (at(NODES, made), {"metadata": {"labels": {"a": 1}}}),
        (at(CLAIMS, other), {"metadata": {"labels": {"a": 1}}}),
        (at(NODES, made), {"spec": {"taints": "x"}}),
    ):
        result = await server.refused(422, "Invalid", "PATCH", path, body, how=MERGE)
        assert [(c["field"], c["reason"]) for c in result["details"]["causes"]] == [("patch", "FieldValueInvalid")]


async def test_taints_are_validated(server: Server) -> None:
    """An invalid key, value or effect, none at all, and two of one key and effect are 422 with their paths."""
    made = await node(server)
    bad = [{"key": "a b", "value": "x y", "effect": "Odd"}, {"key": "c"}, OTHER, {**OTHER, "value": "x"}]
    result = await server.refused(422, "Invalid", "PATCH", at(NODES, made), {"spec": {"taints": bad}}, how=MERGE)
    causes = {(cause["field"], cause["reason"]) for cause in result["details"]["causes"]}
    assert causes == {
        ("metadata.taints[0].key", "FieldValueInvalid"),
        ("metadata.taints[0].value", "FieldValueInvalid"),
        ("metadata.taints[0].effect", "FieldValueNotSupported"),
        ("metadata.taints[1].effect", "FieldValueRequired"),
        ("metadata.taints[3]", "FieldValueDuplicate"),
    }


async def test_a_provider_id_is_immutable(server: Server) -> None:
    """A providerID can be set, and set again to the same value; another one is 422."""
    made = await node(server)
    for _ in range(2):
        await server.patch(at(NODES, made), {"spec": {"providerID": "azure:///a"}})
    body = {"spec": {"providerID": "azure:///b"}}
    result = await server.refused(422, "Invalid", "PATCH", at(NODES, made), body, how=MERGE)
    (cause,) = {cause["message"] for cause in result["details"]["causes"]}
    assert cause == 'Forbidden: node updates may not change providerID except from "" to valid'


async def test_an_object_has_one_controller(server: Server) -> None:
    """Two owners with controller: true, and owners without name or uid, are 422."""
    made = await claim(server)
    owner = {"apiVersion": "v1", "kind": "Node", "controller": True}
    body = {"metadata": {"ownerReferences": [{**owner, "name": "a", "uid": "a"}, {**owner, "name": "b", "uid": "b"}]}}
    result = await server.refused(422, "Invalid", "PATCH", at(CLAIMS, made), body, how=MERGE)
    assert {cause["field"] for cause in result["details"]["causes"]} == {"metadata.ownerReferences"}
    assert "Only one reference can have Controller set to true" in result["message"]
    body = {"metadata": {"ownerReferences": [{**owner, "name": "", "uid": ""}]}}
    result = await server.refused(422, "Invalid", "PATCH", at(CLAIMS, made), body, how=MERGE)
    assert {cause["field"] for cause in result["details"]["causes"]} == {
        "metadata.ownerReferences.name",
        "metadata.ownerReferences.uid",
    }
