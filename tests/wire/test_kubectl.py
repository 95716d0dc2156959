"""The real kubectl against the embedded API server, for behavior that differs from a real API server.

Its clock stands still unless a test moves it, so that ages can be asserted. Tests of shared behavior run on both
servers, in `tests/cluster/clients`.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web

from provisioner.api.crd import all_crds, nodeclaim_crd
from provisioner.simulator.kube.apiserver import ApiServer
from provisioner.simulator.kube.store import Store
from tests.tls import certificate

from .kubectl import Kubectl, write_kubeconfig

pytestmark = pytest.mark.asyncio

Json = dict[str, Any]
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLAIMS = "nodeclaims.karpenter.sh"

CLAIM: Json = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "ws1"},
    "spec": {
        "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_NC4as_T4_v3"]}
        ],
    },
}


class Cluster:
    """A store with its clock, and kubectl against the server over it."""

    def __init__(self, home: Path) -> None:
        self.now = BEGIN
        self.store = Store(lambda: self.now, seed_uid=Random(11))
        self.kubectl = Kubectl(home)


@contextlib.asynccontextmanager
async def served(
    home: Path, *, token: str | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Cluster, str]]:
    cluster = Cluster(home)
    server = ApiServer(cluster.store, token=token, crds=all_crds().values())
    runner = web.AppRunner(server.app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    address = f"127.0.0.1:{runner.addresses[0][1]}"
    write_kubeconfig(home / "config", f"http://{address}", user={})
    try:
        yield cluster, address
    finally:
        await runner.cleanup()


async def test_the_server_computes_ages(tmp_path: Path) -> None:
    """The ages of claims, Nodes, CRDs and Events are printed as by a real API server."""
    async with served(tmp_path) as (it, _):
        claim = it.store.create(CLAIMS, CLAIM)
        it.store.create("nodes", {"metadata": {"name": "aks-ws1-0"}})
        involved = {k: claim[k] for k in ("apiVersion", "kind")} | {k: claim["metadata"][k] for k in ("name", "uid")}
        event = {"type": "Normal", "reason": "Launched", "message": "it is", "lastTimestamp": "2026-03-01T12:00:00Z"}
        it.store.create("events", {"metadata": {"name": "e"}, "involvedObject": involved, **event}, "default")
        assert (await it.kubectl.table("get", "nodeclaims"))[1] == ["ws1", "", "", "", "", "", "0s"]
        it.now += timedelta(seconds=75)
        assert (await it.kubectl("get", "events", "--no-headers")).split()[:3] == ["75s", "Normal", "Launched"]
        it.now += timedelta(minutes=2, seconds=5)
        assert (await it.kubectl.table("get", "nodeclaims"))[1][-1] == "3m20s"
        it.now += timedelta(hours=5)
        assert (await it.kubectl.table("get", "nodes"))[1] == ["aks-ws1-0", "Unknown", "<none>", "5h3m", ""]
        crds = [line.split() for line in (await it.kubectl("get", "crd", "--no-headers")).splitlines()]
        names = sorted(crd["metadata"]["name"] for crd in all_crds().values())
        assert crds == [[name, "2026-03-01T12:00:00Z"] for name in names]


async def test_deleting_the_crd_removes_the_kind(tmp_path: Path) -> None:
    """Deleting the CRD deletes its objects; then kubectl does not know the kind."""
    async with served(tmp_path) as (it, _):
        it.store.create(CLAIMS, CLAIM)
        deleted = await it.kubectl("delete", "crd", CLAIMS)
        assert deleted == f'customresourcedefinition.apiextensions.k8s.io "{CLAIMS}" deleted\n'
        message = await it.kubectl.refused("get", "nodeclaims")
        assert "the server could not find the requested resource" in message
        assert "created" in await it.kubectl("create", "-f", it.kubectl.file(nodeclaim_crd()))
        created = await it.kubectl("create", "-f", it.kubectl.file(CLAIM))
        assert created == "nodeclaim.karpenter.sh/ws1 created\n"


async def test_tls_and_a_token(tmp_path: Path) -> None:
    """kubectl sends its token over TLS only; the server rejects any other token."""
    async with served(tmp_path, token="s3cret", tls=certificate(tmp_path)) as (it, address):
        it.store.create(CLAIMS, CLAIM)
        where = {"server": f"https://{address}", "certificate-authority": str(tmp_path / "ca.crt")}
        write_kubeconfig(tmp_path / "config", user={"token": "s3cret"}, **where)
        assert await it.kubectl("get", "nodeclaims", "-o", "name") == "nodeclaim.karpenter.sh/ws1\n"
        write_kubeconfig(tmp_path / "config", user={"token": "wrong"}, **where)
        assert "You must be logged in to the server" in await it.kubectl.refused("get", "nodeclaims")
