"""The simulated API server in memory, on virtual time: watches, representations, errors and injected faults."""

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
WIDGET_PATH = "/apis/example.com/v1/widgets"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}


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
async def test_a_watch_resumes_where_a_list_ended(it: Scene) -> None:
    """No event is lost between the two, and none is repeated."""
    it.node("n1")
    _, listed = await it.call("GET", NODES)
    it.node("n2")
    seen = it.watch(NODES, f"resourceVersion={listed['metadata']['resourceVersion']}&timeoutSeconds=30")
    await asyncio.sleep(1)
    it.store.delete("nodes", "n1")
    await asyncio.sleep(1)
    assert kinds(seen) == ["ADDED n2", "DELETED n1"]
    await asyncio.sleep(30)
    assert kinds(seen)[-1] == "end"


@run_by(with_scene)
async def test_a_watch_without_a_version_begins_with_all_objects(it: Scene) -> None:
    """Every object is ADDED first; then the changes follow."""
    it.node("n2")
    it.node("n1")
    seen = it.watch(NODES)
    await asyncio.sleep(1)
    it.node("n0")
    await asyncio.sleep(1)
    assert kinds(seen) == ["ADDED n1", "ADDED n2", "ADDED n0"]


@run_by(with_scene)
async def test_a_streaming_list_ends_with_an_annotated_bookmark(it: Scene) -> None:
    """kubectl waits for the bookmark with this annotation."""
    it.node("n1")
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    seen = it.watch(NODES, query)
    await asyncio.sleep(1)
    assert kinds(seen) == ["ADDED n1", "BOOKMARK"]
    mark = seen[1][1]["object"]
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert (mark["kind"], mark["metadata"]["resourceVersion"]) == ("Node", str(it.store.revision))
    status, refusal = await it.call("GET", f"{NODES}?watch=1&sendInitialEvents=true")
    assert (status, refusal["reason"]) == (422, "Invalid")


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
async def test_watches_end_with_their_kind(it: Scene) -> None:
    """When a CRD is removed: DELETED for its objects, the end of the stream, then a text page with 404."""
    it.store.create(WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 1}})
    seen = it.watch(WIDGET_PATH, "resourceVersion=0")
    await asyncio.sleep(1)
    await it.call("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{WIDGETS}")
    await asyncio.sleep(2)
    assert kinds(seen) == ["ADDED w", "DELETED w", "end"]
    assert await it.call("GET", WIDGET_PATH) == (404, "404 page not found\n")


@run_by(with_scene)
async def test_a_watch_of_tables_carries_rows(it: Scene) -> None:
    """`kubectl get -w`: each event is a Table of one row."""
    seen = it.watch(NODES, headers=TABLE)
    await asyncio.sleep(1)
    it.node("n1")
    await asyncio.sleep(1)
    ((_, event),) = seen
    assert (event["type"], event["object"]["kind"]) == ("ADDED", "Table")
    assert event["object"]["rows"][0]["cells"][:2] == ["n1", "Unknown"]


@run_by(with_scene)
async def test_selectors_apply_to_watches(it: Scene) -> None:
    """A Node that loses its label is DELETED for watches that select by it."""
    seen = it.watch(NODES, "labelSelector=gpu")
    await asyncio.sleep(1)
    it.node("n1")
    it.store.patch("nodes", "n1", {"metadata": {"labels": {"gpu": "1"}}})
    it.store.patch("nodes", "n1", {"metadata": {"labels": {"gpu": None}}})
    await asyncio.sleep(1)
    assert kinds(seen) == ["ADDED n1", "DELETED n1"]


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


@run_by(with_scene, token="s3cret")
async def test_requests_need_the_token(it: Scene) -> None:
    """401 as a Status; health checks need no token."""
    status, body = await it.call("GET", NODES)
    assert (status, body["reason"], body["code"]) == (401, "Unauthorized", 401)
    assert (await it.call("GET", NODES, headers={"Authorization": "Bearer wrong"}))[0] == 401
    assert (await it.call("GET", NODES, headers={"Authorization": "Bearer s3cret"}))[0] == 200
    assert await it.call("GET", "/readyz") == (200, "ok")


