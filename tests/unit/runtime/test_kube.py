"""The Kubernetes client against real HTTP, with the answers that proxies, old versions and bad days give."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
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


async def test_a_get_is_one_request_with_our_name_and_decodes() -> None:
    """A claim is read by one GET that says who asks."""
    async with kube_server() as server, kube_client(server, token="t0p") as kube:
        server.then(answer(obj("NodeClaim", "ws1", "7")))
        claim = await kube.get(NODECLAIMS, "ws1")
        assert isinstance(claim, NodeClaim)
        assert claim.metadata.resource_version == "7"
        assert [(s.method, s.path) for s in server.seen] == [("GET", "/apis/karpenter.sh/v1/nodeclaims/ws1")]
        assert server.seen[0].headers["user-agent"] == "gpu-provisioner/0"
        assert server.seen[0].headers["authorization"] == "Bearer t0p"


async def test_only_the_api_servers_own_word_proves_absence() -> None:
    """NotFound about this object is proof; an ingress's 404 page and an unserved kind's plain 404 are not."""
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
async def test_each_refusal_says_what_to_do_next(code, reason, refused_for_good, retryable, conflict) -> None:
    """A refusal's properties tell a caller whether to wait, read anew or give up."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(status(code, reason, "why"))
        error = await refused(kube.patch(NODECLAIMS, "ws1", {}, patch_type="merge"))
        assert (error.status, error.reason) == (code, reason)
        assert (error.refused, error.retryable, error.conflict) == (refused_for_good, retryable, conflict)
        assert error.message == "patch NodeClaim ws1: why"


async def test_retry_after_is_kept_in_seconds_and_absent_when_not_said() -> None:
    """429 with the header, with the Status field, with a date we do not trust, and with nothing."""
    body = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 3}}
    async with kube_server() as server, kube_client(server) as kube:
        server.then(status(429, "TooManyRequests", **{"Retry-After": "7"}), answer(body, 429))
        server.then(status(429, "TooManyRequests", **{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}))
        server.then(status(429, "TooManyRequests"))
        waits = [(await refused(kube.get(NODES, "n"))).retry_after for _ in range(4)]
        assert waits == [7.0, 3.0, None, None]


async def test_no_answer_can_put_us_to_sleep_for_good() -> None:
    """A Retry-After beyond five minutes, or beyond any number, is five minutes."""
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
        b'{"kind":"NodeClaim","metadata":{"name":"ws1"},"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
async def test_what_is_not_the_object_is_never_taken_for_it(body) -> None:
    """A sign-in page, half a body, another kind or an empty answer is an error that names what came."""
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
async def test_an_empty_answer_is_not_an_empty_list(body) -> None:
    """Nothing may be taken for "there are no claims" but a list that says so."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(raw(body, content_type="application/json"))
        assert (await refused(kube.list(NODECLAIMS))).unexpected


async def test_a_three_mebibyte_object_is_refused_and_the_next_call_works() -> None:
    """An object past the cap is an error, and its connection does not poison the next request."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(answer(obj("NodeClaim", "ws1", metadata={"annotations": {"a": "x" * (3 * 2**20)}})))
        server.then(answer(obj("NodeClaim", "ws1")))
        assert "more than 3145728 bytes" in (await refused(kube.get(NODECLAIMS, "ws1"))).message
        assert (await kube.get(NODECLAIMS, "ws1")).name == "ws1"


async def test_no_answer_is_status_zero() -> None:
    """Silence, a broken connection and a closed port are all 'no answer': the call may have been carried out."""
    async with kube_server() as server, kube_client(server, timeout_seconds=0.1) as kube:
        server.then(silent(), hang_up())
        quiet, cut = await refused(kube.get(NODES, "n")), await refused(kube.create(NODES, {}))
        assert (quiet.status, quiet.reason) == (0, "Timeout")
        assert (cut.status, cut.reason, cut.retryable) == (0, "NoResponse", True)
    async with kube_client(server) as kube:
        assert (await refused(kube.get(NODES, "n"))).reason == "NoResponse"


async def test_errors_do_not_hold_the_token() -> None:
    """Neither text nor repr nor the chain of an error shows the request's credentials, nor any it quotes."""
    async with kube_server() as server, kube_client(server, token="c4nary-token", timeout_seconds=0.2) as kube:
        server.then(hang_up(), silent(), raw(b"echo Authorization: Bearer c4nary-token", 502))
        server.then(status(500, "InternalError", "sent Bearer c4nary-token"))
        for _ in range(4):
            error = await refused(kube.patch(NODES, "n", {}, patch_type="merge"))
            assert "c4nary" not in f"{error} {error!r} {error.message}"
            assert error.__cause__ is None
            assert error.__suppress_context__ or error.__context__ is None


async def test_cancellation_passes_through_a_call() -> None:
    """A cancelled call is cancelled, not turned into an error."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(silent())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await kube.get(NODES, "n")


async def test_a_list_is_read_in_pages_of_one_version() -> None:
    """Pages follow the continue token; the list bears the first page's version."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(
            listing("Node", [obj("Node", "a")], "40", more="tok/en="), listing("Node", [obj("Node", "b")], "40")
        )
        listed = await kube.list(NODES, label_selector="x=y", limit=1)
        assert [n.name for n in listed.items] == ["a", "b"]
        assert listed.resource_version == "40"
        assert server.seen[1].query == {"labelSelector": "x=y", "limit": "1", "continue": "tok/en="}


