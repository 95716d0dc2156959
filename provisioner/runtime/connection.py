"""An authenticated ApiClient of kubernetes_asyncio with its own HTTP session.

Environment variables, netrc and proxy settings do not affect requests (`trust_env=False`; the SDK's own session looks
them up in a thread for each request). A service account token is read again after 60 s of loop time, and immediately
after a 401.

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
    """An authenticated client. `renew_credentials` reads the credentials again; it is called once after a 401."""

    api_client: ApiClient
    renew_credentials: Callable[[], Awaitable[None]]

    async def close(self) -> None:
        """Close the session and all its connections."""
        await self.api_client.close()


class _RESTClient(RESTClientObject):
    def __init__(self, configuration: Configuration, session: aiohttp.ClientSession) -> None:
        # The SDK declares these as `str`, but its own constructor stores None.
        self.pool_manager = session
        self.server_hostname = configuration.tls_server_name  # type: ignore[assignment]
        self.proxy = configuration.proxy  # type: ignore[assignment]
        self.proxy_headers = configuration.proxy_headers  # type: ignore[assignment]


class _SessionClient(ApiClient):
    """The SDK's client on a given session. Sets every attribute that the SDK's constructor sets."""

    def __init__(self, configuration: Configuration, session: aiohttp.ClientSession, user_agent: str) -> None:
        self.configuration = configuration
        self.pool_threads = 1
        self.rest_client = _RESTClient(configuration, session)
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


def client_over(session: aiohttp.ClientSession, configuration: Configuration, *, version: str) -> ApiClient:
    """An ApiClient on `session`, which must have been created with `trust_env=False`."""
    return _SessionClient(configuration, session, f"gpu-provisioner/{version}")


async def build_api_client(
    kubeconfig: str | None = None,
    *,
    version: str,
    in_cluster: bool | None = None,
    session: aiohttp.ClientSession | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    environ: Mapping[str, str] = os.environ,
) -> Connection:
    """Connect with the service account of the pod (`in_cluster`) or with a kubeconfig file.

    `in_cluster` None selects the service account in a pod, unless `kubeconfig` is set. Raises ConfigException without a
    usable configuration. `session`, or the session created here, is closed with the connection. `proxy-url` in a
    kubeconfig is honoured.
    """
    configuration = Configuration()
    if in_cluster is None:
        in_cluster = not kubeconfig and bool(environ.get("KUBERNETES_SERVICE_HOST"))
    renew = (
        _load_service_account(configuration, service_account, environ)
        if in_cluster
        else await _load_kubeconfig(configuration, kubeconfig)
    )
    own = session or _session(configuration)
    return Connection(client_over(own, configuration, version=version), renew)


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


async def _load_kubeconfig(configuration: Configuration, path: str | None) -> Callable[[], Awaitable[None]]:
    async def load() -> None:
        # Also runs the exec credential plugin of the kubeconfig, which renews its credentials.
        try:
            await load_kube_config(config_file=path, client_configuration=configuration, persist_config=False)
        except (yaml.YAMLError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
            # The error's text quotes the file, which contains credentials.
            raise ConfigException(f"kubeconfig {path or ''} is not valid ({type(error).__name__})") from None

    await load()
    return load


def _session(configuration: Configuration) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=_tls(configuration)),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


def _tls(configuration: Configuration) -> Any:
    if not (configuration.host or "").startswith("https"):
        return True
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigException(f"certificates of the kubeconfig: {error.strerror or error}") from None
    if not configuration.verify_ssl:  # set by `insecure-skip-tls-verify` in the kubeconfig, by nothing else
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
