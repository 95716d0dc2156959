"""The harness of the world tests: the program in a simulated cluster, on virtual time, with crashes at any write.

A test is an `async def` with the parameter `sim`, decorated with `simulated`, or passes such a story to `simulate`.
That builds a simulated cluster from one seed, runs the story, stops the controllers, checks the invariants and returns
a `Report`. Controllers and users send HTTP requests to both servers. With `crash=CrashPoint(...)` a controller is
killed at one of its own writes and a successor starts; `crash_points(story)` returns all such points of a story.
"""

import asyncio
import contextvars
import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeVar

import yaml
from aiohttp import web

from provisioner.simulator import loop as sim_loop
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.kube.errors import ApiError
from provisioner.simulator.snapshot import pool_mark
from provisioner.simulator.world import World, WorldSettings
from tests.stories import run_by

from .azure_role import AZURE_ACTIONS
from .kaito_watcher import beside
from .messages import listen
from .phases import check_phases
from .process import PROCESS, Launch, Process, track_tasks
from .program import launch_controller

Json = dict[str, Any]
T = TypeVar("T")
Phase = Literal["before", "after"]

EPOCH = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HORIZON_SECONDS = 2 * 86_400.0
RESTART_SECONDS = 2.0
# As `provisioner.operator.config.Config` has them, and for stories in which no time depends on them: in a quiet day,
# renewals every 5 s are two of three requests.
SHIPPED_LEASE = (30.0, 5.0)
SLOW_LEASE = (60.0, 25.0)
CHARTS = Path(__file__).parents[2] / "charts" / "gpu-provisioner-crd" / "templates"
SIZE = "Standard_NC24ads_A100_v4"
PERSON = "person"
OWNED = {
    "karpenter.sh/nodepool": "kaito",
    "kaito.sh/workspace": "w",
    "kaito.sh/workspacenamespace": "default",
}


@functools.cache
def crds() -> tuple[Json, ...]:
    """The shipped CRDs."""
    return tuple(yaml.safe_load(path.read_text()) for path in sorted(CHARTS.glob("*.yaml")))


