"""The Kubernetes client over real HTTP, with the responses of proxies, old versions and failing servers."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.runtime.kept import identity, only, whole
from provisioner.runtime.kube import Kube, KubeError, WatchEvent
from provisioner.runtime.resources import NODECLAIMS, NODES, PODS

from .kube_server import (
    answer,
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
RNG = seeded()


async def watched(kube: Kube, version: str = "1", **options: Any) -> list[WatchEvent[Node]]:
    async with aclosing(kube.watch(NODES, resource_version=version, rng=RNG, **options)) as events:
        return [event async for event in events]


async def refused(call) -> KubeError:
    with pytest.raises(KubeError) as caught:
        await call
    return caught.value


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_unexpected_response(code) -> None:
    """Requests, bodies above all, are for the API server alone; it redirects nobody."""
    async with kube_server() as elsewhere, kube_server() as server:

        async def redirect(request: web.Request) -> web.Response:
            return web.Response(status=code, headers={"Location": f"{elsewhere.url}{request.path}"})

        async with kube_client(server) as kube:
            for request in (
                kube.get(NODES, "n"),
                kube.list(NODES, digest=whole),
                kube.patch(NODES, "n", {"metadata": {"labels": {"a": "b"}}}, patch_type="merge"),
                kube.delete(NODES, "n"),
            ):
                server.then(redirect)
                with pytest.raises(KubeError) as caught:
                    await request
                assert caught.value.status == code
        assert elsewhere.seen == []


async def test_a_get_is_one_request_with_our_user_agent() -> None:
    """A claim is read by one GET with our user agent."""
    async with kube_server() as server, kube_client(server, token="t0p") as kube:
        server.then(answer(obj("NodeClaim", "ws1", "7")))
        claim = await kube.get(NODECLAIMS, "ws1")
        assert isinstance(claim, NodeClaim)
        assert claim.metadata.resource_version == "7"
        assert [(s.method, s.path) for s in server.seen] == [("GET", "/apis/karpenter.sh/v1/nodeclaims/ws1")]
        assert server.seen[0].headers["user-agent"] == "gpu-provisioner/0"
        assert server.seen[0].headers["authorization"] == "Bearer t0p"


async def test_only_not_found_about_the_object_proves_absence() -> None:
    """NotFound about this object is proof; the 404 page of an ingress and the plain 404 of an unserved kind are not."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(status(404, "NotFound", 'nodeclaims "ws1" not found', "ws1"))
        server.then(raw(b"404 page not found\n", 404, "text/plain"))
        server.then(status(404, "NotFound", "the server could not find the requested resource"))
        proven, page, unserved = [await refused(kube.get(NODECLAIMS, "ws1")) for _ in range(3)]
        assert proven.not_found
        assert not page.not_found
        assert not unserved.not_found
        assert "404 page not found" in page.message


