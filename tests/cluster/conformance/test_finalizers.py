"""Finalizers and graceful deletion: what deleting means, who holds an object, and when it is gone."""

import pytest

from .server import JSON_PATCH, MERGE, Server
from .things import CLAIMS, NODES, PODS, at, claim, claim_body, node, pod

pytestmark = pytest.mark.asyncio

A, B, C = "example.com/a", "example.com/b", "example.com/c"


async def test_a_held_object_is_marked_and_stays(server: Server) -> None:
    """DELETE answers with the object: a time of deletion, no grace, its finalizers, a newer version."""
    made = await claim(server, finalizers=[A])
    deleted = await server.delete(at(CLAIMS, made))
    assert deleted["kind"] == "NodeClaim"
    assert deleted["metadata"]["deletionTimestamp"]
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    assert deleted["metadata"]["finalizers"] == [A]
    assert int(deleted["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert await server.get(at(CLAIMS, made)) == deleted


async def test_a_second_delete_adds_nothing(server: Server) -> None:
    """The time of deletion and the version stay as they were."""
    made = await claim(server, finalizers=[A])
    first = await server.delete(at(CLAIMS, made))
    assert await server.delete(at(CLAIMS, made)) == first


async def test_the_object_goes_with_its_last_finalizer(server: Server) -> None:
    """Each finalizer is taken off by its owner; the patch that takes the last answers with the object, at the version
    it had before: that of the deletion is told to watches alone."""
    made = await claim(server, finalizers=[A, B])
    await server.delete(at(CLAIMS, made))
    patched = await server.patch(at(CLAIMS, made), {"metadata": {"finalizers": [B]}})
    assert patched["metadata"]["finalizers"] == [B]
    version = patched["metadata"]["resourceVersion"]
    patched = await server.patch(at(CLAIMS, made), {"metadata": {"finalizers": None}})
    assert "finalizers" not in patched["metadata"]
    assert patched["metadata"]["resourceVersion"] == version
    assert await server.absent(at(CLAIMS, made))


async def test_a_finalizer_is_taken_off_under_a_test_of_the_list(server: Server) -> None:
    """The way our controller does it: somebody else's finalizer that came meanwhile is never lost."""
    made = await node(server, finalizers=[A])
    path = at(NODES, made)
    await server.patch(path, {"metadata": {"finalizers": [A, B]}})
    operations = [
        {"op": "test", "path": "/metadata/finalizers", "value": [A]},
        {"op": "remove", "path": "/metadata/finalizers"},
    ]
    await server.refused(422, "Invalid", "PATCH", path, operations, how=JSON_PATCH)
    operations = [
        {"op": "test", "path": "/metadata/finalizers", "value": [A, B]},
        {"op": "add", "path": "/metadata/finalizers", "value": [B]},
    ]
    assert (await server.patch(path, operations, JSON_PATCH))["metadata"]["finalizers"] == [B]


async def test_a_deleting_object_takes_no_new_finalizer(server: Server) -> None:
    """422: it would have to wait for one who came too late."""
    made = await claim(server, finalizers=[A])
    await server.delete(at(CLAIMS, made))
    body = {"metadata": {"finalizers": [A, B]}}
    said = await server.refused(422, "Invalid", "PATCH", at(CLAIMS, made), body, how=MERGE)
    cause = said["details"]["causes"][0]
    assert (cause["field"], cause["reason"]) == ("metadata.finalizers", "FieldValueForbidden")
    assert cause["message"].startswith("Forbidden: no new finalizers can be added if the object is being deleted")


async def test_a_deleting_object_can_still_be_written(server: Server) -> None:
    """Labels and status say how its removal goes."""
    made = await claim(server, finalizers=[A])
    await server.delete(at(CLAIMS, made))
    patched = await server.patch(at(CLAIMS, made), {"metadata": {"labels": {"a": "b"}}})
    assert patched["metadata"]["labels"]["a"] == "b"
    patched = await server.patch(at(CLAIMS, made, "status"), {"status": {"nodeName": "n"}})
    assert patched["status"]["nodeName"] == "n"
    assert not await server.absent(at(CLAIMS, made))


async def test_the_name_of_a_deleting_object_is_taken(server: Server) -> None:
    """409 AlreadyExists, with a word on why."""
    made = await claim(server, finalizers=[A])
    await server.delete(at(CLAIMS, made))
    body = claim_body(server) | {"metadata": {"name": made["metadata"]["name"]}}
    said = await server.refused(409, "AlreadyExists", "POST", CLAIMS, body)
    assert said["message"].startswith("object is being deleted: ")


async def test_a_deletion_cannot_be_taken_back(server: Server) -> None:
    """A PUT without the time of deletion keeps it, and if it drops the finalizers too, the object goes."""
    made = await node(server, finalizers=[A])
    await server.delete(at(NODES, made))
    put = await server.done("PUT", at(NODES, made), {"metadata": {"name": made["metadata"]["name"]}})
    assert put["metadata"]["deletionTimestamp"]
    assert await server.absent(at(NODES, made))


async def test_a_finalizer_has_a_domain(server: Server) -> None:
    """Of a Node it must; of a custom resource the server only warns; no finalizer has a space."""
    body = {"metadata": {"name": server.name(), "finalizers": ["plain"]}}
    await server.refused(422, "Invalid", "POST", NODES, body)
    answer = await server.request("POST", CLAIMS, claim_body(server, finalizers=["plain"]))
    assert answer.status == 201
    assert "prefer a domain-qualified finalizer name" in answer.warnings[0]
    said = await server.refused(422, "Invalid", "POST", CLAIMS, claim_body(server, finalizers=["a b"]))
    assert said["details"]["causes"][0]["field"] == "metadata.finalizers"


async def test_a_dry_delete_deletes_nothing(server: Server) -> None:
    """Whether it is asked for in the body or in the query."""
    made = await claim(server)
    await server.delete(at(CLAIMS, made), {"dryRun": ["All"]})
    await server.delete(at(CLAIMS, made), dryRun="All")
    assert await server.get(at(CLAIMS, made)) == made


async def test_options_that_are_unknown_are_refused(server: Server) -> None:
    """An odd propagation policy is 422, and nothing is deleted."""
    made = await claim(server)
    said = await server.refused(422, "Invalid", "DELETE", at(CLAIMS, made), {"propagationPolicy": "Odd"})
    assert said["details"]["causes"][0]["field"] == "propagationPolicy"
    assert said["details"]["kind"] == "DeleteOptions"
    assert not await server.absent(at(CLAIMS, made))


async def test_a_bound_pod_is_given_its_grace(server: Server) -> None:
    """It is marked with the time at which it must be gone, and stays until its kubelet lets go of it."""
    made = await pod(server, on=(await node(server))["metadata"]["name"])
    deleted = await server.delete(at(PODS, made))
    assert deleted["kind"] == "Pod"
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 30
    assert deleted["metadata"]["deletionTimestamp"] > made["metadata"]["creationTimestamp"]
    again = await server.delete(at(PODS, made))
    assert again["metadata"] == deleted["metadata"]
    longer = await server.delete(at(PODS, made), {"gracePeriodSeconds": 50})
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 30
    shorter = await server.delete(at(PODS, made), {"gracePeriodSeconds": 5})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    assert shorter["metadata"]["deletionTimestamp"] < deleted["metadata"]["deletionTimestamp"]
    await server.delete(at(PODS, made), {"gracePeriodSeconds": 0})
    assert await server.absent(at(PODS, made))


async def test_a_pod_that_nobody_runs_goes_at_once(server: Server) -> None:
    """Unbound, succeeded and failed pods get no grace."""
    place = (await node(server))["metadata"]["name"]
    for made in (
        await pod(server),
        await pod(server, on=place, phase="Succeeded"),
        await pod(server, on=place, phase="Failed"),
    ):
        await server.delete(at(PODS, made))
        assert await server.absent(at(PODS, made))


async def test_a_negative_grace_is_the_shortest(server: Server) -> None:
    """One second: a careless subtraction of times must not become a forced deletion."""
    made = await pod(server, on=(await node(server))["metadata"]["name"])
    deleted = await server.delete(at(PODS, made), {"gracePeriodSeconds": -5})
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 1
