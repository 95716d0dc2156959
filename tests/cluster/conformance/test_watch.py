"""Watches: how they begin, go on, are resumed, mark their way, and end."""

from typing import Any

import pytest

from .server import TABLE, Event, Server, Watch
from .things import CLAIMS, LEASES, NODES, PODS, WIDGETS, at, claim, lease, node, pod, widget

pytestmark = pytest.mark.asyncio

STREAMING = {"sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": True}
END = "k8s.io/initial-events-end"


def mine(server: Server, **query: Any) -> dict[str, Any]:
    """The query of a watch of this case's objects."""
    return {"labelSelector": f"case={server.case}", **query}


async def told(watch: Watch, count: int) -> list[str]:
    """The next events in words, `ADDED x`."""
    return [(await watch.next()).told for _ in range(count)]


async def version(server: Server, collection: str) -> str:
    """The version of an empty list of this kind: a point in time."""
    found = await server.get(collection, labelSelector="case=none")
    return str(found["metadata"]["resourceVersion"])


async def test_a_watch_resumes_where_a_list_ended(server: Server) -> None:
    """Nothing is lost between the two, nothing is told twice."""
    first = await node(server)
    since = await version(server, NODES)
    second = await node(server)
    async with server.stream(NODES, **mine(server, resourceVersion=since)) as watch:
        await server.delete(at(NODES, first))
        names = [obj["metadata"]["name"] for obj in (second, first)]
        assert await told(watch, 2) == [f"ADDED {names[0]}", f"DELETED {names[1]}"]


async def test_a_watch_without_a_version_begins_with_what_there_is(server: Server) -> None:
    """Every object is ADDED, in order of names; then come the changes."""
    names = [(await node(server))["metadata"]["name"] for _ in range(2)]
    async with server.stream(NODES, **mine(server)) as watch:
        assert await told(watch, 2) == [f"ADDED {name}" for name in names]
        third = await node(server)
        assert await told(watch, 1) == [f"ADDED {third['metadata']['name']}"]


async def test_version_zero_begins_with_what_there_is_too(server: Server) -> None:
    """Of the cache, so perhaps of a moment ago."""
    made = await node(server)
    async with server.stream(NODES, **mine(server, resourceVersion="0")) as watch:
        assert await told(watch, 1) == [f"ADDED {made['metadata']['name']}"]


async def test_an_event_carries_the_whole_object(server: Server) -> None:
    """With its kind, also of built-in kinds, and as it was answered to the writer."""
    since = await version(server, NODES)
    async with server.stream(NODES, **mine(server, resourceVersion=since)) as watch:
        made = await node(server)
        patched = await server.patch(at(NODES, made), {"metadata": {"labels": {"a": "b"}}})
        events = [await watch.next() for _ in range(2)]
    assert [event.type for event in events] == ["ADDED", "MODIFIED"]
    assert [event.plain for event in events] == [made, patched]