@pytest.mark.parametrize(
    ("code", "reason", "refused_for_good", "retryable", "conflict"),
    [
        (400, "BadRequest", True, False, False),
        (401, "Unauthorized", False, True, False),
        (403, "Forbidden", True, False, False),
        (409, "Conflict", False, False, True),
        (413, "RequestEntityTooLarge", True, False, False),
        (422, "Invalid", True, False, False),
        (500, "InternalError", False, True, False),
        (503, "ServiceUnavailable", False, True, False),
        (504, "Timeout", False, True, False),
    ],
)
async def test_properties_classify_errors(code, reason, refused_for_good, retryable, conflict) -> None:
    """The properties of an error show whether to wait, to read again or to stop."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(status(code, reason, "why"))
        error = await refused(kube.patch(NODECLAIMS, "ws1", {}, patch_type="merge"))
        assert (error.status, error.reason) == (code, reason)
        assert (error.refused, error.retryable, error.conflict) == (refused_for_good, retryable, conflict)
        assert error.message == "patch NodeClaim ws1: why"


async def test_retry_after_is_in_seconds() -> None:
    """429 with the header, with the field of the Status, with a date (not supported), and with nothing."""
    body = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 3}}
    async with kube_server() as server, kube_client(server) as kube:
        server.then(status(429, "TooManyRequests", **{"Retry-After": "7"}), answer(body, 429))
        server.then(status(429, "TooManyRequests", **{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}))
        server.then(status(429, "TooManyRequests"))
        waits = [(await refused(kube.get(NODES, "n"))).retry_after for _ in range(4)]
        assert waits == [7.0, 3.0, None, None]


async def test_retry_after_is_bounded() -> None:
    """A Retry-After above five minutes, or above any number, is five minutes."""
    endless = b'{"kind":"Status","details":{"retryAfterSeconds":' + b"9" * 400 + b"}}"
    async with kube_server() as server, kube_client(server) as kube:
        server.then(status(429, "TooManyRequests", **{"Retry-After": "86400"}), raw(endless, 429))
        server.then(status(429, "TooManyRequests", **{"Retry-After": "9" * 400}))
        waits = [(await refused(kube.get(NODES, "n"))).retry_after for _ in range(3)]
        assert waits == [300.0, 300.0, 300.0]


@pytest.mark.parametrize(
    "body",
    [
        b"<html><title>Sign in</title></html>",
        b'{"kind":"NodeClaim","metadata":{"na',
        b"{}",
        b"",
        b"\xff\xfe",
        b"[1,2]",
        b'{"error":"upstream"}',
        b'{"kind":"Status","status":"Success"}',
        b'{"kind":"Node","metadata":{"name":"ws1"}}',
        b'{"kind":"NodeClaim","metadata":{"name":"other"}}',
        b'{"kind":"NodeClaim","metadata":{"name":"ws1","labels":7}}',
        b"[" * 100_000,
        b'{"kind":"NodeClaim","metadata":{"name":"ws1"},"x":' + b"[" * 100_000 + b"]" * 99_900 + b"}",
    ],
)
async def test_another_body_is_not_decoded_as_the_object(body) -> None:
    """A sign-in page, a truncated body, another kind or an empty response is an error that quotes the response."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(raw(body))
        error = await refused(kube.get(NODECLAIMS, "ws1"))
        assert error.unexpected
        assert error.retryable
        assert "get NodeClaim ws1" in error.message
        assert not error.not_found


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"kind":"NodeClaimList","metadata":{"resourceVersion":"1"}}',
        b'{"kind":"NodeClaimList","metadata":{},"items":[]}',
        b'{"kind":"NodeClaimList","items":[]}',
        b'{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[]}',
        b'{"metadata":{"resourceVersion":"1"},"items":[]}',
    ],
)
async def test_an_empty_response_is_not_an_empty_list(body) -> None:
    """Only a list may mean that there are no claims."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(raw(body, content_type="application/json"))
        assert (await refused(kube.list(NODECLAIMS, digest=whole))).unexpected


async def test_a_response_above_the_limit_is_refused_and_the_next_call_works() -> None:
    """An object above the limit is an error; the connection of the next request works."""
    async with kube_server() as server, kube_client(server, bytes_max=2**20) as kube:
        server.then(answer(obj("NodeClaim", "ws1", metadata={"annotations": {"a": "x" * 2**20}})))
        server.then(answer(obj("NodeClaim", "ws1")))
        assert "more than 1048576 bytes" in (await refused(kube.get(NODECLAIMS, "ws1"))).message
        assert (await kube.get(NODECLAIMS, "ws1")).name == "ws1"


async def test_no_response_has_status_zero() -> None:
    """A timeout, a broken connection and a closed port have status 0: the request may have been applied."""
    async with kube_server() as server:
        server.then(silent(), hang_up())
        async with kube_client(server, timeout_seconds=0.1) as kube:
            quiet = await refused(kube.get(NODES, "n"))
        async with kube_client(server) as kube:
            cut = await refused(kube.create(NODES, {}))
        assert (quiet.status, quiet.reason) == (0, "Timeout")
        assert (cut.status, cut.reason, cut.retryable) == (0, "NoResponse", True)
    async with kube_client(server) as kube:
        assert (await refused(kube.get(NODES, "n"))).reason == "NoResponse"


async def test_errors_do_not_hold_the_token() -> None:
    """Neither text nor repr nor the chain of an error contains credentials."""
    async with kube_server() as server, kube_client(server, token="c4nary-token", timeout_seconds=0.2) as kube:
        server.then(hang_up(), silent(), raw(b"echo Authorization: Bearer c4nary-token", 502))
        server.then(status(500, "InternalError", "sent Bearer c4nary-token"))
        for _ in range(4):
            error = await refused(kube.patch(NODES, "n", {}, patch_type="merge"))
            assert "c4nary" not in f"{error} {error!r} {error.message}"
            assert error.__cause__ is None
            assert error.__suppress_context__ or error.__context__ is None


async def test_cancellation_passes_through_a_call() -> None:
    """A cancelled request raises CancelledError, not KubeError."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(silent())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await kube.get(NODES, "n")


