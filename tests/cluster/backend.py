"""A Kubernetes API under test: the simulator on a socket, new for every test, or the real server, wiped."""

import json
from collections.abc import AsyncIterator
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

from .controlplane import ControlPlane

Json = dict[str, Any]

REQUEST_SECONDS = 30.0
SHUTDOWN_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Backend:
    """Both have a kubeconfig of their administrator, and `session` sends requests as that user."""

    kubeconfig: Path
    session: aiohttp.ClientSession = field(repr=False)

    async def demand(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """One request that must succeed. Raises AssertionError with the server's message."""
        data = None if body is None else json.dumps(body).encode()
        async with self.session.request(method, path, data=data, headers={"Content-Type": content_type}) as answer:
            assert answer.status < 400, f"{method} {path}: {answer.status} {await answer.text()}"
            return await answer.json()


@asynccontextmanager
async def simulated(workdir: Path) -> AsyncIterator[Backend]:
    """A new simulated API server on a socket of loopback."""
    # kubectl sends no credentials over plain http.
    server = ApiServer(Store(SystemClock().now, seed_uid=Random("backend")), crds=all_crds().values())
    runner = web.AppRunner(server.app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        kubeconfig = workdir / "kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(url)), encoding="utf-8")
        async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS)) as session:
            yield Backend(kubeconfig=kubeconfig, session=session)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def real(cp: ControlPlane, workdir: Path) -> AsyncIterator[Backend]:
    """The real server, wiped."""
    await cp.wipe()
    kubeconfig = cp.kubeconfig(workdir / "kubeconfig")
    async with cp.session() as session:
        yield Backend(kubeconfig=kubeconfig, session=session)


def _kubeconfig(url: str) -> Json:
    named = {"cluster": {"server": url}, "user": {}, "context": {"cluster": "simulator", "user": "simulator"}}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "simulator",
        **{f"{kind}s": [{"name": "simulator", kind: value}] for kind, value in named.items()},
    }
