"""A cache shows the answers of own writes, and nothing older replaces them: tables of what the API server delivers.

`a5` is the object a at version 5, `a5'` another object of that name. A list has the version after the `@`.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import NODES

from .kube_server import kube_client, kube_server, listing, obj, raw, seeded, stream
from .lagging import BACKWARD, scene, shown

pytestmark = pytest.mark.asyncio


# What happens after `list a1 @1`, what the handlers get then, and what the cache shows in the end.
ROWS: dict[str, tuple[list[str], list[str], str]] = {
    "an answer is shown before its event": (["answer a5"], ["a1→a5"], "a5"),
    "its event repeats it": (["answer a5", "MODIFIED a5"], ["a1→a5"], "a5"),
    "an older event is ignored": (["answer a5", "MODIFIED a3"], ["a1→a5"], "a5"),
    "so is one of its twin of earlier": (["answer b5", "ADDED b2'", "DELETED b3'", "ADDED b5"], ["→b5"], "a1 b5"),
    "a later one is not": (["answer a5", "MODIFIED a3", "MODIFIED a7"], ["a1→a5", "a5→a7"], "a7"),
    "nor a deletion": (["answer a5", "DELETED a6"], ["a1→a5", "a5→"], ""),
    "an event before its answer": (["MODIFIED a5", "answer a5"], ["a1→a5"], "a5"),
    "a later event before the answer": (["MODIFIED a7", "answer a5"], ["a1→a7"], "a7"),
    "a deletion before the answer": (["DELETED a6", "answer a5"], ["a1→"], ""),
    "two answers in the wrong order": (["answer a6", "answer a5"], ["a1→a6"], "a6"),
    "a lost event: the answer counts": (["ADDED b6", "answer a5"], ["→b6", "a1→a5"], "a5 b6"),
    "a creation": (["answer b5"], ["→b5"], "a1 b5"),
    "its event": (["answer b5", "ADDED b5", "MODIFIED b6"], ["→b5", "b5→b6"], "a1 b6"),
    "created and deleted before the answer": (["ADDED b5", "DELETED b6", "answer b5"], ["→b5", "b5→"], "a1"),
    "a creation over a deletion that is not seen": (["answer a5'", "DELETED a4"], ["a1→", "→a5'"], "a5'"),
    "an older list keeps the answer": (["answer a5", "list a3 @4"], ["a1→a5"], "a5"),
    "an older list lacks what was created": (["answer b5", "list a1 @4"], ["→b5"], "a1 b5"),
    "an older list has its predecessor": (["answer b5", "list a1 b2' @4"], ["→b5"], "a1 b5"),
    "and events follow the list": (["answer b5", "list a1 @4", "ADDED b5"], ["→b5"], "a1 b5"),
    "a newer list counts": (["answer a5", "list a6 @6"], ["a1→a5", "a5→a6"], "a6"),
    "a newer list lacks what was deleted since": (["answer b5", "list a1 @6"], ["→b5", "b5→"], "a1"),
    "a bookmark does not end it": (["answer a5", "bookmark @9", "list a3 @4"], ["a1→a5"], "a5"),
    "a list of the past is rejected": (["MODIFIED a5", "list a3 @3"], ["a1→a5"], "a5"),
    "accepted after repetitions, it counts": (
        ["MODIFIED a5", "answer a6", *BACKWARD, "MODIFIED a4"],
        ["a1→a5", "a5→a6", "a6→a3", "a3→a4"],
        "a4",
    ),
    "a removal": (["gone a"], ["a1→"], ""),
    "of another object of that name": (["gone a'"], [], "a1"),
    "an older event does not bring it back": (["gone a", "MODIFIED a3"], ["a1→"], ""),
    "nor one from the past": (["bookmark @9", "gone a", "MODIFIED a3"], ["a1→"], ""),
    "nor a late answer": (["gone a", "answer a4"], ["a1→"], ""),
    "its deletion repeats it": (["gone a", "MODIFIED a3", "DELETED a5"], ["a1→"], ""),
    "a stale list has it": (["gone a", "list a1 @2"], ["a1→"], ""),
    "an older list than the object lacks it": (["answer b5", "gone b", "list a1 @4", "ADDED b5"], ["→b5", "b5→"], "a1"),
    "a fresh list lacks it": (["gone a", "list @5"], ["a1→"], ""),
    "a minute later it counts again": (["gone a", "wait", "MODIFIED a5"], ["a1→", "→a5"], "a5"),
    "also by a list": (["gone a", "wait", "list a1 @5"], ["a1→", "→a1"], "a1"),
    "a successor is another object": (["gone a", "ADDED a6'"], ["a1→", "→a6'"], "a6'"),
    "created by us": (["gone a", "answer a6'", "MODIFIED a3", "DELETED a5"], ["a1→", "→a6'"], "a6'"),
    "a successor in a stale list": (["gone a", "answer a6'", "list a1 @4"], ["a1→", "→a6'"], "a6'"),
    "not served any more": (["answer b5", "reset", "answer a7"], [], ""),
}


@pytest.mark.parametrize(("played", "shown_to", "left"), ROWS.values(), ids=ROWS)
async def test_what_the_cache_shows(played: list[str], shown_to: list[str], left: str) -> None:
    async with scene() as it:
        await it.play("list a1 @1")
        it.shown_to.clear()
        for what in played:
            await it.play(what)
        assert it.shown_to == shown_to
        assert " ".join(sorted(map(shown, it.cache.items()))) == left


# What happens after `list a1 @1` and the answer a5; whether the watch has delivered it then, and what it has delivered.
DELIVERIES: dict[str, tuple[list[str], bool, list[str]]] = {
    "nothing": ([], False, []),
    "an older event": (["MODIFIED a4"], False, []),
    "an event of another object": (["ADDED b6"], False, []),
    "a bookmark": (["bookmark @9"], False, []),
    "its event": (["MODIFIED a5"], True, ["a5"]),
    "a later one": (["MODIFIED a6"], True, ["a6"]),
    "its deletion": (["DELETED a6"], True, ["a6"]),
    "an older list": (["list a3 @4"], False, []),
    "a newer list": (["list a5 @6"], True, []),
    "restored from a backup": (["bookmark @6", *BACKWARD], False, []),
}


@pytest.mark.parametrize(("played", "delivered", "shown_to"), DELIVERIES.values(), ids=DELIVERIES)
async def test_when_the_watch_has_delivered_an_own_write(
    played: list[str], delivered: bool, shown_to: list[str]
) -> None:
    async with scene() as it:
        for what in ("list a1 @1", "answer a5", *played):
            await it.play(what)
        assert (it.cache.delivered("a", "a", "5"), it.delivered) == (delivered, shown_to)


@pytest.mark.parametrize(
    ("played", "delivered"),
    [([], False), (["MODIFIED a4", "bookmark @9"], False), (["DELETED a5"], True), (["list @5"], True)],
)
async def test_when_the_watch_has_delivered_a_removal(played: list[str], delivered: bool) -> None:
    async with scene() as it:
        for what in ("list a1 @1", "gone a", *played):
            await it.play(what)
        assert it.cache.delivered("a", "a", "1") is delivered


def bodies() -> Iterator[tuple[str, bytes, str]]:
    """Answers to a DELETE of the Node a at version 1, and what the cache shows then."""

    def deleting(**metadata: Any) -> bytes:
        return json.dumps(
            obj("Node", "a", "5", "u", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"} | metadata)
        ).encode()

    yield "gone", b'{"kind":"Status","apiVersion":"v1","status":"Success"}', ""
    yield "kept by a finalizer", deleting(finalizers=["x/y"]), "a5"
    yield "kept for its grace period", deleting(deletionGracePeriodSeconds=30), "a5"
    yield "kept by nothing", deleting(deletionGracePeriodSeconds=0), ""
    yield "not an object", b"<html>", "a1"
    yield "another kind", json.dumps(obj("Pod", "a", "5", "u")).encode(), "a1"


@pytest.mark.parametrize(("body", "left"), [row[1:] for row in bodies()], ids=[row[0] for row in bodies()])
async def test_answers_of_a_deletion(body: bytes, left: str) -> None:
    async with kube_server() as server, kube_client(server) as kube, asyncio.TaskGroup() as group:
        server.then(listing("Node", [obj("Node", "a", "1", "u")], "1"), stream(end="silence"), raw(body))
        cache = Reflector(kube, NODES, rng=seeded(), indexes={})
        task = group.create_task(cache.run())
        async with asyncio.timeout(5):
            while server.count(watch="true") == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        await kube.delete(NODES, "a", uid="u")
        assert " ".join(map(shown, cache.items())) == left
        task.cancel()


async def test_which_caches_are_shown_a_write() -> None:
    """Those of all copies of the client, without selectors, as long as they run."""
    async with kube_server() as server, kube_client(server) as kube, asyncio.TaskGroup() as group:
        server.otherwise = listing("Node", [], "1")
        caches = [Reflector(kube, NODES, rng=seeded(), indexes={}, label_selector=one) for one in ("", "a=b")]
        caches.append(Reflector(kube, NODES, rng=seeded(), indexes={}, field_selector="metadata.name=b"))
        tasks = [group.create_task(one.run()) for one in caches]
        async with asyncio.timeout(5):
            while not all(one.synced for one in caches):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        server.otherwise = raw(json.dumps(obj("Node", "a", "5")).encode(), 201)
        await kube.fenced(kube.fence).create(NODES, {"metadata": {"name": "a"}})
        assert [[one.name for one in cache.items()] for cache in caches] == [["a"], [], []]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.otherwise = raw(json.dumps(obj("Node", "b", "6")).encode(), 201)
        await kube.create(NODES, {"metadata": {"name": "b"}})
        assert [one.name for one in caches[0].items()] == ["a"]