async def test_a_list_is_read_in_pages_of_one_version() -> None:
    """Pages follow the continue token; the list has the version of the first page."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(
            listing("Node", [obj("Node", "a")], "40", more="tok/en="), listing("Node", [obj("Node", "b")], "40")
        )
        listed = await kube.list(NODES, digest=whole, label_selector="x=y", limit=1)
        assert [n.name for n in listed.items] == ["a", "b"]
        assert listed.resource_version == "40"
        assert server.seen[1].query == {"labelSelector": "x=y", "limit": "1", "continue": "tok/en="}


async def test_a_list_keeps_what_its_digest_returns() -> None:
    """Of each object in turn, before the next one is decoded; None leaves an object out."""
    seen = list[str]()

    def digest(found: Node) -> Node | None:
        seen.append(found.name)
        return only({"b", "c"}, identity)(found)

    async with kube_server() as server, kube_client(server) as kube:
        items = [obj("Node", name, metadata={"labels": {"a": "b"}}) for name in "abcd"]
        bad = obj("Node", "bad", metadata={"labels": 7})
        server.then(listing("Node", items[:2], "9", "t"), listing("Node", items[2:], "9"))
        kept = await kube.list(NODES, digest=digest)
        assert [(one.name, dict(one.metadata.labels)) for one in kept.items] == [("b", {}), ("c", {})]
        server.then(listing("Node", [items[0], bad], "9"))
        await refused(kube.list(NODES, digest=digest))
        assert seen == [*"abcd", "a"]


async def test_an_expired_page_restarts_the_whole_list_at_most_three_times() -> None:
    """410 between pages starts the list again; the third one fails, and a partial list is never returned."""
    page = listing("Node", [obj("Node", "a")], "40", more="t")
    expired = status(410, "Expired")
    async with kube_server() as server, kube_client(server) as kube:
        server.then(page, expired, listing("Node", [obj("Node", "b")], "41"))
        assert [n.name for n in (await kube.list(NODES, digest=whole)).items] == ["b"]
        server.then(page, expired, page, expired, page, expired)
        assert (await refused(kube.list(NODES, digest=whole))).gone
        assert not server.script
        server.then(page, status(500, "InternalError"))
        assert (await refused(kube.list(NODES, digest=whole))).status == 500


async def test_an_item_whose_metadata_does_not_fit_fails_the_list_by_name() -> None:
    """A list without that object would mean that it was deleted; other fields are left out of the object."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(listing("Node", [obj("Node", "a"), obj("Node", "bad", metadata={"labels": 3})], "40"))
        assert "list nodes: bad: " in (await refused(kube.list(NODES, digest=whole))).message


