"""Metrics and health over HTTP, on the program's own loop: a loop that hangs answers no probe.

`/metrics` shows one registry; `/healthz` and `/readyz` answer 200 or 503, `?verbose` lists each check by
name, `/healthz/<check>` asks a single one. A check says what is wrong in words; nothing else is served, and no
request's content is shown back.

Source: docs/references/karpenter.md#process, https://kubernetes.io/docs/reference/using-api/health-checks/
(`/readyz?verbose`).
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

Check = Callable[[], str | None]
SHUTDOWN_SECONDS = 1.0


def metrics_app(registry: CollectorRegistry) -> web.Application:
    """`GET /metrics`."""
    app = web.Application()
    app.router.add_get("/metrics", make_aiohttp_handler(registry))
    return app


def health_app(*, live: Mapping[str, Check], ready: Mapping[str, Check]) -> web.Application:
    """`GET /healthz` and `/readyz`; each check returns None if all is well, else what is wrong."""
    app = web.Application()
    for path, checks in (("/healthz", live), ("/readyz", ready)):
        app.router.add_get(path, _all(path, checks))
        app.router.add_get(path + "/{check}", _one(checks))
    return app


@asynccontextmanager
async def serve(host: str, port: int, app: web.Application) -> AsyncIterator[int]:
    """Listen while the context lasts; yields the port (useful when 0 was asked for). Raises OSError if it is taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _all(path: str, checks: Mapping[str, Check]) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        wrong = {name: said for name, check in checks.items() if (said := check()) is not None}
        if "verbose" not in request.query:
            return _answer("ok" if not wrong else "\n".join(f"{n}: {said}" for n, said in wrong.items()), bool(wrong))
        lines = [f"[-]{name} failed: {wrong[name]}" if name in wrong else f"[+]{name} ok" for name in checks]
        return _answer("\n".join([*lines, f"{path[1:]} check {'failed' if wrong else 'passed'}"]), bool(wrong))

    return handle


def _one(checks: Mapping[str, Check]) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        check = checks.get(request.match_info["check"])
        if check is None:
            return web.Response(text="no such check\n", status=404)
        said = check()
        return _answer(said or "ok", said is not None)

    return handle


def _answer(text: str, failed: bool) -> web.Response:
    return web.Response(text=text + "\n", status=503 if failed else 200)