async def test_an_expired_page_restarts_the_whole_list_at_most_three_times() -> None:
    """410 between pages begins anew; the third one is given up, and a half list is never returned."""
    page = listing("Node", [obj("Node", "a")], "40", more="t")
    expired = status(410, "Expired")
    async with kube_server() as server, kube_client(server) as kube:
        server.then(page, expired, listing("Node", [obj("Node", "b")], "41"))
        assert [n.name for n in (await kube.list(NODES)).items] == ["b"]
        server.then(page, expired, page, expired, page, expired)
        assert (await refused(kube.list(NODES))).gone
        assert not server.script
        server.then(page, status(500, "InternalError"))
        assert (await refused(kube.list(NODES))).status == 500


async def test_an_item_that_does_not_fit_fails_the_list_by_name() -> None:
    """Leaving one object out would claim that it is gone."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(listing("Node", [obj("Node", "a"), obj("Node", "bad", spec={"taints": 3})], "40"))
        assert "list nodes: bad: " in (await refused(kube.list(NODES))).message


async def test_an_empty_list_may_be_null() -> None:
    """Go writes an empty slice as null in places; that is a list of nothing."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(answer({"kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": None}))
        assert (await kube.list(NODES)).items == ()


async def test_writes_send_what_kubernetes_expects() -> None:
    """Patch types, bodies, preconditions and the eviction's own API group, byte for byte."""
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u1"))
    async with kube_server() as server, kube_client(server) as kube:
        server.otherwise = answer(obj("NodeClaim", "ws1"))
        await kube.patch(NODECLAIMS, "ws1", {"a": None}, patch_type="merge", subresource="status")
        await kube.patch(NODECLAIMS, "ws1", [{"op": "remove", "path": "/x"}], patch_type="json")
        await kube.create(NODECLAIMS, {"metadata": {"name": "ws1"}})
        await kube.delete(NODECLAIMS, "ws1", uid="u", resource_version="5", grace_seconds=0)
        await kube.evict(pod)
        merge, patch, create, delete, evict = server.seen
        assert merge.path.endswith("/nodeclaims/ws1/status")
        assert (merge.headers["content-type"], merge.body) == ("application/merge-patch+json", {"a": None})
        assert (patch.headers["content-type"], patch.body[0]["op"]) == ("application/json-patch+json", "remove")
        assert (create.method, create.body["apiVersion"]) == ("POST", "karpenter.sh/v1")
        assert delete.body["preconditions"] == {"uid": "u", "resourceVersion": "5"}
        assert delete.body["gracePeriodSeconds"] == 0
        assert evict.path == "/api/v1/namespaces/ns/pods/p/eviction"
        assert evict.body["apiVersion"] == "policy/v1"
        assert evict.body["deleteOptions"] == {"preconditions": {"uid": "u1"}}


async def test_who_we_are_is_what_the_api_server_says() -> None:
    """A SelfSubjectReview has no name and is never stored; servers that do not know it say 404."""
    review = {"kind": "SelfSubjectReview", "metadata": {}, "status": {"userInfo": {"username": "ada@example.com"}}}
    async with kube_server() as server, kube_client(server) as kube:
        server.then(answer(review, 201), status(404, "NotFound"), answer({"kind": "SelfSubjectReview"}, 201))
        assert await kube.username() == "ada@example.com"
        (asked,) = server.seen
        assert (asked.method, asked.path) == ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews")
        assert asked.body == {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        assert (await refused(kube.username())).status == 404
        assert (await refused(kube.username())).unexpected


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "%2e%2e"])
async def test_a_name_that_would_point_elsewhere_is_never_sent(name) -> None:
    """A DELETE without a proper name would be a DELETE of everything."""
    async with kube_server() as server, kube_client(server) as kube:
        with pytest.raises(ValueError, match="name"):
            await kube.delete(NODECLAIMS, name)
        assert server.seen == []


async def test_a_401_renews_the_credentials_and_asks_once_more() -> None:
    """The second try carries the new token; a second 401 is the caller's."""
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
    """Lines arrive as events, however the bytes are cut; a bookmark has a version and no object."""
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
    """Fault 23: such a bookmark is not an error, it only says that the connection lives."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(stream(b'{"type":"BOOKMARK"}\n'))
        assert [e.resource_version for e in await watched(kube)] == [""]


async def test_410_ends_a_watch_as_event_and_as_status() -> None:
    """Both ways of saying "too old" are the same error."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(stream(gone()), status(410, "Gone"))
        assert (await refused(watched(kube))).gone
        assert (await refused(watched(kube))).gone


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"<html>\n<p>maintenance</p>\n</html>\n", "<html>"),
        (b'{"type":"EXPLODED","object":{}}\n', "unknown event type 'EXPLODED'"),
        (b'{"type":"ADDED"}\n', "expected a Node"),
        (b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"p"}}}\n', "expected a Node"),
        (b'{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"n","labels":[]}}}\n', "n: Expected"),
        (b'{"type":"ADDED","object":{"x":' + b"[" * 9999 + b"]" * 9999 + b"}}\n", "not a watch event"),
        (b'"' + b"x" * (3 * 2**20 + 10), "a line of more than 3145728 bytes"),
        (b'{"type":"BOOKMARK","x":"' + b"x" * 3 * 2**20 + b'"}\n', "a line of more than 3145728 bytes"),
    ],
)
async def test_a_watch_of_nonsense_ends_with_what_came(sent, said) -> None:
    """A proxy's page, an unknown type, another kind or an endless line is named, never handed on."""
    async with kube_server() as server, kube_client(server) as kube:
        server.then(stream(sent))
        error = await refused(watched(kube))
        assert error.unexpected
        assert said in error.message


async def test_half_a_line_is_a_cut_connection() -> None:
    """What came before it counts; the half line does not."""
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


async def test_a_silent_watch_ends() -> None:
    """A half-open connection says nothing for ever; we stop listening."""
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
    """Metrics see verb, kind and status of each request, 0 for none."""
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
