"""A Kubernetes API under test: the simulator on a socket, or the real server.

Both have the same interface: `url`, `ssl`, `token`, `kubeconfig`, one request, one watch. The simulator is new for
every test; the real server is wiped.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from aiohttp import web

from provisioner.api.crd import all_crds
from provisioner.runtime.clock import SystemClock
from provisioner.simulator.kube.apiserver import ApiServer
from provisioner.simulator.kube.store import Store

from .connection_cutter import cut
from .controlplane import ControlPlane

Json = dict[str, Any]

REQUEST_SECONDS = 30.0
LINE_BYTES = 8 * 2**20
SHUTDOWN_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Backend:
    """`name` is "simulator" or "real". `store` and `cp` are the simulator's store and the control plane, where only one
    supports a test.
    """

    name: str
    url: str
    ssl: ssl.SSLContext | bool
    token: str
    kubeconfig: Path
    session: aiohttp.ClientSession = field(repr=False)
    store: Store | None = None
    cp: ControlPlane | None = None

    @property
    def is_real(self) -> bool:
        return self.name == "real"

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        *,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """One request; returns (status, JSON, or text where the response is not JSON). `path` may have a query."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Content-Type": content_type, **(headers or {})}
        async with self.session.request(method, path, data=data, headers=sent) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if "json" in answer.content_type else text

    async def demand(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """One request that must succeed. Raises AssertionError with the server's message."""
        status, answer = await self.request(method, path, body, content_type)
        assert status < 400, f"{method} {path}: {status} {answer}"
        return answer

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str] | None = None) -> AsyncIterator["Stream"]:
        """A watch; `path` has its query, `watch=1` included. Raises AssertionError if it is refused."""
        timeout = aiohttp.ClientTimeout(total=None)
        async with self.session.get(path, headers=headers, timeout=timeout, read_bufsize=LINE_BYTES) as answer:
            assert answer.status == 200, f"{path}: {answer.status} {await answer.text()}"
            try:
                yield Stream(answer)
            finally:
                cut(answer)


class Stream:
    """The events of one watch, in order."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self, within_seconds: float = 10.0) -> Json | None:
        """The next event, None at the end of the stream. Raises TimeoutError if neither comes."""
        async with asyncio.timeout(within_seconds):
            line = await self._answer.content.readline()
        return json.loads(line) if line.strip() else None

    async def until(self, *types: str, within_seconds: float = 10.0) -> list[Json]:
        """The events up to the first of one of these types. Raises TimeoutError, AssertionError if the stream ends."""
        found: list[Json] = []
        async with asyncio.timeout(within_seconds):
            while True:
                event = await self.next(within_seconds)
                assert event is not None, f"the watch ended after {[one['type'] for one in found]}"
                found.append(event)
                if event["type"] in types:
                    return found


@asynccontextmanager
async def simulated(workdir: Path) -> AsyncIterator[Backend]:
    """A new simulated API server on a socket of loopback."""
    store = Store(SystemClock().now, seed_uid=Random("backend"))
    # kubectl sends no credentials over plain http.
    runner = web.AppRunner(
        ApiServer(store, crds=all_crds().values()).app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        kubeconfig = workdir / "kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(url)), encoding="utf-8")
        async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS)) as session:
            yield Backend(
                name="simulator", url=url, ssl=True, token="", kubeconfig=kubeconfig, session=session, store=store
            )
    finally:
        await runner.cleanup()


@asynccontextmanager
async def real(cp: ControlPlane, workdir: Path) -> AsyncIterator[Backend]:
    """The real server, wiped."""
    await cp.wipe()
    kubeconfig = cp.kubeconfig(workdir / "kubeconfig")
    async with cp.session() as session:
        yield Backend(
            name="real", url=cp.url, ssl=cp.ssl, token=cp.admin_token, kubeconfig=kubeconfig, session=session, cp=cp
        )


def _kubeconfig(url: str) -> Json:
    named = {"cluster": {"server": url}, "user": {}, "context": {"cluster": "simulator", "user": "simulator"}}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "simulator",
        **{f"{kind}s": [{"name": "simulator", kind: value}] for kind, value in named.items()},
    }
