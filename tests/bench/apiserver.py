"""The environment of the benchmarks on a real API server, over TLS; Azure and machines are emulated.

The controller is a process of its own with the service account of the chart. `BENCH_PROGRAM` names the console script
of another checkout, so that two versions can be measured in turn. What the API server received, and when, is read from
its audit log.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

from aiohttp import web

from provisioner.runtime.clock import SystemClock
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.arm import BEFORE, make_arm_app
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from provisioner.simulator.nodes.simulator import NodeSimulator
from tests.cluster import assets
from tests.cluster.bystanders import Hand, at_once, machines
from tests.cluster.controlplane import NAMESPACE, SERVICE_ACCOUNT, ControlPlane
from tests.cluster.realstore import RealStore, path_of
from tests.world.harness import node_claim

from .process import RUN, WATCHED, Controller, run_controller
from .stage import AZURE, CLAIMS, LOOK_SECONDS, MOST_POOLS, QUIET_SECONDS

Json = dict[str, Any]
PROGRAM = "BENCH_PROGRAM"
CONTROLLER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
USERS_AT_ONCE = 10
# Ready and the GPUs follow each other with a distance that no two writes of a life bridge, as on real machines.
NODES = NodeSettings(
    initialize_seconds=(0.2, 0.5),
    ready_seconds=(1.5, 3.0),
    gpu_seconds=(1.5, 3.0),
    unresponsive_seconds=4.0,
    node_manager_seconds=0.5,
)
# Requests that do not depend on the number of claims: of NodePools and their classes, only watches list.
FIXED_KINDS = frozenset({"leases", "nodepools", "agentpoolnodeclasses"})


class Call(NamedTuple):
    """One answered request to the API server; `at`: the moment of the answer, of a watch of its beginning.

    `kind` has the subresource.
    """

    at: datetime
    user: str
    verb: str
    kind: str
    name: str
    status: int


class Environment:
    """The state of pools and claims as it changes, and the requests to both servers. Times are the wall clock's."""

    def __init__(
        self, cp: ControlPlane, folder: Path, hand: Hand, azure: AzureSettings, *, instant: bool, watched: Sequence[str]
    ) -> None:
        self.now = SystemClock().now
        self._cp = cp
        self.hand = hand
        self.folder = folder
        self.store = RealStore(cp.url, cp.ssl, cp.admin_token)
        self.cloud = AzureCloud(azure, self.now, Random("cloud"))
        self.nodes = NodeSimulator(cast("Any", self.store), self.cloud, NODES, Random("nodes"), self.now)
        self._instant = instant
        self._watched = watched
        self.ready: set[str] = set()
        self.gone: set[str] = set()
        self.bound: set[str] = set()
        self.pool_gone: dict[str, datetime] = {}
        self.requested: dict[tuple[str, str], datetime] = {}
        self.arm_calls: list[str] = []
        self.arm_url = ""
        self._controller: Controller | None = None
        self._opened = self._begun = self.now()
        self.store.subscribe(self._on_object)
        self.cloud.subscribe(self._on_pool)

    @asynccontextmanager
    async def controller(
        self, *, stalls_file: Path | None = None, within_seconds: float = 30.0, **settings: str
    ) -> AsyncIterator[Controller]:
        """Run a controller process until the context ends; it leads when the context begins.

        `stalls_file`: the stalls of its loop are written to it at the end. `settings`: further environment variables.
        """
        azure = self.cloud.settings
        environment = {
            "ARM_SUBSCRIPTION_ID": azure.subscription,
            "ARM_RESOURCE_GROUP": azure.resource_group,
            "AZURE_CLUSTER_NAME": azure.cluster,
            "LOCATION": azure.location,
            "ARM_ENDPOINT": self.arm_url,
            "KUBECONFIG": str(self._cp.kubeconfig(self.folder / "kubeconfig", "controller")),
            "LEADER_ELECTION_NAMESPACE": "kube-system",
            "METRICS_PORT": "0",
            "HEALTH_PROBE_PORT": "0",
            "MAX_AGENT_POOLS": str(MOST_POOLS - 10),
            "MAX_CREATES_PER_MINUTE": "1000",
            **settings,
        }
        if stalls_file is not None:
            environment["BENCH_STALLS"] = str(stalls_file)
        command = program() if stalls_file is None else WATCHED
        async with run_controller(environment, self.folder / "controller.log", command) as running:
            self._controller = running
            await self.until(lambda: "LIST" in self.arm_calls, within_seconds, "the controller leads")
            await asyncio.sleep(2 * QUIET_SECONDS)
            self.begin()
            try:
                yield running
            finally:
                self._controller = None

    def begin(self) -> None:
        """Count requests from now on."""
        self._begun = self.now()
        self.arm_calls.clear()

    async def create(self, names: Iterable[str]) -> None:
        """Create claims, several at a time."""
        post = partial(self.hand.demand, "POST", path_of(CLAIMS))
        await at_once([partial(post, node_claim(name)) for name in names], USERS_AT_ONCE)

    async def delete(self, names: Iterable[str]) -> None:
        """Delete claims, several at a time."""
        await self.remove(CLAIMS, *names)

    async def apply(self, resource: str, *objects: Json) -> None:
        """Create objects of one kind, several at a time; those of namespaced kinds in `default`."""
        path = path_of(resource, namespace="default" if resource == "pods" else "")
        await at_once([partial(self.hand.demand, "POST", path, obj) for obj in objects], USERS_AT_ONCE)

    async def remove(self, resource: str, *names: str) -> None:
        """Delete objects of one kind, several at a time; those of namespaced kinds in `default`."""
        namespace = "default" if resource == "pods" else ""
        paths = [path_of(resource, name, namespace) for name in names]
        await at_once([partial(self.hand.demand, "DELETE", path) for path in paths], USERS_AT_ONCE)

    async def settled(self, names: Sequence[str]) -> None:
        """Wait until these are Ready, their operations have ended, and a LIST has shown their pools as they are now."""
        await self.until(lambda: self.ready >= {*names}, 120.0, "all are Ready")
        pools = self.cloud.pools
        await self.until(lambda: all(pools[name].state == "Succeeded" for name in names), 60.0, "operations have ended")
        lists = self.arm_calls.count("LIST")
        await self.until(lambda: self.arm_calls.count("LIST") > lists, 120.0, "a LIST has shown that")
        await asyncio.sleep(QUIET_SECONDS)

    async def until(self, done: Callable[[], bool], within_seconds: float, what: str) -> None:
        """Raises TimeoutError if the condition is not met in time; RuntimeError if the controller ended."""
        try:
            async with asyncio.timeout(within_seconds):
                while not done():
                    if self._controller is not None:
                        self._controller.check()
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise TimeoutError(f"not within {within_seconds:g} s: {what}") from None

    def calls(self, since: datetime | None = None, *, user: str = "") -> list[Call]:
        """The answered requests to the API server, watches aside. `since`: the moment of `begin` if none is given.

        `user`: only those of this user.
        """
        begun = self._begun if since is None else since
        return [call for call in self._answered(user) if call.at >= begun and call.verb != "watch"]

    def kinds(self) -> set[tuple[str, str]]:
        """Verb and kind of all answered requests of the controllers of this environment."""
        return {(call.verb, call.kind) for call in self._answered(CONTROLLER)}

    def _answered(self, user: str = "") -> list[Call]:
        log = self._cp.audit_log
        assert log is not None
        lines = (line for line in log.read_text(encoding="utf-8").splitlines() if user in line)
        found = (_call(json.loads(line)) for line in lines)
        return [call for call in found if call is not None and call.at >= self._opened and user in ("", call.user)]

    async def run(self) -> None:
        """The operations of Azure and the machines, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            booting = machines(self.hand, self.cloud) if self._instant else self.nodes.run()
            for work in (self.store.feed(*self._watched), self.cloud.run(), booting):
                tasks.create_task(work)

    async def note(self, request: web.Request) -> None:
        """Record a request to ARM at its arrival."""
        parts = request.path.split("/")
        pool = parts[parts.index("agentPools") + 1] if "agentPools" in parts[:-1] else ""
        self.arm_calls.append("LIST" if request.path.endswith("/agentPools") else request.method)
        self.requested.setdefault((request.method, pool), self.now())

    def _on_object(self, event: str, resource: str, obj: Json, _: Json | None) -> None:
        if resource == "pods" and obj["spec"].get("nodeName"):
            self.bound.add(obj["metadata"]["name"])
        if resource != CLAIMS:
            return
        name, conditions = obj["metadata"]["name"], (obj.get("status") or {}).get("conditions") or ()
        if event == "DELETED":
            self.gone.add(name)
        elif any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions):
            self.ready.add(name)

    def _on_pool(self, kind: str, pool: Pool) -> None:
        if kind == "gone":
            self.pool_gone[pool.name] = self.now()


def program() -> tuple[str, str]:
    """The command of the controller under measure."""
    return os.environ.get(PROGRAM) or RUN[0], RUN[1]


def _call(event: Json) -> Call | None:
    where = event.get("objectRef")
    answered = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
    if where is None or event["stage"] != answered:
        return None
    return Call(
        at=datetime.fromisoformat(event["stageTimestamp"]),
        user=event["user"].get("username", ""),
        verb=event["verb"],
        kind="/".join(part for part in (where.get("resource", ""), where.get("subresource", "")) if part),
        name=where.get("name", ""),
        status=event.get("responseStatus", {}).get("code", 0),
    )


@asynccontextmanager
async def control_plane() -> AsyncIterator[ControlPlane]:
    """etcd and kube-apiserver with our CRDs and our chart's roles. Raises gotool.MissingError without binaries."""
    with TemporaryDirectory(prefix="bench-") as folder:
        async with ControlPlane.start(assets.find(), Path(folder), audit=True) as cp:
            await cp.install_crds()
            await cp.install_chart_rbac()
            yield cp


@asynccontextmanager
async def environment(
    cp: ControlPlane, azure: AzureSettings = AZURE, *, instant: bool = False, watched: Sequence[str] = ()
) -> AsyncIterator[Environment]:
    """A new subscription of Azure and new machines beside that API server, until the context ends.

    `instant`: machines are Nodes with GPUs, Ready, as soon as their pool is running. `watched`: the kinds whose changes
    are followed, if not all that machines and measurements need.
    """
    watched = watched or ((CLAIMS, "pods") if instant else (CLAIMS, "pods", "nodes"))
    with TemporaryDirectory(prefix="bench-") as folder:
        async with cp.session() as session:
            made = Environment(cp, Path(folder), Hand(session), azure, instant=instant, watched=watched)
            app = make_arm_app(made.cloud)
            app[BEFORE].append(made.note)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                made.arm_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
                async with asyncio.TaskGroup() as tasks:
                    made.cloud.seed_pool("system", mode="System")
                    running = tasks.create_task(made.run())
                    yield made
                    running.cancel()
            finally:
                await runner.cleanup()
                made.store.close()