def node_claim(name: str, *, size: str = SIZE, labels: Json | None = None, **spec: Any) -> Json:
    """A claim as KAITO's controllers create it; `spec` overrides fields of its spec, in wire names."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {**OWNED, **(labels or {})}},
        "spec": {
            "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [size]}],
            "resources": {"requests": {"storage": "128Gi"}},
            **spec,
        },
    }


Story = Callable[["Sim"], Coroutine[Any, Any, object]]


@dataclass(frozen=True)
class CrashPoint:
    """The `number`-th write of all controllers together (Leases and Events excluded), from 1.

    `before`: the request arrives, has no effect and gets no response. `after`: it took effect and gets no response.
    `reset`: the process's connections are closed by RST, otherwise by FIN.
    """

    number: int
    phase: Phase
    reset: bool


@dataclass(frozen=True)
class Report:
    """The result of a run. `writes` counts what a CrashPoint counts; equal digests mean equal audit logs."""

    world: World
    writes: int
    seconds: float
    digest: str


class Sim:
    """The interface of a story: actions and observations of users, and control of the controllers.

    Changes through `store`, `cloud`, `nodes` and `api` have no caller in the audit log. `apply`, `delete_claim` and
    `request` send HTTP requests as a user.
    """

    def __init__(self, world: World, launch: Launch, crash: CrashPoint | None) -> None:
        self.world = world
        self.store, self.cloud, self.nodes, self.api = world.store, world.cloud, world.nodes, world.api
        self.network, self.audit_log, self.invariants = world.network, world.audit_log, world.invariants
        self.controllers: dict[str, Process] = {}
        self.writes = 0
        self._serving_from: dict[str, float] = {}
        # Until then, faults delay what controllers notice and write.
        self.disturbed_until = -math.inf
        self.person = world.session(PERSON)
        self._launch = launch
        self._crash = crash
        self._doomed: Call | None = None
        self._ending = False
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._kaito = beside(world, self._loop.time, self._serving_since)
        listen(world, self._loop.time)
        self.transitions = check_phases(world, self._loop.time)
        self.store.subscribe(lambda *_: self._changed.set())
        self.cloud.subscribe(lambda *_: self._changed.set())
        world.before.append(self._before)
        world.after.append(self._after)

    # controllers

    async def start_controller(
        self, name: str = "ctl0", *, restart_on: tuple[type[Exception], ...] = (), **options: Any
    ) -> Process:
        """Start a controller process; `name` is its name on the wire, new for each incarnation.

        If it ends by one of the errors of `restart_on`, a successor starts, as the kubelet would have it.
        """
        assert name not in self.controllers, f"{name} has been used"
        clock, rng = sim_loop.VirtualClock(self._loop, EPOCH), Random(f"{self.world.settings.seed}/{name}")
        process = Process(name, self.world, self._launch, options, clock, rng, restart_on)
        self.controllers[name] = process
        context = contextvars.copy_context()
        context.run(PROCESS.set, process)
        process.main = self.world.tasks.create_task(process.run(), name=name, context=context)
        process.main.add_done_callback(lambda _: self._on_end(process))
        return process

    def crash(self, name: str = "ctl0", *, reset: bool = False) -> None:
        """Kill it with SIGKILL."""
        self.controllers[name].crash(reset=reset)

    def replace_controller(self, name: str = "ctl0", *, reset: bool = False) -> None:
        """Kill it, be it within one of its own calls, and let a successor start, whose name is the same and an '."""
        process = self.controllers[name]
        process.crash(reset=reset)
        self._let_succeed(process)

    async def stop_controller(self, name: str = "ctl0") -> None:
        """Stop it with SIGTERM and wait until it has ended; its last writes still reach the servers."""
        process = self.controllers[name]
        if process.main is not None:
            process.main.cancel()
            await asyncio.wait([process.main])
        process.dead = True
        await process.reap()

    def ended(self, name: str) -> Exception | None:
        """The error by which it ended by itself, which then does not fail the run; None if it runs or was killed."""
        process = self.controllers[name]
        failure, process.failure = process.failure, None
        process.dead = process.dead or failure is not None
        return failure

    def check(self) -> None:
        """Raise the error by which a controller ended, and all violations so far."""
        for process in self.controllers.values():
            if process.failure is not None:
                raise AssertionError(f"{process.name} ended\n{self.describe()}") from process.failure
        self._kaito.look()
        self.world.check()

    async def end(self) -> None:
        """Stop every controller; no successor starts."""
        self._ending = True
        for name, process in self.controllers.items():
            if process.dead:
                await process.reap()
            else:
                await self.stop_controller(name)

    # people

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> Json:
        """Send one request as a user. Raises AssertionError with the server's message if it is refused."""
        data = None if body is None else json.dumps(body).encode()
        async with self.person.request(method, path, data=data, headers={"Content-Type": content_type}) as response:
            text = await response.text()
            assert response.status < 400, f"{method} {path}: {response.status} {text}"
            return json.loads(text)

    async def apply(self, obj: Json) -> Json:
        """Create the object, or merge it into the existing one."""
        kind = next(kind for kind in self.store.resources if kind.kind == obj["kind"])
        meta = obj["metadata"]
        namespace = meta.get("namespace", "default") if kind.namespaced else ""
        root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.api_version}"
        path = f"{root}/namespaces/{namespace}/{kind.plural}" if namespace else f"{root}/{kind.plural}"
        if self.store.get(kind.key, meta["name"], namespace) is None:
            return await self.request("POST", path, obj)
        return await self.request("PATCH", f"{path}/{meta['name']}", obj, content_type="application/merge-patch+json")

    async def delete_claim(self, name: str) -> None:
        await self.request("DELETE", f"/apis/karpenter.sh/v1/nodeclaims/{name}")

    async def delete_node(self, name: str) -> None:
        await self.request("DELETE", f"/api/v1/nodes/{name}")

    # what is

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self._loop.time()

    def claim(self, name: str) -> Json | None:
        """The NodeClaim; None if it, or the CRD, is not there."""
        try:
            return self.store.get("nodeclaims.karpenter.sh", name)
        except ApiError:
            return None

    def condition(self, name: str, kind: str) -> str:
        """A condition's status on a claim; "" if the claim or the condition is not there."""
        status = (self.claim(name) or {}).get("status") or {}
        return next((found["status"] for found in status.get("conditions") or () if found["type"] == kind), "")

    def pools_of(self, uid: str) -> list[Pool]:
        """The pools with this claim's ownership tag."""
        return [pool for pool in self.cloud.pools.values() if pool_mark(pool) == uid]

    def nodes_of(self, pool: str) -> list[Json]:
        """The Nodes of a pool."""
        return self.store.list("nodes", labels=f"agentpool={pool}")

    def describe(self, about: str = "") -> str:
        """The last entries of the audit log, and the conditions of each claim, whatever it is `about`."""
        lines = [self.audit_log.tail(), f"at {self.now:.3f} s:"]
        for claim in self.store.list("nodeclaims.karpenter.sh"):
            meta = claim["metadata"]
            lines.append(f"claim {meta['name']} deleted={meta.get('deletionTimestamp')} {meta.get('finalizers', [])}")
            for found in (claim.get("status") or {}).get("conditions") or ():
                words = f"{found['type']}={found['status']} {found.get('reason', '')}: {found.get('message', '')}"
                lines.append(f"    {words}")
        lines += [f"pool {pool.name} {pool.state} {dict(pool.tags)}" for pool in self.cloud.pools.values()]
        lines += [
            f"node {node['metadata']['name']} {node['metadata'].get('finalizers')}" for node in self.store.list("nodes")
        ]
        return "\n".join(lines)

    async def until(self, predicate: Callable[[], T], within_seconds: float, what: str) -> T:
        """Wait until the predicate is true, checked after each change and each call; its value.

        Raises AssertionError with `describe()` after `within_seconds`, or as soon as an invariant is violated.
        """
        deadline = self.now + within_seconds
        while True:
            self.check()
            if found := predicate():
                return found
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                if found := predicate():
                    return found
                raise AssertionError(f"not within {within_seconds:g} s: {what}\n{self.describe()}") from None

    async def settled(self, quiet_seconds: float = 180.0, within_seconds: float = 900.0) -> None:
        """Wait until no controller writes any more (I5) and nothing is left behind (I1)."""
        await self.world.settled(quiet_seconds, within_seconds)
        self.check()
        self.invariants.check_quiescent()

    def _serving_since(self) -> float:
        """Since when a living controller has sent requests to ARM, as only a leader does, undisturbed; inf if none."""
        living = (at for name, at in self._serving_from.items() if not self.controllers[name].dead)
        return max(min(living, default=math.inf), self.disturbed_until)

    # crashes

    async def _before(self, call: Call, request: web.Request) -> web.StreamResponse | None:
        self._kaito.look()
        if call.system == "arm" and call.who in self.controllers:
            self._serving_from.setdefault(call.who, self.now)
        if not call.is_write or call.is_bookkeeping or call.who not in self.controllers:
            return None
        self.writes += 1
        if self._crash is None or self._crash.number != self.writes:
            return None
        self._doomed = call
        if self._crash.phase == "after":
            return None
        self.replace_controller(call.who, reset=self._crash.reset)
        if request.transport is not None:
            request.transport.close()
        return web.Response()

    async def _after(self, call: Call, _: web.StreamResponse) -> None:
        self._changed.set()
        if call is self._doomed and self._crash is not None:
            self.replace_controller(call.who, reset=self._crash.reset)

    def _on_end(self, process: Process) -> None:
        self._changed.set()
        if not self._ending and process.may_restart():
            self.ended(process.name)
            self._let_succeed(process)

    def _let_succeed(self, process: Process) -> None:
        # Not in the context of the interrupted call: the successor does not belong to a request.
        self.world.tasks.create_task(self._succeed(process), context=contextvars.Context())

    async def _succeed(self, process: Process) -> None:
        await process.reap()
        await asyncio.sleep(RESTART_SECONDS)
        if not self._ending:
            await self.start_controller(f"{process.name}'", restart_on=process.restart_on, **process.options)


