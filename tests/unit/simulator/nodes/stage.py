"""A simulated cluster without a controller, for tests of its machines: their Nodes, devices and pods."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

from provisioner.simulator import loop
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.kube.store import Store
from provisioner.simulator.nodes.machine import NodeSettings
from provisioner.simulator.nodes.simulator import NodeSimulator

EPOCH = datetime(2026, 11, 1, tzinfo=UTC)
SIZE = "Standard_NC24ads_A100_v4"
GPU = "nvidia.com/gpu"


class Sim:
    """A cluster with one GPU pool called `gpu1`, which has run for ten minutes unless a test states otherwise."""

    def __init__(self, seed: int, settings: NodeSettings, **azure: Any) -> None:
        clock = loop.VirtualClock(asyncio.get_running_loop(), EPOCH)
        self.cloud = AzureCloud(AzureSettings(**azure), clock.now, Random(seed))
        self.store = Store(clock.now, seed_uid=Random(seed))
        self.nodes = NodeSimulator(self.store, self.cloud, settings, Random(seed), clock.now)
        self.writes: list[tuple[str, str]] = []
        self.store.subscribe(lambda kind, resource, obj, before: self.writes.append((kind, resource)))

    @property
    def name(self) -> str:
        return f"aks-gpu1-{self.cloud.settings.name_digits}-vmss000000"

    @property
    def node(self) -> dict[str, Any]:
        found = self.store.get("nodes", self.name)
        assert found is not None
        return found

    def create(self, name: str = "gpu1", **wire: Any) -> None:
        self.cloud.lifecycle.create(name, {"vmSize": SIZE, **wire})

    def ready(self) -> str:
        return str(next(c["status"] for c in self.node["status"]["conditions"] if c["type"] == "Ready"))

    def gpus(self, name: str = "") -> tuple[str | None, str | None]:
        found = self.store.get("nodes", name or self.name)
        assert found is not None
        status = found["status"]
        return status["capacity"].get(GPU), status["allocatable"].get(GPU)

    def keys(self) -> set[str]:
        return {taint["key"] for taint in self.node["spec"].get("taints") or ()}


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - on virtual time, looking costs nothing
        await asyncio.sleep(0.1)


def run_scenario(
    scenario: Callable[[Sim], Awaitable[None]], settings: NodeSettings | None = None, **azure: Any
) -> None:
    """Run one scenario; remaining timers are dropped."""

    async def main() -> None:
        sim = Sim(3, settings or NodeSettings(), **azure)
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(sim.cloud.run()), group.create_task(sim.nodes.run())]
            await scenario(sim)
            for task in background:
                task.cancel()

    loop.run(main, seed=3, epoch=EPOCH, horizon_seconds=86_400)


def pod(name: str, node: str, *, gpus: int = 0) -> dict[str, Any]:
    container = {"name": "c", "image": "i", **({"resources": {"limits": {GPU: str(gpus)}}} if gpus else {})}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [container]},
    }
