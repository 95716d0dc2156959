"""Events, as our recorder writes them and `kubectl describe` and `kubectl events` read them."""

import pytest

from .server import TABLE, Json, Server
from .things import CLAIMS, EVENTS, at, claim, meta

pytestmark = pytest.mark.asyncio


def event(server: Server, about: Json, **fields: object) -> Json:
    """An Event about a claim with the fields that `provisioner.runtime.events` sends."""
    return {
        "metadata": {**meta(server, "event"), "namespace": "default"},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": about["metadata"]["name"],
            "namespace": "",
            "uid": about["metadata"]["uid"],
            "resourceVersion": about["metadata"]["resourceVersion"],
        },
        "type": "Normal",
        "reason": "Launched",
        "message": "the pool is running",
        "source": {"component": "gpu-provisioner"},
        "reportingComponent": "gpu-provisioner",
        "reportingInstance": "pod-1",
        "firstTimestamp": "2026-03-01T12:00:00Z",
        "lastTimestamp": "2026-03-01T12:00:00Z",
        "count": 1,
        **fields,
    }


async def test_an_event_about_a_claim_is_in_default(server: Server) -> None:
    """The Event of a cluster-scoped object is in the namespace default; any other is 422."""
    about = await claim(server)
    made = await server.done("POST", EVENTS, event(server, about))
    assert made["metadata"]["namespace"] == "default"
    elsewhere = EVENTS.replace("default", "kube-system")
    body = event(server, about, metadata=meta(server, "event"))
    result = await server.refused(422, "Invalid", "POST", elsewhere, body)
    (cause,) = result["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("involvedObject.namespace", "FieldValueInvalid")
    assert cause["message"] == 'Invalid value: "": does not match event.namespace'


async def test_an_event_is_counted_by_a_patch(server: Server) -> None:
    """A second create of that name is refused; then count and last time are patched."""
    body = event(server, await claim(server))
    made = await server.done("POST", EVENTS, body)
    result = await server.refused(409, "AlreadyExists", "POST", EVENTS, body)
    assert result["details"]["name"] == body["metadata"]["name"]
    patched = await server.patch(at(EVENTS, made), {"count": 2, "lastTimestamp": "2026-03-01T12:05:00Z"})
    assert (patched["count"], patched["firstTimestamp"]) == (2, "2026-03-01T12:00:00Z")


@pytest.mark.parametrize(
    "selector",
    [
        "involvedObject.name={name},involvedObject.namespace=,involvedObject.kind=NodeClaim,involvedObject.uid={uid}",
        "involvedObject.uid={uid},type=Normal,reason=Launched",
        "involvedObject.uid={uid},source=gpu-provisioner",
        "involvedObject.uid={uid},reportingComponent=gpu-provisioner",
    ],
)
async def test_field_selectors_of_events(server: Server, selector: str) -> None:
    """The selectors of `kubectl describe` and `kubectl events --for` work."""
    about, other = await claim(server), await claim(server)
    made = await server.done("POST", EVENTS, event(server, about))
    await server.done("POST", EVENTS, event(server, other, type="Warning", source={"component": "x"}))
    query = selector.format(name=about["metadata"]["name"], uid=about["metadata"]["uid"])
    everywhere = EVENTS.replace("/namespaces/default", "")
    for collection in (EVENTS, everywhere):
        found = (await server.get(collection, fieldSelector=query))["items"]
        assert [item["metadata"]["name"] for item in found] == [made["metadata"]["name"]]


async def test_the_columns_of_an_event(server: Server) -> None:
    """The table of events has type, reason, object, source and message."""
    about = await claim(server)
    await server.done("POST", EVENTS, event(server, about))
    found = await server.get(EVENTS, accept=TABLE, labelSelector=f"case={server.case}")
    names = [column["name"] for column in found["columnDefinitions"]]
    row = dict(zip(names, found["rows"][0]["cells"], strict=True))
    assert row["Object"] == f"nodeclaim/{about['metadata']['name']}"
    assert (row["Type"], row["Reason"], row["Count"]) == ("Normal", "Launched", 1)
    assert (row["Source"], row["Message"]) == ("gpu-provisioner, pod-1", "the pool is running")


async def test_an_event_outlives_its_object(server: Server) -> None:
    """An Event is no dependent: it remains after its claim is deleted."""
    about = await claim(server)
    made = await server.done("POST", EVENTS, event(server, about))
    await server.delete(at(CLAIMS, about))
    assert not await server.absent(at(EVENTS, made))
