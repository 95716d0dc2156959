"""The service under test of the contract: the simulated Azure on a loopback socket, or a real managed cluster.

Both are used with the Azure SDK, without retries. The real service needs AZURE_LIVE=1, ARM_SUBSCRIPTION_ID,
ARM_RESOURCE_GROUP, AZURE_CLUSTER_NAME, a credential that DefaultAzureCredential finds, and a cluster in which the tests
may create agent pools of count 0, named `ct…`; they cost nothing and are deleted. AZURE_LIVE_SIZE is their VM size.

Source: docs/references/agent-pools.md#python-sdk, docs/references/agent-pools.md#identity-and-clouds.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from azure.core.credentials import AccessToken
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.core.pipeline.transport import AioHttpTransport
from azure.core.rest import HttpRequest
from azure.mgmt.containerservice.aio import ContainerServiceClient
from azure.mgmt.containerservice.models import AgentPool

from provisioner.simulator.azure import arm
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.azure.settings import AzureSettings

EMULATOR, AZURE = "emulator", "azure"
API_VERSION = "2026-08-01"
NEEDED = ("ARM_SUBSCRIPTION_ID", "ARM_RESOURCE_GROUP", "AZURE_CLUSTER_NAME")
SPEED = 600.0


def why_not_live() -> str:
    """Why the tests do not use the real service; "" if they do."""
    if os.environ.get("AZURE_LIVE") != "1":
        return "AZURE_LIVE is not 1"
    missing = [name for name in NEEDED if not os.environ.get(name)]
    return f"{', '.join(missing)} not set" if missing else ""


class Plain(SansIOHTTPPolicy[Any, Any]):
    """Allows bearer tokens over plain http, on loopback."""

    def on_request(self, request: Any) -> None:
        request.context.options["enforce_https"] = False


class Token:
    """The credential for the emulator."""

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        return AccessToken("contract", 4102444800)

    async def close(self) -> None: ...

    async def __aenter__(self) -> "Token":
        return self

    async def __aexit__(self, *exc: object) -> None: ...


class Service:
    """One managed cluster, as the SDK reaches it. `last` is the HTTP response of the latest write."""

    def __init__(
        self, client_of: Callable[[str], ContainerServiceClient], where: tuple[str, str, str], size: str
    ) -> None:
        self.subscription, self.group, self.cluster = where
        self.client_of = client_of
        self.client = client_of(self.subscription)
        self.pools = self.client.agent_pools
        self.size = size
        self.last: Any = None
        self._made: list[str] = []

    async def put(self, name: str, *, headers: dict[str, str] | None = None, **changes: Any) -> Any:
        """PUT a pool of count 0; returns the model of the response. Raises HttpResponseError."""
        if name not in self._made:
            self._made.append(name)
        wanted = {"count": 0, "vm_size": self.size, "type_properties_type": "VirtualMachineScaleSets", "mode": "User"}
        poller = await self.pools.begin_create_or_update(
            self.group,
            self.cluster,
            name,
            AgentPool(**{**wanted, **changes}),
            polling=False,
            headers=headers or {},
            raw_response_hook=self._note,
        )
        return await poller.result()

    async def delete(self, name: str, *, headers: dict[str, str] | None = None) -> int:
        """DELETE a pool; returns the status."""
        await self.pools.begin_delete(
            self.group, self.cluster, name, polling=False, headers=headers or {}, raw_response_hook=self._note
        )
        return int(self.last.status_code)

    async def get(self, name: str) -> Any:
        return await self.pools.get(self.group, self.cluster, name)

    async def ask(self, path: str, *, query: str = f"api-version={API_VERSION}", subscription: str = "") -> Any:
        """GET any ARM path below a subscription; returns the response, whatever its status."""
        about = subscription or self.subscription
        url = f"/subscriptions/{about}{path}" + (f"?{query}" if query else "")
        response = await self.client_of(about).send_request(HttpRequest("GET", url), stream=True)
        await response.read()
        return response

    async def become(self, name: str, state: str, *, within_seconds: float = 1800.0) -> Any:
        """Wait until the pool is in this state; "" is absent."""
        async with asyncio.timeout(within_seconds):
            while True:
                try:
                    pool = await self.get(name)
                except ResourceNotFoundError:
                    if not state:
                        return None
                else:
                    if pool.provisioning_state == state:
                        return pool
                await asyncio.sleep(self.pause_seconds)

    pause_seconds = 15.0

    async def clean(self) -> None:
        """Delete the created pools."""
        for name in self._made:
            with contextlib.suppress(HttpResponseError):
                await self.delete(name)

    def _note(self, response: Any) -> None:
        self.last = response.http_response


@contextlib.asynccontextmanager
async def service(kind: str, **settings: Any) -> AsyncIterator[Service]:
    """The service under test; skips the test, with the reason, if the real one is not enabled."""
    if kind == EMULATOR:
        async with _emulator(**settings) as found:
            yield found
        return
    if reason := why_not_live():
        pytest.skip(f"not run against the real service: {reason}")
    async with _azure() as found:
        try:
            yield found
        finally:
            await found.clean()


@contextlib.asynccontextmanager
async def _emulator(**settings: Any) -> AsyncIterator[Service]:
    where = AzureSettings(speed=SPEED, **settings)
    cloud = AzureCloud(where, lambda: datetime.now(UTC), Random(5))
    cloud.seed_pool("system", mode="System")
    runner = web.AppRunner(arm.make_arm_app(cloud), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with asyncio.TaskGroup() as tasks, aiohttp.ClientSession(trust_env=False) as session:
        time_passes = tasks.create_task(cloud.run())

        def client_of(subscription: str) -> ContainerServiceClient:
            transport = AioHttpTransport(session=session, session_owner=False, use_env_settings=False)
            options: dict[str, Any] = {"per_call_policies": [Plain()], "retry_total": 0, "transport": transport}
            return ContainerServiceClient(Token(), subscription, base_url=origin, **options)

        try:
            found = Service(client_of, (where.subscription, where.resource_group, where.cluster), "Standard_D2s_v5")
            found.pause_seconds = 0.02
            yield found
        finally:
            time_passes.cancel()
            await runner.cleanup()


@contextlib.asynccontextmanager
async def _azure() -> AsyncIterator[Service]:
    from azure.identity.aio import DefaultAzureCredential  # slow to import

    async with contextlib.AsyncExitStack() as open_until_then:
        credential = await open_until_then.enter_async_context(DefaultAzureCredential())
        clients: dict[str, ContainerServiceClient] = {}

        def client_of(subscription: str) -> ContainerServiceClient:
            if subscription not in clients:
                clients[subscription] = ContainerServiceClient(credential, subscription, retry_total=0)
                open_until_then.push_async_callback(clients[subscription].close)
            return clients[subscription]

        subscription, group, cluster = (os.environ[name] for name in NEEDED)
        yield Service(client_of, (subscription, group, cluster), os.environ.get("AZURE_LIVE_SIZE", "Standard_D2s_v5"))


Case = Callable[[Service], Awaitable[None]]