def test_responses_have_the_status_of_the_real_server() -> None:
    """201 on create, the object or a Status on delete, 405 and 404 for unknown methods and paths."""

    async def story(it: Scene) -> None:
        made, node = await it.call("POST", NODES, {"metadata": {"name": "n1", "finalizers": ["a.b/c"]}})
        held, marked = await it.call("DELETE", f"{NODES}/n1")
        await it.call("PATCH", f"{NODES}/n1", {"metadata": {"finalizers": None}}, headers=merge)
        gone, missing = await it.call("GET", f"{NODES}/n1")
        assert (made, held, gone, missing["reason"]) == (201, 200, 404, "NotFound")
        assert (node["kind"], "deletionTimestamp" in marked["metadata"]) == ("Node", True)
        it.node("n2")
        assert (await it.call("DELETE", f"{NODES}/n2"))[1]["status"] == "Success"
        assert (await it.call("POST", f"{NODES}/n2"))[0] == 405
        assert (await it.call("DELETE", NODES))[0] == 405
        assert (await it.call("PUT", "/api/v1/namespaces/default/events/e/status", {}))[0] == 404
        assert (await it.call("GET", "/apis/karpenter.sh/v1/nodeclaims"))[0] == 404

    merge = {"Content-Type": "application/merge-patch+json"}
    with_scene(story)


@run_by(with_scene)
async def test_a_delete_may_carry_preconditions_and_grace(it: Scene) -> None:
    """As a body, as kubectl sends them, or as query."""
    pods = "/api/v1/namespaces/default/pods"
    for name in ("a", "b"):
        await it.call("POST", pods, {"metadata": {"name": name}, "spec": {"nodeName": "n1"}})
    refusal, _ = await it.call("DELETE", f"{pods}/a", {"preconditions": {"uid": "other"}})
    _, kept = await it.call("DELETE", f"{pods}/a", {"gracePeriodSeconds": 5})
    status, gone = await it.call("DELETE", f"{pods}/b?gracePeriodSeconds=0")
    assert (refusal, kept["metadata"]["deletionGracePeriodSeconds"]) == (409, 5)
    assert (status, gone["kind"], gone["metadata"]["name"]) == (200, "Pod", "b")
    assert (await it.call("DELETE", f"{pods}/a?gracePeriodSeconds=soon"))[0] == 400
    assert (await it.call("DELETE", f"{pods}/a?propagationPolicy=Sideways"))[0] == 422


@run_by(with_scene)
async def test_an_eviction_answers_with_a_status(it: Scene) -> None:
    """201 if it was accepted, 429 with the cause if not."""
    pods = "/api/v1/namespaces/default/pods"
    await it.call("POST", pods, {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"nodeName": "n1"}})
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    it.store.patch("pods", "p", ready, "default", subresource="status")
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"a": "b"}}}
    it.store.create("poddisruptionbudgets.policy", {"metadata": {"name": "guard"}, "spec": spec})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "default"}}
    status, body = await it.call("POST", f"{pods}/p/eviction", eviction)
    assert (status, body["details"]["causes"][0]["reason"]) == (429, "DisruptionBudget")
    it.store.delete("poddisruptionbudgets.policy", "guard", "default")
    assert (await it.call("POST", f"{pods}/p/eviction", eviction))[0] == 201


