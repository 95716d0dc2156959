"""A simulated world: cluster, Azure and machines, connections to the programs under test, and the invariants.

Inside `async with World(...)` both systems are served in memory (`KUBE_HOST`, `ARM_HOST` on `network`) and, after
`listen`, on loopback sockets. Every request passes the audit log and the hooks. The invariants are checked
continuously and raised at the end. All randomness comes from one seed. A world runs on a virtual loop (`loop.run`) or
on a real one.

Source: docs/references/simulator.md, docs/references/agent-pools.md#plain-http (operation URLs are built from the
request's host, and must be https on the wire, where the SDK assumes TLS).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 - all chance of a world comes from its seed
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from .audit_log import CURRENT_CALL, AuditLog, Call, System
from .azure.arm import make_arm_app
from .azure.cloud import AzureCloud
from .azure.settings import AzureSettings
from .invariants import GC_BOUND_SECONDS, InvariantError, Invariants
from .kube.apiserver import ApiServer, Handler
from .kube.store import Store
from .network import MemoryConnector, Network, Seconds
from .nodes.machine import NodeSettings
from .nodes.simulator import NodeSimulator
from .scheduling.pod_scheduler import PodScheduler

KUBE_HOST = "kube.sim"
ARM_HOST = "management.azure.com"
LOOPBACK = "127.0.0.1"
# aiohttp does not cancel the handlers of closed connections; it waits this long for them at shutdown.
SHUTDOWN_SECONDS = 1.0
# For how long after a partition what arrives can have been sent before it ended: as long as a client waits.
DELAYED_SECONDS = 20.0

Before = Callable[[Call, web.Request], Awaitable[web.StreamResponse | None]]
After = Callable[[Call, web.StreamResponse], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class WorldSettings:
    """`latency_seconds`: of each in-memory chunk and connection. `watch_window`: events kept for watches.

    `token`: the only bearer token that the API server accepts, None for any caller; kubectl sends none over plain HTTP.
    `foreign_pools`: agent pools without a claim, the first one a System pool; they have Nodes.
    """

    seed: int = 1
    azure: AzureSettings = field(default_factory=AzureSettings)
    nodes: NodeSettings = field(default_factory=NodeSettings)
    latency_seconds: Seconds = (0.0005, 0.02)
    watch_window: int = 1000
    token: str | None = None
    foreign_pools: tuple[str, ...] = ("system", "theirs")
    gc_bound_seconds: float = GC_BOUND_SECONDS


@dataclass(frozen=True)
class Addresses:
    """The base URLs of the servers on loopback."""

    kube: str
    arm: str


class World:
    """Create it inside a running loop; `now` is its wall clock (aware, UTC).

    `before` hooks run when a request arrives; if one returns a response, the request has no effect. `after` hooks run
    when the request has taken effect, before its response is sent.
    """

    def __init__(
        self, *, crds: Iterable[dict[str, Any]], now: Callable[[], datetime], settings: WorldSettings | None = None
    ) -> None:
        loop = asyncio.get_running_loop()
        self.settings = settings or WorldSettings()
        self.before: list[Before] = []
        self.after: list[After] = []
        self.store = Store(now, seed_uid=self._chance("store"), window=self.settings.watch_window)
        self.cloud = AzureCloud(self.settings.azure, now, self._chance("cloud"))
        self.audit_log = AuditLog()
        # The first subscriber, so that the audit log has causes before their consequences.
        self.invariants = Invariants(
            self.store,
            self.cloud,
            self.audit_log,
            loop.time,
            now,
            gc_bound_seconds=self.settings.gc_bound_seconds,
            delayed=lambda call: self.network.healed_within(DELAYED_SECONDS, call.who),
        )
        self.nodes = NodeSimulator(self.store, self.cloud, self.settings.nodes, self._chance("nodes"), now)
        self.scheduler = PodScheduler(self.store)
        recorded = self._recorder("kube")
        self.api = ApiServer(self.store, token=self.settings.token, crds=crds, around=recorded)
        self.network = Network(loop, self._chance("wire"), self.settings.latency_seconds)
        self._time = loop.time
        self._failures: list[Exception] = []
        self._kube_runner = _runner(self.api.app)
        self._life = contextlib.AsyncExitStack()
        self._tasks: asyncio.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as life:
            tasks = await life.enter_async_context(asyncio.TaskGroup())
            for task in [tasks.create_task(self.cloud.run()), tasks.create_task(self.nodes.run())]:
                life.callback(task.cancel)
            self._tasks = tasks
            self.scheduler.start()
            life.callback(self.scheduler.stop)
            await self._serve(life, self._kube_runner, KUBE_HOST)
            await self._serve(life, self._arm_runner(scheme="https"), ARM_HOST)
            self._seed_foreign_pools()
            self._life = life.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._life.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as group:
            if group.exceptions != (error,):
                raise
        if error is None:
            self.check()
        else:
            for violation in self.invariants.violations:
                error.add_note(str(violation))

    @property
    def tasks(self) -> asyncio.TaskGroup:
        """The task group of the world's processes. Raises RuntimeError outside `async with`."""
        if self._tasks is None:
            raise RuntimeError("the world is used outside `async with`")
        return self._tasks

    def check(self) -> None:
        """Raise the errors of the servers, or InvariantError for the violations so far."""
        if self._failures:
            raise ExceptionGroup("the simulator failed", self._failures)
        self.invariants.raise_if_violated()

    async def settled(self, quiet_seconds: float, within_seconds: float) -> None:
        """Wait until no controller has written for `quiet_seconds`, except Leases and Events (I5).

        Raises InvariantError if controllers still write after `within_seconds`.
        """
        begin = self._time()
        while True:
            quiet_since = max(begin, self.audit_log.last_write_at(self.invariants.controllers))
            if quiet_since - begin > within_seconds:
                log = self.audit_log.tail()
                raise InvariantError(f"I5 violated: still writing {quiet_since - begin:.0f} s later\n{log}")
            left = quiet_since + quiet_seconds - self._time()
            if left <= 0:
                return
            await asyncio.sleep(left)

    # clients

    def connector(self, who: str, *, controller: bool = False) -> MemoryConnector:
        """The network of a process of that name; the writes of a `controller` are checked."""
        if controller:
            self.invariants.controllers[who] = None
        return MemoryConnector(self.network, who)

    def session(self, who: str) -> aiohttp.ClientSession:
        """A user's HTTP session with the API server: relative URLs, authorized. Closed with the world."""
        token = self.settings.token
        session = aiohttp.ClientSession(
            f"http://{KUBE_HOST}",
            connector=self.connector(who),
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=aiohttp.ClientTimeout(total=60),
        )
        self._life.push_async_callback(session.close)
        return session

    async def listen(self, *, kube_port: int = 0, arm_port: int = 0) -> Addresses:
        """Serve both systems on loopback sockets too; port 0 is any free port. Raises OSError if a port is in use."""
        arm = self._arm_runner()
        await self._serve(self._life, arm)
        urls = []
        for runner, port in ((self._kube_runner, kube_port), (arm, arm_port)):
            site = web.TCPSite(runner, LOOPBACK, port)
            await site.start()
            urls.append(f"http://{LOOPBACK}:{runner.addresses[0][1]}")
        return Addresses(*urls)

    def write_kubeconfig(self, path: Path, addresses: Addresses) -> None:
        """Write a kubeconfig, readable by its owner only.

        kubectl sends no credentials over plain HTTP and needs `token=None`; Python clients send the token.
        """
        token = f"    token: {self.settings.token}\n" if self.settings.token else "    {}\n"
        path.touch(mode=0o600)
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: simulator\n"
            f"clusters:\n- name: simulator\n  cluster:\n    server: {addresses.kube}\n"
            f"users:\n- name: simulator\n  user:\n{token}"
            "contexts:\n- name: simulator\n  context:\n    cluster: simulator\n    user: simulator\n",
            encoding="utf-8",
        )

    # servers

    def _chance(self, part: str) -> Random:
        """Each part has its own random stream, so that a change in one part does not affect the others."""
        return Random(f"{self.settings.seed}/{part}")  # noqa: S311 - repeatable on purpose

    def _arm_runner(self, scheme: str | None = None) -> web.AppRunner:
        return _runner(make_arm_app(self.cloud, scheme=scheme, around=self._recorder("arm")))

    async def _serve(self, life: contextlib.AsyncExitStack, runner: web.AppRunner, host: str = "") -> None:
        await runner.setup()
        life.push_async_callback(runner.cleanup)
        server = runner.server
        if host and server is not None:
            self.network.servers[host] = server

    def _seed_foreign_pools(self) -> None:
        for position, name in enumerate(self.settings.foreign_pools):
            self.cloud.seed_pool(name, mode="User" if position else "System")

    def _recorder(self, system: System) -> Callable[[Handler], Handler]:
        return lambda handler: partial(self._record, system, handler)

    async def _record(self, system: System, handler: Handler, request: web.Request) -> web.StreamResponse:
        watch = request.query.get("watch", "") in {"1", "true"}
        path, dry_run = request.rel_url.raw_path, "dryRun" in request.query
        call = self.audit_log.arrive(
            self._time(), _caller(request), system, request.method, path, watch=watch, dry_run=dry_run
        )
        self.invariants.on_call(call, request.headers)
        served = CURRENT_CALL.set(call)
        try:
            return await self._answer(call, request, handler)
        except ConnectionError:
            raise  # the client disconnected
        except Exception as error:
            self._failures.append(error)
            raise
        finally:
            CURRENT_CALL.reset(served)

    async def _answer(self, call: Call, request: web.Request, handler: Handler) -> web.StreamResponse:
        call_status = 0
        try:
            for before in self.before:
                early = await before(call, request)
                if early is not None:
                    call_status = _sent(early, request)
                    return early
            response = await handler(request)
            if call.is_write:
                delivered = partial(_is_open, request.transport)
                self.invariants.on_answer(call, response.status, await request.read(), delivered)
            for after in self.after:
                await after(call, response)
            call_status = _sent(response, request)
            return response
        finally:
            call.status = call_status


def _sent(response: web.StreamResponse, request: web.Request) -> int:
    """The status that the client gets; 0 if its connection has ended."""
    return 0 if request.transport is None or request.transport.is_closing() else response.status


def _is_open(transport: asyncio.BaseTransport | None) -> bool:
    """Whether what was sent arrives; a held connection is one of the network in memory."""
    return transport is not None and not transport.is_closing() and not getattr(transport, "held", False)


def _runner(app: web.Application) -> web.AppRunner:
    return web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)


def _caller(request: web.Request) -> str:
    """The connector's name; on a socket, the name in the User-Agent."""
    if request.remote and request.remote != LOOPBACK:
        return request.remote
    return request.headers.get("User-Agent", "unknown").partition("/")[0]