async def test_an_empty_list_may_be_null() -> None:
    """Go encodes an empty slice as null in places; that is an empty list."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(answer({"kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": None}))
        assert (await kube.list(NODES, digest=whole)).items == ()


async def test_writes_send_what_kubernetes_expects() -> None:
    """Patch types, bodies, preconditions and the API group of evictions, byte for byte."""
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u1"))
    async with kube_server() as server, kube_client(server) as kube:
        server.otherwise = answer(obj("NodeClaim", "ws1"))
        await kube.patch(NODECLAIMS, "ws1", {"a": None}, patch_type="merge", subresource="status")
        await kube.patch(NODECLAIMS, "ws1", [{"op": "remove", "path": "/x"}], patch_type="json")
        await kube.create(NODECLAIMS, {"metadata": {"name": "ws1"}})
        await kube.delete(NODECLAIMS, "ws1", uid="u", resource_version="5", grace_seconds=0)
        await kube.delete(NODECLAIMS, "ws1", uid="u", dry_run=True)
        await kube.evict(pod)
        merge, patch, create, delete, dry_run, evict = server.seen
        assert merge.path.endswith("/nodeclaims/ws1/status")
        assert (merge.headers["content-type"], merge.body) == ("application/merge-patch+json", {"a": None})
        assert (patch.headers["content-type"], patch.body[0]["op"]) == ("application/json-patch+json", "remove")
        assert (create.method, create.body["apiVersion"]) == ("POST", "karpenter.sh/v1")
        assert delete.body["preconditions"] == {"uid": "u", "resourceVersion": "5"}
        assert delete.body["gracePeriodSeconds"] == 0
        assert "dryRun" not in delete.body
        assert (dry_run.body["dryRun"], dry_run.body["preconditions"]) == (["All"], {"uid": "u"})
        assert (dry_run.path, dry_run.query) == (delete.path, {"dryRun": "All"})
        assert evict.path == "/api/v1/namespaces/ns/pods/p/eviction"
        assert evict.body["apiVersion"] == "policy/v1"
        assert evict.body["deleteOptions"] == {"preconditions": {"uid": "u1"}}


async def test_the_user_name_comes_from_the_api_server() -> None:
    """A SelfSubjectReview has no name and is never stored; servers before 1.28 respond 404."""
    review = {"kind": "SelfSubjectReview", "metadata": {}, "status": {"userInfo": {"username": "ada@example.com"}}}
    async with kube_server() as server, kube_client(server) as kube:
        server.then(answer(review, 201), status(404, "NotFound"), answer({"kind": "SelfSubjectReview"}, 201))
        assert await kube.username() == "ada@example.com"
        (requested,) = server.seen
        assert (requested.method, requested.path) == ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews")
        assert requested.body == {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        assert (await refused(kube.username())).status == 404
        assert (await refused(kube.username())).unexpected


async def test_an_empty_name_is_never_sent() -> None:
    """A DELETE without a name would delete the collection."""
    async with kube_server() as server, kube_client(server) as kube:
        with pytest.raises(ValueError, match="name"):
            await kube.delete(NODECLAIMS, "")
        assert server.seen == []


@pytest.mark.parametrize("name", [".", "..", "a/b", "%2e%2e", "x" * 254, "a" * 1_000_000])
async def test_a_name_that_no_object_has_is_not_found_and_never_sent(name: str) -> None:
    """The URL would mean another object, or be too long; the name is a value of another object's field."""
    async with kube_server() as server, kube_client(server) as kube:
        for request in (kube.get(NODECLAIMS, name), kube.delete(NODECLAIMS, name)):
            error = await refused(request)
            assert error.not_found
            assert len(str(error)) < 300
        assert server.seen == []


async def test_a_401_renews_the_credentials_and_retries_once() -> None:
    """The second attempt uses the new token; a second 401 is raised."""
    renewed = []

    async def renew() -> None:
        renewed.append(1)

    async with kube_server() as server, kube_client(server, renew_credentials=renew) as kube:
        server.then(status(401, "Unauthorized"), answer(obj("Node", "n")))
        assert (await kube.get(NODES, "n")).name == "n"
        server.then(status(401, "Unauthorized"), status(401, "Unauthorized"))
        assert (await refused(kube.get(NODES, "n"))).status == 401
        assert len(renewed) == 2
        assert len(server.seen) == 4


async def test_a_watch_yields_events_and_bookmarks() -> None:
    """Lines become events, however the bytes are split; a bookmark has a version and no object."""
    line = json.dumps(event("MODIFIED", obj("Node", "n", "3"))).encode() + b"\n"
    async with kube_server() as server, kube_client(server) as kube:
        server.then(stream(event("ADDED", obj("Node", "n", "2")), line[:40], line[40:], bookmark("9"), b"\n"))
        events = await watched(kube)
        assert [(e.type, e.resource_version, e.object is None) for e in events] == [
            ("ADDED", "2", False),
            ("MODIFIED", "3", False),
            ("BOOKMARK", "9", True),
        ]
        query = server.seen[0].query
        assert (query["watch"], query["allowWatchBookmarks"], query["resourceVersion"]) == ("true", "true", "1")
        assert 240 <= int(query["timeoutSeconds"]) <= 300


