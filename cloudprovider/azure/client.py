"""Session, credential and client of the Azure SDK, from an `AzureConfig`.

The environment is not read (`trust_env=False`), except by DefaultAzureCredential when `managed`. One call is one
request: the SDK and aiohttp neither retry nor follow redirects. Over plain http, tokens are sent to loopback hosts
only. A response has at most 64 MiB. `ca_file` is read again while the process runs. The `repr` of the configuration
contains no secret.

Source: docs/references/agent-pools.md#python-sdk, docs/references/agent-pools.md#identity-and-clouds.
"""

import ipaddress
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec

from provisioner.runtime.ca_file import CaFile

from .sdk_limits import BoundedResponse, bounded

if TYPE_CHECKING:
    # Slow to import; `build_client` and `build_credential` import them when called.
    from azure.core.credentials import AccessToken
    from azure.mgmt.containerservice.aio import ContainerServiceClient

# Of Microsoft.ContainerService; a setting names another one for clouds that do not offer it.
API_VERSION = "2026-08-01"
CONNECT_SECONDS = 5.0
# Longer than `CALL_SECONDS`, which applies first.
READ_SECONDS = 30.0
CONNECTIONS = 100
NEVER_EXPIRES = 4_102_444_800  # 2100-01-01, in seconds of the Unix epoch


class AzureConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The managed cluster, the endpoint of ARM and the identity. `static_token` is for simulators on loopback only.

    `tags`: of all agent pools that are created.
    """

    subscription_id: str
    resource_group: str
    cluster_name: str
    location: str = ""
    arm_endpoint: str = "https://management.azure.com"
    arm_scope: str = "https://management.azure.com/.default"
    api_version: str = API_VERSION
    authority_host: str = ""
    tenant_id: str = ""
    client_id: str = ""
    federated_token_file: str = ""
    managed: bool = False
    azure_cli: bool = False
    https_proxy: str = ""
    no_proxy: str = ""
    ca_file: str = ""
    static_token: str = ""
    tags: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"AzureConfig({self.subscription_id}/{self.resource_group}/{self.cluster_name} at {self.arm_endpoint})"

    @property
    def cluster_path(self) -> str:
        """The ARM resource id of the managed cluster."""
        return (
            f"/subscriptions/{self.subscription_id}/resourceGroups/{self.resource_group}"
            f"/providers/Microsoft.ContainerService/managedClusters/{self.cluster_name}"
        )


class Credential(Protocol):
    """The SDK's `AsyncTokenCredential`."""

    async def get_token(self, *scopes: str, **options: Any) -> "AccessToken": ...
    async def close(self) -> None: ...


class StaticToken:
    """A token that does not expire, for a simulated ARM."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __repr__(self) -> str:
        return "StaticToken(***)"

    async def get_token(self, *scopes: str, **options: Any) -> "AccessToken":
        from azure.core.credentials import AccessToken

        return AccessToken(self._token, NEVER_EXPIRES)

    async def close(self) -> None: ...

    async def __aenter__(self) -> "StaticToken":
        return self

    async def __aexit__(self, *exc: object) -> None: ...


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback address or name."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def bypasses_proxy(host: str, no_proxy: str) -> bool:
    """Whether NO_PROXY exempts `host`: `*`, a name and its subdomains (leading dot or not), an address or a network."""
    host = host.lower().strip("[]").rstrip(".")
    return any(_exempts(entry, host) for entry in no_proxy.replace(";", ",").split(","))


def _exempts(entry: str, host: str) -> bool:
    entry = entry.strip().lower()
    if entry in ("", "*"):
        return entry == "*"
    try:
        network = ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        name = entry.partition(":")[0].removeprefix("*").strip(".")
        return bool(name) and (host == name or host.endswith(f".{name}"))
    try:
        return ipaddress.ip_address(host) in network
    except ValueError:
        return False


def build_tls(config: AzureConfig) -> ssl.SSLContext:
    """Trusts `ca_file`, or the CA certificates of the system. Raises OSError if `ca_file` cannot be read."""
    return ssl.create_default_context(cafile=config.ca_file or None)


def build_session(tls: ssl.SSLContext) -> aiohttp.ClientSession:
    """A new session. Its responses are decompressed, so that their limit counts what is kept in memory."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls),
        cookie_jar=aiohttp.DummyCookieJar(),
        response_class=BoundedResponse,
        trust_env=False,
    )
    return disable_retries(session)


