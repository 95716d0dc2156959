"""A network in memory: an aiohttp connector whose connections end in aiohttp servers of the same process.

Promise: whole requests and responses pass through both real HTTP stacks, in order, with back-pressure and latency; each
way a TCP connection ends (FIN, RST, refusal, silence) ends here with the same exceptions and the same number of calls
that arrive. Nothing in here touches a socket or a thread. A connector is a process's network: `kill` is its death.
Left to others: HTTP (aiohttp), TLS (there is none: an https URL is served as it is), what the servers do.

Source: simulation.md ("Fidelity": 32 of 32 outcomes equal loopback TCP); the tests compare them again.
"""

import asyncio
import contextvars
import enum
import errno
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import Any, Protocol

from aiohttp import BaseConnector, ClientConnectorError, ClientRequest, ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import ceil_timeout

EVERYBODY = ""
HIGH_WATER_BYTES = 65_536
LOW_WATER_BYTES = 16_384
Seconds = tuple[float, float]
ServerFactory = Callable[[], asyncio.BaseProtocol]


class _End(enum.Enum):
    FIN = enum.auto()
    RST = enum.auto()


class _Stream(Protocol):
    """What a transport calls; all of aiohttp's protocols have it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class MemoryTransport(asyncio.Transport):
    """One end of a duplex pipe: what it writes reaches its `peer` in order.

    `_out` is on the way to the peer, `_in` has arrived here and waits to be read. `_unread` counts the bytes written
    here that the peer has not read: the sender's buffer and the receiver's window in one.
    """

    peer: "MemoryTransport"

    def __init__(self, wire: "Wire", protocol: Any, peername: str, context: contextvars.Context) -> None:
        super().__init__({"peername": (peername, 0)})
        self.gone = False
        self._wire, self._loop, self._context = wire, wire.loop, context
        self._protocol: _Stream = protocol
        self._out: deque[bytes | _End] = deque()
        self._in: deque[bytes | _End] = deque()
        self._unread = 0
        self._due = 0.0
        self._closing = self._held = self._reading_paused = self._writing_paused = False

    # what the protocol calls

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
        """Send what was written, then FIN."""
        if not self._closing:
            self._closing = True
            self._send(_End.FIN)
            self._soon(self._lose, None)

    def abort(self) -> None:
        """As asyncio's own (measured on loopback): what was written leaves, and then comes a FIN."""
        self.close()

    # faults

    def reset(self) -> None:
        """Lose everything that is on the way, and RST."""
        if not self.gone:
            self._closing = True
            self._out.clear()
            self._send(_End.RST)
            self._soon(self._lose, None)

    def hold(self, on: bool) -> None:
        """Stop this direction without a word; on release all that was held arrives, as TCP sends it again."""
        was, self._held = self._held, on
        if was and not on:
            for _ in range(len(self._out)):
                self._schedule()

    # the pipe

    def _soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_soon(callback, *args, context=self._context)

    def _send(self, item: bytes | _End) -> None:
        self._out.append(item)
        if not self._held:
            self._schedule()

    def _schedule(self) -> None:
        now, delay = self._loop.time(), self._wire.draw_latency()
        if delay <= 0 and self._due <= now:
            self._soon(self._deliver)
        else:
            self._due = max(self._due, now + delay)
            self._loop.call_at(self._due, self._deliver, context=self._context)

    def _deliver(self) -> None:
        # The head, not the item this call was made for: equal timers may leave the heap in any order.
        if self._out and not self._held:
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


@dataclass(frozen=True, eq=False)
class Link:
    """One connection of `who` to `host`."""

    who: str
    host: str
    client: MemoryTransport
    server: MemoryTransport

    @property
    def gone(self) -> bool:
        return self.client.gone and self.server.gone

    def hold(self, on: bool) -> None:
        """Half-open silence, in both directions."""
        self.client.hold(on)
        self.server.hold(on)


