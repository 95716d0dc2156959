"""One trial: a world on loopback sockets, and the real controller in it.

Promise: the controller runs as `gpu-provisioner run` would, over the same clients and real sockets; only the other side
is simulated. Azure's and the machines' times pass `speed` times faster, the controller's own are real.
Left to others: what is told of it (`story.py`), what is done in it (`script.py`).
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from provisioner.api.crd import all_crds
from provisioner.app import App
from provisioner.outside import connect, running_of
from provisioner.runtime.clock import SystemClock
from provisioner.settings import Settings, load
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.world import Addresses, World, WorldSettings

from .failures import FAILURES
from .story import CONTROLLER


@dataclass(frozen=True, kw_only=True)
class TrialSettings:
    """`fail`: one of `failures.FAILURES`, "" for none. Ports of 0 are any free ones."""

    speed: float
    fail: str
    kubeconfig: Path
    kube_port: int = 0


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a running trial offers."""

    world: World
    app: App
    addresses: Addresses
    kubeconfig: Path
    settings: Settings


@asynccontextmanager
async def trial(wanted: TrialSettings) -> AsyncIterator[Trial]:
    """A world with the controller running in it, until the context ends."""
    clock = SystemClock()
    azure = AzureSettings(speed=wanted.speed)
    world_settings = WorldSettings(azure=azure, foreign_pools=("system",), token="trial")  # noqa: S106
    async with World(crds=all_crds().values(), now=clock.now, settings=world_settings) as world:
        world.invariants.controllers[CONTROLLER] = None
        addresses = await world.listen(kube_port=wanted.kube_port)
        world.write_kubeconfig(wanted.kubeconfig, addresses)
        if wanted.fail:
            FAILURES[wanted.fail].cause(world)
        settings = _controller_settings(azure, addresses, wanted.kubeconfig)
        async with connect(settings) as outside, asyncio.TaskGroup() as tasks:
            app = App(outside, running_of(settings))
            running = tasks.create_task(app.run())
            try:
                yield Trial(world=world, app=app, addresses=addresses, kubeconfig=wanted.kubeconfig, settings=settings)
            finally:
                running.cancel()


def _controller_settings(azure: AzureSettings, addresses: Addresses, kubeconfig: Path) -> Settings:
    """The controller's settings, read as always: from an environment."""
    return load(
        {},
        {
            "ARM_SUBSCRIPTION_ID": azure.subscription,
            "ARM_RESOURCE_GROUP": azure.resource_group,
            "AZURE_CLUSTER_NAME": azure.cluster,
            "LOCATION": azure.location,
            "ARM_ENDPOINT": addresses.arm,
            "KUBECONFIG": str(kubeconfig),
            "METRICS_PORT": "0",
            "HEALTH_PROBE_PORT": "0",
            "LEADER_ELECTION_NAMESPACE": "kube-system",
        },
    )


def has_kubectl() -> bool:
    """Whether a person here can try the kubectl lines."""
    return shutil.which("kubectl") is not None