async def test_a_deletion_is_told_with_a_version_of_its_own(server: Server) -> None:
    """DELETED carries the last state, but the version of the deletion: a watch may be resumed from it."""
    made = await claim(server)
    since = await version(server, CLAIMS)
    async with server.stream(CLAIMS, **mine(server, resourceVersion=since)) as watch:
        await server.delete(at(CLAIMS, made))
        event = await watch.next()
    assert event.type == "DELETED"
    assert event.object["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(event.object["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    second = await claim(server)
    resumed = event.object["metadata"]["resourceVersion"]
    async with server.stream(CLAIMS, **mine(server, resourceVersion=resumed)) as watch:
        assert await told(watch, 1) == [f"ADDED {second['metadata']['name']}"]


async def test_a_held_object_is_modified_before_it_is_deleted(server: Server) -> None:
    """First the mark, then each finalizer, then the end."""
    made = await claim(server, finalizers=["example.com/a"])
    since = made["metadata"]["resourceVersion"]
    await server.delete(at(CLAIMS, made))
    await server.patch(at(CLAIMS, made), {"metadata": {"finalizers": None}})
    async with server.stream(CLAIMS, **mine(server, resourceVersion=since)) as watch:
        events = [await watch.next() for _ in range(2)]
    assert [event.type for event in events] == ["MODIFIED", "DELETED"]
    assert all(event.object["metadata"]["deletionTimestamp"] for event in events)
    assert events[0].object["metadata"]["finalizers"] == ["example.com/a"]


async def test_a_selector_sees_objects_come_and_go(server: Server) -> None:
    """What begins to match is ADDED, what ceases to is DELETED, with its labels from before."""
    made = await node(server)
    since = await version(server, NODES)
    path = at(NODES, made)
    for value in ("yes", "no", "yes"):
        await server.patch(path, {"metadata": {"labels": {"chosen": value}}})
    selector = f"case={server.case},chosen=yes"
    async with server.stream(NODES, labelSelector=selector, resourceVersion=since) as watch:
        events = [await watch.next() for _ in range(3)]
    assert [event.type for event in events] == ["ADDED", "DELETED", "ADDED"]
    assert events[1].object["metadata"]["labels"]["chosen"] == "yes"


async def test_one_object_is_watched_by_its_name(server: Server) -> None:
    """As `kubectl get NAME -w` and `kubectl wait` do."""
    made, _ = await claim(server), await claim(server)
    name = made["metadata"]["name"]
    async with server.stream(CLAIMS, fieldSelector=f"metadata.name={name}") as watch:
        assert await told(watch, 1) == [f"ADDED {name}"]
        await claim(server)
        await server.delete(at(CLAIMS, made))
        assert await told(watch, 1) == [f"DELETED {name}"]


async def test_a_namespace_sees_only_its_own(server: Server) -> None:
    """Leases in another namespace are not told."""
    since = await version(server, LEASES)
    elsewhere = LEASES.replace("default", "kube-system")
    body = {"metadata": {"name": server.name(), "labels": {"case": server.case}}, "spec": {}}
    async with server.stream(LEASES, **mine(server, resourceVersion=since)) as watch:
        await server.done("POST", elsewhere, body)
        held = await lease(server)
        assert await told(watch, 1) == [f"ADDED {held['metadata']['name']}"]
    everywhere = LEASES.replace("/namespaces/default", "")
    async with server.stream(everywhere, **mine(server, resourceVersion=since)) as watch:
        assert len(await told(watch, 2)) == 2


async def test_pods_of_a_node_are_watched(server: Server) -> None:
    """A pod that is bound to the Node later comes into view then."""
    here = (await node(server))["metadata"]["name"]
    bound = await pod(server, on=here)
    async with server.stream(PODS, fieldSelector=f"spec.nodeName={here}") as watch:
        assert await told(watch, 1) == [f"ADDED {bound['metadata']['name']}"]


async def test_a_streaming_list_says_when_it_is_complete(server: Server) -> None:
    """The bookmark with this annotation comes after the last of the initial events, and bears their version."""
    made = await node(server)
    async with server.stream(NODES, **mine(server, **STREAMING)) as watch:
        assert await told(watch, 1) == [f"ADDED {made['metadata']['name']}"]
        mark = await watch.next()
    assert mark.type == "BOOKMARK"
    assert mark.object["kind"] == "Node"
    assert mark.object["metadata"]["annotations"] == {END: "true"}
    assert int(mark.object["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


async def test_so_does_any_watch_that_begins_with_what_there_is(server: Server) -> None:
    """Without a version and with bookmarks the server takes it for a streaming list."""
    async with server.stream(CLAIMS, **mine(server, allowWatchBookmarks=True)) as watch:
        mark = await watch.next()
    assert mark.type == "BOOKMARK"
    assert mark.object["metadata"]["annotations"] == {END: "true"}


async def test_without_leave_there_are_no_bookmarks(server: Server) -> None:
    """The same without allowWatchBookmarks: only the objects."""
    made = await claim(server)
    async with server.stream(CLAIMS, **mine(server, timeoutSeconds=1)) as watch:
        assert [event.told for event in await watch.rest()] == [f"ADDED {made['metadata']['name']}"]


async def test_a_watch_marks_its_way_before_its_time_is_over(server: Server) -> None:
    """Two seconds before the end comes a bookmark, later than all that was passed over; then the stream ends."""
    query = mine(server, resourceVersion=await version(server, NODES), allowWatchBookmarks=True, timeoutSeconds=4)
    async with server.stream(NODES, **query) as watch:
        other = await server.done("POST", NODES, {"metadata": {"name": server.name()}})
        events = await watch.rest()
    # Once, or twice in those seconds.
    assert {event.type for event in events} == {"BOOKMARK"}
    assert int(events[-1].object["metadata"]["resourceVersion"]) >= int(other["metadata"]["resourceVersion"])
    assert "annotations" not in events[-1].object["metadata"]


async def test_a_watch_ends_when_its_time_is_over(server: Server) -> None:
    """Cleanly, in the middle of nothing."""
    async with server.stream(CLAIMS, **mine(server, timeoutSeconds=1)) as watch:
        assert await watch.rest() == []


async def test_a_watch_from_too_long_ago_is_told_so_by_an_event(server: Server) -> None:
    """HTTP 200, then an ERROR event with the Status 410 Expired, then the end."""
    await widget(server)
    async with server.stream(WIDGETS, resourceVersion="1") as watch:
        (event,) = await watch.rest()
    assert event.type == "ERROR"
    said = event.object
    assert (said["kind"], said["status"], said["code"], said["reason"]) == ("Status", "Failure", 410, "Expired")
    assert said["message"].startswith("too old resource version: 1 (")


async def test_a_watch_from_the_future_says_nothing(server: Server) -> None:
    """It waits for that version, however long: after a restore of etcd such a watch only looks healthy."""
    async with server.stream(NODES, **mine(server, resourceVersion="99999999", timeoutSeconds=1)) as watch:
        await node(server)
        assert await watch.rest() == []


async def test_options_that_contradict_each_other_are_refused(server: Server) -> None:
    """Streaming lists need a match; a match needs a streaming list; continued watches there are none."""
    for query in (
        {"sendInitialEvents": True, "allowWatchBookmarks": True},
        {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "0"},
        {"continue": "x"},
    ):
        said = await server.refused(422, "Invalid", "GET", NODES, watch=True, **query)
        assert said["details"]["causes"][0]["field"] == "resourceVersionMatch"
        assert said["details"]["causes"][0]["reason"] == "FieldValueForbidden"


async def test_a_watch_of_a_kind_that_is_not_served_is_404(server: Server) -> None:
    """Not a Status, but text: it proves nothing about any object."""
    answer = await server.request("GET", "/apis/karpenter.sh/v1/nopes", watch=True)
    assert (answer.status, answer.body) == (404, "404 page not found\n")


async def test_a_watch_can_be_had_as_tables(server: Server) -> None:
    """As `kubectl get -w` has it: each event is a Table of one row, the columns in the first alone."""
    made = await claim(server)
    async with server.stream(CLAIMS, accept=TABLE, **mine(server)) as watch:
        first = await watch.next()
        await server.patch(at(CLAIMS, made, "status"), {"status": {"nodeName": "n"}})
        second = await watch.next()
    for event, node_name in ((first, ""), (second, "n")):
        assert event.object["kind"] == "Table"
        (row,) = event.object["rows"]
        assert row["cells"][0] == made["metadata"]["name"]
        assert (row["cells"][4] or "") == node_name
    assert first.object["columnDefinitions"]


async def test_events_come_in_the_order_of_writes(server: Server) -> None:
    """Ten writes on three objects, told in the order of their versions."""
    made = [await node(server) for _ in range(3)]
    since = made[-1]["metadata"]["resourceVersion"]
    written = []
    for turn in range(10):
        body = {"metadata": {"labels": {"turn": str(turn)}}}
        patched = await server.patch(at(NODES, made[turn % 3]), body)
        written.append((patched["metadata"]["name"], patched["metadata"]["resourceVersion"]))
    async with server.stream(NODES, **mine(server, resourceVersion=since)) as watch:
        events: list[Event] = [await watch.next() for _ in range(10)]
    assert [(e.object["metadata"]["name"], e.object["metadata"]["resourceVersion"]) for e in events] == written


async def test_a_watch_ends_with_its_kind(server: Server) -> None:
    """When the CRD goes, its objects are told as deleted."""
    made = await widget(server)
    async with server.stream(WIDGETS, **mine(server)) as watch:
        assert await told(watch, 1) == [f"ADDED {made['metadata']['name']}"]
        await server.delete(at(WIDGETS, made))
        assert await told(watch, 1) == [f"DELETED {made['metadata']['name']}"]