async def test_a_bookmark_without_an_object_has_no_version() -> None:
    """Fault 23: such a bookmark is not an error; it only keeps the connection alive."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(stream(b'{"type":"BOOKMARK"}\n'))
        assert [e.resource_version for e in await watched(kube)] == [""]


async def test_410_ends_a_watch_as_event_and_as_status() -> None:
    """Both forms of an expired version are the same error."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(stream(gone()), status(410, "Gone"))
        assert (await refused(watched(kube))).gone
        assert (await refused(watched(kube))).gone


@pytest.mark.parametrize(
    ("sent", "quoted"),
    [
        (b"<html>\n<p>maintenance</p>\n</html>\n", "<html>"),
        (b'{"type":"EXPLODED","object":{}}\n', "unknown event type 'EXPLODED'"),
        (b'{"type":"ADDED"}\n', "expected a Node"),
        (b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"p"}}}\n', "expected a Node"),
        (b'{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"n","labels":[]}}}\n', "n: Expected"),
        (b'{"type":"ADDED","object":{"x":' + b"[" * 9999 + b"]" * 9999 + b"}}\n", "expected a Node"),
        (b'{"type":"ADDED","object":{"x":' + b"[" * 9999 + b"]" * 9000 + b"}}\n", "not a watch event"),
        (b'{"type":"BOOKMARK","x":"' + b"x" * 2**20 + b'"}\n', "an event: more than 1048576 bytes"),
        (
            b'{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"' + b"x" * 2**20 + b'"}}}\n',
            "the metadata of an event: more than 1048576 bytes",
        ),
    ],
)
async def test_an_invalid_watch_quotes_the_response(sent, quoted) -> None:
    """A page of a proxy, an unknown type, another kind or an oversized line is quoted and not passed on."""
    async with kube_server() as server, kube_client(server, bytes_max=2**20) as kube:
        server.then(stream(sent))
        error = await refused(watched(kube))
        assert error.unexpected
        assert quoted in error.message


async def test_a_truncated_line_is_a_broken_connection() -> None:
    """Events before it count; the truncated line does not."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(stream(event("ADDED", obj("Node", "n", "2")), b'{"type":"MODIF'))
        seen: list[str] = []

        async def listen() -> None:
            async with aclosing(kube.watch(NODES, resource_version="1", rng=RNG)) as events:
                async for item in events:
                    seen.append(item.resource_version)  # noqa: PERF401 - what came before the error matters

        error = await refused(listen())
        assert seen == ["2"]
        assert (error.status, error.reason) == (0, "NoResponse")


async def test_an_idle_watch_ends() -> None:
    """A half-open connection delivers nothing; the watch ends after the idle timeout."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(stream(bookmark("5"), end="silence"))
        assert (await refused(watched(kube, idle_timeout_seconds=0.1))).reason == "IdleTimeout"


async def test_a_watch_cut_in_the_middle_is_no_clean_end() -> None:
    """A reset connection is an error, a clean end is not."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(stream(bookmark("5"), end="cut"), stream(bookmark("5")))
        assert (await refused(watched(kube))).status == 0
        assert len(await watched(kube)) == 1


async def test_every_request_is_reported_once() -> None:
    """Metrics receive verb, kind and status of each request, 0 without a response."""
    seen = []
    async with (
        kube_server() as server,
        kube_client(server, on_request=lambda *what: seen.append(what[:3]), timeout_seconds=0.2) as kube,
    ):
        server.then(answer(obj("Node", "n")), hang_up(), status(404, "NotFound"))
        await kube.get(NODES, "n")
        await refused(kube.patch(NODES, "n", {}, patch_type="merge"))
        await refused(kube.delete(PODS, "n", namespace="x"))
        assert seen == [("get", "nodes", 200), ("patch", "nodes", 0), ("delete", "pods", 404)]
