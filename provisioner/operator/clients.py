"""The clients of one process: the API server, ARM, the clock and the random generator.

Each context closes the connections it opened. The Lease has a connection of its own. The proxy settings apply to Azure
and never to the API server.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from random import SystemRandom  # noqa: TID251 - the only source of randomness in the program

from cloudprovider.interface import CloudProvider
from cloudprovider.metering import InstrumentedProvider
from cloudprovider.rate_limits import BUCKETS, RateLimitedProvider
from provisioner.api.field_error import FieldError
from provisioner.metrics.definitions import LABELS, own
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.compute import ThreadCompute
from provisioner.runtime.connection import build_api_client
from provisioner.runtime.kube import Kube
from provisioner.runtime.metrics import Metrics
from provisioner.settings import Settings, SettingsError
from provisioner.version import own_version

from .azure import CLOUD, build_provider, open_price_source
from .config import Clients

LEASE_TIMEOUT_SECONDS = 4.0


@asynccontextmanager
async def open_clients(settings: Settings) -> AsyncIterator[Clients]:
    """All clients of the controller, until the context ends.

    Raises ConfigException (kubernetes_asyncio) without a usable kubeconfig, SettingsError for unusable certificates.
    """
    clock, metrics = SystemClock(), Metrics(process=True)
    async with AsyncExitStack() as stack:
        kube = await _open_kube(settings, stack, metrics)
        lease_kube = await _open_kube(settings, stack, metrics, timeout_seconds=LEASE_TIMEOUT_SECONDS)
        try:
            provider = decorate(build_provider(settings, clock), metrics)
            stack.push_async_callback(provider.close)
            price_source = await stack.enter_async_context(open_price_source(settings, clock))
        except OSError as error:  # ssl.SSLError is one
            why, remedy = f"it cannot be used: {error.strerror or error}", "Set it to a file of PEM certificates."
            invalid = FieldError("SSL_CERT_FILE", "FieldValueInvalid", why, settings.ssl_cert_file, remedy)
            raise SettingsError([invalid]) from None
        yield Clients(
            kube=kube,
            lease_kube=lease_kube,
            provider=provider,
            cloud=CLOUD,
            clock=clock,
            rng=SystemRandom(),
            metrics=metrics,
            compute=ThreadCompute(),
            price_source=price_source,
        )


@asynccontextmanager
async def open_kube(settings: Settings) -> AsyncIterator[Kube]:
    """A client of the API server alone. Raises ConfigException without a usable kubeconfig."""
    async with AsyncExitStack() as stack:
        yield await _open_kube(settings, stack, Metrics())


def decorate(provider: CloudProvider, metrics: Metrics) -> CloudProvider:
    """The provider with metrics and client-side rate limits; a call that the limits refuse is not counted as a call."""
    tokens, waits = metrics.gauge(own.ARM_TOKENS), metrics.gauge(own.ARM_WAIT)
    throttled = metrics.counter(own.ARM_THROTTLED)
    limited = RateLimitedProvider(InstrumentedProvider(provider, metrics), throttled)
    for name in BUCKETS:
        tokens.labels(name).set_function(partial(limited.tokens_left, name))
        waits.labels(name).set_function(partial(limited.wait_seconds, name))
        for by in LABELS["by"].values:
            throttled.labels(name, by)
    return limited


async def _open_kube(
    settings: Settings, stack: AsyncExitStack, metrics: Metrics, *, timeout_seconds: float = 10.0
) -> Kube:
    connection = await build_api_client(settings.kubeconfig or None, settings.context or None, version=own_version())
    stack.push_async_callback(connection.close)
    return Kube(
        connection.api_client,
        timeout_seconds=timeout_seconds,
        server=connection.server,
        renew_credentials=connection.renew_credentials,
        on_request=metrics.kube_request,
    )
