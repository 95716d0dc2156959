"""Probes and metrics over real HTTP."""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from provisioner.metrics.definitions import own
from provisioner.runtime import connection_limits
from provisioner.runtime.metrics import Metrics
from provisioner.runtime.server import health_app, metrics_app, serve

pytestmark = pytest.mark.asyncio


async def requested(app: web.Application, *paths: str) -> list[tuple[int, str]]:
    async with serve("127.0.0.1", 0, app) as port, aiohttp.ClientSession(trust_env=False) as session:
        answers = []
        for path in paths:
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                answers.append((response.status, await response.text()))
        return answers


async def test_probes_say_what_is_wrong() -> None:
    """A failing check turns its probe into 503 and is named; other probes are not affected."""
    app = health_app(
        live={"ping": lambda: None},
        ready={"caches": lambda: "nodeclaims not synced", "crd": lambda: None},
    )
    answers = await requested(
        app, "/healthz", "/readyz", "/readyz?verbose", "/readyz/crd", "/readyz/caches", "/readyz/x", "/healthz?verbose"
    )
    assert answers == [
        (200, "ok\n"),
        (503, "caches: nodeclaims not synced\n"),
        (503, "[-]caches failed: nodeclaims not synced\n[+]crd ok\nreadyz check failed\n"),
        (200, "ok\n"),
        (503, "nodeclaims not synced\n"),
        (404, "no such check\n"),
        (200, "[+]ping ok\nhealthz check passed\n"),
    ]


async def test_a_loop_that_is_held_up_answers_no_probe() -> None:
    """The loop that does the work answers the probes, so a blocked loop exceeds the timeout of the probe."""
    release = threading.Event()
    ports, loops = queue.Queue[Any](), queue.Queue[Any]()

    async def program() -> None:
        async with serve("127.0.0.1", 0, health_app(live={"ping": lambda: None}, ready={})) as port:
            ended = asyncio.Event()
            loops.put((asyncio.get_running_loop(), ended))
            ports.put(port)
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(program()))
    thread.start()
    url = f"http://127.0.0.1:{ports.get(timeout=10)}/healthz"
    loop, ended = loops.get(timeout=10)
    try:
        loop.call_soon_threadsafe(release.wait, 30)
        impatient = aiohttp.ClientTimeout(total=0.5)
        async with aiohttp.ClientSession(trust_env=False, timeout=impatient) as session:
            with pytest.raises(TimeoutError):
                await session.get(url)
        release.set()
        async with aiohttp.ClientSession(trust_env=False) as session, session.get(url) as response:
            assert response.status == 200
    finally:
        release.set()
        loop.call_soon_threadsafe(ended.set)
        await asyncio.to_thread(thread.join, 10)


async def test_a_check_is_requested_each_time() -> None:
    """Results are not cached."""
    stated = iter([None, "broken", None])
    app = health_app(live={"it": lambda: next(stated)}, ready={})
    assert [status for status, _ in await requested(app, "/healthz", "/healthz", "/healthz")] == [200, 503, 200]


async def test_metrics_of_two_processes_do_not_mix() -> None:
    """Each `Metrics` has its own registry; no `_created` series."""
    one, two = Metrics(), Metrics(process=True)
    one.counter(own.DEADLINES).labels("draining").inc()
    one.leader("lock").set(1)
    one.kube_request("get", "nodes", 200, 0.01)
    one.kube_request("get", "nodes", 0, 0.01)
    one.gauge(own.REMOVAL_CANDIDATES).set_function(lambda: asyncio.get_running_loop().time() - 0)
    ((status, text),) = await requested(metrics_app(one.registry), "/metrics")
    assert status == 200
    assert 'gpu_provisioner_deadlines_exceeded_total{deadline="draining"} 1.0' in text
    assert 'leader_election_master_status{name="lock"} 1.0' in text
    assert 'client_go_request_total{code="200",method="GET"} 1.0' in text
    assert 'client_go_request_total{code="<error>",method="GET"} 1.0' in text
    assert "_created" not in text
    ((_, other),) = await requested(metrics_app(two.registry), "/metrics")
    assert "gpu_provisioner_deadlines" not in other
    assert "python_gc_objects_collected_total" in other


async def test_a_taken_port_is_an_error_and_a_closed_server_frees_it() -> None:
    """The port is bound exactly until the context ends."""
    app = health_app(live={}, ready={})
    async with serve("127.0.0.1", 0, app) as port:
        with pytest.raises(OSError, match="in use"):
            async with serve("127.0.0.1", port, health_app(live={}, ready={})):
                pass
    async with serve("127.0.0.1", port, health_app(live={}, ready={})) as again:
        assert again == port


@asynccontextmanager
async def half_requests(port: int, count: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """So many connections, each in the middle of a request's head."""
    opened = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
            opened.append((reader, writer))
        yield [reader for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.close()


async def closed(reader: asyncio.StreamReader) -> bool:
    """Wait until the server has closed the connection."""
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


async def test_a_request_whose_head_does_not_end_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection lasts for the time of one request and its response."""
    monkeypatch.setattr(connection_limits, "CONNECTION_SECONDS", 0.2)
    app = health_app(live={"ping": lambda: None}, ready={})
    async with serve("127.0.0.1", 0, app) as port, half_requests(port, 20) as readers, asyncio.timeout(30):
        assert all([await closed(reader) for reader in readers])


async def test_probes_are_answered_beside_any_number_of_half_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit, a new connection closes the oldest one; the others stay."""
    monkeypatch.setattr(connection_limits, "CONNECTIONS_MAX", 10)
    app = health_app(live={"ping": lambda: None}, ready={})
    async with serve("127.0.0.1", 0, app) as port, half_requests(port, 30) as readers, asyncio.timeout(30):
        assert all([await closed(reader) for reader in readers[:20]])
        assert not any(reader.at_eof() for reader in readers[20:])
        async with aiohttp.ClientSession(trust_env=False) as session:
            for _ in range(5):
                async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
                    assert (response.status, response.headers["Connection"]) == (200, "close")
