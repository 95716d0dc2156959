"""One end of an in-memory connection, with the behavior of an asyncio transport over TCP.

Bytes arrive in order and with latency. A paused reader stops the writer. After FIN, written data still arrives; RST
discards it; a held connection delivers it on release. Protocols cannot distinguish it from TCP on loopback.

Source: docs/references/simulator.md#in-memory-wire.
"""

import asyncio
import contextvars
import enum
import errno
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

HIGH_WATER_BYTES = 65_536
LOW_WATER_BYTES = 16_384


class _End(enum.Enum):
    FIN = enum.auto()
    RST = enum.auto()


class _Stream(Protocol):
    """The methods that a transport calls; all of aiohttp's protocols have them."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class MemoryTransport(asyncio.Transport):
    """One end of a duplex pipe; `peer` is the other end.

    `held`: nothing leaves. `_out` is in transit to the peer, `_in` has arrived and was not read yet. `_unread`: bytes
    written here that the peer has not read, for back-pressure. `latency` gives the seconds that the next chunk takes.
    """

    peer: "MemoryTransport"

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        latency: Callable[[], float],
        protocol: Any,
        peername: str,
        context: contextvars.Context,
    ) -> None:
        super().__init__({"peername": (peername, 0)})
        self.gone = self.held = False
        self._loop, self._latency, self._context = loop, latency, context
        self._protocol: _Stream = protocol
        self._out: deque[bytes | _End] = deque()
        self._in: deque[bytes | _End] = deque()
        self._unread = 0
        self._due = 0.0
        self._closing = self._reading_paused = self._writing_paused = False

    # called by the protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not data or self._closing:
            return
        self._unread += len(data)
        self._send(bytes(data))
        if self._unread > HIGH_WATER_BYTES and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        stream: Any = protocol
        self._protocol = stream

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._soon(self._read)

    def close(self) -> None:
        """Send the written data, then FIN."""
        if not self._closing:
            self._closing = True
            self._send(_End.FIN)
            self._soon(self._lose, None)

    def abort(self) -> None:
        """Like asyncio's (measured on loopback): sends the written data, then FIN."""
        self.close()

    # faults

    def reset(self) -> None:
        """Discard the data in transit, and send RST; also what a closed connection still holds."""
        if not self.gone or self.held:
            self._closing = True
            self._out.clear()
            self._send(_End.RST)
            self._soon(self._lose, None)

    def hold(self, on: bool) -> None:
        """Stop this direction; on release all held data arrives, as with TCP retransmission."""
        was, self.held = self.held, on
        if was and not on:
            for _ in range(len(self._out)):
                self._schedule()

    # internals

    def _soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_soon(callback, *args, context=self._context)

    def _send(self, item: bytes | _End) -> None:
        self._out.append(item)
        if not self.held:
            self._schedule()

    def _schedule(self) -> None:
        now, delay = self._loop.time(), self._latency()
        if delay <= 0 and self._due <= now:
            self._soon(self._deliver)
        else:
            self._due = max(self._due, now + delay)
            self._loop.call_at(self._due, self._deliver, context=self._context)

    def _deliver(self) -> None:
        # The first item, not the one that was scheduled: equal timers leave the heap in any order.
        if self._out and not self.held:
            self.peer._arrive(self._out.popleft())  # noqa: SLF001 - both ends are one pipe

    def _arrive(self, item: bytes | _End) -> None:
        self._in.append(item)
        self._soon(self._read)

    def _read(self) -> None:
        while self._in and not self.gone and (not self._reading_paused or self._in[0] is _End.RST):
            item = self._in.popleft()
            if item is _End.RST:
                self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            elif item is _End.FIN:
                self._protocol.eof_received()
                self.close()
                return
            elif isinstance(item, bytes):
                self.peer._consumed(len(item))  # noqa: SLF001 - both ends are one pipe
                if not self._closing:
                    self._protocol.data_received(item)

    def _consumed(self, count: int) -> None:
        self._unread -= count
        if self._writing_paused and self._unread <= LOW_WATER_BYTES and not self.gone:
            self._writing_paused = False
            self._protocol.resume_writing()

    def _lose(self, error: Exception | None) -> None:
        if not self.gone:
            self._closing = self.gone = True
            self._in.clear()
            self._protocol.connection_lost(error)
