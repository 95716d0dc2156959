"""The environment of the benchmarks: a simulated cluster and Azure on loopback sockets, in this process.

Azure's durations are a few real seconds, everything else is real; a violated invariant of the simulator fails the run.
Each stage is one simulator; controllers start and stop on it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from provisioner.api.crd import all_crds
from provisioner.runtime.clock import SystemClock
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from provisioner.simulator.world import Addresses, World, WorldSettings
from tests.world.harness import node_claim

from .moments import CONTROLLER, Moments
from .process import RUN, WATCHED, Controller, run_controller

Json = dict[str, Any]
CLAIMS = "nodeclaims.karpenter.sh"
LOOK_SECONDS = 0.02
MOST_POOLS = 130
# Machines usually live longer; the absence of a younger pool is proven by a GET (docs/references/rules.md).
AGE_SECONDS = 61.0
# Time for a response to arrive and be processed.
QUIET_SECONDS = 0.5

AZURE = AzureSettings(
    throttle=False,
    max_agent_pools=MOST_POOLS,
    create_seconds=(4.0, 9.0),
    delete_seconds=(3.0, 9.0),
    # As the default: some Nodes are Ready before ARM's operation has ended, some after.
    node_share=(0.4, 1.1),
)
NODES = NodeSettings(
    initialize_seconds=(0.1, 0.3),
    ready_seconds=(0.5, 1.5),
    gpu_seconds=(0.3, 1.5),
    unresponsive_seconds=4.0,
    node_manager_seconds=0.5,
)


class Stage:
    """A simulator and the helpers that drive it."""

    def __init__(self, world: World, addresses: Addresses, folder: Path) -> None:
        self.world = world
        self.moments = Moments(world)
        self.folder = folder
        self._addresses = addresses
        self._controllers = 0
        self._running: Controller | None = None

    @asynccontextmanager
    async def controller(self, *, stalls_file: Path | None = None) -> AsyncIterator[Controller]:
        """Run a controller process until the context ends; with a file, the stalls of its loop are written to it at the
        end.
        """
        self._controllers += 1
        log, environment = self.folder / f"controller-{self._controllers}.log", self._environment()
        if stalls_file is not None:
            environment["BENCH_STALLS"] = str(stalls_file)
        async with run_controller(environment, log, WATCHED if stalls_file is not None else RUN) as running:
            self._running = running
            try:
                yield running
            finally:
                self._running = None

    def _environment(self) -> dict[str, str]:
        azure, kubeconfig = self.world.settings.azure, self.folder / "kubeconfig"
        self.world.write_kubeconfig(kubeconfig, self._addresses)
        return {
            "ARM_SUBSCRIPTION_ID": azure.subscription,
            "ARM_RESOURCE_GROUP": azure.resource_group,
            "AZURE_CLUSTER_NAME": azure.cluster,
            "LOCATION": azure.location,
            "ARM_ENDPOINT": self._addresses.arm,
            "KUBECONFIG": str(kubeconfig),
            "LEADER_ELECTION_NAMESPACE": "kube-system",
            "METRICS_PORT": "0",
            "HEALTH_PROBE_PORT": "0",
            "MAX_AGENT_POOLS": str(azure.max_agent_pools - 10),
            "MAX_CREATES_PER_MINUTE": "1000",
        }

    async def create(self, names: Iterable[str]) -> None:
        """Create claims one after the other without a pause; the servers keep answering meanwhile."""
        for name in names:
            self.world.store.create(CLAIMS, node_claim(name))
            await asyncio.sleep(0)

    async def delete(self, names: Iterable[str]) -> None:
        """Delete claims."""
        for name in names:
            self.world.store.delete(CLAIMS, name)
            await asyncio.sleep(0)

    async def until(self, done: Callable[[], bool], within_seconds: float, what: str) -> None:
        """Raises TimeoutError, with the last calls, if the condition is not met in time; RuntimeError if a controller
        ended.
        """
        try:
            async with asyncio.timeout(within_seconds):
                while not done():
                    if self._running is not None:
                        self._running.check()
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise TimeoutError(f"not within {within_seconds:g} s: {what}\n{self.world.audit_log.tail(40)}") from None

    async def all_in(self, where: dict[str, float], names: Iterable[str], within_seconds: float, what: str) -> None:
        """Wait until each of these names has a recorded time."""
        wanted = frozenset(names)
        await self.until(lambda: wanted <= where.keys(), within_seconds, what)

    async def leading(self) -> None:
        """Wait until the controller holds the Lease and has listed all pools."""
        before = len(self.lists())
        await self.until(lambda: len(self.lists()) > before, 15.0, "the controller leads")
        await asyncio.sleep(QUIET_SECONDS)

    async def settled(self, names: Iterable[str], within_seconds: float = 60.0) -> None:
        """Wait until these are Ready, their operations have ended, and a LIST has shown their pools as they are now."""
        wanted = list(names)
        await self.all_in(self.moments.ready, wanted, within_seconds, "all are Ready")
        await self.all_in(self.moments.succeeded, wanted, within_seconds, "ARM's operations have ended")
        ended = max(self.moments.succeeded[name] for name in wanted)
        await self.until(lambda: self._listed_since(ended), within_seconds, "a LIST has shown that")
        await asyncio.sleep(QUIET_SECONDS)

    def _listed_since(self, moment: float) -> bool:
        return any(call.at > moment and call.status == 200 for call in self.lists())

    def lists(self) -> list[Call]:
        """The shared LISTs so far."""
        return self.moments.requests("LIST")


def names(prefix: str, count: int) -> list[str]:
    """Claim names that are valid pool names."""
    return [f"{prefix}{number:03d}" for number in range(count)]


@asynccontextmanager
async def _stage(azure: AzureSettings, nodes: NodeSettings) -> AsyncIterator[Stage]:
    clock = SystemClock()
    settings = WorldSettings(azure=azure, nodes=nodes, foreign_pools=("system",), token="bench")
    with TemporaryDirectory(prefix="bench-") as folder:
        async with World(crds=all_crds().values(), now=clock.now, settings=settings) as world:
            world.invariants.controllers[CONTROLLER] = None
            yield Stage(world, await world.listen(), Path(folder))


def stage(azure: AzureSettings = AZURE, nodes: NodeSettings = NODES) -> AbstractAsyncContextManager[Stage]:
    """A simulator, until the context ends. Raises InvariantError if an invariant was violated."""
    return _stage(azure, nodes)
