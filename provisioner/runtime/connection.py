"""An authenticated ApiClient of kubernetes_asyncio with its own HTTP session.

Environment variables, netrc and proxy settings do not affect requests (`trust_env=False`; the SDK's own session looks
them up in a thread for each request). A service account token is read again after 60 s of loop time, and immediately
after a 401; the file of CA certificates is read again after 60 s. Redirects are not followed.

Source: docs/references/kubernetes.md#python-client.
"""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from .ca_file import CaFile
from .kubernetes_sdk import (
    ApiClient,
    ConfigException,
    Configuration,
    RESTClientObject,
    load_incluster_config,
    load_kube_config,
)
from .logs import get_logger

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS = 60.0
RETRY_SECONDS = 10.0
CONNECTIONS = 100

log = get_logger("kube")


@dataclass(frozen=True, slots=True)
class Connection:
    """An authenticated client. `renew_credentials` reads the credentials again; it is called once after a 401.

    `context` is the one of the kubeconfig, "" in a pod.
    """

    api_client: ApiClient
    renew_credentials: Callable[[], Awaitable[None]]
    context: str = ""

    @property
    def server(self) -> str:
        """The cluster as messages name it: the address of its API server, and the context."""
        host = self.api_client.configuration.host
        return f"{host} (context {self.context})" if self.context else f"{host}"

    async def close(self) -> None:
        """Close the session and all its connections."""
        await self.api_client.close()


class _Requests:
    """The session as the SDK uses it. A redirect is a response: a request and its body are for the API server only."""

    def __init__(self, session: aiohttp.ClientSession, ca: CaFile | None) -> None:
        self._session = session
        self._ca = ca

    async def request(self, **options: Any) -> aiohttp.ClientResponse:
        if self._ca is not None:
            options["ssl"] = self._ca.context()
        return await self._session.request(**options, allow_redirects=False)

    async def close(self) -> None:
        await self._session.close()


class _RESTClient(RESTClientObject):
    def __init__(self, configuration: Configuration, requests: _Requests) -> None:
        self.pool_manager = requests  # type: ignore[assignment]
        # The SDK declares these as `str`, but its own constructor stores None.
        self.server_hostname = configuration.tls_server_name  # type: ignore[assignment]
        self.proxy = configuration.proxy  # type: ignore[assignment]
        self.proxy_headers = configuration.proxy_headers  # type: ignore[assignment]


class _SessionClient(ApiClient):
    """The SDK's client on a given session. Sets every attribute that the SDK's constructor sets."""

    def __init__(self, configuration: Configuration, requests: _Requests, user_agent: str) -> None:
        self.configuration = configuration
        self.pool_threads = 1
        self.rest_client = _RESTClient(configuration, requests)
        self.default_headers: dict[str, str] = {}
        self.cookie = None  # type: ignore[assignment]
        self.user_agent = user_agent
        self.client_side_validation = False


