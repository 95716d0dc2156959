"""The simulated API server in memory, on virtual time: watches and injected faults."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from provisioner.simulator import loop as sim
from provisioner.simulator.kube.apiserver import TARGET, ApiServer
from provisioner.simulator.kube.errors import ApiError
from provisioner.simulator.kube.resources import CRD_KEY
from provisioner.simulator.kube.store import Store
from provisioner.simulator.network import MemoryConnector, Network
from tests.stories import run_by

from .stores import WIDGET_CRD, WIDGETS, Json

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
HOST = "http://kube.sim"
NODES = "/api/v1/nodes"


class Scene:
    """One server, one client, and the watches that are read in the background."""

    def __init__(
        self, session: aiohttp.ClientSession, server: ApiServer, store: Store, group: asyncio.TaskGroup
    ) -> None:
        self.session, self.server, self.store, self._group = session, server, store, group
        self.runner: web.AppRunner

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """Status and body; the body is parsed if its content type is JSON."""
        headers = {"Content-Type": "application/json"} | options.pop("headers", {})
        data = body if isinstance(body, bytes | io.BytesIO) or body is None else json.dumps(body)
        async with self.session.request(method, HOST + path, data=data, headers=headers, **options) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.content_type == "application/json" else text

    def watch(self, path: str, query: str = "", **options: Any) -> list[tuple[float, Json]]:
        """A list that fills with (loop time, event); ends with (time, {}) when the stream ends."""
        seen: list[tuple[float, Json]] = []
        now = asyncio.get_running_loop().time

        async def read() -> None:
            async with self.session.get(f"{HOST}{path}?watch=true&{query}", **options) as response:
                assert response.status == 200, await response.text()
                async for line in response.content:
                    event = json.loads(line)
                    seen.append((now(), event))
            seen.append((now(), {}))

        self._group.create_task(read())
        return seen

    def node(self, name: str, **labels: str) -> Json:
        return self.store.create("nodes", {"metadata": {"name": name, "labels": labels}})


@asynccontextmanager
async def scene(*, token: str | None = None, window: int = 1000):
    clock = sim.VirtualClock(asyncio.get_running_loop(), EPOCH)
    store = Store(clock.now, seed_uid=Random(3), window=window)
    server = ApiServer(store, token=token, crds=[WIDGET_CRD])
    runner = web.AppRunner(server.app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    wire = Network(asyncio.get_running_loop())
    assert runner.server is not None
    wire.servers["kube.sim"] = runner.server
    async with (
        aiohttp.ClientSession(connector=MemoryConnector(wire, "client"), trust_env=False) as session,
        asyncio.TaskGroup() as group,
    ):
        it = Scene(session, server, store, group)
        it.runner = runner
        yield it
        await runner.cleanup()


def with_scene(story: Callable[[Scene], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with scene(**options) as it:
            await story(it)

    sim.run(main, seed=1, epoch=EPOCH)


def kinds(seen: list[tuple[float, Json]]) -> list[str]:
    """`ADDED n1`, `BOOKMARK`, `ERROR 410`, `end`."""
    words = []
    for _, event in seen:
        if not event:
            words.append("end")
        elif event["type"] == "ERROR":
            words.append(f"ERROR {event['object']['code']}")
        else:
            words.append(f"{event['type']} {event['object']['metadata'].get('name', '')}".strip())
    return words


@run_by(with_scene)
async def test_bookmarks_are_sent_each_minute_if_requested(it: Scene) -> None:
    """They have the newest version of all kinds, so that watches of unchanged kinds can be resumed; one is sent two
    seconds before the end of the watch.
    """
    wanted = it.watch(NODES, "allowWatchBookmarks=true&timeoutSeconds=150")
    unwanted = it.watch(NODES, "timeoutSeconds=150")
    await asyncio.sleep(90)
    it.store.create(WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 1}})
    await asyncio.sleep(90)
    assert [(round(at), word) for (at, _), word in zip(wanted, kinds(wanted), strict=True)] == [
        (0, "BOOKMARK"),
        (60, "BOOKMARK"),
        (120, "BOOKMARK"),
        (148, "BOOKMARK"),
        (150, "end"),
    ]
    assert kinds(unwanted) == ["end"]
    assert wanted[2][1]["object"]["metadata"]["resourceVersion"] == str(it.store.revision)


@run_by(with_scene)
async def test_a_quiet_watch_survives_compaction(it: Scene) -> None:
    """A watch that has all events is not expired, even if its kind has not changed for long."""
    seen = it.watch(NODES, f"resourceVersion={it.store.revision}")
    await asyncio.sleep(1)
    it.store.create(WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 1}})
    await asyncio.sleep(1)
    it.store.compact()
    it.node("n1")
    await asyncio.sleep(1)
    assert kinds(seen) == ["ADDED n1"]


@pytest.mark.parametrize("as_status", [False, True])
@run_by(with_scene, window=2)
async def test_an_expired_watch(it: Scene, as_status) -> None:
    """An ERROR event by default, or HTTP 410: real servers do either."""
    it.server.expired_as_status = as_status
    then = it.store.revision
    for i in range(4):
        it.node(f"n{i}")
    if as_status:
        status, body = await it.call("GET", f"{NODES}?watch=true&resourceVersion={then}")
        assert (status, body["code"], body["reason"]) == (410, 410, "Expired")
        return
    seen = it.watch(NODES, f"resourceVersion={then}")
    await asyncio.sleep(1)
    assert kinds(seen) == ["ERROR 410", "end"]


@run_by(with_scene, window=3)
async def test_a_watcher_that_does_not_read_falls_out_of_the_window(it: Scene) -> None:
    """Its stream ends with a 410 instead of buffering without bound; other watchers are not affected."""
    big = {"a": "x" * 200_000}
    quick = it.watch(NODES, f"resourceVersion={it.store.revision}")
    async with it.session.get(f"{HOST}{NODES}?watch=true&resourceVersion={it.store.revision}") as slow:
        await asyncio.sleep(1)
        for i in range(12):
            it.store.create("nodes", {"metadata": {"name": f"n{i}", "annotations": big}})
            await asyncio.sleep(1)
        text = (await slow.content.read()).decode()
        events = [json.loads(line) for line in text.splitlines()]
    assert events[-1]["type"] == "ERROR"
    assert events[-1]["object"]["reason"] == "Expired"
    assert kinds(quick) == [f"ADDED n{i}" for i in range(12)]


@run_by(with_scene)
async def test_watches_end_with_the_server(it: Scene) -> None:
    """Cleanly and at once, not after their timeout."""
    seen = it.watch(NODES)
    await asyncio.sleep(1)
    await it.runner.cleanup()
    await asyncio.sleep(0.1)
    assert kinds(seen) == ["end"]


@run_by(with_scene)
async def test_a_lagging_server_sends_its_events_later(it: Scene) -> None:
    """Watches stop at the frozen version; plain GETs and writes do not."""
    seen = it.watch(NODES)
    await asyncio.sleep(1)
    then = it.store.revision
    it.server.freeze_view(then)
    assert (await it.call("POST", NODES, {"metadata": {"name": "n1"}}))[0] == 201
    await asyncio.sleep(60)
    _, listed = await it.call("GET", NODES)
    assert (listed["items"], listed["metadata"]["resourceVersion"], kinds(seen)) == ([], str(then), [])
    assert (await it.call("GET", f"{NODES}/n1"))[0] == 200
    assert (await it.call("GET", f"{NODES}/n1?resourceVersion=0"))[0] == 404
    it.server.thaw()
    await asyncio.sleep(0.1)
    assert kinds(seen) == ["ADDED n1"]


@run_by(with_scene)
async def test_faults_replace_responses_and_hooks_get_every_response(it: Scene) -> None:
    """A fault gets the parsed path; a hook also gets rejections."""
    heard: list[tuple[str, int]] = []

    async def throttle(request: web.Request) -> web.Response | None:
        await asyncio.sleep(0)
        target = request[TARGET]
        is_bad = target is not None and target.name == "bad"
        return web.Response(status=429, headers={"Retry-After": "7"}) if is_bad else None

    def broken(request: web.Request) -> None:
        if request.method == "DELETE":
            raise ApiError(503, "ServiceUnavailable", "not now")

    it.server.faults += [throttle, broken]
    it.server.after.append(lambda request, response: heard.append((request.method, response.status)))
    await it.call("GET", f"{NODES}/bad")
    await it.call("GET", f"{NODES}/good")
    await it.call("DELETE", f"{NODES}/good")
    await it.call("GET", "/nowhere")
    assert heard == [("GET", 429), ("GET", 404), ("DELETE", 503), ("GET", 404)]


def test_a_bug_of_the_simulator_ends_the_run() -> None:
    """An unexpected exception is a 500 in HTTP, and is raised in the run."""

    async def story(it: Scene) -> None:
        def bug(_: web.Request) -> None:
            raise ZeroDivisionError

        it.server.faults.append(bug)
        assert (await it.call("GET", NODES))[0] == 500

    with pytest.raises(sim.SilentFailures):
        with_scene(story)


@run_by(with_scene)
async def test_booleans_are_parsed_as_in_go(it: Scene) -> None:
    """`watch=True`, as one client sends it, and `watch=1` are watches; `watch=0` is a list."""
    for text, streams in (("True", True), ("1", True), ("", True), ("false", False), ("0", False)):
        async with it.session.get(f"{HOST}{NODES}?watch={text}&timeoutSeconds=1") as response:
            assert (b'"NodeList"' not in await response.read()) is streams


@run_by(with_scene)
async def test_existing_crds_are_not_created_again(it: Scene) -> None:
    """A second server uses the same store."""
    before = it.store.revision
    ApiServer(it.store, crds=[WIDGET_CRD])
    assert it.store.revision == before
    assert len(it.store.list(CRD_KEY)) == 1
