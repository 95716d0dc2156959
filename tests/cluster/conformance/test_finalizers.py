"""Finalizers and graceful deletion: the effect of a DELETE, and when an object is gone."""

import pytest

from .server import JSON_PATCH, MERGE, Server
from .things import CLAIMS, NODES, PODS, at, claim, claim_body, node, pod

pytestmark = pytest.mark.asyncio

A, B, C = "example.com/a", "example.com/b", "example.com/c"


async def test_an_object_with_finalizers_is_marked_and_stays(server: Server) -> None:
    """DELETE returns the object with deletionTimestamp, no grace period, its finalizers and a newer version."""
    made = await claim(server, finalizers=[A])
    deleted = await server.delete(at(CLAIMS, made))
    assert deleted["kind"] == "NodeClaim"
    assert deleted["metadata"]["deletionTimestamp"]
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    assert deleted["metadata"]["finalizers"] == [A]
    assert int(deleted["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert await server.get(at(CLAIMS, made)) == deleted


async def test_a_second_delete_changes_nothing(server: Server) -> None:
    """A second DELETE changes neither deletionTimestamp nor version."""
    made = await claim(server, finalizers=[A])
    first = await server.delete(at(CLAIMS, made))
    assert await server.delete(at(CLAIMS, made)) == first


async def test_the_object_goes_with_its_last_finalizer(server: Server) -> None:
    """The patch that removes the last finalizer returns the object at its previous version: only watches have the
    version of the deletion.
    """
    made = await claim(server, finalizers=[A, B])
    await server.delete(at(CLAIMS, made))
    patched = await server.patch(at(CLAIMS, made), {"metadata": {"finalizers": [B]}})
    assert patched["metadata"]["finalizers"] == [B]
    version = patched["metadata"]["resourceVersion"]
    patched = await server.patch(at(CLAIMS, made), {"metadata": {"finalizers": None}})
    assert "finalizers" not in patched["metadata"]
    assert patched["metadata"]["resourceVersion"] == version
    assert await server.absent(at(CLAIMS, made))


async def test_a_finalizer_is_removed_under_a_test_of_the_list(server: Server) -> None:
    """A JSON patch with a test of the list, as our controller sends it, never removes another finalizer."""
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


async def test_a_deleting_object_accepts_no_new_finalizer(server: Server) -> None:
    """A new finalizer on a deleting object is 422."""
    made = await claim(server, finalizers=[A])
    await server.delete(at(CLAIMS, made))
    body = {"metadata": {"finalizers": [A, B]}}
    result = await server.refused(422, "Invalid", "PATCH", at(CLAIMS, made), body, how=MERGE)
    cause = result["details"]["causes"][0]
    assert (cause["field"], cause["reason"]) == ("metadata.finalizers", "FieldValueForbidden")
    assert cause["message"].startswith("Forbidden: no new finalizers can be added if the object is being deleted")


async def test_a_deleting_object_can_be_written(server: Server) -> None:
    """Labels and status of a deleting object can be written."""
    made = await claim(server, finalizers=[A])
    await server.delete(at(CLAIMS, made))
    patched = await server.patch(at(CLAIMS, made), {"metadata": {"labels": {"a": "b"}}})
    assert patched["metadata"]["labels"]["a"] == "b"
    patched = await server.patch(at(CLAIMS, made, "status"), {"status": {"nodeName": "n"}})
    assert patched["status"]["nodeName"] == "n"
    assert not await server.absent(at(CLAIMS, made))


async def test_the_name_of_a_deleting_object_is_in_use(server: Server) -> None:
    """A create with the name of a deleting object is 409 AlreadyExists with that cause."""
    made = await claim(server, finalizers=[A])
    await server.delete(at(CLAIMS, made))
    body = claim_body(server) | {"metadata": {"name": made["metadata"]["name"]}}
    result = await server.refused(409, "AlreadyExists", "POST", CLAIMS, body)
    assert result["message"].startswith("object is being deleted: ")


async def test_a_deletion_cannot_be_reverted(server: Server) -> None:
    """A PUT without deletionTimestamp keeps it; if it also removes the finalizers, the object is deleted."""
    made = await node(server, finalizers=[A])
    await server.delete(at(NODES, made))
    put = await server.done("PUT", at(NODES, made), {"metadata": {"name": made["metadata"]["name"]}})
    assert put["metadata"]["deletionTimestamp"]
    assert await server.absent(at(NODES, made))


async def test_a_finalizer_has_a_domain(server: Server) -> None:
    """A finalizer without a domain is refused on a Node and a warning on a custom resource; spaces are refused."""
    body = {"metadata": {"name": server.name(), "finalizers": ["plain"]}}
    await server.refused(422, "Invalid", "POST", NODES, body)
    answer = await server.request("POST", CLAIMS, claim_body(server, finalizers=["plain"]))
    assert answer.status == 201
    assert "prefer a domain-qualified finalizer name" in answer.warnings[0]
    result = await server.refused(422, "Invalid", "POST", CLAIMS, claim_body(server, finalizers=["a b"]))
    assert result["details"]["causes"][0]["field"] == "metadata.finalizers"


async def test_a_dry_delete_deletes_nothing(server: Server) -> None:
    """A dry run in the body, in the query or in both deletes nothing; preconditions hold."""
    made = await claim(server)
    await server.delete(at(CLAIMS, made), {"dryRun": ["All"]})
    await server.delete(at(CLAIMS, made), dryRun="All")
    own, other = ({"dryRun": ["All"], "preconditions": {"uid": uid}} for uid in (made["metadata"]["uid"], "other"))
    await server.delete(at(CLAIMS, made), own, dryRun="All")
    await server.refused(409, "Conflict", "DELETE", at(CLAIMS, made), other, dryRun="All")
    assert await server.get(at(CLAIMS, made)) == made


async def test_unknown_delete_options_are_refused(server: Server) -> None:
    """An unknown propagation policy is 422, and nothing is deleted."""
    made = await claim(server)
    result = await server.refused(422, "Invalid", "DELETE", at(CLAIMS, made), {"propagationPolicy": "Odd"})
    assert result["details"]["causes"][0]["field"] == "propagationPolicy"
    assert result["details"]["kind"] == "DeleteOptions"
    assert not await server.absent(at(CLAIMS, made))


async def test_a_bound_pod_gets_its_grace_period(server: Server) -> None:
    """A bound pod is marked with the end of its grace period, and stays until its kubelet deletes it."""
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


async def test_a_pod_that_does_not_run_is_deleted_immediately(server: Server) -> None:
    """Unbound, succeeded and failed pods get no grace period."""
    place = (await node(server))["metadata"]["name"]
    for made in (
        await pod(server),
        await pod(server, on=place, phase="Succeeded"),
        await pod(server, on=place, phase="Failed"),
    ):
        await server.delete(at(PODS, made))
        assert await server.absent(at(PODS, made))


async def test_a_negative_grace_period_is_one_second(server: Server) -> None:
    """A negative grace period is one second, not a forced deletion."""
    made = await pod(server, on=(await node(server))["metadata"]["name"])
    deleted = await server.delete(at(PODS, made), {"gracePeriodSeconds": -5})
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 1
