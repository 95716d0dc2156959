"""A complete environment around a real API server: emulated Azure, simulated machines, and the controller as a real
process.

It has the interface of the simulated environment (`tests.world.harness.Sim`), of which a scenario may use `apply`,
`delete_claim`, `delete_node`, `request`, `until`, `claim`, `condition`, `pools_of`, `nodes_of`, `store`, `cloud`,
`nodes`, `audit_log.deletion_order` and the methods that start, crash and stop controllers; another client gets a
`session`. KAITO's watcher runs beside it as well. Azure's and the machines' minutes pass as seconds; the controller's
own times are real.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar, cast

import aiohttp
from aiohttp import web

from provisioner.api import labels
from provisioner.runtime.clock import SystemClock
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.azure.arm import make_arm_app
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from provisioner.simulator.nodes.simulator import NodeSimulator
from provisioner.simulator.snapshot import pool_mark
from tests.world.azure_role import AZURE_ACTIONS

from .bystanders import MERGE
from .controlplane import ControlPlane
from .kaito_beside import WATCHES_DIFFER_SECONDS, KaitoBeside
from .object_history import ObjectHistory
from .processes import PATIENCE_SECONDS, RUN_SECONDS, Ended, Program, ran
from .realstore import RealStore, path_of

Json = dict[str, Any]
T = TypeVar("T")

SPEED = 60.0
FOREIGN = {"system": "System", "theirs": "User"}
CLAIMS = "nodeclaims.karpenter.sh"
KINDS = {
    "NodeClaim": CLAIMS,
    "NodePool": "nodepools.karpenter.sh",
    "AgentPoolNodeClass": "agentpoolnodeclasses.gpu-provisioner.sh",
    "NodeOverlay": "nodeoverlays.karpenter.sh",
}
WATCHED = ("nodes", CLAIMS, "pods")
LEASES = "kube-node-lease"
# Machines of NodePools with this label have a DRA driver.
NODES = NodeSettings(dra_labels={"gpu": "dra"})
AZURE = AzureSettings(speed=SPEED, actions=AZURE_ACTIONS)
HEARTBEAT_SECONDS = 10.0
LOOK_SECONDS = 0.5
QUIET_SECONDS = 3.0
SETTLED_SECONDS = 300.0
UNSERVED_SECONDS = 300.0
PROGRAM = Path(sys.executable).parent / "gpu-provisioner"


class RealWorld:
    """`arm_url` is the URL of Azure."""

    def __init__(self, cp: ControlPlane, workdir: Path, azure: AzureSettings, nodes: NodeSettings) -> None:
        now = SystemClock().now
        self.controllers: dict[str, Program] = {}
        self.store = RealStore(cp.url, cp.ssl, cp.admin_token)
        self.cloud = AzureCloud(azure, now, Random("cloud"))
        self.nodes = NodeSimulator(cast("Any", self.store), self.cloud, nodes, Random("nodes"), now)
        self._changed = asyncio.Event()
        self._changed_at = 0.0
        self.audit_log = ObjectHistory(self.store, self.cloud, self._note)
        self._kaito = KaitoBeside(asyncio.get_running_loop().time, lambda: len(self.cloud.requests))
        self.store.subscribe(self._kaito.on_object)
        self._cp = cp
        self._workdir = workdir
        self.arm_url = ""
        self._ended: set[str] = set()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, cp: ControlPlane, workdir: Path, *, azure: AzureSettings = AZURE, nodes: NodeSettings = NODES
    ) -> AsyncIterator[Self]:
        """Serve the environment until the context ends; every controller is killed with it."""
        world = cls(cp, workdir, azure, nodes)
        runner = web.AppRunner(make_arm_app(world.cloud), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            world.arm_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            async with asyncio.TaskGroup() as tasks:
                works = (world.store.feed(*WATCHED), world.cloud.run(), world.nodes.run(), world._heartbeats())
                running = [tasks.create_task(work) for work in works]
                for name, mode in FOREIGN.items():
                    world.cloud.seed_pool(name, mode=mode)
                yield world
                for task in running:
                    task.cancel()
        finally:
            for program in world.controllers.values():
                program.kill()
            await runner.cleanup()
            world.store.close()

    # Controllers

    async def start_controller(self, name: str = "ctl0", **variables: str) -> Program:
        """Start `gpu-provisioner run` with our chart's service account, and these environment variables."""
        assert name not in self.controllers, f"{name} has been used"
        environment = self._environment(name, "controller") | {
            "METRICS_PORT": "0",
            "HEALTH_PROBE_PORT": "0",
            "LOG_LEVEL": "debug",
            **variables,
        }
        program = Program(name, [str(PROGRAM), "run"], self._workdir / f"{name}.log", environment)
        program.start()
        self.controllers[name] = program
        return program

    async def command(self, *arguments: str, token: str | None = None, within_seconds: float = RUN_SECONDS) -> Ended:
        """Run one of the program's commands to its end, in a pipe; `token`: of another user than the administrator."""
        environment = self._environment("user", "admin", token=token)
        return await ran([str(PROGRAM), *arguments], environment, within_seconds=within_seconds)

    def _environment(self, name: str, user: str, *, token: str | None = None) -> dict[str, str]:
        azure = self.cloud.settings
        return {
            "ARM_SUBSCRIPTION_ID": azure.subscription,
            "ARM_RESOURCE_GROUP": azure.resource_group,
            "AZURE_CLUSTER_NAME": azure.cluster,
            "LOCATION": azure.location,
            "ARM_ENDPOINT": self.arm_url,
            "KUBECONFIG": str(self._cp.kubeconfig(self._workdir / f"{name}.kubeconfig", user, token=token)),
            "LEADER_ELECTION_NAMESPACE": "kube-system",
            "PATH": os.environ["PATH"],
        }

    def crash(self, name: str = "ctl0") -> None:
        """Send SIGKILL."""
        self._ended.add(name)
        self.controllers[name].kill()
        self._kaito.alone()

    async def stop_controller(self, name: str = "ctl0") -> None:
        """Send SIGTERM; the controller releases its Lease and ends with 0."""
        self._ended.add(name)
        code = self.controllers[name].stop()
        self._kaito.alone()
        assert code == 0, f"{name} ended with {code}:\n{self.controllers[name].tail()}"

    def check(self) -> None:
        """Raise AssertionError if a controller has ended unexpectedly, or KAITO's watcher has found an error."""
        self._kaito.look()
        assert not self._kaito.violations, f"KAITO: {self._kaito.violations}\n{self.describe()}"
        for name, program in self.controllers.items():
            assert name in self._ended or program.running, f"{name} ended with {program.code}:\n{program.tail()}"

    # Users

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> Json:
        """One request of the administrator, which must succeed."""
        answer: Json = await self._cp.demand(method, path, body, content_type)
        if isinstance(body, dict) and "finalizers" in (body.get("metadata") or {}):
            self._kaito.taken_off(answer["metadata"]["uid"])
        return answer

    def session(self) -> aiohttp.ClientSession:
        """Connections of another client, which the caller closes."""
        return self._cp.session()

    async def apply(self, obj: Json) -> Json:
        """Create an object of one of KINDS."""
        return await self.request("POST", path_of(KINDS[obj["kind"]]), obj)

    async def delete_claim(self, name: str) -> None:
        await self.request("DELETE", path_of(CLAIMS, name))

    async def delete_node(self, name: str) -> None:
        await self.request("DELETE", path_of("nodes", name))

    async def strip(self, name: str) -> None:
        """Remove all finalizers of a claim and delete it, so that it is gone before its pool and Node."""
        path = path_of(CLAIMS, name)
        while True:
            bare = await self.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
            if "deletionTimestamp" in bare["metadata"]:
                return
            # The controller adds its finalizer again: the claim must be deleted without it.
            unchanged = {"preconditions": {"resourceVersion": bare["metadata"]["resourceVersion"]}}
            status, answer = await self._cp.request("DELETE", path, unchanged)
            if status != 409:
                # While its CRD is being deleted, the API server can delete the bare claim first.
                assert status in (200, 404), answer
                return

    async def unserved(self) -> None:
        """Wait until the API server does not serve claims."""
        async with asyncio.timeout(UNSERVED_SECONDS):
            while (await self._cp.request("GET", path_of(CLAIMS)))[0] != 404:  # noqa: ASYNC110 - another process
                await asyncio.sleep(LOOK_SECONDS)

    async def install_crds(self) -> None:
        """Install our CRDs again."""
        await self._cp.install_crds()

    # State

    @property
    def now(self) -> float:
        """Seconds of the loop."""
        return asyncio.get_running_loop().time()

    def claim(self, name: str) -> Json | None:
        return self.store.get(CLAIMS, name)

    def condition(self, name: str, kind: str) -> str:
        """A condition's status on a claim; "" if the claim or the condition does not exist."""
        status = (self.claim(name) or {}).get("status") or {}
        return next((found["status"] for found in status.get("conditions") or () if found["type"] == kind), "")

    def pools_of(self, uid: str) -> list[Pool]:
        return [pool for pool in self.cloud.pools.values() if pool_mark(pool) == uid]

    def nodes_of(self, pool: str) -> list[Json]:
        return self.store.list("nodes", labels=f"agentpool={pool}")

    def describe(self, about: str = "") -> str:
        """The logs about the object of this name, the deletions, the conditions of every claim, the end of the logs."""
        lines = [line for program in self.controllers.values() for line in program.lines_about(about)] if about else []
        lines.append(self.audit_log.tail())
        for claim in self.store.list(CLAIMS):
            meta = claim["metadata"]
            lines.append(f"claim {meta['name']} deleted={meta.get('deletionTimestamp')} {meta.get('finalizers', [])}")
            lines += [
                f"    {found['type']}={found['status']} {found['reason']}: {found['message']}"
                for found in (claim.get("status") or {}).get("conditions") or ()
            ]
        lines += [f"pool {pool.name} {pool.state} {dict(pool.tags)}" for pool in self.cloud.pools.values()]
        lines += [f"{name}:\n{program.tail()}" for name, program in self.controllers.items()]
        return "\n".join(lines)

    async def until(self, predicate: Callable[[], T], within_seconds: float, what: str) -> T:
        """Wait until the condition is met; returns its value. Raises AssertionError with the full state otherwise.

        `within_seconds` holds in the simulator. A real machine has no known speed: the wait is PATIENCE_SECONDS.
        """
        deadline = self.now + PATIENCE_SECONDS
        while True:
            self.check()
            self._changed.clear()
            if found := predicate():
                return found
            late = f"not within {PATIENCE_SECONDS:g} s, in the simulator within {within_seconds:g} s: {what}"
            assert self.now < deadline, f"{late}\n{self.describe()}"
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def settled(self) -> None:
        """Wait until nothing has changed for a while; then no pool is without a claim.

        Raises AssertionError if changes do not end.
        """
        deadline = self.now + SETTLED_SECONDS
        while (left := self._changed_at + QUIET_SECONDS - self.now) > 0:
            assert self.now < deadline, f"it does not settle\n{self.describe()}"
            await asyncio.sleep(left)
        await asyncio.sleep(WATCHES_DIFFER_SECONDS)
        self.check()
        claims = [claim["metadata"] for claim in self.store.list(CLAIMS)]
        adopted = [(meta.get("annotations") or {}).get(labels.ADOPT) for meta in claims]
        alive = {*(meta["uid"] for meta in claims), *adopted}
        leaked = [pool.name for pool in self.cloud.pools.values() if pool_mark(pool) and pool_mark(pool) not in alive]
        assert not leaked, f"left of claims that are gone: {leaked}\n{self.describe()}"

    def _note(self) -> None:
        self._changed.set()
        self._changed_at = self.now

    # Machines

    async def _heartbeats(self) -> None:
        """Renew the Leases of kubelets; otherwise the node lifecycle controller marks their Nodes unreachable after 50
        s.
        """
        while True:
            renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            for name in [name for name, machine in self.nodes.machines.items() if machine.answers]:
                spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}
                if not self.store.patch("leases.coordination.k8s.io", name, {"spec": spec}, LEASES):
                    self.store.create("leases.coordination.k8s.io", {"metadata": {"name": name}, "spec": spec}, LEASES)
            await asyncio.sleep(HEARTBEAT_SECONDS)
