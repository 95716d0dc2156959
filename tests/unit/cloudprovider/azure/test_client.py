"""Client, session and credential: requests, retries, proxies, plain http, secrets."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.rest import HttpRequest

from cloudprovider.azure import sdk_limits
from cloudprovider.azure.arm_reads import get_object
from cloudprovider.azure.client import (
    AzureConfig,
    StaticToken,
    build_arm,
    build_client,
    build_credential,
    build_session,
    build_tls,
    bypasses_proxy,
    is_loopback,
)
from provisioner.runtime import ca_file
from tests.tls import certificate

TOKEN = "a-token-nobody-may-see"


def config(**changes: Any) -> AzureConfig:
    return AzureConfig(**{"subscription_id": "sub", "resource_group": "rg", "cluster_name": "aks", **changes})


class Server:
    """Records requests; responds with `status`, or closes the connection if it is 0."""

    def __init__(self) -> None:
        self.seen: list[web.BaseRequest] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.origin = ""
        self.answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]] | None = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append(request)
        if self.answer is not None:
            return await self.answer(request)
        if self.status == 0:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({}, status=self.status or 200, headers=self.headers)


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server()
    runner = web.ServerRunner(web.Server(server.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server.origin = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


# Requests


@pytest.mark.asyncio
async def test_a_call_has_the_token_and_the_user_agent() -> None:
    """Plain http is allowed on loopback; the user agent has name and version."""
    async with serving() as server, build_session(build_tls(config())) as session:
        client = build_client(
            config(arm_endpoint=server.origin, static_token=TOKEN), session, StaticToken(TOKEN), version="1.2.3"
        )
        answer = await client.send_request(HttpRequest("GET", "/subscriptions/sub"))
        assert answer.status_code == 200
        (seen,) = server.seen
        assert seen.headers["Authorization"] == f"Bearer {TOKEN}"
        assert seen.headers["User-Agent"].startswith("gpu-provisioner/1.2.3 azsdk-python-mgmt-containerservice/")
        await client.close()
        assert not session.closed


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [0, 500, 503, 429, 307])
async def test_a_put_is_sent_once(status: int) -> None:
    """After a reset, a 5xx, a 429 with Retry-After or a redirect."""
    async with serving() as server, build_session(build_tls(config())) as session:
        server.status, server.headers = status, {"Retry-After": "1", "Location": f"{server.origin}/elsewhere"}
        client = build_client(config(arm_endpoint=server.origin), session, StaticToken(TOKEN), version="1")
        with pytest.raises(AzureError):
            await client.agent_pools.begin_create_or_update("rg", "aks", "gpu1", {"properties": {}}, polling=False)
        assert len(server.seen) == 1


@pytest.mark.asyncio
async def test_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither proxy variables nor a netrc affect a request."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with serving() as server, build_session(build_tls(config())) as session:
        client = build_client(config(arm_endpoint=server.origin), session, StaticToken(TOKEN), version="1")
        assert (await client.send_request(HttpRequest("GET", "/x"))).status_code == 200
        assert session.trust_env is False


@pytest.mark.asyncio
async def test_the_configured_proxy_is_used() -> None:
    """With https_proxy a CONNECT is sent to the proxy, except for hosts in no_proxy."""
    async with serving() as proxy, build_session(build_tls(config())) as session:
        proxy.status = 403
        through = config(arm_endpoint="https://arm.invalid", https_proxy=proxy.origin)
        client = build_client(through, session, StaticToken(TOKEN), version="1")
        with pytest.raises(AzureError):
            await client.send_request(HttpRequest("GET", "/x"))
        (requested,) = proxy.seen
        assert (requested.method, requested.raw_path) == ("CONNECT", "arm.invalid:443")
        assert "Authorization" not in requested.headers
        around = config(arm_endpoint="https://arm.invalid", https_proxy=proxy.origin, no_proxy=".invalid")
        client = build_client(around, session, StaticToken(TOKEN), version="1")
        with pytest.raises(AzureError):
            await client.send_request(HttpRequest("GET", "/x"))
        assert len(proxy.seen) == 1


# Hosts and proxies


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "endpoint", ["http://management.azure.com", "http://10.0.0.1", "http://localhost.evil.example", "ftp://127.0.0.1"]
)
async def test_plain_http_is_for_loopback_only(endpoint: str) -> None:
    """A client for plain http without loopback is not built; a static token is not sent."""
    async with build_session(build_tls(config())) as session:
        with pytest.raises(ValueError, match="https"):
            build_client(config(arm_endpoint=endpoint), session, StaticToken(TOKEN), version="1")
    if "127" not in endpoint:
        with pytest.raises(ValueError, match="loopback"):
            build_credential(config(arm_endpoint=endpoint, static_token=TOKEN))


@pytest.mark.asyncio
async def test_an_https_client_rejects_http() -> None:
    """Plain http is allowed for a loopback endpoint only."""
    async with serving() as server, build_session(build_tls(config())) as session:
        client = build_client(config(), session, StaticToken(TOKEN), version="1")
        with pytest.raises(AzureError, match="non-TLS"):
            await client.send_request(HttpRequest("GET", f"{server.origin}/x"))
        assert server.seen == []


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_loopback_hosts(host: str, local: bool) -> None:
    """Loopback addresses and localhost."""
    assert is_loopback(host) is local


@pytest.mark.parametrize(
    ("host", "no_proxy", "exempt"),
    [
        ("management.azure.com", "", False),
        ("management.azure.com", "*", True),
        ("management.azure.com", "azure.com", True),
        ("management.azure.com", ".azure.com", True),
        ("management.azure.com", "*.azure.com", True),
        ("Management.Azure.com.", " AZURE.COM:443 ,x", True),
        ("management.azure.com", "x;management.azure.com", True),
        ("notazure.com", "azure.com", False),
        ("azure.com.evil.example", "azure.com", False),
        ("management.azure.com", "com.,zure.com, ,", True),
        ("management.azure.com", "zure.com,,.", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("[fd00::1]", "fd00::/8", True),
        ("management.azure.com", "10.0.0.0/8", False),
    ],
)
def test_no_proxy(host: str, no_proxy: str, exempt: bool) -> None:
    """Names match themselves and their subdomains; addresses match networks."""
    assert bypasses_proxy(host, no_proxy) is exempt


# Credentials


@pytest.mark.asyncio
async def test_workload_identity_takes_its_values_from_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tenant, client, token file and authority come from the configuration, not from the environment."""
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "https://elsewhere.example")
    token = tmp_path / "token"
    token.write_text("assertion")
    credential: Any = build_credential(
        config(
            tenant_id="11111111-1111-1111-1111-111111111111",
            client_id="22222222-2222-2222-2222-222222222222",
            federated_token_file=str(token),
            authority_host="https://login.microsoftonline.us",
        )
    )
    assert type(credential).__name__ == "WorkloadIdentityCredential"
    assert credential._client._authority == "https://login.microsoftonline.us"
    await credential.close()


