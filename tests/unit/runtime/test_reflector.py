"""The reflector against an API server that loses events, repeats them, stops responding or is stale."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from provisioner.api.byte_budget import ByteBudget, Refusals
from provisioner.api.node import Node
from provisioner.runtime.kube import Kube
from provisioner.runtime.metrics import Metrics
from provisioner.runtime.own_writes import reached
from provisioner.runtime.reflector import Reflector, State
from provisioner.runtime.resources import NODES, PODS

from .kube_server import (
    KubeServer,
    bookmark,
    event,
    gone,
    hang_up,
    kube_client,
    kube_server,
    listing,
    obj,
    raw,
    seeded,
    silent,
    status,
    stream,
)

pytestmark = pytest.mark.asyncio


class Mirror:
    """A reflector of Nodes that records every change as +name, ~name and -name (with the version)."""

    def __init__(self, kube: Kube, **options: Any) -> None:
        self.reported: list[str] = []
        self.syncs = 0
        options = {"base_seconds": 0.01, "cap_seconds": 0.02, "idle_timeout_seconds": 5.0} | options
        self.reflector = Reflector(
            kube,
            NODES,
            rng=seeded(),
            indexes={"pool": lambda n: filter(None, [n.metadata.labels.get("agentpool")])},
            on_change=self.record_change,
            on_synced=self.sync,
            **options,
        )

    def sync(self) -> None:
        assert self.reflector.synced
        self.syncs += 1

    def record_change(self, old: Node | None, new: Node | None) -> None:
        item = new or old
        assert item is not None
        sign = "~" if old and new else "+" if new else "-"
        self.reported.append(f"{sign}{item.name}@{item.metadata.resource_version}")


class Kept(Node, frozen=True, kw_only=True, weakref=True):
    """A Node whose bytes are counted as long as it exists."""


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(server: KubeServer, **options: Any) -> AsyncIterator[Mirror]:
    async with kube_client(server) as kube, asyncio.TaskGroup() as group:
        mirror = Mirror(kube, **options)
        task = group.create_task(mirror.reflector.run())
        yield mirror
        assert not task.done()
        task.cancel()


def node(name: str, version: str, uid: str = "", pool: str = "") -> dict[str, Any]:
    return obj("Node", name, version, uid, metadata={"labels": {"agentpool": pool} if pool else {}})


async def test_a_list_and_its_events_become_a_cache() -> None:
    """Objects are found by name and by index, and handlers are called once for every change."""
    async with kube_server() as server:
        server.then(listing("Node", [node("a", "1", pool="p1"), node("b", "2")], "5"))
        server.then(
            stream(
                event("MODIFIED", node("a", "6", pool="p2")),
                event("ADDED", node("c", "7", pool="p2")),
                event("DELETED", node("b", "8")),
                bookmark("20"),
                end="silence",
            )
        )
        async with running(server) as mirror:
            cache = mirror.reflector
            assert (cache.state, cache.synced, cache.resource_version) == (State.EMPTY, False, "")
            await until(lambda: cache.resource_version == "20")
            assert mirror.reported == ["+a@1", "+b@2", "~a@6", "+c@7", "-b@2"]
            assert [n.name for n in cache.by_index("pool", "p2")] == ["a", "c"]
            assert cache.by_index("pool", "p1") == ()
            assert cache.get("b") is None
            assert [n.name for n in cache.items()] == ["a", "c"]
            assert (cache.state, cache.synced, cache.last_error) == (State.WATCHING, True, None)
            assert reached(cache.resource_version, "19")
            assert not reached(cache.resource_version, "21")
            assert not reached(cache.resource_version, "")
            assert server.seen[1].query["resourceVersion"] == "5"


async def test_a_digest_replaces_listed_and_watched_objects() -> None:
    """The cache holds only the digest, of a selection that list and watch request alike."""

    def without_labels(node: Node) -> Node:
        return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels={}))

    async with kube_server() as server:
        server.then(listing("Node", [node("a", "1", pool="p1")], "5"))
        server.then(stream(event("ADDED", node("b", "6", pool="p1")), end="silence"))
        async with running(server, digest=without_labels, field_selector="spec.unschedulable=false") as mirror:
            await until(lambda: mirror.reported == ["+a@1", "+b@6"])
            assert [n.metadata.labels for n in mirror.reflector.items()] == [{}, {}]
            assert mirror.reflector.by_index("pool", "p1") == ()
            assert [one.query["fieldSelector"] for one in server.seen] == ["spec.unschedulable=false"] * 2


async def test_what_was_refused_for_want_of_room_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second object is refused; it is kept once the first one is gone, although no event is about it."""
    monkeypatch.setattr("provisioner.runtime.rereads.EVERY_SECONDS", 0.01)
    refusals = Refusals(budget := ByteBudget(small=1, each=10, total=10, reserved=0))

    def digest(found: Node) -> Node:
        why = budget.refused(8, "")
        kept = Kept(metadata=found.metadata.identity(*([why] if why else [])))
        if why:
            refusals.remember(kept, 8)
        else:
            budget.hold(kept, 8, "")
        return kept

    async with kube_server() as server:
        server.then(listing("Node", [node("a", "1"), node("b", "2")], "5"))
        server.then(stream(event("DELETED", node("a", "6")), end="silence"))
        # Not there yet, and another version: neither replaces the cached one.
        server.then(status(500, "InternalError"), listing("Node", [], "6"), listing("Node", [node("b", "7")], "7"))
        server.then(listing("Node", [node("b", "2")], "8"))
        async with running(server, digest=digest, refusals=refusals) as mirror:
            await until(lambda: bool(refusals))
            await until(lambda: mirror.reported == ["+a@1", "+b@2", "-a@1", "~b@2"])
            (kept,) = mirror.reflector.items()
            assert kept.metadata.unreadable == ()
            assert not refusals
            assert [one.query.get("fieldSelector") for one in server.seen[2:]] == ["metadata.name=b"] * 4


