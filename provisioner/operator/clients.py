"""From settings to connections: the API server, ARM, time and chance, for one process.

Everything read from the environment at start is passed on explicitly; every connection made here is closed
here. The lease has a connection of its own. The proxy is for Azure only, never for the API server.
"""

import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import SystemRandom  # noqa: TID251 - the one door for chance

from cloudprovider.azure.client import AzureConfig, build_arm
from cloudprovider.azure.provider import AzureProvider
from cloudprovider.azure.subscription import Inspector
from cloudprovider.interface import CloudProvider
from cloudprovider.metering import Metered
from cloudprovider.rate_limits import BUCKETS, Budgeted
from controllers.model.policy import Policy
from provisioner.metrics.definitions import LABELS, own
from provisioner.runtime.clock import Clock, SystemClock
from provisioner.runtime.connection import SERVICE_ACCOUNT, Connection, build_api_client
from provisioner.runtime.kube import Kube
from provisioner.runtime.metrics import Metrics
from provisioner.settings import Problem, Settings, SettingsError
from provisioner.version import own_version

from .config import Outside, Running

DEFAULT_NAMESPACE = "gpu-provisioner"
DEFAULT_KUBECONFIG = "~/.kube/config"
LEASE_TIMEOUT_SECONDS = 4.0
# ARM on loopback is a simulator; it asks for a bearer token and looks at nothing in it.
SIMULATOR_TOKEN = "simulator"  # noqa: S105


def policy_of(settings: Settings) -> Policy:
    """The rules' numbers and switches, as set."""
    return Policy(
        gpu_readiness=settings.gpu_readiness,
        legacy_pools=settings.legacy_pools,
        node_repair=settings.node_repair,
        max_agent_pools=settings.max_agent_pools,
        max_creates_per_minute=settings.max_creates_per_minute,
        launch_seconds=settings.launch_seconds,
        creating_seconds=settings.creating_seconds,
        registration_seconds=settings.registration_seconds,
        initialization_seconds=settings.initialization_seconds,
        draining_seconds=settings.draining_seconds,
        detaching_seconds=settings.detaching_seconds,
        deleting_seconds=settings.deleting_seconds,
        releasing_seconds=settings.releasing_seconds,
    )


def running_of(settings: Settings, *, identity: str = "", service_account: Path = SERVICE_ACCOUNT) -> Running:
    """How this process runs; the lease lives in the pod's own namespace unless set."""
    return Running(
        policy=policy_of(settings),
        elect=not settings.disable_leader_election,
        lease_name=settings.leader_election_name,
        lease_namespace=settings.leader_election_namespace or _own_namespace(service_account),
        identity=identity or f"{socket.gethostname()}_{os.getpid()}",
        metrics_port=settings.metrics_port,
        health_port=settings.health_probe_port,
        prices=settings.prices,
    )


def _own_namespace(service_account: Path) -> str:
    try:
        return (service_account / "namespace").read_text(encoding="ascii").strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def azure_config(settings: Settings) -> AzureConfig:
    """How ARM is reached and who we are there."""
    return AzureConfig(
        subscription_id=settings.subscription_id,
        resource_group=settings.resource_group,
        cluster_name=settings.cluster_name,
        location=settings.location,
        arm_endpoint=settings.arm_endpoint,
        arm_scope=settings.arm_scope,
        authority_host=settings.authority_host,
        tenant_id=settings.tenant_id,
        client_id=settings.client_id,
        federated_token_file=settings.federated_token_file,
        managed=settings.deployment_mode == "managed",
        https_proxy=settings.https_proxy,
        no_proxy=settings.no_proxy,
        ca_file=settings.ssl_cert_file,
        static_token=SIMULATOR_TOKEN if settings.plain_arm else "",
    )


def check_files(settings: Settings, env: Mapping[str, str]) -> None:
    """Raise SettingsError if files that are named are not there: the SDKs would name a key in them, or nothing."""
    found = [
        Problem(name=name, value=path, why="there is no such file", remedy=remedy)
        for name, path, remedy in (
            ("SSL_CERT_FILE", settings.ssl_cert_file, "Name a file of certificates in PEM, or unset it."),
            ("AZURE_FEDERATED_TOKEN_FILE", _token_file(settings), "Mount the service account's token there."),
        )
        if path and not Path(path).is_file()
    ]
    paths = settings.kubeconfig.split(os.pathsep) if settings.kubeconfig else [DEFAULT_KUBECONFIG]
    in_pod = not settings.kubeconfig and bool(env.get("KUBERNETES_SERVICE_HOST"))
    if not in_pod and not any(Path(path).expanduser().is_file() for path in paths):
        why = "there is no such file" if settings.kubeconfig else f"it is not set, this is no pod, and no {paths[0]}"
        remedy = "Set it to the kubeconfig of the cluster, or run in a pod."
        found.append(Problem(name="KUBECONFIG", value=settings.kubeconfig, why=why, remedy=remedy))
    if found:
        raise SettingsError(found)


