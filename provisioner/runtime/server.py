"""HTTP servers for probes and metrics, on the event loop of the program: a blocked loop answers no probe.

`/metrics` exposes one registry, to whom `Access` allows; the text is computed at most once per `PAGE_SECONDS`,
however many clients scrape, so that scrapes cannot delay probes. `/healthz` and `/readyz` answer 200 or 503; `?verbose`
lists every check by name, and `/healthz/<check>` runs a single one. Responses contain nothing from the request.
Connections are limited in number and time (`connection_limits.py`).

Source: docs/references/karpenter.md#process, https://kubernetes.io/docs/reference/using-api/health-checks/
(`/readyz?verbose`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from .connection_limits import ConnectionLimits, close_after_response

Check = Callable[[], str | None]
SHUTDOWN_SECONDS = 1.0


# The HTTP status for a request with this `Authorization` header.
Access = Callable[[str], Awaitable[int]]
# Shorter than any usual scrape interval.
PAGE_SECONDS = 2.0
# Each response is held until its client has read it.
RESPONSES_MOST = 8


def metrics_app(registry: CollectorRegistry, access: Access | None = None) -> web.Application:
    """`GET /metrics`. `access` None: for everyone who can connect."""
    app = web.Application()
    app.router.add_get("/metrics", _Page(registry, access).handle)
    return app


class _Page:
    """The metrics as text, by content type."""

    def __init__(self, registry: CollectorRegistry, access: Access | None) -> None:
        self._registry = registry
        self._access = access
        self._texts: dict[str, tuple[float, bytes]] = {}
        self._responding = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        status = 200 if self._access is None else await self._access(request.headers.get("Authorization", ""))
        if status != 200:
            challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else None
            return web.Response(
                text="the metrics need a token that may get /metrics\n", status=status, headers=challenge
            )
        if self._responding >= RESPONSES_MOST:
            return web.Response(text="too many scrapes\n", status=503)
        self._responding += 1
        try:
            encode, content_type = choose_encoder(request.headers.get("Accept", ""))
            response = web.StreamResponse(headers={"Content-Type": content_type})
            text = self._text(content_type, encode)
            response.content_length = len(text)
            await response.prepare(request)
            await response.write(text)
            await response.write_eof()
            return response
        finally:
            self._responding -= 1

    def _text(self, content_type: str, encode: Callable[[CollectorRegistry], bytes]) -> bytes:
        now, known = asyncio.get_running_loop().time(), self._texts.get(content_type)
        if known is None or now - known[0] >= PAGE_SECONDS:
            known = self._texts[content_type] = now, encode(self._registry)
        return known[1]


def health_app(*, live: Mapping[str, Check], ready: Mapping[str, Check]) -> web.Application:
    """`GET /healthz` and `/readyz`; a check returns None if it passes, otherwise the reason why it fails."""
    app = web.Application()
    for path, checks in (("/healthz", live), ("/readyz", ready)):
        app.router.add_get(path, _all(path, checks))
        app.router.add_get(path + "/{check}", _one(checks))
    return app


@asynccontextmanager
async def serve(host: str, port: int, app: web.Application) -> AsyncIterator[int]:
    """Listen until the context ends. Yields the port, which differs from `port` 0. Raises OSError for a port in use."""
    app.on_response_prepare.append(close_after_response)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        assert runner.server is not None  # noqa: S101 - created by `setup`
        server = await asyncio.get_running_loop().create_server(ConnectionLimits(runner.server), host, port)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
    finally:
        await runner.cleanup()


async def listen(
    *,
    host: str,
    health_port: int | None,
    metrics_port: int | None,
    live: Mapping[str, Check],
    ready: Mapping[str, Check],
    registry: CollectorRegistry,
    access: Access | None = None,
) -> None:
    """Serve probes and metrics until cancelled; a port of None is not served. Raises OSError for a port in use."""
    async with AsyncExitStack() as stack:
        if health_port is not None:
            app = health_app(live=live, ready=ready)
            await stack.enter_async_context(serve(host, health_port, app))
        if metrics_port is not None:
            await stack.enter_async_context(serve(host, metrics_port, metrics_app(registry, access)))
        await asyncio.get_running_loop().create_future()


def _all(path: str, checks: Mapping[str, Check]) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        failed = {name: reason for name, check in checks.items() if (reason := check()) is not None}
        if "verbose" not in request.query:
            text = "\n".join(f"{name}: {reason}" for name, reason in failed.items())
            return _response(text or "ok", failed=bool(failed))
        lines = [f"[-]{name} failed: {failed[name]}" if name in failed else f"[+]{name} ok" for name in checks]
        lines.append(f"{path[1:]} check {'failed' if failed else 'passed'}")
        return _response("\n".join(lines), failed=bool(failed))

    return handle


def _one(checks: Mapping[str, Check]) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        check = checks.get(request.match_info["check"])
        if check is None:
            return web.Response(text="no such check\n", status=404)
        reason = check()
        return _response(reason or "ok", failed=reason is not None)

    return handle


def _response(text: str, *, failed: bool) -> web.Response:
    return web.Response(text=text + "\n", status=503 if failed else 200)