async def test_a_relist_reports_missed_deletions() -> None:
    """410 on a watch: the new list replaces the cache, and the missed deletion is reported."""
    async with kube_server() as server:
        server.then(listing("Node", [node("a", "1", pool="p"), node("b", "2", pool="p")], "5"), stream(gone()))
        server.then(listing("Node", [node("b", "2", pool="p"), node("c", "9", pool="p")], "9"), stream(end="silence"))
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.resource_version == "9")
            assert mirror.reported == ["+a@1", "+b@2", "-a@1", "+c@9"]
            assert [n.name for n in mirror.reflector.by_index("pool", "p")] == ["b", "c"]


@pytest.mark.parametrize(
    "answer",
    [
        status(404, "NotFound", "the server could not find the requested resource"),
        raw(b"404 page not found", 404, "text/plain"),
        stream(b"<html>\n</html>\n"),
        stream(b'{"type":"EXPLODED","object":{}}\n'),
        stream(event("ADDED", obj("Node", "n", "6", metadata={"labels": 3}))),
    ],
)
async def test_an_invalid_watch_is_followed_by_a_list(answer) -> None:
    """Resuming from the same version would fail again, or miss that the CRD was recreated without objects."""
    async with kube_server() as server:
        server.then(listing("Node", [node("a", "1")], "5"), answer)
        server.then(listing("Node", [], "9"), stream(end="silence"))
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.resource_version == "9")
            assert mirror.reported == ["+a@1", "-a@1"]