class ServiceAccountToken:
    """A projected service account token. The kubelet replaces the file before the token expires."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = float("-inf")

    def load(self, configuration: Configuration) -> None:
        """Read the token into the configuration. Raises ConfigException if there is none.

        The read blocks the event loop for microseconds: the file is in tmpfs.
        """
        try:
            token = self._path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeError) as error:
            raise ConfigException(f"service account token {self._path.name}: {type(error).__name__}") from None
        if not token:
            raise ConfigException(f"service account token {self._path.name} is empty")
        configuration.api_key["BearerToken"] = f"Bearer {token}"
        self._read_at = asyncio.get_running_loop().time()

    def refresh(self, configuration: Configuration) -> None:
        """The SDK's hook before each request: reads the token again 60 s after the last read.

        If the file cannot be read, the current token stays in use.
        """
        now = asyncio.get_running_loop().time()
        if now - self._read_at < TOKEN_SECONDS:
            return
        try:
            self.load(configuration)
        except ConfigException as error:
            self._read_at = now - TOKEN_SECONDS + RETRY_SECONDS
            log.warning("failed to reload the service account token", error=str(error), retry_seconds=RETRY_SECONDS)


def client_over(
    session: aiohttp.ClientSession, configuration: Configuration, *, version: str, ca: CaFile | None = None
) -> ApiClient:
    """An ApiClient on `session`, which must have been created with `trust_env=False`; it trusts `ca`, if given."""
    return _SessionClient(configuration, _Requests(session, ca), f"gpu-provisioner/{version}")


def uses_service_account(kubeconfig: str | None, context: str | None, environ: Mapping[str, str]) -> bool:
    """Whether a process connects to the cluster of its own Pod, unless it is told otherwise."""
    return not (kubeconfig or context) and bool(environ.get("KUBERNETES_SERVICE_HOST"))


async def build_api_client(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    version: str,
    in_cluster: bool | None = None,
    session: aiohttp.ClientSession | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    environ: Mapping[str, str] = os.environ,
) -> Connection:
    """Connect with the service account of the pod (`in_cluster`) or with a kubeconfig file.

    `in_cluster` None selects the service account in a pod, unless `kubeconfig` or `context` is set; `context` None is
    the current one of the kubeconfig. Raises ConfigException without a usable configuration. `session`, or the session
    created here, is closed with the connection. `proxy-url` in a kubeconfig is honoured.
    """
    configuration = Configuration()
    if in_cluster is None:
        in_cluster = uses_service_account(kubeconfig, context, environ)
    if in_cluster:
        renew, name = _load_service_account(configuration, service_account, environ), ""
    else:
        renew, name = await _load_kubeconfig(configuration, kubeconfig, context)
    if session is not None:
        return Connection(client_over(session, configuration, version=version), renew, name)
    if not (configuration.host or "").startswith("https"):
        return Connection(client_over(_session(True), configuration, version=version), renew, name)
    try:
        ca = CaFile(Path(configuration.ssl_ca_cert), lambda: _tls(configuration)) if configuration.ssl_ca_cert else None
        tls = ca.context() if ca is not None else _tls(configuration)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigException(f"certificates of the kubeconfig: {error.strerror or error}") from None
    return Connection(client_over(_session(tls), configuration, version=version, ca=ca), renew, name)


def _load_service_account(
    configuration: Configuration, folder: Path, environ: Mapping[str, str]
) -> Callable[[], Awaitable[None]]:
    load_incluster_config(  # type: ignore[no-untyped-call]
        client_configuration=configuration,
        token_filename=str(folder / "token"),
        cert_filename=str(folder / "ca.crt"),
        environ=dict(environ),
    )
    token = ServiceAccountToken(folder / "token")
    token.load(configuration)
    configuration.refresh_api_key_hook = token.refresh

    async def renew() -> None:
        token.load(configuration)

    return renew


async def _load_kubeconfig(
    configuration: Configuration, path: str | None, context: str | None
) -> tuple[Callable[[], Awaitable[None]], str]:
    """What reads it again, and the name of the context."""
    name = context or ""

    async def load() -> None:
        nonlocal name
        # Also runs the exec credential plugin of the kubeconfig, which renews its credentials.
        try:
            loader = await load_kube_config(
                config_file=path, context=context, client_configuration=configuration, persist_config=False
            )
            name = str(loader.current_context["name"]) if loader.current_context else ""
        except ConfigException as error:
            if context and f"object with name {context} in " in str(error):
                raise ConfigException(f"the kubeconfig has no context {context}") from None
            raise
        except (yaml.YAMLError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
            # The error's text quotes the file, which contains credentials.
            raise ConfigException(f"kubeconfig {path or ''} is not valid ({type(error).__name__})") from None

    await load()
    return load, name


def _session(tls: ssl.SSLContext | bool) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


def _tls(configuration: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:  # set by `insecure-skip-tls-verify` in the kubeconfig, by nothing else
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
