"""What a command that writes nothing reads: the cluster, or files in its place."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import SystemRandom  # noqa: TID251 - of a process that writes nothing
from typing import TextIO

from provisioner.operator.azure import CLOUD, build_provider
from provisioner.operator.clients import decorate, open_kube
from provisioner.operator.config import Clients, config_from
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.compute import inline
from provisioner.runtime.metrics import Metrics
from provisioner.settings import Settings

from .clients import Tools
from .explain_files import Files
from .refusal import USAGE, Refused


@asynccontextmanager
async def cluster_or_files(settings: Settings, filenames: Sequence[str], typed: TextIO) -> AsyncIterator[Tools]:
    """Connections; to files in place of the cluster if there are names of some. Raises Refused."""
    clock, metrics = SystemClock(), Metrics()
    async with AsyncExitStack() as stack:
        kube = (
            Files(filenames, typed, clock.now()) if filenames else await stack.enter_async_context(open_kube(settings))
        )
        try:
            provider = decorate(build_provider(settings, clock), metrics)
        except (OSError, ValueError) as error:
            raise Refused(f"failed to connect to Azure: {error}", "Check SSL_CERT_FILE and the proxy.", USAGE) from None
        stack.push_async_callback(provider.close)
        yield Tools(
            clients=Clients(
                kube=kube,
                lease_kube=kube,
                provider=provider,
                cloud=CLOUD,
                clock=clock,
                rng=SystemRandom(),
                metrics=metrics,
                compute=inline,
            ),
            config=config_from(settings),
            cluster=settings.cluster_name,
        )