async def test_objects_that_cannot_be_decoded_are_counted() -> None:
    """By list and by watch: the rest of the object is cached, the gauge counts it until it is corrected or deleted."""
    odd = {"spec": {"taints": 3}}
    async with kube_server() as server:
        server.then(listing("Node", [node("a", "1"), {**node("b", "2"), **odd}, {**node("c", "3"), **odd}], "5"))
        server.then(
            stream(
                event("MODIFIED", {**node("a", "6"), **odd}),
                event("MODIFIED", node("b", "7")),
                event("DELETED", {**node("c", "8"), **odd}),
                bookmark("9"),
                end="silence",
            )
        )
        metrics = Metrics()
        async with running(server, metrics=metrics.reflector("nodes")) as mirror:
            await until(lambda: mirror.reflector.resource_version == "9")
            assert mirror.reported == ["+a@1", "+b@2", "+c@3", "~a@6", "~b@7", "-c@3"]
            labels = {"resource": "nodes"}
            assert metrics.registry.get_sample_value("gpu_provisioner_cache_unreadable_objects", labels) == 1
            seen = mirror.reflector.get("a")
            assert seen is not None
            assert seen.metadata.unreadable == ("spec.taints: Expected `array`, got `int`",)


async def test_on_synced_is_called_after_an_empty_list() -> None:
    """Nothing else wakes a controller that waits for the cache; later lists report only changes."""
    async with kube_server() as server:
        server.then(status(500, "InternalError"), listing("Node", [], "5"), stream(gone()))
        server.then(listing("Node", [], "9"), stream(end="silence"))
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.resource_version == "9")
            assert (mirror.reported, mirror.syncs) == ([], 1)


async def test_410_as_a_status_lists_again() -> None:
    """410 as an HTTP status instead of an ERROR event."""
    async with kube_server() as server:
        server.then(listing("Node", [], "5"), status(410, "Gone"), listing("Node", [], "9"), stream(end="silence"))
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.resource_version == "9")


async def test_the_same_name_with_another_uid_is_another_object() -> None:
    """A Node that was deleted and recreated is a deletion and an addition, in a list and in a watch."""
    async with kube_server() as server:
        server.then(listing("Node", [node("a", "1", "u1")], "5"), stream(gone()))
        server.then(
            listing("Node", [node("a", "7", "u2")], "8"), stream(event("MODIFIED", node("a", "9", "u3")), end="silence")
        )
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.resource_version == "9")
            assert mirror.reported == ["+a@1", "-a@1", "+a@7", "-a@7", "+a@9"]


async def test_a_repeated_event_from_the_past_changes_nothing() -> None:
    """Duplicate and late events of a cached object are ignored."""
    async with kube_server() as server:
        late = (event("MODIFIED", node("a", "6")), event("DELETED", node("a", "3")))
        server.then(listing("Node", [node("a", "7")], "7"), stream(*late, bookmark("8"), end="silence"))
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.resource_version == "8")
            assert mirror.reported == ["+a@7"]


async def test_an_event_from_the_past_never_revives_an_object() -> None:
    """An old ADDED event of a deleted object requires a new list."""
    async with kube_server() as server:
        server.then(listing("Node", [], "7"), stream(event("ADDED", node("ghost", "3")), end="silence"))
        server.then(listing("Node", [], "9"), stream(end="silence"))
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.resource_version == "9")
            assert mirror.reported == []


async def test_a_connection_that_breaks_is_resumed_without_a_list() -> None:
    """A reset, a truncated line, a refused connection and a clean end resume from the newest version."""
    half = b'{"type":"ADDED","object":{"kind":"No'
    async with kube_server() as server:
        server.then(listing("Node", [], "5"), stream(bookmark("6"), end="cut"), stream(bookmark("7"), half))
        server.then(hang_up(), status(503, "ServiceUnavailable"), stream(bookmark("8"), end="silence"))
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.resource_version == "8")
            requested = [s.query["resourceVersion"] for s in server.seen if "watch" in s.query]
            assert requested == ["5", "6", "7", "7", "7"]
            assert mirror.reflector.last_error is None