def _token_file(settings: Settings) -> str:
    needed = settings.deployment_mode == "self-hosted" and not settings.plain_arm
    return settings.federated_token_file if needed else ""


@asynccontextmanager
async def connect(settings: Settings) -> AsyncIterator[Outside]:
    """The two systems, for as long as the context lasts.

    Raises ConfigException (kubernetes_asyncio) without a usable configuration of the cluster, SettingsError without one
    of Azure.
    """
    clock, metrics = SystemClock(), Metrics(process=True)
    async with AsyncExitStack() as open_until_then:
        kube = await _kube(settings, open_until_then, metrics)
        lease_kube = await _kube(settings, open_until_then, metrics, timeout_seconds=LEASE_TIMEOUT_SECONDS)
        try:
            provider = build_provider(azure_config(settings), clock, metrics)
        except OSError as error:  # ssl.SSLError is one
            why, remedy = f"it cannot be used: {error.strerror or error}", "Name a file of certificates in PEM."
            problem = Problem(name="SSL_CERT_FILE", value=settings.ssl_cert_file, why=why, remedy=remedy)
            raise SettingsError([problem]) from None
        open_until_then.push_async_callback(provider.close)
        yield Outside(
            kube=kube, lease_kube=lease_kube, provider=provider, clock=clock, rng=SystemRandom(), metrics=metrics
        )


@asynccontextmanager
async def open_kube(settings: Settings) -> AsyncIterator[Kube]:
    """The API server alone. Raises ConfigException without a usable configuration."""
    async with AsyncExitStack() as open_until_then:
        yield await _kube(settings, open_until_then, Metrics())


@dataclass(frozen=True, slots=True)
class Azure:
    """ARM as the controller asks it, and what else can be asked there with the same credential."""

    provider: CloudProvider
    inspector: Inspector


@asynccontextmanager
async def open_arm(settings: Settings) -> AsyncIterator[Azure]:
    """ARM alone. Raises OSError for certificates that cannot be used, ValueError for an identity that is none."""
    config = azure_config(settings)
    arm = build_arm(config, version=own_version())
    provider = AzureProvider(arm.client, config, clock=SystemClock(), owned=(arm.credential, arm.session))
    try:
        yield Azure(provider, Inspector(arm.client, arm.credential, config))
    finally:
        await provider.close()


def build_provider(config: AzureConfig, clock: Clock, metrics: Metrics) -> CloudProvider:
    """AKS over the real SDK, metered, within its budget."""
    arm = build_arm(config, version=own_version())
    provider = AzureProvider(arm.client, config, clock=clock, owned=(arm.credential, arm.session))
    return dressed(provider, metrics)


def dressed(provider: CloudProvider, metrics: Metrics) -> CloudProvider:
    """The decorators every provider wears: what is refused by the budget is no call, so it is not metered."""
    tokens, waits = metrics.gauge(own.ARM_TOKENS), metrics.gauge(own.ARM_WAIT)
    throttled = metrics.counter(own.ARM_THROTTLED)
    budgeted = Budgeted(Metered(provider, metrics), throttled)
    for name in BUCKETS:
        tokens.labels(name).set_function(partial(budgeted.tokens_left, name))
        waits.labels(name).set_function(partial(budgeted.wait_seconds, name))
        for by in LABELS["by"].values:
            throttled.labels(name, by)
    return budgeted


async def _kube(
    settings: Settings, open_until_then: AsyncExitStack, metrics: Metrics, *, timeout_seconds: float = 10.0
) -> Kube:
    connection: Connection = await build_api_client(settings.kubeconfig or None, version=own_version())
    open_until_then.push_async_callback(connection.close)
    return Kube(
        connection.api_client,
        timeout_seconds=timeout_seconds,
        renew_credentials=connection.renew_credentials,
        on_request=metrics.kube_request,
    )
