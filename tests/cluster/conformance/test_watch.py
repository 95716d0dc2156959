"""Watches: start, resumption, bookmarks, and end."""

from typing import Any

import pytest

from .server import TABLE, Event, Server, Watch
from .things import CLAIMS, LEASES, NODES, PODS, WIDGETS, at, claim, lease, node, pod, widget

pytestmark = pytest.mark.asyncio

STREAMING = {"sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": True}
END = "k8s.io/initial-events-end"


def mine(server: Server, **query: Any) -> dict[str, Any]:
    """The query of a watch of this test's objects."""
    return {"labelSelector": f"case={server.case}", **query}


async def next_events(watch: Watch, count: int) -> list[str]:
    """The next events as text, `ADDED x`."""
    return [(await watch.next()).text for _ in range(count)]


async def version(server: Server, collection: str) -> str:
    """The version of an empty list of this kind."""
    found = await server.get(collection, labelSelector="case=none")
    return str(found["metadata"]["resourceVersion"])


async def test_a_watch_resumes_at_the_version_of_a_list(server: Server) -> None:
    """Between a list and its watch no event is lost or repeated."""
    first = await node(server)
    since = await version(server, NODES)
    second = await node(server)
    async with server.stream(NODES, **mine(server, resourceVersion=since)) as watch:
        await server.delete(at(NODES, first))
        names = [obj["metadata"]["name"] for obj in (second, first)]
        assert await next_events(watch, 2) == [f"ADDED {names[0]}", f"DELETED {names[1]}"]


async def test_a_watch_without_a_version_starts_with_all_objects(server: Server) -> None:
    """Every object is ADDED, sorted by name; then changes follow."""
    names = [(await node(server))["metadata"]["name"] for _ in range(2)]
    async with server.stream(NODES, **mine(server)) as watch:
        assert await next_events(watch, 2) == [f"ADDED {name}" for name in names]
        third = await node(server)
        assert await next_events(watch, 1) == [f"ADDED {third['metadata']['name']}"]


async def test_version_zero_starts_with_all_objects_too(server: Server) -> None:
    """A watch from version 0 starts with the objects of the cache, which can be behind."""
    made = await node(server)
    async with server.stream(NODES, **mine(server, resourceVersion="0")) as watch:
        assert await next_events(watch, 1) == [f"ADDED {made['metadata']['name']}"]


async def test_an_event_has_the_whole_object(server: Server) -> None:
    """An event has the object with its kind, also of built-in kinds, as the writer's response has it."""
    since = await version(server, NODES)
    async with server.stream(NODES, **mine(server, resourceVersion=since)) as watch:
        made = await node(server)
        patched = await server.patch(at(NODES, made), {"metadata": {"labels": {"a": "b"}}})
        events = [await watch.next() for _ in range(2)]
    assert [event.type for event in events] == ["ADDED", "MODIFIED"]
    assert [event.plain for event in events] == [made, patched]


async def test_a_deletion_has_a_version_of_its_own(server: Server) -> None:
    """DELETED has the last state with the version of the deletion, from which a watch can be resumed."""
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
        assert await next_events(watch, 1) == [f"ADDED {second['metadata']['name']}"]


async def test_an_object_with_finalizers_is_modified_before_it_is_deleted(server: Server) -> None:
    """A deletion is MODIFIED, then each removed finalizer, then DELETED."""
    made = await claim(server, finalizers=["example.com/a"])
    since = made["metadata"]["resourceVersion"]
    await server.delete(at(CLAIMS, made))
    await server.patch(at(CLAIMS, made), {"metadata": {"finalizers": None}})
    async with server.stream(CLAIMS, **mine(server, resourceVersion=since)) as watch:
        events = [await watch.next() for _ in range(2)]
    assert [event.type for event in events] == ["MODIFIED", "DELETED"]
    assert all(event.object["metadata"]["deletionTimestamp"] for event in events)
    assert events[0].object["metadata"]["finalizers"] == ["example.com/a"]


async def test_events_of_objects_that_start_and_stop_matching(server: Server) -> None:
    """An object that starts to match is ADDED; one that stops is DELETED, with its previous labels."""
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


async def test_a_watch_of_one_object(server: Server) -> None:
    """A watch can select one name, as `kubectl get NAME -w` and `kubectl wait` do."""
    made, _ = await claim(server), await claim(server)
    name = made["metadata"]["name"]
    async with server.stream(CLAIMS, fieldSelector=f"metadata.name={name}") as watch:
        assert await next_events(watch, 1) == [f"ADDED {name}"]
        await claim(server)
        await server.delete(at(CLAIMS, made))
        assert await next_events(watch, 1) == [f"DELETED {name}"]


async def test_a_watch_of_a_namespace(server: Server) -> None:
    """A watch of one namespace has no events of another."""
    since = await version(server, LEASES)
    elsewhere = LEASES.replace("default", "kube-system")
    body = {"metadata": {"name": server.name(), "labels": {"case": server.case}}, "spec": {}}
    async with server.stream(LEASES, **mine(server, resourceVersion=since)) as watch:
        await server.done("POST", elsewhere, body)
        held = await lease(server)
        assert await next_events(watch, 1) == [f"ADDED {held['metadata']['name']}"]
    everywhere = LEASES.replace("/namespaces/default", "")
    async with server.stream(everywhere, **mine(server, resourceVersion=since)) as watch:
        assert len(await next_events(watch, 2)) == 2


