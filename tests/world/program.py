"""The program as a process of a simulation."""

from contextlib import AsyncExitStack

import aiohttp
from kubernetes_asyncio.client import ApiClient, Configuration

from cloudprovider.azure.client import AzureConfig, StaticToken, build_client, disable_retries
from cloudprovider.azure.cloud import AksCloud
from cloudprovider.azure.provider import AzureProvider
from cloudprovider.azure.retail_client import RetailPriceClient
from controllers.model.policy import Policy
from provisioner.operator import clients, operator
from provisioner.operator.config import Clients, Config
from provisioner.runtime.clock import Clock
from provisioner.runtime.compute import inline
from provisioner.runtime.connection import Connection, build_api_client, client_over
from provisioner.runtime.kube import Kube
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.world import KUBE_HOST
from tests.retail_api import PATH

from .process import Process

PRICES_HOST = "prices.azure.com"


async def launch_controller(process: Process, *, lease_times: tuple[float, float]) -> None:
    """Run the program over this process's network, with its lease over a separate connection.

    `lease_times`: for how long the Lease is held and when it is renewed, in seconds.

    Options: `policy` (a Policy), `elect` (False: without a lease), `lease_name`, `lease_namespace`,
    `former_lease_namespace`, `identity`, `metrics` (a Metrics, to read), `compute` (how decisions run, else inline),
    `prices` (a price table), `node_pools` (False: disabled), `gkm_cleanup`, `nvsentinel` (an NVSentinel),
    `service_account` (a folder with its files, as in a pod), `tags` (of all agent pools), `vms` (a Vms, in place of
    Azure), `retail_prices` (True: they are read at `PRICES_HOST`).
    """
    settings, options = process.world.settings, process.options
    config = AzureConfig(
        subscription_id=settings.azure.subscription,
        resource_group=settings.azure.resource_group,
        cluster_name=settings.azure.cluster,
        location=settings.azure.location,
        tags=options.get("tags", {}),
    )
    metrics = options.get("metrics") or Metrics()
    lease_duration_seconds, lease_retry_seconds = lease_times
    async with AsyncExitStack() as sessions:
        kube, lease = [await connect(process, sessions) for _ in range(2)]
        provider, cloud = options.get("vms"), options.get("vms")
        if provider is None or cloud is None:
            azure = await sessions.enter_async_context(process.session())
            client = build_client(config, disable_retries(azure), StaticToken("simulator"), version="test")
            provider, cloud = AzureProvider(client, config, clock=process.clock), AksCloud()
        prices = None
        if options.get("retail_prices"):
            prices = retail_client(await sessions.enter_async_context(process.session()), process.clock)
        controller = operator.Operator(
            Clients(
                kube=Kube(kube.api_client, renew_credentials=kube.renew_credentials, on_request=metrics.kube_request),
                lease_kube=Kube(
                    lease.api_client,
                    timeout_seconds=clients.LEASE_TIMEOUT_SECONDS,
                    renew_credentials=lease.renew_credentials,
                ),
                provider=clients.decorate(provider, metrics),
                cloud=cloud,
                clock=process.clock,
                rng=process.rng,
                metrics=metrics,
                compute=options.get("compute", inline),
                price_source=prices,
            ),
            Config(
                policy=options.get("policy") or Policy(),
                elect=options.get("elect", True),
                lease_duration_seconds=lease_duration_seconds,
                lease_retry_seconds=lease_retry_seconds,
                lease_name=options.get("lease_name", "gpu-provisioner"),
                lease_namespace=options.get("lease_namespace", "kube-system"),
                identity=options.get("identity", process.name),
                former_lease_namespace=options.get("former_lease_namespace", ""),
                prices=options.get("prices", ()),
                node_pools=options.get("node_pools", True),
                gkm_cleanup=options.get("gkm_cleanup", False),
                nvsentinel=options.get("nvsentinel"),
            ),
        )
        await controller.run()


async def connect(process: Process, sessions: AsyncExitStack) -> Connection:
    """A connection to the API server: with a service account's files if the process has them, else with the token."""
    session = await sessions.enter_async_context(process.session())
    if folder := process.options.get("service_account"):
        environ = {"KUBERNETES_SERVICE_HOST": KUBE_HOST, "KUBERNETES_SERVICE_PORT": "443"}
        return await build_api_client(version="test", session=session, service_account=folder, environ=environ)

    async def nothing_to_renew() -> None:
        pass

    return Connection(kube_client(session, process.world.settings.token), nothing_to_renew)


def retail_client(session: aiohttp.ClientSession, clock: Clock) -> RetailPriceClient:
    """The client of the retail price API at `PRICES_HOST`."""
    return RetailPriceClient(disable_retries(session), clock, address=f"http://{PRICES_HOST}{PATH}")


def kube_client(session: aiohttp.ClientSession, token: str | None = None) -> ApiClient:
    """The real SDK's client for the simulated API server."""
    configuration = Configuration(host=f"http://{KUBE_HOST}")
    if token is not None:
        configuration.api_key["BearerToken"] = f"Bearer {token}"
    return client_over(session, configuration, version="test")
