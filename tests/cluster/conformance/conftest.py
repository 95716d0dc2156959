"""The two servers that every conformance test runs on.

A test uses only a `server`; it runs on the embedded API server over a real socket in every `make test`, and on the real
kube-apiserver in `make test-cluster`. The embedded one is new for each test; the real one is shared, so each test works
on objects of its own and nothing is wiped in between.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp
import pytest_asyncio
from aiohttp import web

from provisioner.api.crd import all_crds
from provisioner.runtime.clock import SystemClock
from provisioner.simulator.kube.apiserver import ApiServer
from provisioner.simulator.kube.store import Store
from provisioner.simulator.scheduling.pod_scheduler import PodScheduler
from tests.cluster.controlplane import ControlPlane
from tests.widgets import widget_crd

from .server import Server
from .things import CRDS

WIDGET_CRD = widget_crd("conformance.example.com")
TOKEN = "conformance"
LINE_BYTES = 2**21


@pytest_asyncio.fixture
async def server(real_server: ControlPlane | None) -> AsyncGenerator[Server, None]:
    """The server of this test."""
    async with simulated() if real_server is None else real(real_server) as made:
        yield made
        await made.clean()


@asynccontextmanager
async def _session() -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=90)
    async with aiohttp.ClientSession(trust_env=False, timeout=timeout, read_bufsize=LINE_BYTES) as session:
        yield session
    # Connections are closed in the next iteration of the loop.
    await asyncio.sleep(0)


@asynccontextmanager
async def simulated(*, scheduler: bool = False) -> AsyncIterator[Server]:
    """A new simulated API server on a socket, with or without a scheduler of pods."""
    store = Store(SystemClock().now, seed_uid=Random("conformance"))
    pod_scheduler = PodScheduler(store)
    crds = [*all_crds().values(), WIDGET_CRD]
    runner = web.AppRunner(ApiServer(store, token=TOKEN, crds=crds).app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()

    async def compact() -> None:
        store.compact()

    if scheduler:
        pod_scheduler.start()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with _session() as session:
            yield Server("simulator", url=url, token=TOKEN, tls=None, session=session, compact=compact)
    finally:
        pod_scheduler.stop()
        await runner.cleanup()


@asynccontextmanager
async def real(plane: ControlPlane) -> AsyncIterator[Server]:
    """The real API server, shared by all tests."""
    async with _session() as session:
        options: dict[str, Any] = {"token": plane.admin_token, "tls": plane.ssl, "session": session}
        # Not by the server of the test, which would delete it with its other objects.
        await _install_widgets(Server("real", url=plane.url, **options, compact=plane.compact_etcd))
        yield Server("real", url=plane.url, **options, compact=plane.compact_etcd)


async def _install_widgets(server: Server) -> None:
    """Install the suite's own CRD unless an earlier test did."""
    if (await server.request("POST", CRDS, WIDGET_CRD)).status == 409:
        return
    async with server.stream(CRDS, fieldSelector=f"metadata.name={WIDGET_CRD['metadata']['name']}") as watch:
        await watch.until(lambda event: is_served(event.object))


def is_served(crd: dict[str, Any]) -> bool:
    """Whether this CRD's kind is served."""
    conditions = crd.get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