async def test_an_idle_watch_is_followed_by_a_list() -> None:
    """A half-open connection, or a version of the future after a restore: the watch never delivers an event."""
    async with kube_server() as server:
        server.then(listing("Node", [node("a", "1")], "5"), stream(end="silence"))
        server.then(listing("Node", [], "9"), stream(end="silence"))
        async with running(server, idle_timeout_seconds=0.1) as mirror:
            await until(lambda: mirror.reflector.resource_version == "9")
            assert mirror.reported == ["+a@1", "-a@1"]


async def test_watches_that_end_at_once_do_not_become_a_hot_loop() -> None:
    """An empty watch is a failure with backoff; one with events is repeated about once a second."""
    async with kube_server() as server:
        server.then(listing("Node", [], "5"))
        server.otherwise = stream()
        async with running(server, base_seconds=0.05, cap_seconds=10.0) as mirror:
            await asyncio.sleep(0.5)
            assert mirror.reflector.last_error is not None
            assert mirror.reflector.last_error.reason == "EmptyWatch"
            assert 2 <= server.count(watch="true") <= 6
    async with kube_server() as server:
        server.then(listing("Node", [], "5"))
        server.otherwise = stream(bookmark("6"))
        async with running(server):
            await asyncio.sleep(0.5)
            assert server.count(watch="true") == 1


async def test_retry_after_is_honoured() -> None:
    """429 with Retry-After waits at least that long; without it the backoff applies."""
    async with kube_server() as server:
        server.then(status(429, "TooManyRequests", **{"Retry-After": "1"}))
        server.otherwise = listing("Node", [], "5")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.synced)
            assert loop.time() - begun >= 1.0
    async with kube_server() as server:
        server.then(status(429, "TooManyRequests"), status(401, "Unauthorized"), listing("Node", [], "5"))
        server.otherwise = stream(end="silence")
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.synced)


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (raw(b"404 page not found", 404, "text/plain"), State.NOT_SERVED),
        (status(403, "Forbidden"), State.BACKING_OFF),
        (status(500, "InternalError"), State.BACKING_OFF),
        (raw(b"<html>hello</html>"), State.BACKING_OFF),
        (raw(b"{}"), State.BACKING_OFF),
        (silent(), State.LISTING),
    ],
)
async def test_a_failed_list_is_not_an_empty_list(answer, state) -> None:
    """The CRD is deleted, permission is missing, a proxy responds: the cache keeps its objects and the error."""
    async with kube_server() as server:
        server.then(listing("Node", [node("a", "1")], "5"), stream(gone()))
        server.otherwise = answer
        async with running(server, cap_seconds=60.0, base_seconds=0.05) as mirror:
            cache = mirror.reflector
            await until(lambda: len(server.seen) >= 3 and cache.state is state)
            assert cache.get("a") is not None
            assert cache.synced
            assert cache.last_error is not None
            assert mirror.reported == ["+a@1"]


async def test_a_partial_list_is_discarded() -> None:
    """If page two fails, page one is discarded."""
    async with kube_server() as server:
        server.then(listing("Node", [node("a", "1")], "5", more="t"), status(500, "InternalError"))
        server.then(listing("Node", [node("a", "1"), node("b", "2")], "6"), stream(end="silence"))
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.synced)
            assert mirror.reported == ["+a@1", "+b@2"]


async def test_an_older_list_is_accepted_after_three_rejections() -> None:
    """One stale server must not roll the cache back; after a restore of etcd every server is older."""
    async with kube_server() as server:
        server.then(listing("Node", [node("a", "50")], "100"), stream(gone()))
        server.otherwise = listing("Node", [], "40")
        async with running(server, base_seconds=0.05, cap_seconds=0.05) as mirror:
            cache = mirror.reflector
            await until(lambda: cache.state is State.BACKWARD)
            assert cache.get("a") is not None
            assert cache.resource_version == "100"
            await until(lambda: cache.resource_version == "40")
            assert server.count(limit="500") >= 5
            assert mirror.reported == ["+a@50", "-a@50"]
            assert "resourceVersion" not in server.seen[2].query


