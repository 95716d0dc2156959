"""Limits on the connections of one HTTP server: how many are open, and how long each lasts.

A new connection is always accepted: above the limit the oldest one is closed. Clients that never complete a request can
thus neither keep a probe out nor hold memory.
"""

import asyncio
from collections.abc import Callable

from aiohttp import web

CONNECTIONS_MAX = 256
# For one request and its response; the default of Prometheus for a scrape is 10 s.
CONNECTION_SECONDS = 20.0


async def close_after_response(_: web.Request, response: web.StreamResponse) -> None:
    """A signal for `on_response_prepare`: one request per connection, so that no connection ends within a later one."""
    response.headers["Connection"] = "close"
    response.force_close()


class ConnectionLimits:
    """A protocol factory around that of an aiohttp server."""

    def __init__(self, server: Callable[[], asyncio.Protocol]) -> None:
        self._server = server
        self._open: dict[_Connection, None] = {}  # the oldest first

    def __call__(self) -> asyncio.Protocol:
        """The protocol of one accepted connection."""
        return _Connection(self._server(), self._opened, self._closed)

    def _opened(self, connection: "_Connection") -> None:
        self._open[connection] = None
        if len(self._open) > CONNECTIONS_MAX:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.abort()

    def _closed(self, connection: "_Connection") -> None:
        self._open.pop(connection, None)


class _Connection(asyncio.Protocol):
    def __init__(
        self,
        protocol: asyncio.Protocol,
        opened: Callable[["_Connection"], None],
        closed: Callable[["_Connection"], None],
    ) -> None:
        self._protocol = protocol
        self._opened = opened
        self._closed = closed
        self._transport: asyncio.BaseTransport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        """Close at once, without a response."""
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(CONNECTION_SECONDS, self.abort)
        self._protocol.connection_made(transport)
        self._opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._closed(self)
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
