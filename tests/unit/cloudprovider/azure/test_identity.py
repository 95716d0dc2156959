"""The workload-identity credential of azure-identity, against a token service on an in-memory wire."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import aiohttp
import pytest
from aiohttp import web
from azure.core.pipeline.transport import AioHttpTransport
from azure.identity.aio import WorkloadIdentityCredential

from cloudprovider.azure.client import AzureConfig, build_client, disable_retries
from cloudprovider.azure.provider import AzureProvider
from cloudprovider.errors import CloudError, Retryable
from provisioner.simulator.azure.arm import make_arm_app
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.loop import VirtualClock, run
from provisioner.simulator.network import MemoryConnector, Network
from tests.unit.builders import claim, instance

T = TypeVar("T")
EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
ARM, ENTRA = "management.azure.com", "login.microsoftonline.com"
TENANT, CLIENT, ASSERTION = "the-tenant", "the-client", "header.claims.signature"


class Entra:
    """A token service: returns `token`, or `status` and `body`, after `delay_seconds`."""

    def __init__(self) -> None:
        self.token = "letmein"
        self.status, self.body, self.delay_seconds = 200, "", 0.0
        self.requested: list[tuple[str, dict[str, str]]] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        await asyncio.sleep(self.delay_seconds)
        self.requested.append((request.path, {key: str(value) for key, value in (await request.post()).items()}))
        if self.status != 200:
            return web.Response(status=self.status, text=self.body, content_type="application/json")
        return web.json_response({"access_token": self.token, "expires_in": 3600, "token_type": "Bearer"})

    def refuse(self, status: int, code: str, description: str) -> None:
        self.status, self.body = status, json.dumps({"error": code, "error_description": description})


def on_azure(folder: Path, story: Callable[[AzureProvider, AzureCloud, Entra], Awaitable[T]]) -> T:
    """Run a story on virtual time."""
    token_file = folder / "azure-identity-token"
    token_file.write_text(ASSERTION)

    async def main() -> T:
        loop = asyncio.get_running_loop()
        clock, wire, entra = VirtualClock(loop, EPOCH), Network(loop), Entra()
        cloud = AzureCloud(AzureSettings(token="letmein"), clock.now, Random(7))
        runners = []
        for host, app in ((ARM, make_arm_app(cloud, scheme="https")), (ENTRA, entra.app())):
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
            await runner.setup()
            assert runner.server is not None
            wire.servers[host] = runner.server
            runners.append(runner)
        session = disable_retries(aiohttp.ClientSession(connector=MemoryConnector(wire, "us"), trust_env=False))
        credential = WorkloadIdentityCredential(
            tenant_id=TENANT,
            client_id=CLIENT,
            token_file_path=str(token_file),
            authority=f"https://{ENTRA}",
            transport=AioHttpTransport(session=session, session_owner=False, use_env_settings=False),
        )
        where = AzureConfig(
            subscription_id=cloud.settings.subscription,
            resource_group=cloud.settings.resource_group,
            cluster_name=cloud.settings.cluster,
        )
        client: Any = build_client(where, session, credential, version="1.2.3")
        provider = AzureProvider(client, where, clock=clock, owned=(session, credential))
        async with asyncio.TaskGroup() as group:
            life = group.create_task(cloud.run())
            try:
                return await story(provider, cloud, entra)
            finally:
                await provider.close()
                life.cancel()
                for runner in runners:
                    await runner.cleanup()

    return run(main, seed=1, epoch=EPOCH)


@pytest.mark.parametrize("verb", ["create", "get", "list", "delete", "cluster"])
def test_a_credential_that_hangs_is_named(verb: str, tmp_path: Path) -> None:
    """Entra ID does not respond: the error is about the token, and states that no request was sent to ARM."""

    async def story(provider: AzureProvider, cloud: AzureCloud, entra: Entra) -> None:
        entra.delay_seconds = 100.0
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "create": lambda: provider.create(claim(), "ws3f2a91c0d"),
            "get": lambda: provider.get("ws3f2a91c0d"),
            "list": provider.list,
            "delete": lambda: provider.delete(instance()),
            "cluster": provider.cluster,
        }
        with pytest.raises(Retryable) as failed:
            await calls[verb]()
        assert (failed.value.reason, failed.value.status) == ("NoToken", 401)
        assert failed.value.message.startswith("getting an access token timed out. Check the workload identity")
        assert cloud.requests == []

    on_azure(tmp_path, story)


def test_the_pods_token_is_exchanged_once_for_many_calls(tmp_path: Path) -> None:
    """Tenant, client, assertion and the scope of ARM are sent; the token is used until it is about to expire."""

    async def story(provider: AzureProvider, cloud: AzureCloud, entra: Entra) -> None:
        await provider.create(claim(), "ws3f2a91c0d")
        for _ in range(5):
            await provider.list()
        ((path, form),) = entra.requested
        assert path == f"/{TENANT}/oauth2/v2.0/token"
        assert (form["client_id"], form["client_assertion"]) == (CLIENT, ASSERTION)
        assert form["scope"] == f"https://{ARM}/.default"
        await asyncio.sleep(3590.0)
        await provider.list()
        assert len(entra.requested) == 2

    on_azure(tmp_path, story)


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "unauthorized_client"), (401, "invalid_client")],
)
def test_an_error_of_entra_id_is_retryable(tmp_path: Path, status: int, code: str) -> None:
    """No call is sent to ARM; the error has the code of Entra ID and a remedy, until the identity is corrected."""
    description = "AADSTS70021: No match_row federated identity record found for presented assertion. Trace ID: 1"

    async def story(provider: AzureProvider, cloud: AzureCloud, entra: Entra) -> None:
        entra.refuse(status, code, description)
        for call in (provider.create(claim(), "ws3f2a91c0d"), provider.get("a"), provider.list()):
            with pytest.raises(CloudError) as failed:
                await call
            assert isinstance(failed.value, Retryable)
            assert failed.value.reason == "NoToken"
            assert failed.value.message.startswith("AADSTS70021: No match_row federated identity record found")
            assert "create a corrected claim" not in failed.value.message
            assert ASSERTION not in failed.value.message
        assert cloud.requests == []
        entra.status = 200
        assert (await provider.create(claim(), "ws3f2a91c0d")).name == "ws3f2a91c0d"

    on_azure(tmp_path, story)


def test_a_401_of_arm_is_retryable(tmp_path: Path) -> None:
    """The error has the code of ARM and the remedy for the identity."""

    async def story(provider: AzureProvider, cloud: AzureCloud, entra: Entra) -> None:
        entra.token = "of-another-tenant"
        with pytest.raises(CloudError) as failed:
            await provider.get("a")
        assert isinstance(failed.value, Retryable)
        assert (failed.value.reason, failed.value.status) == ("Unauthenticated", 401)
        assert failed.value.code == "InvalidAuthenticationToken"

    on_azure(tmp_path, story)
