"""An in-memory network: an aiohttp connector whose connections end in aiohttp servers of the same process.

Requests and responses pass through both HTTP stacks, in order, with back-pressure and latency. Each way in which a TCP
connection ends (FIN, RST, refusal, partition) causes the same exceptions and the same number of requests here. There
are no sockets or threads. A connector is the network of one simulated process; `kill` terminates that process.

Source: docs/references/simulator.md#in-memory-wire.
"""

import asyncio
import contextvars
import errno
import math
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
    """A connection of `who` to `host`."""

    who: str
    host: str
    client: MemoryTransport
    server: MemoryTransport

    @property
    def gone(self) -> bool:
        return self.client.gone and self.server.gone

    def hold(self, on: bool) -> None:
        """Drop packets in both directions, without closing."""
        self.client.hold(on)
        self.server.hold(on)


class Network:
    """All connections of a world. `servers` maps a host name to a factory of server protocols (`AppRunner.server`).

    `who` is a connector's name, or `ANY`. Latency is drawn for each chunk and each connection.
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
        # When the last partition ended, by the process that it concerned.
        self._healed_at: dict[str, float] = {}
        self._healed = asyncio.Event()

    def draw_latency(self) -> float:
        """The seconds that the next chunk takes."""
        low, high = self.latency_seconds
        return self._rng.uniform(low, high) if self._rng is not None and high > 0 else high

    def links(self, who: str = ANY, host: str = ANY) -> list[Link]:
        """The open connections of `who` to `host`, in order of creation."""
        self._links = [link for link in self._links if not link.gone]
        return [link for link in self._links if who in (ANY, link.who) and host in (ANY, link.host)]

    def refuse(self, host: str, who: str = ANY, *, on: bool = True) -> None:
        """Refuse new connections, as without a listening server."""
        (self._refused.add if on else self._refused.discard)((who, host))

    def partition(self, host: str, who: str = ANY) -> None:
        """Drop all packets between the two, including those of new connections."""
        self._partitioned.add((who, host))
        for link in self.links(who, host):
            link.hold(True)

    def heal(self, host: str, who: str = ANY) -> None:
        """End the `partition` with the same arguments; data in transit arrives."""
        self._partitioned.discard((who, host))
        self._healed_at[who] = self.loop.time()
        for link in self.links(who, host):
            link.hold(self._applies(self._partitioned, link.who, host))
        self._healed.set()
        self._healed = asyncio.Event()

    def healed_within(self, seconds: float, who: str) -> bool:
        """Whether a partition that concerned this process ended so short a time ago: data in transit was late."""
        ended = max((self._healed_at[name] for name in (who, ANY) if name in self._healed_at), default=-math.inf)
        return self.loop.time() - ended <= seconds

    @staticmethod
    def _applies(pairs: set[tuple[str, str]], who: str, host: str) -> bool:
        return (who, host) in pairs or (ANY, host) in pairs

    async def connect(self, who: str, host: str, protocol: ResponseHandler, alive: Callable[[], bool]) -> None:
        """Connect a client's protocol to a new server protocol. Raises ConnectionRefusedError."""
        if (delay := self.draw_latency()) > 0:
            await asyncio.sleep(delay)
        while self._applies(self._partitioned, who, host):
            await self._healed.wait()
        if not alive() or host not in self.servers or self._applies(self._refused, who, host):
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connection refused: {host}")
        # The server must not inherit the client's context.
        context = contextvars.Context()
        stream = self.servers[host]()
        client = MemoryTransport(self.loop, self.draw_latency, protocol, host, contextvars.copy_context())
        server = MemoryTransport(self.loop, self.draw_latency, stream, who, context)
        client.peer, server.peer = server, client
        self._links = [*self.links(), Link(who, host, client, server)]
        context.run(stream.connection_made, server)
        protocol.connection_made(client)


class _OrderedSet(dict[Any, None]):
    """A set in insertion order; aiohttp's own set would close connections in the order of their addresses."""

    def add(self, item: object) -> None:
        self[item] = None

    def remove(self, item: object) -> None:
        del self[item]

    def discard(self, item: object) -> None:
        self.pop(item, None)


class MemoryConnector(BaseConnector):
    """The network of one process; servers see `who` as `request.remote`. `limit`: as in aiohttp."""

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
        """Terminate the process: every connection ends, by RST (data in transit is lost) or by FIN (it arrives).

        What a partition holds back is lost: without its process, the kernel soon gives up.
        Must be called before the tasks are cancelled; else requests in their `finally` blocks would reach a server.
        """
        self.dead = True
        for link in self._network.links(self.who):
            if reset or link.client.held:
                link.client.reset()
            else:
                link.client.close()