@pytest.mark.parametrize("missing", ["tenant_id", "client_id", "federated_token_file"])
def test_an_incomplete_identity_is_rejected(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing values are reported at start, not at the first call."""
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    whole = {"tenant_id": "t", "client_id": "c", "federated_token_file": "/f"}
    with pytest.raises(ValueError, match="Missing required arguments"):
        build_credential(config(**{**whole, missing: ""}))


@pytest.mark.asyncio
async def test_a_managed_deployment_uses_the_default_chain() -> None:
    """With the client id of the identity, if it is set."""
    for changes in ({}, {"client_id": "22222222-2222-2222-2222-222222222222"}):
        credential = build_credential(config(managed=True, **changes))
        assert type(credential).__name__ == "DefaultAzureCredential"
        await credential.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("ours", [True, False])
async def test_tokens_are_fetched_through_the_configured_proxy(
    ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy variables of the environment are ignored."""
    token = tmp_path / "token"
    token.write_text("assertion")
    async with serving() as proxy:
        proxy.status = 403
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9" if ours else proxy.origin)
        credential = build_credential(
            config(
                tenant_id="11111111-1111-1111-1111-111111111111",
                client_id="22222222-2222-2222-2222-222222222222",
                federated_token_file=str(token),
                authority_host="https://login.invalid",
                https_proxy=proxy.origin if ours else "",
            )
        )
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await credential.get_token("https://management.azure.com/.default")
        await credential.close()
        assert {request.raw_path for request in proxy.seen} == ({"login.invalid:443"} if ours else set())


@pytest.mark.asyncio
async def test_a_static_token_is_for_simulators() -> None:
    """It is sent to loopback only, over http or https, and its repr hides it."""
    credential = build_credential(config(arm_endpoint="https://127.0.0.1:8443", static_token=TOKEN))
    assert (await credential.get_token("scope", claims="c")).token == TOKEN
    assert TOKEN not in repr(credential)
    with pytest.raises(ValueError, match="loopback"):
        build_credential(config(static_token=TOKEN))


def test_a_configuration_shows_no_secret() -> None:
    """The repr has neither the token nor the password of a proxy."""
    stated = repr(config(static_token=TOKEN, https_proxy="http://me:hunter2@proxy:3128"))
    assert stated == "AzureConfig(sub/rg/aks at https://management.azure.com)"


@pytest.mark.asyncio
async def test_a_missing_ca_file_raises() -> None:
    """A configured CA file that does not exist is reported at start."""
    with pytest.raises(FileNotFoundError):
        build_tls(config(ca_file="/nowhere/ca.pem"))


def test_the_sdk_is_imported_on_use() -> None:
    """Importing the module imports neither the models of the SDK nor azure-identity."""
    program = (
        "import sys, cloudprovider.azure.client;"
        "sys.exit(any(name.startswith(('azure.identity', 'azure.mgmt')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=20).returncode == 0


@pytest.mark.asyncio
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_the_body_of_a_response_has_a_limit(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads and the calls of the SDK end at the limit, which counts what is decompressed."""
    monkeypatch.setattr(sdk_limits, "BODY_BYTES", 2**20)
    sent = 0

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if encoding == "gzip":
            response.enable_compression(web.ContentCoding.gzip)
        await response.prepare(request)
        try:
            for _ in range(64):
                await response.write(b" " * 2**20)
                sent += 1
        except ConnectionError:
            pass
        return response

    async with serving() as server, build_session(build_tls(config())) as session:
        server.answer = endless
        made = config(arm_endpoint=server.origin, static_token=TOKEN)
        client = build_client(made, session, StaticToken(TOKEN), version="0")
        with pytest.raises(AzureError):
            await get_object(client, "/subscriptions/s?api-version=1")
        with pytest.raises(AzureError):
            await client.agent_pools.get("rg", "aks", "gpu1")
    if encoding == "identity":
        assert sent < 64


@pytest.mark.asyncio
async def test_a_new_ca_is_trusted_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CA in front of ARM is replaced: the file of `ca_file` changes, then the server's certificate."""
    monkeypatch.setattr(ca_file, "REREAD_SECONDS", 0.0)
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    async with serving(certificate(before)) as server, serving(certificate(after)) as replaced:
        trusted = before / "ca.crt"
        arm = build_arm(config(arm_endpoint=server.origin, static_token=TOKEN, ca_file=str(trusted)), version="0")
        async with arm.session:
            await get_object(arm.client, f"{server.origin}/subscriptions/s?api-version=1")
            trusted.write_bytes((after / "ca.crt").read_bytes())
            await get_object(arm.client, f"{replaced.origin}/subscriptions/s?api-version=1")
            assert len(replaced.seen) == 1
            with pytest.raises(AzureError):
                await get_object(arm.client, f"{server.origin}/subscriptions/s?api-version=1")
            assert len(server.seen) == 1


@pytest.mark.asyncio
async def test_error_responses_keep_their_status() -> None:
    """A 404 of the methods of the SDK has its status, which `errors` needs."""
    async with serving() as server, build_session(build_tls(config())) as session:
        server.status = 404
        client = build_client(config(arm_endpoint=f"{server.origin}/"), session, StaticToken(TOKEN), version="1")
        with pytest.raises(HttpResponseError) as refused:
            await client.agent_pools.get("rg", "aks", "gpu1")
        assert refused.value.status_code == 404
        assert server.seen[0].path == (
            "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/aks/agentPools/gpu1"
        )


def test_the_private_retry_option_of_aiohttp_exists() -> None:
    """This version of aiohttp still has the private option that disables retries."""
    assert "_retry_connection" in aiohttp.ClientSession.__init__.__code__.co_names
