"""Limits that the Azure SDK does not have: the size of a response, and the time to get an access token.

The SDK reads the body of a response whole, however long it is. The time for a token is shorter than that of the call
that needs it: a credential that hangs then fails as a credential, and the error names the token and not ARM, to which
nothing was sent.
"""

import asyncio
from typing import Any

import aiohttp

TOKEN_SECONDS = 10.0
TIMED_OUT = "getting an access token timed out"
# More than a thousand pages of a LIST.
BODY_BYTES = 64 * 2**20


class BoundedResponse(aiohttp.ClientResponse):
    """A response class of an aiohttp session: a body beyond the limit is a ClientPayloadError."""

    async def start(self, connection: Any) -> "BoundedResponse":
        """Read the head of the response."""
        await super().start(connection)
        self.content = _Bounded(self.content)  # type: ignore[assignment]
        return self


class _Bounded:
    """What the SDK uses of a StreamReader, with a count of the bytes."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content
        self._left = BODY_BYTES

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def read(self, n: int = -1) -> bytes:
        """As `StreamReader.read`. Raises ClientPayloadError beyond the limit."""
        if n >= 0:
            return self._counted(await self._content.read(n))
        body = bytearray()
        while chunk := await self._content.readany():
            body += self._counted(chunk)
        return bytes(body)

    def _counted(self, chunk: bytes) -> bytes:
        self._left -= len(chunk)
        if self._left < 0:
            raise aiohttp.ClientPayloadError(f"the response has more than {BODY_BYTES} bytes")
        return chunk


class BoundedCredential:
    """A credential whose tokens arrive within `TOKEN_SECONDS`. Raises ClientAuthenticationError after that time."""

    def __init__(self, credential: Any) -> None:
        self._credential = credential

    async def get_token(self, *scopes: str, **options: Any) -> Any:
        return await _within(self._credential.get_token(*scopes, **options))

    async def close(self) -> None:
        await self._credential.close()

    async def __aenter__(self) -> "BoundedCredential":
        return self

    async def __aexit__(self, *exc: object) -> None: ...


class BoundedTokenInfoCredential(BoundedCredential):
    """The same for credentials that also return when a token should be refreshed; the SDK prefers that method."""

    async def get_token_info(self, *scopes: str, **options: Any) -> Any:
        return await _within(self._credential.get_token_info(*scopes, **options))


def bounded(credential: Any) -> BoundedCredential:
    """The credential with the bound."""
    kind = BoundedTokenInfoCredential if hasattr(credential, "get_token_info") else BoundedCredential
    return kind(credential)


async def _within(request: Any) -> Any:
    from azure.core.exceptions import ClientAuthenticationError

    try:
        async with asyncio.timeout(TOKEN_SECONDS):
            return await request
    except TimeoutError:
        raise ClientAuthenticationError(TIMED_OUT) from None