def simulate(
    story: Story,
    *,
    launch: Launch | None = None,
    crash: CrashPoint | None = None,
    horizon_seconds: float = HORIZON_SECONDS,
    lease: tuple[float, float] = SLOW_LEASE,
    **settings: Any,
) -> Report:
    """Run a story in a new simulated cluster; `settings` are WorldSettings' fields (seed=, azure=, nodes=, …).

    `lease`: for how long controllers hold the Lease and when they renew it, in seconds. SHIPPED_LEASE for stories with
    limits for what a successor does.

    In Azure the controller has the permissions of the chart's role, unless `azure` overrides them.

    Raises what the story raises, InvariantError, SilentFailures (I8), DeadlockError, LivelockError, HorizonError (I9).
    """
    world_settings = WorldSettings(**settings)
    if world_settings.azure.actions is None:
        azure = dataclasses.replace(world_settings.azure, actions=AZURE_ACTIONS)
        world_settings = dataclasses.replace(world_settings, azure=azure)

    async def main() -> Report:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(track_tasks)
        now = sim_loop.VirtualClock(loop, EPOCH).now
        async with World(crds=crds(), now=now, settings=world_settings) as world:
            sim = Sim(world, launch or functools.partial(launch_controller, lease_times=lease), crash)
            try:
                await story(sim)
                sim.check()
            finally:
                await sim.end()
            sim.check()
            course = hashlib.sha256(world.audit_log.tail(last=len(world.audit_log.entries)).encode())
            return Report(world, sim.writes, loop.time(), course.hexdigest())

    return sim_loop.run(main, seed=world_settings.seed, epoch=EPOCH, horizon_seconds=horizon_seconds)


def simulated(**options: Any) -> Callable[[Callable[..., Coroutine[Any, Any, object]]], Callable[..., None]]:
    """Make a story a test that simulates it; `options` as for `simulate`. Parameters after `sim` are the test's."""
    return run_by(simulate, **options)


def crash_points(story: Story, **options: Any) -> Iterator[CrashPoint]:
    """Every write of a run without crashes, before and after, by FIN and by RST; `options` as for `simulate`."""
    writes = simulate(story, **options).writes
    assert writes, "the story's controller never wrote"
    for number in range(1, writes + 1):
        for phase in ("before", "after"):
            for reset in (False, True):
                yield CrashPoint(number, phase, reset)