@run_by(with_scene)
async def test_field_validation(it: Scene) -> None:
    """The server's default is a Warning header; Strict rejects the request; Ignore does not warn."""
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 1, "typo": 1}}
    heard = {}
    for mode in ("", "Warn", "Ignore", "Strict"):
        body = {**widget, "metadata": {"name": f"w{mode.lower()}"}}
        async with it.session.post(f"{HOST}{WIDGET_PATH}?fieldValidation={mode}", json=body) as response:
            heard[mode] = (response.status, response.headers.get("Warning"))
    warning = '299 - "unknown field \\"spec.typo\\""'
    assert heard == {"": (201, warning), "Warn": (201, warning), "Ignore": (201, None), "Strict": (400, None)}
    assert (await it.call("POST", f"{WIDGET_PATH}?fieldValidation=Perhaps", widget))[0] == 422
    del widget["kind"]
    status, body = await it.call("POST", WIDGET_PATH, widget)
    assert (status, "Object 'Kind' is missing" in body["message"]) == (400, True)


@pytest.mark.parametrize(
    ("method", "path", "content_type", "words"),
    [
        ("POST", NODES, "application/vnd.kubernetes.protobuf", "unknown format"),
        ("PATCH", f"{WIDGET_PATH}/w", "application/strategic-merge-patch+json", "accepted media types include"),
        ("PATCH", f"{NODES}/n1", "text/plain", "accepted media types include"),
    ],
)
@run_by(with_scene)
async def test_unsupported_formats_are_a_415(it: Scene, method, path, content_type, words) -> None:
    """The message names the supported formats."""
    it.node("n1")
    it.store.create(WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 1}})
    status, body = await it.call(method, path, b"x", headers={"Content-Type": content_type})
    assert (status, body["reason"], words in body["message"]) == (415, "UnsupportedMediaType", True)


@run_by(with_scene)
async def test_bodies_are_bounded_and_must_be_json(it: Scene) -> None:
    """413 above 3 MiB; 400 if the body cannot be parsed."""
    huge = io.BytesIO(b'{"metadata": {"name": "' + b"x" * 3 * 2**20 + b'"}}')
    status, body = await it.call("POST", NODES, huge)
    assert (status, body["reason"]) == (413, "RequestEntityTooLarge")
    for bad in (b"{", b"[]", b'"x"', b"\xff"):
        assert (await it.call("POST", NODES, bad))[0] == 400


@run_by(with_scene)
async def test_accept_headers_are_negotiated(it: Scene) -> None:
    """JSON if protobuf is preferred, a Table if requested, 406 without a common format."""
    it.node("n1")
    typed = {"Accept": "application/vnd.kubernetes.protobuf,application/json"}
    assert (await it.call("GET", NODES, headers=typed))[1]["kind"] == "NodeList"
    assert (await it.call("GET", NODES, headers=TABLE))[1]["kind"] == "Table"
    assert (await it.call("GET", f"{NODES}/n1", headers=TABLE))[1]["rows"][0]["cells"][0] == "n1"
    assert (await it.call("GET", NODES, headers={"Accept": "application/vnd.kubernetes.protobuf"}))[0] == 406


@run_by(with_scene)
async def test_lists_have_the_form_of_the_real_server(it: Scene) -> None:
    """Items of built-in kinds do not repeat their kind, items of custom kinds do; pages continue by token."""
    for i in range(5):
        it.node(f"n{i}", parity=str(i % 2))
    it.store.create(WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 1}})
    _, first = await it.call("GET", f"{NODES}?limit=2")
    assert (first["metadata"]["remainingItemCount"], "kind" in first["items"][0]) == (3, False)
    _, second = await it.call("GET", f"{NODES}?limit=2&continue={first['metadata']['continue']}")
    assert [n["metadata"]["name"] for n in second["items"]] == ["n2", "n3"]
    _, odd = await it.call("GET", f"{NODES}?labelSelector=parity%3D1&fieldSelector=metadata.name!%3Dn1")
    assert [n["metadata"]["name"] for n in odd["items"]] == ["n3"]
    _, widgets = await it.call("GET", WIDGET_PATH)
    assert (widgets["kind"], widgets["items"][0]["kind"]) == ("WidgetList", "Widget")
    assert (await it.call("GET", f"{NODES}?limit=many"))[0] == 400
    assert (await it.call("GET", f"{NODES}?fieldSelector=spec.colour%3Dred"))[0] == 400


