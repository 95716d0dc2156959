"""Connections to the API server: service account files, a kubeconfig, and rotating tokens."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException
from structlog.testing import capture_logs

from provisioner.runtime import ca_file
from provisioner.runtime.connection import Connection, ServiceAccountToken, build_api_client
from provisioner.runtime.kube import Kube, KubeError
from provisioner.runtime.resources import NODES
from tests.tls import certificate

from .kube_server import KubeServer, answer, kube_server, obj, status
from .virtual import virtually


def kubeconfig(folder: Path, url: str, user: dict, **others: str) -> str:
    """The path of a kubeconfig; `others`: the servers of further contexts by name."""
    path, more = folder / "config", others.items()
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [
                    {"name": "c", "context": {"cluster": "k", "user": "u"}},
                    *({"name": name, "context": {"cluster": name, "user": "u"}} for name, _ in more),
                ],
                "clusters": [
                    {"name": "k", "cluster": {"server": url}},
                    *({"name": name, "cluster": {"server": server}} for name, server in more),
                ],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return str(path)


@pytest.mark.asyncio
async def test_a_kubeconfig_leads_to_its_server_whatever_the_environment_says(tmp_path, monkeypatch) -> None:
    """Proxy variables do not affect requests to the API server (S7)."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with kube_server() as server:
        server.then(answer(obj("Node", "n")))
        connection = await build_api_client(kubeconfig(tmp_path, server.url, {"token": "abc"}), version="1.2")
        try:
            assert (await Kube(connection.api_client).get(NODES, "n")).name == "n"
        finally:
            await connection.close()
        assert server.seen[0].headers["authorization"] == "Bearer abc"
        assert server.seen[0].headers["user-agent"] == "gpu-provisioner/1.2"


@pytest.mark.asyncio
async def test_a_context_selects_the_server(tmp_path) -> None:
    """The current context unless one is named, also in a pod; one that does not exist is an error."""
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {"token": "abc"}, other="http://127.0.0.1:2")
    in_pod = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}
    for context, server in ((None, "http://127.0.0.1:1 (context c)"), ("other", "http://127.0.0.1:2 (context other)")):
        connection = await build_api_client(path, context, version="0", environ=in_pod)
        await connection.close()
        assert connection.server == server
    with pytest.raises(ConfigException, match="the kubeconfig has no context none"):
        await build_api_client(path, "none", version="0")


@pytest.mark.asyncio
async def test_a_401_reads_the_kubeconfig_again(tmp_path) -> None:
    """A renewed file, or its exec plugin, restores access without a restart."""
    async with kube_server() as server:
        path = kubeconfig(tmp_path, server.url, {"token": "old"})
        connection = await build_api_client(path, version="0")
        kubeconfig(tmp_path, server.url, {"token": "new"})
        server.then(status(401, "Unauthorized"), answer(obj("Node", "n")))
        try:
            kube = Kube(connection.api_client, renew_credentials=connection.renew_credentials)
            await kube.get(NODES, "n")
            os.remove(path)
            server.then(status(401, "Unauthorized"))
            with pytest.raises(KubeError) as caught:
                await kube.get(NODES, "n")
        finally:
            await connection.close()
        assert [s.headers["authorization"] for s in server.seen[:2]] == ["Bearer old", "Bearer new"]
        assert (caught.value.status, caught.value.reason) == (401, "Credentials")


@pytest.mark.asyncio
async def test_nothing_to_connect_with_says_so(tmp_path) -> None:
    """Neither a pod nor a usable file."""
    with pytest.raises(ConfigException):
        await build_api_client(str(tmp_path / "none"), version="0", environ={})
    with pytest.raises(ConfigException):
        await build_api_client(version="0", in_cluster=True, service_account=tmp_path, environ={})


@asynccontextmanager
async def in_pod(mount: Path, server: KubeServer) -> AsyncIterator[tuple[Connection, Kube]]:
    """A client of that server with the mounted token and CA."""
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": server.url.rpartition(":")[2]}
    connection = await build_api_client(version="0", service_account=mount, environ=environ)
    try:
        yield connection, Kube(connection.api_client, renew_credentials=connection.renew_credentials)
    finally:
        await connection.close()


