"""Responses of ARM with a limit of size. The SDK reads the body of a response whole, however long it is."""

from typing import Any

import aiohttp

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
