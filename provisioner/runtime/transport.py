"""One HTTP request to the API server: response bytes or a KubeError.

Every request ends with a response or a timeout, and every read is limited in size. A 401 renews the credentials and
sends the request once more. Errors of the HTTP client are quoted and not chained: their `repr` contains the request's
headers.

Source: docs/references/kubernetes.md#python-client, docs/references/kubernetes.md#writes (size limits).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec

from .kube_errors import CREDENTIALS, IDLE_TIMEOUT, NO_RESPONSE, TIMEOUT, KubeError, from_response, too_large
from .kubernetes_sdk import ApiClient, ConfigException, OpenApiException
from .redaction import redact

# An object of etcd has at most 1.5 MiB by default, and JSON at most six bytes for each of its bytes ("<" is \u003c):
# https://etcd.io/docs/v3.6/dev-guide/limit/. A page of a list has so many bytes, too: with fewer objects, if necessary.
RESPONSE_BYTES = 16 * 2**20
ERROR_BYTES = 2**16
CHUNK_BYTES = 2**16

OnRequest = Callable[[str, str, int, float], None]


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `what` describes it in errors; `kind` and `verb` (of Kubernetes) are its metric labels."""

    verb: str
    method: str
    path: str
    kind: str
    what: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"


class Transport:
    """Sends requests on the session of the SDK's client, with the SDK's credentials.

    `bytes_max`: the longest response, and the longest line of a watch, that is read.

    The SDK's own method for a request serializes each part of it again, and passes it through a second HTTP layer.
    """

    def __init__(
        self,
        api_client: ApiClient,
        *,
        timeout_seconds: float,
        bytes_max: int = RESPONSE_BYTES,
        renew_credentials: Callable[[], Awaitable[None]] | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        self._configuration = api_client.configuration
        self._rest = api_client.rest_client
        self._headers = api_client.default_headers
        self._timeout_seconds = timeout_seconds
        self.bytes_max = bytes_max
        self._renew_credentials = renew_credentials
        self._on_request = on_request

    async def send(self, request: Request) -> bytes:
        """The whole body of a successful response. Raises KubeError."""
        timeout = aiohttp.ClientTimeout(total=None)
        try:
            async with asyncio.timeout(self._timeout_seconds), self._response(request, timeout) as response:
                return await _read(response, request, self.bytes_max)
        except TimeoutError:
            raise KubeError(0, TIMEOUT, f"{request.what}: no response within {self._timeout_seconds:g} s") from None

    @asynccontextmanager
    async def stream(
        self, request: Request, *, idle_timeout_seconds: float, total_seconds: float
    ) -> AsyncIterator[Any]:
        """The body in chunks. Raises KubeError; reason IdleTimeout after `idle_timeout_seconds` without a byte."""
        timeout = aiohttp.ClientTimeout(
            total=total_seconds, sock_connect=self._timeout_seconds, sock_read=idle_timeout_seconds
        )
        async with self._response(request, timeout) as response:
            yield _chunks(response, request, idle_timeout_seconds)

    @asynccontextmanager
    async def _response(self, request: Request, limits: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        response = await self._open(request, limits)
        if response.status == 401 and self._renew_credentials is not None:
            response.close()
            await self._renew()
            response = await self._open(request, limits)
        try:
            if not 200 <= response.status < 300:
                raise await _status_error(response, request)
            yield response
        finally:
            response.close()  # closes the connection only if the body was not read to the end

    async def _open(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        loop = asyncio.get_running_loop()
        started, status = loop.time(), 0
        try:
            response: aiohttp.ClientResponse = await self._rest.pool_manager.request(
                method=request.method,
                url=f"{self._configuration.host}{request.path}{'?' if request.query else ''}{urlencode(request.query)}",
                data=None if request.body is None else msgspec.json.encode(request.body, enc_hook=dict),
                headers={
                    "Accept": request.accept,
                    **self._headers,
                    "Content-Type": request.content_type,
                    **await self._authorization(),
                },
                timeout=limits,
                proxy=self._rest.proxy,
                proxy_headers=self._rest.proxy_headers,
                server_hostname=self._rest.server_hostname,
            )
            status = response.status
        except TimeoutError:
            raise KubeError(0, TIMEOUT, f"{request.what}: timed out") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _no_response(request, error) from None
        except (ConfigException, OpenApiException) as error:
            raise KubeError(0, CREDENTIALS, f"{request.what}: {redact(str(error))}") from None
        finally:
            if self._on_request is not None:
                self._on_request(request.verb, request.kind, status, loop.time() - started)
        return response

    async def _authorization(self) -> dict[str, str]:
        """The SDK's credentials as headers; its hook reads a new token where necessary."""
        settings = (await self._configuration.auth_settings()).values()
        return {setting["key"]: setting["value"] for setting in settings if setting["value"]}

    async def _renew(self) -> None:
        if self._renew_credentials is None:
            return
        try:
            await self._renew_credentials()
        except (ConfigException, OSError, ValueError) as error:
            raise KubeError(401, CREDENTIALS, f"renewing credentials: {redact(str(error))}") from None


async def _read(response: aiohttp.ClientResponse, request: Request, bytes_max: int) -> bytes:
    body = bytearray()
    try:
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            body += chunk
            if len(body) > bytes_max:
                raise too_large(request.what, bytes_max)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _no_response(request, error) from None
    return bytes(body)


async def _status_error(response: aiohttp.ClientResponse, request: Request) -> KubeError:
    body = bytearray()
    try:
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            body += chunk
            if len(body) > ERROR_BYTES:
                break
    except (aiohttp.ClientError, OSError, ValueError):
        pass  # the status suffices; its body may be missing
    error = from_response(response.status, response.headers, bytes(body))
    return KubeError(
        error.status,
        error.reason,
        f"{request.what}: {error.message}",
        retry_after=error.retry_after,
        named=error.named,
        causes=error.causes,
    )


async def _chunks(
    response: aiohttp.ClientResponse, request: Request, idle_timeout_seconds: float
) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except TimeoutError:
        raise KubeError(0, IDLE_TIMEOUT, f"{request.what}: no byte for {idle_timeout_seconds:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _no_response(request, error) from None


def _no_response(request: Request, error: Exception) -> KubeError:
    return KubeError(0, NO_RESPONSE, f"{request.what}: {type(error).__name__}: {redact(str(error))}")
