"""The in-memory network: the same outcomes as TCP, and faults at exact times.

Each case of `OUTCOMES` runs twice, over loopback sockets in real time and in memory in virtual time, and must have
the same exceptions, messages and number of requests that reached the server.
"""

import asyncio
import random
import socket
import struct
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from provisioner.simulator import loop as sim
from provisioner.simulator.network import MemoryConnector, Network

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
HOST = "server.sim"
BIG = 20 * 1024 * 1024


def reset(request) -> None:
    """End a connection with RST, on either wire."""
    transport = request.transport
    tcp = transport.get_extra_info("socket")
    if tcp is None:
        transport.reset()
    else:
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


class Server:
    """Handlers for every way a call can end; `hits` counts the calls that arrived."""

    def __init__(self) -> None:
        self.hits = list[Any]()
        self.silent = asyncio.Event()

    def app(self):
        app = web.Application(client_max_size=2 * BIG)
        for path in (
            "ok",
            "fin_before",
            "rst_before",
            "fin_after",
            "rst_after",
            "drop",
            "reset_stream",
            "slow",
            "big",
            "echo",
        ):
            app.router.add_route("*", f"/{path}", getattr(self, path))
        app.on_response_prepare.append(self.count)
        app.middlewares.append(self.note)
        return app

    @web.middleware
    async def note(self, request, handler):
        self.hits.append(f"{request.method} {request.path}")
        return await handler(request)

    async def count(self, request, response) -> None:
        response.headers["X-Hits"] = str(len(self.hits))

    async def ok(self, request):
        return web.Response(text="client" if request.remote in {"client", "127.0.0.1"} else str(request.remote))

    async def fin_before(self, request):
        request.transport.close()
        return web.Response()

    async def rst_before(self, request):
        reset(request)
        return web.Response()

    async def fin_after(self, request):
        await request.read()
        request.transport.close()
        return web.Response(text="applied")

    async def rst_after(self, request):
        await request.read()
        await asyncio.sleep(0)
        reset(request)
        return web.Response(text="applied")

    async def stream(self, request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(0.05)
        return response

    async def drop(self, request):
        response = await self.stream(request)
        request.transport.close()
        return response

    async def reset_stream(self, request):
        response = await self.stream(request)
        reset(request)
        return response

    async def slow(self, request):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.hits.append("cancelled")
            raise
        return web.Response()

    async def big(self, request):
        return web.Response(body=bytes(range(256)) * (BIG // 256))

    async def echo(self, request):
        return web.Response(text=str(len(await request.read())))


@asynccontextmanager
async def in_memory(server):
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=1)
    await runner.setup()
    wire = Network(asyncio.get_running_loop())
    assert runner.server is not None
    wire.servers[HOST] = runner.server
    try:
        async with aiohttp.ClientSession(connector=MemoryConnector(wire, "client"), trust_env=False) as session:
            yield session, f"http://{HOST}", "http://nobody.sim"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def over_tcp(server):
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = unused.getsockname()[1]
        try:
            async with aiohttp.ClientSession(trust_env=False) as session:
                yield session, f"http://127.0.0.1:{runner.addresses[0][1]}", f"http://127.0.0.1:{closed}"
        finally:
            await runner.cleanup()


def call(method, path, *, seconds=None, body=None):
    async def story(session, url, _nobody):
        limit = aiohttp.ClientTimeout(total=seconds)
        async with session.request(method, f"{url}/{path}", data=body, timeout=limit) as response:
            return response.status, len(await response.read())

    return story


async def partial_stream(session, url, _nobody):
    lines = []
    try:
        async with session.get(f"{url}/drop") as response:
            async for line in response.content:
                lines.append(line)  # noqa: PERF401 - what came before the error counts
    except aiohttp.ClientError as error:
        return lines, type(error).__name__
    return lines, "whole"


async def partial_stream_reset(session, url, _nobody):
    lines = []
    try:
        async with session.get(f"{url}/reset_stream") as response:
            async for line in response.content:
                lines.append(line)  # noqa: PERF401 - what came before the error counts
    except (aiohttp.ClientError, OSError) as error:
        return lines, type(error).__name__
    return lines, "whole"


async def read_timeout(session, url, _nobody):
    async with session.get(f"{url}/slow", timeout=aiohttp.ClientTimeout(sock_read=0.1)) as response:
        return response.status


async def refused(session, _url, nobody):
    async with session.get(nobody) as response:
        return response.status


async def cancelled(session, url, _nobody):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), session.get(f"{url}/slow"):
            pass
    async with session.get(f"{url}/ok") as response:
        return response.status


async def kept_alive(session, url, _nobody):
    for _ in range(3):
        async with session.get(f"{url}/ok") as response:
            await response.read()
    return len(session.connector._conns)


async def upload(session, url, _nobody):
    async def chunks():
        for _ in range(20):
            yield b"x" * (BIG // 20)

    async with session.put(f"{url}/echo", data=chunks()) as response:
        return await response.text()


OUTCOMES = {
    "ok": call("GET", "ok"),
    "FIN before the answer, GET": call("GET", "fin_before"),
    "FIN before the answer, POST": call("POST", "fin_before", body=b"x"),
    "RST before the answer, GET": call("GET", "rst_before"),
    "RST before the answer, PUT": call("PUT", "rst_before", body=b"x"),
    "RST before the answer, POST": call("POST", "rst_before", body=b"x"),
    "FIN after it took effect, PUT": call("PUT", "fin_after", body=b"x"),
    "RST after it took effect, PUT": call("PUT", "rst_after", body=b"x"),
    "RST after it took effect, PATCH": call("PATCH", "rst_after", body=b"x"),
    "stream dropped": partial_stream,
    "stream reset": partial_stream_reset,
    "total timeout": call("GET", "slow", seconds=0.1),
    "read timeout": read_timeout,
    "refused": refused,
    "client cancels": cancelled,
    "20 MB down": call("GET", "big"),
    "20 MB up": upload,
    "kept alive": kept_alive,
}


async def outcome(connect, story):
    server = Server()
    async with connect(server) as (session, url, nobody):
        try:
            result: Any = repr(await story(session, url, nobody))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            text = (
                str(error)
                .replace(nobody.removeprefix("http://"), "nobody")
                .replace(url.removeprefix("http://"), "server")
            )
            result = type(error).__mro__, getattr(error, "errno", None), text if story is not refused else ""
    return result, server.hits


@pytest.mark.parametrize("name", OUTCOMES)
def test_calls_in_memory_end_as_over_tcp(name) -> None:
    """The exceptions and the arrived requests are the same as over loopback TCP."""
    over_sockets = asyncio.run(outcome(over_tcp, OUTCOMES[name]))
    assert sim.run(lambda: outcome(in_memory, OUTCOMES[name]), seed=1, epoch=EPOCH) == over_sockets


class Net:
    """One server, any number of named clients, on the virtual loop."""

    def __init__(self, wire, server, connect) -> None:
        self.network, self.server, self.client = wire, server, connect


def on_the_wire(story, *, latency=(0.0, 0.0), seed=1):
    async def main():
        server = Server()
        runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=1)
        await runner.setup()
        wire = Network(asyncio.get_running_loop(), random.Random(seed), latency)
        assert runner.server is not None
        wire.servers[HOST] = runner.server
        sessions = []

        def connect(who):
            connector = MemoryConnector(wire, who)
            sessions.append(aiohttp.ClientSession(f"http://{HOST}", connector=connector))
            return sessions[-1], connector

        try:
            return await story(Net(wire, server, connect))
        finally:
            for session in sessions:
                await session.close()
            await runner.cleanup()

    return sim.run(main, seed=seed, epoch=EPOCH, horizon_seconds=3600)


def now():
    return asyncio.get_running_loop().time()


def test_the_server_sees_the_callers_name() -> None:
    """A connector's name is the peer address."""

    async def story(net):
        session, _ = net.client("other")
        async with session.get("/ok") as response:
            return await response.text()

    assert on_the_wire(story) == "other"


def test_latency_takes_virtual_time_and_keeps_order() -> None:
    """Chunks with random latencies arrive in order, and the call takes that long."""

    async def story(net):
        session, _ = net.client("client")
        async with session.put("/echo", data=b"x" * 1_000_000) as response:
            return await response.text(), now() > 1.0

    assert on_the_wire(story, latency=(0.5, 3.0)) == ("1000000", True)


def test_a_seed_decides_the_latencies() -> None:
    """The same seed takes the same time to the microsecond; another one does not."""

    async def story(net):
        session, _ = net.client("client")
        for _ in range(5):
            async with session.get("/ok") as response:
                await response.read()
        return now()

    first = on_the_wire(story, latency=(0.001, 0.05), seed=5)
    assert on_the_wire(story, latency=(0.001, 0.05), seed=5) == first
    assert on_the_wire(story, latency=(0.001, 0.05), seed=6) != first


def test_a_host_that_refuses_connections_recovers() -> None:
    """A stopped server refuses connections; once it runs again the next call succeeds."""

    async def story(net):
        session, _ = net.client("client")
        net.network.refuse(HOST)
        with pytest.raises(aiohttp.ClientConnectorError, match="Connection refused"):
            await session.get("/ok")
        net.network.refuse(HOST, on=False)
        async with session.get("/ok") as response:
            return response.status

    assert on_the_wire(story) == 200


def test_a_half_open_connection_is_found_by_a_read_timeout_only() -> None:
    """Nothing arrives and nothing fails until the client's own timeout."""

    async def story(net):
        session, _ = net.client("client")
        async with session.get("/ok") as response:
            await response.read()
        net.network.partition(HOST)
        with pytest.raises(aiohttp.SocketTimeoutError):
            await session.get("/ok", timeout=aiohttp.ClientTimeout(sock_read=70))
        return now(), net.server.hits

    assert on_the_wire(story) == (70.0, ["GET /ok"])


def test_a_partition_blocks_new_connections() -> None:
    """During a partition a connection attempt waits until its timeout."""

    async def story(net):
        session, _ = net.client("client")
        net.network.partition(HOST)
        with pytest.raises(aiohttp.ConnectionTimeoutError):
            await session.get("/ok", timeout=aiohttp.ClientTimeout(sock_connect=4))
        return now()

    assert on_the_wire(story) == 4.0


def test_data_sent_during_a_partition_arrives_after_it() -> None:
    """A partition that ends before the timeout only delays, because TCP retransmits."""

    async def story(net):
        session, _ = net.client("client")
        async with session.get("/ok") as response:
            await response.read()
        net.network.partition(HOST)
        asyncio.get_running_loop().call_later(25, net.network.heal, HOST)
        async with session.get("/ok") as response:
            return response.status, now(), net.server.hits

    assert on_the_wire(story) == (200, 25.0, ["GET /ok", "GET /ok"])


def test_a_partition_can_be_between_two_hosts() -> None:
    """It separates one process from one server, and no other."""

    async def story(net):
        cut, _ = net.client("cut")
        other, _ = net.client("other")
        net.network.partition(HOST, "cut")
        async with other.get("/ok") as response:
            status = response.status
        with pytest.raises(TimeoutError):
            await cut.get("/ok", timeout=aiohttp.ClientTimeout(total=3))
        net.network.heal(HOST, "cut")
        async with cut.get("/ok") as response:
            return status, response.status

    assert on_the_wire(story) == (200, 200)


async def writes(net, *, reset):
    """A client that dies just after it has sent a request; returns what arrived, and how its own call ended."""
    session, connector = net.client("client")
    async with session.get("/ok") as response:
        await response.read()
    ended = []

    async def put() -> None:
        try:
            await session.put("/echo", data=b"x")
        except aiohttp.ClientError as error:
            ended.append(type(error).__name__)

    async with asyncio.TaskGroup() as group:
        group.create_task(put())
        await asyncio.sleep(0.01)
        connector.kill(reset=reset)
    with pytest.raises(aiohttp.ClientConnectorError):
        await session.get("/ok")
    await asyncio.sleep(5)
    return net.server.hits[1:], ended, net.network.links()


def test_a_request_of_a_killed_process_arrives_after_fin() -> None:
    """If the kernel closes the sockets with FIN, the data that was written takes effect."""
    hits, ended, links = on_the_wire(lambda net: writes(net, reset=False), latency=(1.0, 1.0))
    assert (hits, len(ended), links) == (["PUT /echo"], 1, [])


def test_a_request_of_a_killed_process_is_lost_after_rst() -> None:
    """If the sockets are reset, data in transit is lost."""
    hits, ended, links = on_the_wire(lambda net: writes(net, reset=True), latency=(1.0, 1.0))
    assert (hits, len(ended), links) == ([], 1, [])


@pytest.mark.parametrize("gives_up", [False, True], ids=["waiting", "given up"])
def test_a_request_that_a_partition_holds_is_lost_with_its_process(gives_up) -> None:
    """Nothing of an ended process arrives when the partition heals, be it closed by a timeout before or by the end."""

    async def story(net):
        session, connector = net.client("client")
        async with session.get("/ok") as response:
            await response.read()
        net.network.partition(HOST)
        put = asyncio.create_task(session.put("/echo", data=b"x", timeout=aiohttp.ClientTimeout(total=3)))
        await asyncio.sleep(5 if gives_up else 1)
        connector.kill(reset=False)
        await asyncio.wait([put])
        net.network.heal(HOST)
        await asyncio.sleep(5)
        return type(put.exception()), net.server.hits, net.network.links()

    assert on_the_wire(story) == (TimeoutError, ["GET /ok"], [])


def test_a_killed_process_cannot_call() -> None:
    """Not even the clean-up of a killed process reaches a server."""

    async def story(net):
        session, connector = net.client("client")
        connector.kill(reset=False)
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.delete("/ok")
        return net.server.hits

    assert on_the_wire(story) == []


def test_a_slow_reader_stops_the_writer() -> None:
    """The sender stops at its high-water mark, so data does not accumulate in memory."""

    async def story(net):
        session, _ = net.client("client")
        async with session.get("/big") as response:
            await asyncio.sleep(10)
            [link] = net.network.links("client")
            waiting = link.server._unread
            return waiting < BIG / 4, len(await response.read())

    assert on_the_wire(story) == (True, BIG)


def test_large_timeouts_are_rounded_up() -> None:
    """aiohttp rounds timeouts of more than 5 s up to the next whole second of the loop."""

    async def story(net):
        session, _ = net.client("client")
        await asyncio.sleep(0.3)
        with pytest.raises(TimeoutError):
            await session.get("/slow", timeout=aiohttp.ClientTimeout(total=10))
        return now()

    assert on_the_wire(story) == 11.0


def test_connections_expire_in_virtual_time() -> None:
    """An idle connection is reused within 15 s and replaced after that."""

    async def story(net):
        session, _ = net.client("client")
        seen = []
        for pause in (0, 10, 20):
            await asyncio.sleep(pause)
            async with session.get("/ok") as response:
                await response.read()
            seen.append(net.network.links()[-1].client)
        return seen[0] is seen[1], seen[1] is seen[2]

    assert on_the_wire(story) == (True, False)


def test_idle_connections_do_not_hide_a_deadlock() -> None:
    """Once the client has closed its idle connections (after 15 to 30 s), a blocked program has no timer left."""

    async def story(net) -> None:
        session, _ = net.client("client")
        async with session.get("/ok") as response:
            await response.read()
        await asyncio.get_running_loop().create_future()

    with pytest.raises(sim.DeadlockError, match=r"at 30\.000 s"):
        on_the_wire(story)


def test_a_low_horizon_finds_a_call_without_a_timeout() -> None:
    """On a half-open connection only the server's idle timer of 3,630 s is set."""

    async def story(net) -> None:
        session, _ = net.client("client")
        async with session.get("/ok") as response:
            await response.read()
        net.network.partition(HOST)
        await session.get("/ok", timeout=aiohttp.ClientTimeout())

    with pytest.raises(sim.HorizonError, match="next timer at 3630"):
        on_the_wire(story)