@run_by(with_scene)
async def test_dry_runs_are_requested_by_query(it: Scene) -> None:
    """All is the only value; the response looks real, and the store does not change."""
    before = it.store.revision
    assert (await it.call("POST", f"{NODES}?dryRun=All", {"metadata": {"name": "n"}}))[0] == 201
    assert (await it.call("POST", f"{NODES}?dryRun=Some", {"metadata": {"name": "n"}}))[0] == 422
    assert it.store.revision == before


@run_by(with_scene)
async def test_booleans_are_parsed_as_in_go(it: Scene) -> None:
    """`watch=True`, as one client sends it, and `watch=1` are watches; `watch=0` is a list."""
    for text, streams in (("True", True), ("1", True), ("", True), ("false", False), ("0", False)):
        async with it.session.get(f"{HOST}{NODES}?watch={text}&timeoutSeconds=1") as response:
            assert (b'"NodeList"' not in await response.read()) is streams


@run_by(with_scene)
async def test_discovery_has_both_forms(it: Scene) -> None:
    """The aggregated one for kubectl, the older one for other clients; their content is the same."""
    _, core = await it.call("GET", "/api", headers=AGGREGATED)
    nodes = next(r for r in core["items"][0]["versions"][0]["resources"] if r["resource"] == "nodes")
    assert (nodes["scope"], nodes["shortNames"], nodes["subresources"][0]["subresource"]) == (
        "Cluster",
        ["no"],
        "status",
    )
    _, groups = await it.call("GET", "/apis")
    assert "example.com" in [g["name"] for g in groups["groups"]]
    _, group = await it.call("GET", "/apis/example.com")
    assert group["preferredVersion"] == {"groupVersion": "example.com/v1", "version": "v1"}
    _, kinds = await it.call("GET", "/apis/example.com/v1")
    assert [(r["name"], r["kind"]) for r in kinds["resources"]] == [
        ("widgets", "Widget"),
        ("widgets/status", "Widget"),
    ]
    _, old_core = await it.call("GET", "/api/v1")
    assert "pods/eviction" in [r["name"] for r in old_core["resources"]]
    assert (await it.call("GET", "/api"))[1]["versions"] == ["v1"]
    assert (await it.call("GET", "/version"))[1]["major"] == "1"
    for path in ("/apis/nobody.org", "/apis/example.com/v9", "/apis/example.com/v9/widgets", "/else"):
        assert (await it.call("GET", path))[0] == 404


@run_by(with_scene)
async def test_openapi_describes_every_served_group(it: Scene) -> None:
    """Every group has a document; a CRD's document has its own schema and kind."""
    _, index = await it.call("GET", "/openapi/v3")
    assert {"api/v1", "apis/example.com/v1", "apis/policy/v1"} <= set(index["paths"])
    for entry in index["paths"].values():
        assert (await it.call("GET", entry["serverRelativeURL"]))[0] == 200
    _, document = await it.call("GET", "/openapi/v3/apis/example.com/v1")
    (widget,) = [s for s in document["components"]["schemas"].values() if "x-kubernetes-group-version-kind" in s]
    assert widget["properties"]["spec"]["properties"]["colour"]["enum"] == ["red", "blue"]


@run_by(with_scene)
async def test_a_list_of_a_thousand_nodes(it: Scene) -> None:
    """The list is complete and in order, and so is the list of an earlier revision."""
    for i in range(1000):
        it.node(f"n{i:04}")
    _, listed = await it.call("GET", NODES)
    assert [n["metadata"]["name"] for n in listed["items"]] == [f"n{i:04}" for i in range(1000)]


@run_by(with_scene)
async def test_existing_crds_are_not_created_again(it: Scene) -> None:
    """A second server uses the same store."""
    before = it.store.revision
    ApiServer(it.store, crds=[WIDGET_CRD])
    assert it.store.revision == before
    assert len(it.store.list(CRD_KEY)) == 1
