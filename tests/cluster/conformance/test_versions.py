"""Versions, generations and preconditions: who may write what over whom."""

import pytest

from .server import JSON_PATCH, MERGE, STRATEGIC, Server
from .things import BUDGETS, CLAIMS, LEASES, NODES, WIDGETS, at, budget, claim, lease, node, widget

pytestmark = pytest.mark.asyncio

OTHER_UID = "11111111-1111-4111-8111-111111111111"
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def test_each_write_has_a_newer_version(server: Server) -> None:
    """Versions of one object, and of one kind, grow."""
    made, other = await claim(server), await claim(server)
    patched = await server.patch(at(CLAIMS, made), {"metadata": {"labels": {"a": "b"}}})
    versions = [int(obj["metadata"]["resourceVersion"]) for obj in (made, other, patched)]
    assert versions == sorted(set(versions))


async def test_a_write_that_changes_nothing_is_none(server: Server) -> None:
    """The version stays, and no watcher hears of it."""
    made = await claim(server, labels={"a": "b"})
    for body in ({}, {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"annotations": None}}):
        patched = await server.patch(at(CLAIMS, made), body)
        assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    put = await server.done("PUT", at(CLAIMS, made), made)
    assert put["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_put_over_a_newer_version_is_refused(server: Server) -> None:
    """409 Conflict that names the object."""
    made = await node(server)
    await server.patch(at(NODES, made), {"metadata": {"labels": {"a": "b"}}})
    said = await server.refused(409, "Conflict", "PUT", at(NODES, made), made)
    name = made["metadata"]["name"]
    assert said["details"] == {"name": name, "kind": "nodes"}
    assert said["message"] == f'Operation cannot be fulfilled on nodes "{name}": {MODIFIED}'


async def test_a_version_of_the_future_is_no_better(server: Server) -> None:
    """A PUT on a version that the object never had is a conflict too."""
    made = await node(server)
    body = {"metadata": {"name": made["metadata"]["name"], "resourceVersion": "99999999"}}
    await server.refused(409, "Conflict", "PUT", at(NODES, made), body)


async def test_custom_resources_leases_and_budgets_are_not_put_blindly(server: Server) -> None:
    """Their PUT must say which version it replaces; a Node's need not."""
    for collection, made in (
        (CLAIMS, await claim(server)),
        (LEASES, await lease(server)),
        (BUDGETS, await budget(server, {"app": "none"}, minAvailable=1)),
    ):
        body = {**made, "metadata": {"name": made["metadata"]["name"]}}
        said = await server.refused(422, "Invalid", "PUT", at(collection, made), body)
        (cause,) = said["details"]["causes"]
        assert cause["field"] == "metadata.resourceVersion"
        assert cause["message"] == "Invalid value: 0: must be specified for an update"
        assert said["details"]["kind"] == collection.rpartition("/")[2]
    made = await node(server)
    await server.done("PUT", at(NODES, made), {"metadata": {"name": made["metadata"]["name"]}})


async def test_a_patch_may_name_the_version_it_is_meant_for(server: Server) -> None:
    """A merge patch with an old resourceVersion is 409, in the main resource and in the status."""
    made = await claim(server)
    await server.patch(at(CLAIMS, made), {"metadata": {"labels": {"a": "b"}}})
    old = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"], "labels": {"a": "c"}}}
    await server.refused(409, "Conflict", "PATCH", at(CLAIMS, made), old, how=MERGE)
    body = {**old, "status": {"nodeName": "n"}}
    said = await server.refused(409, "Conflict", "PATCH", at(CLAIMS, made, "status"), body, how=MERGE)
    assert said["details"]["name"] == made["metadata"]["name"]
    assert said["message"].endswith(MODIFIED)


async def test_of_two_patches_on_one_version_one_wins(server: Server) -> None:
    """Optimistic locking: the second is told, and nothing of it is stored."""
    made = await claim(server)
    version = made["metadata"]["resourceVersion"]
    for word, wins in (("first", True), ("second", False)):
        body = {"metadata": {"resourceVersion": version, "labels": {"who": word}}}
        answer = await server.request("PATCH", at(CLAIMS, made), body, how=MERGE)
        assert (answer.status == 200) is wins
    assert (await server.get(at(CLAIMS, made)))["metadata"]["labels"]["who"] == "first"


async def test_a_patch_for_another_uid_is_refused_as_invalid(server: Server) -> None:
    """Not 409: to the server it is an attempt to change the uid, 422 with the cause metadata.uid."""
    made, other = await node(server), await claim(server)
    body = {"metadata": {"uid": OTHER_UID, "labels": {"a": "b"}}}
    for how, collection, obj in ((MERGE, NODES, made), (STRATEGIC, NODES, made), (MERGE, CLAIMS, other)):
        said = await server.refused(422, "Invalid", "PATCH", at(collection, obj), body, how=how)
        assert {cause["field"] for cause in said["details"]["causes"]} == {"metadata.uid"}
        assert said["message"].endswith(f'metadata.uid: Invalid value: "{OTHER_UID}": field is immutable')
        assert "a" not in (await server.get(at(collection, obj)))["metadata"]["labels"]
    right = {"metadata": {"uid": made["metadata"]["uid"], "labels": {"a": "b"}}}
    assert (await server.patch(at(NODES, made), right))["metadata"]["labels"]["a"] == "b"


async def test_the_uid_in_a_patch_of_a_custom_resources_status_guards_nothing(server: Server) -> None:
    """All metadata but the version is ignored there; a Node's status does check the uid."""
    made, other = await claim(server), await node(server)
    body = {"metadata": {"uid": OTHER_UID}, "status": {"nodeName": "n"}}
    patched = await server.patch(at(CLAIMS, made, "status"), body)
    assert patched["status"] == {"nodeName": "n"}
    assert patched["metadata"]["uid"] == made["metadata"]["uid"]
    body = {"metadata": {"uid": OTHER_UID}, "status": {"phase": "Running"}}
    await server.refused(422, "Invalid", "PATCH", at(NODES, other, "status"), body, how=MERGE)


async def test_a_put_for_another_uid_is_refused(server: Server) -> None:
    """There the uid is a precondition, and 409 says which it is."""
    made = await node(server)
    body = {"metadata": {"name": made["metadata"]["name"], "uid": OTHER_UID}}
    said = await server.refused(409, "Conflict", "PUT", at(NODES, made), body)
    uid = made["metadata"]["uid"]
    assert said["message"].endswith(f"UID in precondition: {OTHER_UID}, UID in object meta: {uid}")


async def test_a_json_patch_can_test_the_uid(server: Server) -> None:
    """The right one passes; with the wrong one nothing is done: 422 without details."""
    made = await claim(server)
    add = {"op": "add", "path": "/metadata/labels/a", "value": "b"}
    test = {"op": "test", "path": "/metadata/uid", "value": OTHER_UID}
    said = await server.refused(422, "Invalid", "PATCH", at(CLAIMS, made), [test, add], how=JSON_PATCH)
    assert said["details"] == {}
    patched = await server.patch(at(CLAIMS, made), [{**test, "value": made["metadata"]["uid"]}, add], JSON_PATCH)
    assert patched["metadata"]["labels"]["a"] == "b"


async def test_a_delete_for_another_uid_or_version_is_refused(server: Server) -> None:
    """409 Conflict, whether the object is new or already deleting, and the object stays."""
    for collection, made in (
        (NODES, await node(server)),
        (CLAIMS, await claim(server)),
        (CLAIMS, await claim(server, finalizers=["example.com/a"])),
    ):
        if "finalizers" in made["metadata"]:
            await server.delete(at(collection, made))
        for precondition in ({"uid": OTHER_UID}, {"resourceVersion": "1"}):
            body = {"preconditions": precondition}
            said = await server.refused(409, "Conflict", "DELETE", at(collection, made), body)
            assert said["details"]["name"] == made["metadata"]["name"]
            assert " in the precondition (" in said["message"]
        assert not await server.absent(at(collection, made))


async def test_a_delete_for_this_uid_and_version_is_done(server: Server) -> None:
    """Preconditions that hold change nothing."""
    made = await claim(server)
    found = {field: made["metadata"][field] for field in ("uid", "resourceVersion")}
    await server.delete(at(CLAIMS, made), {"preconditions": found})
    assert await server.absent(at(CLAIMS, made))


async def test_the_generation_counts_changes_of_the_spec(server: Server) -> None:
    """Labels, status and what changes nothing do not count; a deletion does."""
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
    """Nobody may wait for one."""
    made = await node(server)
    patched = await server.patch(at(NODES, made), {"spec": {"unschedulable": True}})
    assert "generation" not in patched["metadata"]


async def test_names_kinds_and_times_cannot_be_patched(server: Server) -> None:
    """Another name is 400, another kind or a time of deletion 422; a time of birth is ignored."""
    made = await claim(server)
    path = at(CLAIMS, made)
    await server.refused(400, "BadRequest", "PATCH", path, {"metadata": {"name": "other"}}, how=MERGE)
    await server.refused(422, "Invalid", "PATCH", path, {"kind": "Other"}, how=MERGE)
    body = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    said = await server.refused(422, "Invalid", "PATCH", path, body, how=MERGE)
    assert said["details"]["causes"][0]["field"] == "metadata.deletionTimestamp"
    patched = await server.patch(path, {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 9}})
    assert patched["metadata"] == made["metadata"]