async def test_a_stale_server_that_recovers_loses_nothing() -> None:
    """Fault 18: the relist is stale once, then current."""
    async with kube_server() as server:
        server.then(listing("Node", [node("a", "50")], "100"), stream(gone()))
        server.then(listing("Node", [], "40"), listing("Node", [node("a", "50")], "101"), stream(end="silence"))
        async with running(server) as mirror:
            await until(lambda: mirror.reflector.resource_version == "101")
            assert mirror.reported == ["+a@50"]


async def test_opaque_versions_are_compared_for_equality_only() -> None:
    """Fault 23: opaque versions neither order events nor reject lists."""
    async with kube_server() as server:
        server.then(listing("Node", [node("a", "x-9")], "x-9"))
        server.then(stream(event("MODIFIED", node("a", "x-1")), end="silence"))
        async with running(server) as mirror:
            cache = mirror.reflector
            await until(lambda: reached(cache.resource_version, "x-1"))
            assert not reached(cache.resource_version, "x-9")
            assert mirror.reported == ["+a@x-9", "~a@x-1"]


async def test_freshness_is_the_start_of_the_list_or_the_last_event() -> None:
    """`fresh_at` is not newer than what was read: a slow list is as old as its start."""

    async def slow(request):
        await asyncio.sleep(0.2)
        return await listing("Node", [], "5")(request)

    loop = asyncio.get_running_loop()
    async with kube_server() as server:
        server.then(slow, stream(b"", bookmark("6"), end="silence", gap_seconds=0.1))
        async with running(server) as mirror:
            begun = loop.time()
            await until(lambda: mirror.reflector.synced)
            listed = mirror.reflector.fresh_at
            assert listed - begun < 0.15
            await until(lambda: mirror.reflector.resource_version == "6")
            assert mirror.reflector.fresh_at > listed + 0.2


async def test_namespaced_objects_are_named_with_their_namespace() -> None:
    """Two pods of one name in two namespaces are two objects."""
    pods = [obj("Pod", "p", "1", metadata={"namespace": ns}) for ns in ("x", "y")]
    async with kube_server() as server, kube_client(server) as kube, asyncio.TaskGroup() as group:
        server.then(listing("Pod", pods, "5"), stream(end="silence"))
        cache = Reflector(kube, PODS, rng=seeded(), indexes={}, on_change=lambda *_: None, label_selector="a=b")
        task = group.create_task(cache.run())
        await until(lambda: cache.synced)
        assert cache.get("y/p") is not None
        assert cache.get("p") is None
        assert server.seen[0].query["labelSelector"] == "a=b"
        task.cancel()


async def test_an_object_that_a_handler_or_a_digest_cannot_take_ends_nothing() -> None:
    """It is logged and counted; the other objects and the other handlers are served."""

    def digest(found: Node) -> Node:
        if found.name == "odd":
            raise OverflowError("odd")
        return found

    def fail(_: Node | None, new: Node | None) -> None:
        if new is not None and new.name == "b":
            raise KeyError("odd")

    metrics = Metrics()
    async with kube_server() as server:
        server.then(listing("Node", [node("odd", "1"), node("a", "2")], "5"))
        server.then(stream(event("ADDED", node("b", "6")), event("ADDED", node("c", "7")), end="silence"))
        async with running(server, digest=digest, metrics=metrics.reflector("nodes")) as mirror:
            mirror.reflector.add_event_handler(fail)
            mirror.reflector.add_event_handler(mirror.record_change)
            await until(lambda: len(mirror.reported) >= 8)
            assert mirror.reported[::2] == mirror.reported[1::2] == ["+odd@1", "+a@2", "+b@6", "+c@7"]
            odd = mirror.reflector.get("odd")
            assert odd is not None
            assert odd.metadata.unreadable == ("spec: it cannot be evaluated",)
            errors = metrics.registry.get_sample_value("gpu_provisioner_object_errors_total", {"kind": "Node"})
            assert errors == 2
