"""Versions, generations and preconditions of writes."""

import pytest

from .server import JSON_PATCH, MERGE, STRATEGIC, Server
from .things import BUDGETS, CLAIMS, LEASES, NODES, WIDGETS, at, budget, claim, lease, node, widget

pytestmark = pytest.mark.asyncio

OTHER_UID = "11111111-1111-4111-8111-111111111111"
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def test_each_write_has_a_newer_version(server: Server) -> None:
    """Versions grow, for one object and for one kind."""
    made, other = await claim(server), await claim(server)
    patched = await server.patch(at(CLAIMS, made), {"metadata": {"labels": {"a": "b"}}})
    versions = [int(obj["metadata"]["resourceVersion"]) for obj in (made, other, patched)]
    assert versions == sorted(set(versions))


async def test_a_write_without_a_change(server: Server) -> None:
    """A write that changes nothing keeps the version, and watches deliver no event."""
    made = await claim(server, labels={"a": "b"})
    for body in ({}, {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"annotations": None}}):
        patched = await server.patch(at(CLAIMS, made), body)
        assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    put = await server.done("PUT", at(CLAIMS, made), made)
    assert put["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_put_with_an_old_version_is_refused(server: Server) -> None:
    """A PUT with an old version is 409 Conflict and names the object."""
    made = await node(server)
    await server.patch(at(NODES, made), {"metadata": {"labels": {"a": "b"}}})
    result = await server.refused(409, "Conflict", "PUT", at(NODES, made), made)
    name = made["metadata"]["name"]
    assert result["details"] == {"name": name, "kind": "nodes"}
    assert result["message"] == f'Operation cannot be fulfilled on nodes "{name}": {MODIFIED}'


async def test_a_put_with_a_future_version_is_refused(server: Server) -> None:
    """A PUT with a version that the object never had is 409."""
    made = await node(server)
    body = {"metadata": {"name": made["metadata"]["name"], "resourceVersion": "99999999"}}
    await server.refused(409, "Conflict", "PUT", at(NODES, made), body)


async def test_kinds_whose_put_needs_a_version(server: Server) -> None:
    """A PUT of a custom resource, a Lease or a budget needs a version; a Node's does not."""
    for collection, made in (
        (CLAIMS, await claim(server)),
        (LEASES, await lease(server)),
        (BUDGETS, await budget(server, {"app": "none"}, minAvailable=1)),
    ):
        body = {**made, "metadata": {"name": made["metadata"]["name"]}}
        result = await server.refused(422, "Invalid", "PUT", at(collection, made), body)
        (cause,) = result["details"]["causes"]
        assert cause["field"] == "metadata.resourceVersion"
        assert cause["message"] == "Invalid value: 0: must be specified for an update"
        assert result["details"]["kind"] == collection.rpartition("/")[2]
    made = await node(server)
    await server.done("PUT", at(NODES, made), {"metadata": {"name": made["metadata"]["name"]}})


async def test_a_patch_can_have_a_version(server: Server) -> None:
    """A merge patch with an old resourceVersion is 409, in the main resource and in the status."""
    made = await claim(server)
    await server.patch(at(CLAIMS, made), {"metadata": {"labels": {"a": "b"}}})
    old = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"], "labels": {"a": "c"}}}
    await server.refused(409, "Conflict", "PATCH", at(CLAIMS, made), old, how=MERGE)
    body = {**old, "status": {"nodeName": "n"}}
    result = await server.refused(409, "Conflict", "PATCH", at(CLAIMS, made, "status"), body, how=MERGE)
    assert result["details"]["name"] == made["metadata"]["name"]
    assert result["message"].endswith(MODIFIED)


async def test_one_of_two_patches_of_a_version_succeeds(server: Server) -> None:
    """Of two patches of one version the second is refused, and nothing of it is stored."""
    made = await claim(server)
    version = made["metadata"]["resourceVersion"]
    for word, wins in (("first", True), ("second", False)):
        body = {"metadata": {"resourceVersion": version, "labels": {"who": word}}}
        answer = await server.request("PATCH", at(CLAIMS, made), body, how=MERGE)
        assert (answer.status == 200) is wins
    assert (await server.get(at(CLAIMS, made)))["metadata"]["labels"]["who"] == "first"


async def test_a_patch_with_another_uid_is_invalid(server: Server) -> None:
    """A patch with another uid is 422 with the cause metadata.uid, not 409."""
    made, other = await node(server), await claim(server)
    body = {"metadata": {"uid": OTHER_UID, "labels": {"a": "b"}}}
    for how, collection, obj in ((MERGE, NODES, made), (STRATEGIC, NODES, made), (MERGE, CLAIMS, other)):
        result = await server.refused(422, "Invalid", "PATCH", at(collection, obj), body, how=how)
        assert {cause["field"] for cause in result["details"]["causes"]} == {"metadata.uid"}
        assert result["message"].endswith(f'metadata.uid: Invalid value: "{OTHER_UID}": field is immutable')
        assert "a" not in (await server.get(at(collection, obj)))["metadata"]["labels"]
    right = {"metadata": {"uid": made["metadata"]["uid"], "labels": {"a": "b"}}}
    assert (await server.patch(at(NODES, made), right))["metadata"]["labels"]["a"] == "b"


async def test_the_uid_in_a_status_patch_of_a_custom_resource_is_ignored(server: Server) -> None:
    """All metadata but the version is ignored there; a Node's status patch validates the uid."""
    made, other = await claim(server), await node(server)
    body = {"metadata": {"uid": OTHER_UID}, "status": {"nodeName": "n"}}
    patched = await server.patch(at(CLAIMS, made, "status"), body)
    assert patched["status"] == {"nodeName": "n"}
    assert patched["metadata"]["uid"] == made["metadata"]["uid"]
    body = {"metadata": {"uid": OTHER_UID}, "status": {"phase": "Running"}}
    await server.refused(422, "Invalid", "PATCH", at(NODES, other, "status"), body, how=MERGE)


async def test_a_put_with_another_uid_is_refused(server: Server) -> None:
    """In a PUT the uid is a precondition, and the 409 names it."""
    made = await node(server)
    body = {"metadata": {"name": made["metadata"]["name"], "uid": OTHER_UID}}
    result = await server.refused(409, "Conflict", "PUT", at(NODES, made), body)
    uid = made["metadata"]["uid"]
    assert result["message"].endswith(f"UID in precondition: {OTHER_UID}, UID in object meta: {uid}")


async def test_a_json_patch_can_test_the_uid(server: Server) -> None:
    """A JSON patch with a test of the uid applies if it is equal; otherwise it is 422 without details."""
    made = await claim(server)
    add = {"op": "add", "path": "/metadata/labels/a", "value": "b"}
    test = {"op": "test", "path": "/metadata/uid", "value": OTHER_UID}
    result = await server.refused(422, "Invalid", "PATCH", at(CLAIMS, made), [test, add], how=JSON_PATCH)
    assert result["details"] == {}
    patched = await server.patch(at(CLAIMS, made), [{**test, "value": made["metadata"]["uid"]}, add], JSON_PATCH)
    assert patched["metadata"]["labels"]["a"] == "b"


async def test_a_delete_with_another_uid_or_version_is_refused(server: Server) -> None:
    """It is 409 Conflict, whether the object is deleting or not, and the object stays."""
    for collection, made in (
        (NODES, await node(server)),
        (CLAIMS, await claim(server)),
        (CLAIMS, await claim(server, finalizers=["example.com/a"])),
    ):
        if "finalizers" in made["metadata"]:
            await server.delete(at(collection, made))
        for precondition in ({"uid": OTHER_UID}, {"resourceVersion": "1"}):
            body = {"preconditions": precondition}
            result = await server.refused(409, "Conflict", "DELETE", at(collection, made), body)
            assert result["details"]["name"] == made["metadata"]["name"]
            assert " in the precondition (" in result["message"]
        assert not await server.absent(at(collection, made))


async def test_a_delete_with_the_uid_and_version_succeeds(server: Server) -> None:
    """A DELETE whose preconditions hold deletes the object."""
    made = await claim(server)
    found = {field: made["metadata"][field] for field in ("uid", "resourceVersion")}
    await server.delete(at(CLAIMS, made), {"preconditions": found})
    assert await server.absent(at(CLAIMS, made))


async def test_the_generation_counts_changes_of_the_spec(server: Server) -> None:
    """Labels, status and unchanged specs do not change the generation; a deletion does."""
    made = await widget(server, finalizers=["example.com/a"])
    steps = [
        ("", {"spec": {"size": 2}}, 2),
        ("", {"metadata": {"labels": {"a": "b"}}}, 2),
        ("status", {"status": {"phase": "on"}}, 2),
        ("", {"spec": {"size": 2}}, 2),
        ("", {"spec": {"size": 3}}, 3),
    ]
    for subresource, body, generation in steps:
        patched = await server.patch(at(WIDGETS, made, subresource), body)
        assert patched["metadata"]["generation"] == generation
    deleted = await server.delete(at(WIDGETS, made))
    assert deleted["metadata"]["generation"] == 4


async def test_nodes_have_no_generation(server: Server) -> None:
    """Nodes have no metadata.generation."""
    made = await node(server)
    patched = await server.patch(at(NODES, made), {"spec": {"unschedulable": True}})
    assert "generation" not in patched["metadata"]


async def test_names_kinds_and_times_cannot_be_patched(server: Server) -> None:
    """Another name is 400, another kind or a deletionTimestamp 422; a creationTimestamp is ignored."""
    made = await claim(server)
    path = at(CLAIMS, made)
    await server.refused(400, "BadRequest", "PATCH", path, {"metadata": {"name": "other"}}, how=MERGE)
    await server.refused(422, "Invalid", "PATCH", path, {"kind": "Other"}, how=MERGE)
    body = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    result = await server.refused(422, "Invalid", "PATCH", path, body, how=MERGE)
    assert result["details"]["causes"][0]["field"] == "metadata.deletionTimestamp"
    patched = await server.patch(path, {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 9}})
    assert patched["metadata"] == made["metadata"]