async def test_a_watch_of_the_pods_of_a_node(server: Server) -> None:
    """A pod that is bound to the Node later is ADDED then."""
    here = (await node(server))["metadata"]["name"]
    bound = await pod(server, on=here)
    async with server.stream(PODS, fieldSelector=f"spec.nodeName={here}") as watch:
        assert await next_events(watch, 1) == [f"ADDED {bound['metadata']['name']}"]


async def test_a_streaming_list_ends_with_a_bookmark(server: Server) -> None:
    """The annotated bookmark follows the last initial event and has the version of the list."""
    made = await node(server)
    async with server.stream(NODES, **mine(server, **STREAMING)) as watch:
        assert await next_events(watch, 1) == [f"ADDED {made['metadata']['name']}"]
        mark = await watch.next()
    assert mark.type == "BOOKMARK"
    assert mark.object["kind"] == "Node"
    assert mark.object["metadata"]["annotations"] == {END: "true"}
    assert int(mark.object["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


async def test_a_watch_without_a_version_and_with_bookmarks_is_a_streaming_list(server: Server) -> None:
    """A watch without a version and with bookmarks has the bookmark of a streaming list."""
    async with server.stream(CLAIMS, **mine(server, allowWatchBookmarks=True)) as watch:
        mark = await watch.next()
    assert mark.type == "BOOKMARK"
    assert mark.object["metadata"]["annotations"] == {END: "true"}


async def test_no_bookmarks_unless_allowed(server: Server) -> None:
    """Without allowWatchBookmarks there are only events of objects."""
    made = await claim(server)
    async with server.stream(CLAIMS, **mine(server, timeoutSeconds=1)) as watch:
        assert [event.text for event in await watch.rest()] == [f"ADDED {made['metadata']['name']}"]


async def test_a_bookmark_before_the_timeout(server: Server) -> None:
    """Two seconds before its timeout a watch has a bookmark newer than all skipped events; then it ends."""
    query = mine(server, resourceVersion=await version(server, NODES), allowWatchBookmarks=True, timeoutSeconds=4)
    async with server.stream(NODES, **query) as watch:
        other = await server.done("POST", NODES, {"metadata": {"name": server.name()}})
        events = await watch.rest()
    # Once, or twice in those seconds.
    assert {event.type for event in events} == {"BOOKMARK"}
    assert int(events[-1].object["metadata"]["resourceVersion"]) >= int(other["metadata"]["resourceVersion"])
    assert "annotations" not in events[-1].object["metadata"]


async def test_a_watch_ends_at_its_timeout(server: Server) -> None:
    """The stream ends without an error."""
    async with server.stream(CLAIMS, **mine(server, timeoutSeconds=1)) as watch:
        assert await watch.rest() == []


async def test_an_expired_version_is_an_error_event(server: Server) -> None:
    """A watch of an expired version is HTTP 200, an ERROR event with the Status 410 Expired, and the end."""
    await widget(server)
    async with server.stream(WIDGETS, resourceVersion="1") as watch:
        (event,) = await watch.rest()
    assert event.type == "ERROR"
    result = event.object
    assert (result["kind"], result["status"], result["code"], result["reason"]) == ("Status", "Failure", 410, "Expired")
    assert result["message"].startswith("too old resource version: 1 (")


async def test_a_watch_from_the_future_is_silent(server: Server) -> None:
    """A watch from a future version waits for it: after a restore of etcd such a watch only looks healthy."""
    async with server.stream(NODES, **mine(server, resourceVersion="99999999", timeoutSeconds=1)) as watch:
        await node(server)
        assert await watch.rest() == []


async def test_contradictory_options_are_refused(server: Server) -> None:
    """Streaming lists need a match, a match needs a streaming list, and watches have no continue token."""
    for query in (
        {"sendInitialEvents": True, "allowWatchBookmarks": True},
        {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "0"},
        {"continue": "x"},
    ):
        result = await server.refused(422, "Invalid", "GET", NODES, watch=True, **query)
        assert result["details"]["causes"][0]["field"] == "resourceVersionMatch"
        assert result["details"]["causes"][0]["reason"] == "FieldValueForbidden"


async def test_a_watch_of_an_unserved_kind_is_404(server: Server) -> None:
    """The 404 is text, not a Status: it proves no object's absence."""
    answer = await server.request("GET", "/apis/karpenter.sh/v1/nopes", watch=True)
    assert (answer.status, answer.body) == (404, "404 page not found\n")


async def test_a_watch_of_tables(server: Server) -> None:
    """Each event is a Table of one row, as `kubectl get -w` requests it; only the first has columns."""
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


async def test_events_have_the_order_of_writes(server: Server) -> None:
    """Ten writes of three objects are delivered in the order of their versions."""
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
    """When the CRD is deleted, its objects are DELETED."""
    made = await widget(server)
    async with server.stream(WIDGETS, **mine(server)) as watch:
        assert await next_events(watch, 1) == [f"ADDED {made['metadata']['name']}"]
        await server.delete(at(WIDGETS, made))
        assert await next_events(watch, 1) == [f"DELETED {made['metadata']['name']}"]
