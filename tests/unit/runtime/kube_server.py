"""A scripted API server on loopback: real HTTP, the real kubernetes_asyncio client, and any response a test needs.

Each request takes the next answer of the script, or `otherwise`; what was called is kept in `seen`.
"""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import aiohttp
from aiohttp import web
from kubernetes_asyncio.client import Configuration

from provisioner.runtime.connection import client_over
from provisioner.runtime.kube import Kube

OVER = web.RequestKey("over", asyncio.Event)
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class KubeServer:
    def __init__(self) -> None:
        self.script: deque[Answer] = deque()
        self.seen: list[Seen] = []
        self.otherwise: Answer = status(500, "InternalError", "no more script")
        self.over = asyncio.Event()
        self.url = ""

    def then(self, *answers: Answer) -> None:
        self.script.extend(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(
            Seen(
                request.method,
                request.path,
                dict(request.query),
                {key.lower(): value for key, value in request.headers.items()},
                json.loads(body) if body else None,
            )
        )
        request[OVER] = self.over
        answer = self.script.popleft() if self.script else self.otherwise
        return await answer(request)

    def count(self, **query: str) -> int:
        """The number of requests so far with these query parameters."""
        return sum(all(s.query.get(k) == v for k, v in query.items()) for s in self.seen)


def seeded(seed: int = 1) -> Random:
    """A random generator with a fixed seed."""
    return Random(seed)


@asynccontextmanager
async def kube_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[KubeServer]:
    server = KubeServer()
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        server.over.set()
        await runner.cleanup()


@asynccontextmanager
async def kube_client(server: KubeServer, *, token: str = "", **options: Any) -> AsyncIterator[Kube]:
    configuration = Configuration(host=server.url)
    if token:
        configuration.api_key["BearerToken"] = f"Bearer {token}"
    connector = aiohttp.TCPConnector()
    async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
        yield Kube(client_over(session, configuration, version="0"), **options)


def obj(kind: str, name: str, version: str = "1", uid: str = "", **more: Any) -> dict[str, Any]:
    """An object in the format of the API server."""
    metadata = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": version}
    metadata |= more.pop("metadata", {})
    api = {"NodeClaim": "karpenter.sh/v1", "Lease": "coordination.k8s.io/v1"}.get(kind, "v1")
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


def listing(kind: str, items: list[dict[str, Any]], version: str, more: str = "") -> Answer:
    meta = {"resourceVersion": version} | ({"continue": more} if more else {})
    return answer({"kind": f"{kind}List", "apiVersion": "v1", "metadata": meta, "items": items})


def answer(body: Any, code: int = 200, **headers: str) -> Answer:
    async def respond(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=code, headers=headers)

    return respond


def raw(body: bytes, code: int = 200, content_type: str = "text/html") -> Answer:
    async def respond(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=code, content_type=content_type)

    return respond


def status(code: int, reason: str, message: str = "", name: str = "", **headers: str) -> Answer:
    body: dict[str, Any] = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    if name:
        body["details"] = {"name": name}
    return answer(body, code, **headers)


def silent() -> Answer:
    async def respond(request: web.Request) -> web.StreamResponse:
        await request[OVER].wait()
        return web.Response(status=503)

    return respond


def hang_up() -> Answer:
    async def respond(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return respond


def stream(*events: dict[str, Any] | bytes, end: str = "eof", gap_seconds: float = 0.0) -> Answer:
    """A watch: these events (bytes are sent as they are), then `end`: eof, silence or cut (a broken connection)."""

    async def respond(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for item in events:
            await response.write(item if isinstance(item, bytes) else json.dumps(item).encode() + b"\n")
            await asyncio.sleep(gap_seconds)
        if end == "silence":
            await request[OVER].wait()
        if end == "cut":
            assert request.transport is not None
            request.transport.abort()
        return response

    return respond


def event(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": item}


def bookmark(version: str, kind: str = "Node") -> dict[str, Any]:
    meta = {"resourceVersion": version, "creationTimestamp": None}
    return {"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": "v1", "metadata": meta}}


def gone() -> dict[str, Any]:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (2)"}
    return {"type": "ERROR", "object": status}
