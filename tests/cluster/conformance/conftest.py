"""The two servers that every conformance case runs on.

Promise: a case sees only a `backend`; it runs on the embedded API server over a real socket in every `make test`, and
on the real kube-apiserver in `make test-cluster`. The embedded one is new for each case, the real one is shared.
Left to others: starting the real one (`tests/cluster/controlplane.py`).
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from provisioner.api.crd import all_crds
from provisioner.simulator.kube.apiserver import ApiServer
from provisioner.simulator.kube.store import Store

from .backend import Backend
from .things import CRDS
from .widgets import WIDGET_CRD

_TOKEN = "conformance-token"


@pytest.fixture(params=["simulator", pytest.param("real", marks=pytest.mark.cluster)])
def control_plane_or_none(request: pytest.FixtureRequest) -> Any:
    """The real control plane where the case is to run on it."""
    return request.getfixturevalue("control_plane") if request.param == "real" else None


@pytest_asyncio.fixture
async def backend(control_plane_or_none: Any) -> AsyncIterator[Backend]:
    """The server of this case."""
    serving = _simulated() if control_plane_or_none is None else _real(control_plane_or_none)
    async with serving as it:
        yield it
        await it.clean()


@asynccontextmanager
async def _session() -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=90)
    async with aiohttp.ClientSession(trust_env=False, timeout=timeout, read_bufsize=2**21) as session:
        yield session


@asynccontextmanager
async def _simulated() -> AsyncIterator[Backend]:
    store = Store(lambda: datetime.now(UTC), seed_uid=Random(4))
    server = ApiServer(store, token=_TOKEN, crds=[*all_crds().values(), WIDGET_CRD])
    runner = web.AppRunner(server.app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def compact() -> None:
        store.compact()

    try:
        async with _session() as session:
            yield Backend("simulator", url=url, token=_TOKEN, tls=None, session=session, compact=compact)
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _real(plane: Any) -> AsyncIterator[Backend]:
    tls = ssl.create_default_context(cafile=str(plane.ca_file))
    async with _session() as session:
        options: dict[str, Any] = {"url": plane.url, "token": plane.admin_token, "tls": tls, "session": session}
        await _install(Backend("real", **options, compact=plane.compact_etcd))
        yield Backend("real", **options, compact=plane.compact_etcd)


async def _install(backend: Backend) -> None:
    """Serve the suite's own kind, once for all cases."""
    if (await backend.request("POST", CRDS, WIDGET_CRD)).status == 409:
        return
    async with backend.stream(CRDS, fieldSelector=f"metadata.name={WIDGET_CRD['metadata']['name']}") as watch:
        await watch.until(lambda event: _is_served(event.object))


def _is_served(crd: dict[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions", [])
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
