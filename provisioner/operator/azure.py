"""Azure, constructed from the settings. Commands and the controller get the protocols.

Nothing here opens a connection before a request is sent.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from cloudprovider.azure.checks import AzureChecks
from cloudprovider.azure.client import API_VERSION, Arm, AzureConfig, build_arm
from cloudprovider.azure.cloud import AksCloud
from cloudprovider.azure.provider import AzureProvider
from cloudprovider.azure.retail_client import open_retail_prices
from cloudprovider.azure.subscription import SubscriptionClient
from cloudprovider.checks import CloudChecks
from cloudprovider.cloud import Cloud
from cloudprovider.interface import CloudProvider
from cloudprovider.prices import PriceSource
from provisioner.runtime.clock import Clock, SystemClock
from provisioner.settings import Settings
from provisioner.version import own_version

# An ARM endpoint on loopback is the simulator, which requires a bearer token and does not check it.
SIMULATOR_TOKEN = "simulator"  # noqa: S105
CLOUD: Cloud = AksCloud()


@dataclass(frozen=True, slots=True)
class Azure:
    """What reads the cluster and its subscription, with one credential."""

    checks: CloudChecks
    inspector: SubscriptionClient


def build_provider(settings: Settings, clock: Clock) -> CloudProvider:
    """The AKS provider on the Azure SDK.

    Raises OSError for unusable certificates, ValueError for an invalid identity.
    """
    return _connect(_config(settings), clock)[1]


@asynccontextmanager
async def open_price_source(settings: Settings, clock: Clock) -> AsyncIterator[PriceSource | None]:
    """Where retail prices are read, None unless the settings enable it. Raises OSError for unusable certificates."""
    if not settings.retail_prices:
        yield None
        return
    async with open_retail_prices(_config(settings), clock, version=own_version()) as source:
        yield source


@asynccontextmanager
async def open_azure(settings: Settings) -> AsyncIterator[Azure]:
    """Clients of ARM, until the context ends. Raises as `build_provider` does."""
    config = _config(settings)
    arm, provider = _connect(config, SystemClock())
    inspector = SubscriptionClient(arm.client, arm.credential, config)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(provider.close)
        prices = await stack.enter_async_context(open_price_source(settings, SystemClock()))
        yield Azure(AzureChecks(provider, inspector, config, prices), inspector)


def _connect(config: AzureConfig, clock: Clock) -> tuple[Arm, AzureProvider]:
    """The client, and the provider that owns its session and its credential."""
    arm = build_arm(config, version=own_version())
    return arm, AzureProvider(arm.client, config, clock=clock, owned=(arm.credential, arm.session))


def _config(settings: Settings) -> AzureConfig:
    """The cluster in ARM, the endpoint and the identity."""
    return AzureConfig(
        subscription_id=settings.subscription_id,
        resource_group=settings.resource_group,
        cluster_name=settings.cluster_name,
        location=settings.location,
        arm_endpoint=settings.arm_endpoint,
        arm_scope=settings.arm_scope,
        api_version=settings.arm_api_version or API_VERSION,
        authority_host=settings.authority_host,
        tenant_id=settings.tenant_id,
        client_id=settings.client_id,
        federated_token_file=settings.federated_token_file,
        managed=settings.deployment_mode == "managed",
        azure_cli=settings.azure_cli,
        https_proxy=settings.https_proxy,
        no_proxy=settings.no_proxy,
        ca_file=settings.ssl_cert_file,
        static_token=SIMULATOR_TOKEN if settings.plain_arm else "",
        tags=settings.agent_pool_tags,
    )