class Wire:
    """All connections of a world. `servers` maps a host name to what makes a server protocol (`AppRunner.server`).

    `who` is a connector's name, `EVERYBODY` any of them. Latency is drawn for each chunk and each connection.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, rng: Random | None = None, latency_seconds: Seconds = (0.0, 0.0)
    ) -> None:
        self.loop = loop
        self.servers: dict[str, ServerFactory] = {}
        self.latency_seconds = latency_seconds
        self._rng = rng
        self._links: list[Link] = []
        self._refused: set[tuple[str, str]] = set()
        self._silent: set[tuple[str, str]] = set()
        self._healed = asyncio.Event()

    def draw_latency(self) -> float:
        """Seconds that the next chunk takes."""
        low, high = self.latency_seconds
        return self._rng.uniform(low, high) if self._rng is not None and high > 0 else high

    def links(self, who: str = EVERYBODY, host: str = EVERYBODY) -> list[Link]:
        """The live connections of `who` to `host`, in the order in which they were made."""
        self._links = [link for link in self._links if not link.gone]
        return [link for link in self._links if who in (EVERYBODY, link.who) and host in (EVERYBODY, link.host)]

    def refuse(self, host: str, who: str = EVERYBODY, *, on: bool = True) -> None:
        """New connections are refused: nobody listens there."""
        (self._refused.add if on else self._refused.discard)((who, host))

    def silence(self, host: str, who: str = EVERYBODY) -> None:
        """A partition: packets between the two are dropped, those of new connections too."""
        self._silent.add((who, host))
        for link in self.links(who, host):
            link.hold(True)

    def heal(self, host: str, who: str = EVERYBODY) -> None:
        """The end of `silence` with the same arguments; what was on the way arrives."""
        self._silent.discard((who, host))
        for link in self.links(who, host):
            link.hold(self._applies(self._silent, link.who, host))
        self._healed.set()
        self._healed = asyncio.Event()

    @staticmethod
    def _applies(pairs: set[tuple[str, str]], who: str, host: str) -> bool:
        return (who, host) in pairs or (EVERYBODY, host) in pairs

    async def connect(self, who: str, host: str, protocol: ResponseHandler, alive: Callable[[], bool]) -> None:
        """Join a client's protocol to a new server protocol. Raises ConnectionRefusedError."""
        if (delay := self.draw_latency()) > 0:
            await asyncio.sleep(delay)
        while self._applies(self._silent, who, host):
            await self._healed.wait()
        if not alive() or host not in self.servers or self._applies(self._refused, who, host):
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connection refused: {host}")
        # A server does not inherit the context of whoever calls it.
        context = contextvars.Context()
        stream = self.servers[host]()
        client = MemoryTransport(self, protocol, host, contextvars.copy_context())
        server = MemoryTransport(self, stream, who, context)
        client.peer, server.peer = server, client
        self._links = [*self.links(), Link(who, host, client, server)]
        context.run(stream.connection_made, server)
        protocol.connection_made(client)


class _OrderedSet(dict[Any, None]):
    """A set in order of insertion: aiohttp's plain one would close connections in the order of their addresses."""

    def add(self, item: object) -> None:
        self[item] = None

    def remove(self, item: object) -> None:
        del self[item]

    def discard(self, item: object) -> None:
        self.pop(item, None)


class MemoryConnector(BaseConnector):
    """The network of one process, called `who` in the servers' eyes (`request.remote`). `limit` as in aiohttp."""

    def __init__(self, wire: Wire, who: str, *, limit: int = 0) -> None:
        super().__init__(limit=limit)
        self.who = who
        self.dead = False
        self._wire = wire
        acquired: Any = _OrderedSet()
        self._acquired = acquired

    async def _create_connection(
        self,
        req: ClientRequest,
        traces: Any,
        timeout: ClientTimeout,  # noqa: ASYNC109 - aiohttp's own signature
    ) -> ResponseHandler:
        protocol = self._factory()
        try:
            async with ceil_timeout(timeout.sock_connect, timeout.ceil_threshold):
                await self._wire.connect(self.who, req.url.raw_host or "", protocol, lambda: not self.dead)
        except ConnectionRefusedError as error:
            raise ClientConnectorError(req.connection_key, error) from error
        return protocol

    def kill(self, *, reset: bool) -> None:
        """The process dies: no new connections, and every open one ends, by RST (what is on the way is lost) or by FIN
        (it still arrives).

        To be called before its tasks are cancelled, or what they do in `finally` would still reach a server.
        """
        self.dead = True
        for link in self._wire.links(self.who):
            if reset:
                link.client.reset()
            else:
                link.client.close()
