"""The aiohttp application of the simulated ARM, for `ContainerServiceClient`.

One handler serves every path. `BEFORE` hooks run first and may return a response themselves; `AFTER` hooks run when the
request has taken effect, before its response is sent. Every response has ARM's correlation headers. A dropped request
closes the connection without a byte. URLs of operations and pages have the host that the client used.

Source: docs/references/agent-pools.md#long-running-operations, docs/references/agent-pools.md#plain-http,
docs/references/simulator.md#simulated-arm.
"""

import json
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from . import routing as calls
from . import service
from .cloud import AzureCloud
from .errors import Answer

Before = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
After = Callable[[web.Request, web.StreamResponse], Awaitable[None]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BEFORE = web.AppKey("before", list[Before])
AFTER = web.AppKey("after", list[After])


def make_arm_app(
    cloud: AzureCloud, *, scheme: str | None = None, around: Callable[[Handler], Handler] | None = None
) -> web.Application:
    """`scheme`: of URLs in responses; None: the connection's. "https" on in-memory connections that stand for TLS.

    `around` wraps the handler.
    """
    app = web.Application(client_max_size=4 * 2**20)
    app[BEFORE] = []
    app[AFTER] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        for before in request.app[BEFORE]:
            early = await before(request)
            if early is not None:
                return early
        call = await _read(request, scheme or request.scheme)
        response = _respond(cloud, request, await service.serve(cloud, call))
        for after in request.app[AFTER]:
            await after(request, response)
        return response

    app.router.add_route("*", "/{path:.*}", around(handle) if around else handle)
    return app


async def _read(request: web.Request, scheme: str) -> calls.Call:
    try:
        body = json.loads(await request.read())
    except ValueError:
        body = None
    return calls.Call(
        **calls.route(request.method, request.rel_url.raw_path),
        origin=f"{scheme}://{request.host}",
        url=request.rel_url.raw_path,
        query=request.query,
        headers=request.headers,
        body=body if isinstance(body, dict) else None,
    )


def _respond(cloud: AzureCloud, request: web.Request, answer: Answer | None) -> web.Response:
    if answer is None:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()
    correlation = request.headers.get("x-ms-correlation-request-id") or cloud.lifecycle.guid()
    headers = {
        "Cache-Control": "no-cache",
        "x-ms-request-id": cloud.lifecycle.guid(),
        "x-ms-correlation-request-id": correlation,
        "x-ms-client-request-id": request.headers.get("x-ms-client-request-id", ""),
        **answer.headers,
    }
    if answer.body is None:
        return web.Response(status=answer.status, headers=headers)
    if isinstance(answer.body, str):
        return web.Response(status=answer.status, headers=headers, text=answer.body, content_type="text/html")
    return web.Response(
        status=answer.status, headers=headers, body=msgspec.json.encode(answer.body), content_type="application/json"
    )