def disable_retries(session: aiohttp.ClientSession) -> aiohttp.ClientSession:
    """Disable aiohttp's retry of idempotent requests, which include PUT; returns the session."""
    session._retry_connection = False  # noqa: SLF001 - aiohttp has no public option
    return session


def build_credential(config: AzureConfig) -> Credential:
    """Workload identity, DefaultAzureCredential when `managed`, the login of the Azure CLI when `azure_cli`, or a
    static token for a simulator.

    Raises ValueError for a static token without loopback, or if workload identity lacks one of its three values.
    """
    if config.static_token:
        if not is_loopback(urlsplit(config.arm_endpoint).hostname or ""):
            raise ValueError("a static token is for a simulator on loopback only; use workload identity")
        return StaticToken(config.static_token)
    if config.azure_cli:
        from azure.identity.aio import AzureCliCredential

        return AzureCliCredential(tenant_id=config.tenant_id)
    common: dict[str, Any] = {"authority": config.authority_host} if config.authority_host else {}
    common |= _proxies(config, config.authority_host or "https://login.microsoftonline.com")
    if config.ca_file:
        common["connection_verify"] = config.ca_file
    # The session of the credential does not read the environment either; the proxy is set above.
    common["use_env_settings"] = False
    if config.managed:
        from azure.identity.aio import DefaultAzureCredential

        chosen = {"managed_identity_client_id": config.client_id} if config.client_id else {}
        return DefaultAzureCredential(**chosen, **common)
    from azure.identity.aio import WorkloadIdentityCredential

    return WorkloadIdentityCredential(
        tenant_id=config.tenant_id or None,
        client_id=config.client_id or None,
        token_file_path=config.federated_token_file or None,
        **common,
    )


def build_client(
    config: AzureConfig,
    session: aiohttp.ClientSession,
    credential: Credential,
    *,
    version: str,
    ca: CaFile | None = None,
) -> "ContainerServiceClient":
    """The client over `session`, which it does not close. Raises ValueError for plain http without loopback."""
    from azure.core.pipeline.transport import AioHttpTransport
    from azure.mgmt.containerservice.aio import ContainerServiceClient

    return ContainerServiceClient(
        bounded(credential),
        config.subscription_id,
        base_url=config.arm_endpoint,
        api_version=config.api_version,
        credential_scopes=[config.arm_scope],
        transport=AioHttpTransport(
            session=session,
            session_owner=False,
            use_env_settings=False,
            connection_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
        ),
        user_agent=f"gpu-provisioner/{version}",
        retry_total=0,
        permit_redirects=False,
        per_call_policies=[*_trust(ca), *_plain_http(config.arm_endpoint)],
        **_proxies(config, config.arm_endpoint),
    )


class Arm(NamedTuple):
    """The client with its session and credential, which it does not close."""

    client: "ContainerServiceClient"
    session: aiohttp.ClientSession
    credential: Credential


def build_arm(config: AzureConfig, *, version: str) -> Arm:
    """A client with a new session and credential. Raises OSError and ValueError as their builders do."""
    ca = CaFile(Path(config.ca_file), lambda: build_tls(config)) if config.ca_file else None
    session, credential = build_session(ca.context() if ca is not None else build_tls(config)), build_credential(config)
    return Arm(build_client(config, session, credential, version=version, ca=ca), session, credential)


def _proxies(config: AzureConfig, address: str) -> dict[str, Any]:
    if not config.https_proxy or bypasses_proxy(urlsplit(address).hostname or "", config.no_proxy):
        return {}
    return {"proxies": {"https": config.https_proxy}}


def _trust(ca: CaFile | None) -> Iterable[Any]:
    if ca is None:
        return []
    from azure.core.pipeline.policies import SansIOHTTPPolicy

    context = ca.context

    class Trust(SansIOHTTPPolicy[Any, Any]):
        def on_request(self, request: Any) -> None:
            request.context.options["ssl"] = context()  # AioHttpTransport passes it on to aiohttp

    return [Trust()]


def _plain_http(endpoint: str) -> Iterable[Any]:
    parts = urlsplit(endpoint)
    if parts.scheme == "https":
        return []
    if parts.scheme != "http" or not is_loopback(parts.hostname or ""):
        raise ValueError(f"{parts.scheme}://{parts.hostname} requires https: tokens are sent in plain text")
    from azure.core.pipeline.policies import SansIOHTTPPolicy

    class PlainHttp(SansIOHTTPPolicy[Any, Any]):
        def on_request(self, request: Any) -> None:
            request.context.options["enforce_https"] = False

    return [PlainHttp()]
