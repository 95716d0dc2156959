"""The client, its session and its credential: what they read, where they send, how often, and whom they trust."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.rest import HttpRequest

from cloudprovider.azure.client import (
    AzureConfig,
    StaticToken,
    build_client,
    build_credential,
    build_session,
    bypasses_proxy,
    is_loopback,
)

TOKEN = "a-token-nobody-may-see"


def config(**changes: Any) -> AzureConfig:
    return AzureConfig(**{"subscription_id": "sub", "resource_group": "rg", "cluster_name": "aks", **changes})


class Server:
    """Remembers what arrives; answers with `status`, and drops the connection if that is 0."""

    def __init__(self) -> None:
        self.seen: list[web.BaseRequest] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.origin = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append(request)
        if self.status == 0:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({}, status=self.status or 200, headers=self.headers)


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    runner = web.ServerRunner(web.Server(server.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


# one call, one request


@pytest.mark.asyncio
async def test_a_call_carries_the_token_and_our_name() -> None:
    """On loopback plain http is allowed; the user agent says who asks and in which version."""
    async with serving() as server, build_session(config()) as session:
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
async def test_nothing_is_sent_twice(status: int) -> None:
    """A reset, a bad day, throttling with Retry-After or a redirect: the PUT reaches the server once."""
    async with serving() as server, build_session(config()) as session:
        server.status, server.headers = status, {"Retry-After": "1", "Location": f"{server.origin}/elsewhere"}
        client = build_client(config(arm_endpoint=server.origin), session, StaticToken(TOKEN), version="1")
        with pytest.raises(AzureError):
            await client.agent_pools.begin_create_or_update("rg", "aks", "gpu1", {"properties": {}}, polling=False)
        assert len(server.seen) == 1


@pytest.mark.asyncio
async def test_the_environment_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither proxy variables nor a netrc reach a request."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with serving() as server, build_session(config()) as session:
        client = build_client(config(arm_endpoint=server.origin), session, StaticToken(TOKEN), version="1")
        assert (await client.send_request(HttpRequest("GET", "/x"))).status_code == 200
        assert session.trust_env is False


@pytest.mark.asyncio
async def test_the_configured_proxy_is_asked_to_connect() -> None:
    """With https_proxy the tunnel is asked of the proxy; with the host in no_proxy it is not."""
    async with serving() as proxy, build_session(config()) as session:
        proxy.status = 403
        through = config(arm_endpoint="https://arm.invalid", https_proxy=proxy.origin)
        client = build_client(through, session, StaticToken(TOKEN), version="1")
        with pytest.raises(AzureError):
            await client.send_request(HttpRequest("GET", "/x"))
        (asked,) = proxy.seen
        assert (asked.method, asked.raw_path) == ("CONNECT", "arm.invalid:443")
        assert "Authorization" not in asked.headers
        around = config(arm_endpoint="https://arm.invalid", https_proxy=proxy.origin, no_proxy=".invalid")
        client = build_client(around, session, StaticToken(TOKEN), version="1")
        with pytest.raises(AzureError):
            await client.send_request(HttpRequest("GET", "/x"))
        assert len(proxy.seen) == 1


# where a token may go


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "endpoint", ["http://management.azure.com", "http://10.0.0.1", "http://localhost.evil.example", "ftp://127.0.0.1"]
)
async def test_plain_http_stays_on_this_machine(endpoint: str) -> None:
    """A token in the clear is refused before there is a client; a fixed token never leaves at all."""
    async with build_session(config()) as session:
        with pytest.raises(ValueError, match="https"):
            build_client(config(arm_endpoint=endpoint), session, StaticToken(TOKEN), version="1")
    if "127" not in endpoint:
        with pytest.raises(ValueError, match="loopback"):
            build_credential(config(arm_endpoint=endpoint, static_token=TOKEN))


@pytest.mark.asyncio
async def test_https_is_never_relaxed() -> None:
    """The exception for plain http belongs to a loopback endpoint alone: an https client refuses http addresses."""
    async with serving() as server, build_session(config()) as session:
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
def test_what_loopback_is(host: str, local: bool) -> None:
    """Only addresses that cannot leave the machine."""
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
def test_who_is_exempt_from_the_proxy(host: str, no_proxy: str, exempt: bool) -> None:
    """Names match themselves and what is below them, at a dot; addresses match networks."""
    assert bypasses_proxy(host, no_proxy) is exempt


# who we are


@pytest.mark.asyncio
async def test_workload_identity_takes_its_values_from_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tenant, client, token file and authority are ours, whatever the environment says."""
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
def test_half_an_identity_is_none(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is said when the program starts, not at the first call."""
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    whole = {"tenant_id": "t", "client_id": "c", "federated_token_file": "/f"}
    with pytest.raises(ValueError, match="Missing required arguments"):
        build_credential(config(**{**whole, missing: ""}))


@pytest.mark.asyncio
async def test_a_managed_deployment_uses_the_default_chain() -> None:
    """With the client id of the identity to use, if one is given."""
    for changes in ({}, {"client_id": "22222222-2222-2222-2222-222222222222"}):
        credential = build_credential(config(managed=True, **changes))
        assert type(credential).__name__ == "DefaultAzureCredential"
        await credential.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("ours", [True, False])
async def test_tokens_are_fetched_through_our_proxy_only(
    ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that is configured is asked; one that only the environment names is not."""
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
async def test_a_fixed_token_is_for_simulators() -> None:
    """It goes to loopback, over http or https, and never shows itself."""
    credential = build_credential(config(arm_endpoint="https://127.0.0.1:8443", static_token=TOKEN))
    assert (await credential.get_token("scope", claims="c")).token == TOKEN
    assert TOKEN not in repr(credential)
    with pytest.raises(ValueError, match="loopback"):
        build_credential(config(static_token=TOKEN))


def test_a_configuration_shows_no_secret() -> None:
    """Neither the token nor a proxy's password is in its text."""
    said = repr(config(static_token=TOKEN, https_proxy="http://me:hunter2@proxy:3128"))
    assert said == "AzureConfig(sub/rg/aks at https://management.azure.com)"


@pytest.mark.asyncio
async def test_a_private_ca_is_trusted_or_missed() -> None:
    """A CA file that is not there stops the program at once."""
    with pytest.raises(FileNotFoundError):
        build_session(config(ca_file="/nowhere/ca.pem"))


def test_importing_costs_nothing() -> None:
    """Neither the SDK's models nor the identity library are loaded before they are used."""
    program = (
        "import sys, cloudprovider.azure.client;"
        "sys.exit(any(name.startswith(('azure.identity', 'azure.mgmt')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=20).returncode == 0


@pytest.mark.asyncio
async def test_an_answer_that_is_an_error_stays_one() -> None:
    """404 from the SDK's own methods carries its status: what `errors` judges by."""
    async with serving() as server, build_session(config()) as session:
        server.status = 404
        client = build_client(config(arm_endpoint=f"{server.origin}/"), session, StaticToken(TOKEN), version="1")
        with pytest.raises(HttpResponseError) as refused:
            await client.agent_pools.get("rg", "aks", "gpu1")
        assert refused.value.status_code == 404
        assert server.seen[0].path == (
            "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/aks/agentPools/gpu1"
        )


def test_sessions_are_aiohttps_own() -> None:
    """The private switch against resending still exists in this aiohttp."""
    assert "_retry_connection" in aiohttp.ClientSession.__init__.__code__.co_names