@pytest.mark.asyncio
async def test_a_pod_trusts_only_its_clusters_certificate_and_follows_its_token(tmp_path) -> None:
    """In a pod the mounted CA is trusted, and a 401 reads the mounted token immediately."""
    pod, stranger = tmp_path / "pod", tmp_path / "stranger"
    pod.mkdir()
    stranger.mkdir()
    (pod / "token").write_text("one\n")
    async with kube_server(certificate(pod)) as server, kube_server(certificate(stranger)) as other:
        async with in_pod(pod, server) as (connection, kube):
            server.then(answer(obj("Node", "n")), status(401, "Unauthorized"), answer(obj("Node", "n")))
            await kube.get(NODES, "n")
            (pod / "token").write_text("two\n")
            await kube.get(NODES, "n")
            connection.api_client.configuration.host = other.url
            with pytest.raises(KubeError, match="CERTIFICATE_VERIFY_FAILED"):
                await kube.get(NODES, "n")
        assert [s.headers["authorization"] for s in server.seen] == ["Bearer one", "Bearer one", "Bearer two"]
        assert other.seen == []


@pytest.mark.asyncio
async def test_a_new_ca_is_trusted_without_a_restart(tmp_path, monkeypatch) -> None:
    """The cluster's CA is rotated: the mounted file changes, then the API server's certificate."""
    monkeypatch.setattr(ca_file, "REREAD_SECONDS", 0.0)
    pod, later = tmp_path / "pod", tmp_path / "later"
    pod.mkdir()
    later.mkdir()
    (pod / "token").write_text("one")
    async with kube_server(certificate(pod)) as server, kube_server(certificate(later)) as rotated:
        async with in_pod(pod, server) as (connection, kube):
            for one in (server, rotated):
                one.then(answer(obj("Node", "n")))
            await kube.get(NODES, "n")
            for content in (b"", b"half a certificate"):
                (pod / "ca.crt").write_bytes(content)
                server.then(answer(obj("Node", "n")))
                await kube.get(NODES, "n")
            (pod / "ca.crt").write_bytes((later / "ca.crt").read_bytes())
            connection.api_client.configuration.host = rotated.url
            await kube.get(NODES, "n")
        assert len(rotated.seen) == 1


def test_a_service_accounts_token_is_read_again_each_minute(tmp_path) -> None:
    """Rotation is noticed on the clock of the loop; a trailing newline is not part of the token."""
    file = tmp_path / "token"

    async def main() -> None:
        configuration = Configuration(host="http://x")
        token = ServiceAccountToken(file)
        file.write_text("one\n")
        token.load(configuration)
        file.write_text("two\n")
        await asyncio.sleep(59)
        token.refresh(configuration)
        assert configuration.api_key["BearerToken"] == "Bearer one"
        await asyncio.sleep(1)
        token.refresh(configuration)
        assert configuration.api_key["BearerToken"] == "Bearer two"
        file.write_text("\n")
        with pytest.raises(ConfigException, match="empty"):
            token.load(configuration)
        assert configuration.api_key["BearerToken"] == "Bearer two"

    virtually(main)


def test_a_token_file_that_is_away_leaves_the_token_in_hand(tmp_path) -> None:
    """The token stays in use; the file is read again every 10 s, and each failure is logged."""
    file = tmp_path / "token"

    async def main() -> None:
        configuration = Configuration(host="http://x")
        token = ServiceAccountToken(file)
        file.write_text("one")
        token.load(configuration)
        file.unlink()
        for _ in range(80):
            await asyncio.sleep(1)
            token.refresh(configuration)
        assert configuration.api_key["BearerToken"] == "Bearer one"
        file.write_text("two")
        await asyncio.sleep(10)
        token.refresh(configuration)
        assert configuration.api_key["BearerToken"] == "Bearer two"

    with capture_logs() as lines:
        virtually(main)
    assert [line["error"] for line in lines] == ["service account token token: FileNotFoundError"] * 3
