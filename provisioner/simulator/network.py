"""A network in memory: an aiohttp connector whose connections end in aiohttp servers of the same process.

Whole requests and responses pass through both real HTTP stacks, in order, with back-pressure and latency; each
way a TCP connection ends (FIN, RST, refusal, silence) ends here with the same exceptions and the same number of calls
that arrive. Nothing in here touches a socket or a thread. A connector is a process's network: `kill` is its death.

Source: docs/references/simulator.md#in-memory-wire.
"""

import asyncio
import contextvars
import errno
from collections.abc import Callable
from dataclasses import dataclass
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import Any

from aiohttp import BaseConnector, ClientConnectorError, ClientRequest, ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import ceil_timeout

from .transport import MemoryTransport

ANY = ""
Seconds = tuple[float, float]
ServerFactory = Callable[[], asyncio.BaseProtocol]


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


class Network:
    """All connections of a world. `servers` maps a host name to what makes a server protocol (`AppRunner.server`).

    `who` is a connector's name, `ANY` any of them. Latency is drawn for each chunk and each connection.
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
        self._partitioned: set[tuple[str, str]] = set()
        self._healed = asyncio.Event()

    def draw_latency(self) -> float:
        """Seconds that the next chunk takes."""
        low, high = self.latency_seconds
        return self._rng.uniform(low, high) if self._rng is not None and high > 0 else high

    def links(self, who: str = ANY, host: str = ANY) -> list[Link]:
        """The live connections of `who` to `host`, in the order in which they were made."""
        self._links = [link for link in self._links if not link.gone]
        return [link for link in self._links if who in (ANY, link.who) and host in (ANY, link.host)]

    def refuse(self, host: str, who: str = ANY, *, on: bool = True) -> None:
        """New connections are refused: nobody listens there."""
        (self._refused.add if on else self._refused.discard)((who, host))

    def partition(self, host: str, who: str = ANY) -> None:
        """A partition: packets between the two are dropped, those of new connections too."""
        self._partitioned.add((who, host))
        for link in self.links(who, host):
            link.hold(True)

    def heal(self, host: str, who: str = ANY) -> None:
        """The end of `silence` with the same arguments; what was on the way arrives."""
        self._partitioned.discard((who, host))
        for link in self.links(who, host):
            link.hold(self._applies(self._partitioned, link.who, host))
        self._healed.set()
        self._healed = asyncio.Event()

    @staticmethod
    def _applies(pairs: set[tuple[str, str]], who: str, host: str) -> bool:
        return (who, host) in pairs or (ANY, host) in pairs

    async def connect(self, who: str, host: str, protocol: ResponseHandler, alive: Callable[[], bool]) -> None:
        """Join a client's protocol to a new server protocol. Raises ConnectionRefusedError."""
        if (delay := self.draw_latency()) > 0:
            await asyncio.sleep(delay)
        while self._applies(self._partitioned, who, host):
            await self._healed.wait()
        if not alive() or host not in self.servers or self._applies(self._refused, who, host):
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connection refused: {host}")
        # A server does not inherit the context of whoever calls it.
        context = contextvars.Context()
        stream = self.servers[host]()
        client = MemoryTransport(self.loop, self.draw_latency, protocol, host, contextvars.copy_context())
        server = MemoryTransport(self.loop, self.draw_latency, stream, who, context)
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

    def __init__(self, network: Network, who: str, *, limit: int = 0) -> None:
        super().__init__(limit=limit)
        self.who = who
        self.dead = False
        self._network = network
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
                await self._network.connect(self.who, req.url.raw_host or "", protocol, lambda: not self.dead)
        except ConnectionRefusedError as error:
            raise ClientConnectorError(req.connection_key, error) from error
        return protocol

    def kill(self, *, reset: bool) -> None:
        """The process dies: no new connections, and every open one ends, by RST (what is on the way is lost) or by FIN
        (it still arrives).

        To be called before its tasks are cancelled, or what they do in `finally` would still reach a server.
        """
        self.dead = True
        for link in self._network.links(self.who):
            if reset:
                link.client.reset()
            else:
                link.client.close()
