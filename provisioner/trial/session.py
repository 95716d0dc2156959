"""One trial: a world on loopback sockets, and the real controller in it.

The controller runs as `gpu-provisioner run` would, over the same clients and real sockets; only the other side
is simulated. Azure's and the machines' times pass `speed` times faster, the controller's own are real.
The kubeconfig is written for the time of the trial; a file that is not a trial's own is never overwritten.
"""

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from provisioner.api.crd import all_crds
from provisioner.operator.clients import open_clients
from provisioner.operator.config import config_from
from provisioner.operator.operator import Operator
from provisioner.runtime.clock import SystemClock
from provisioner.settings import Settings, load
from provisioner.simulator.azure.faults import Fault
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.world import Addresses, World, WorldSettings

from .causes import CAUSES
from .failures import FAILURES, Failure
from .story import CONTROLLER

SETTLE_SECONDS = 60.0
OWN_MARK = "current-context: simulator\n"


class CannotBegin(Exception):
    """The trial's surroundings do not allow it: why, and what to do, a line each."""


@dataclass(frozen=True, kw_only=True)
class TrialSettings:
    """`fail`: one of `failures.FAILURES`, "" for none; `faults`: a fault plan. Ports of 0 are any free ones."""

    speed: float
    fail: str
    kubeconfig: Path
    kube_port: int = 0
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a running trial offers."""

    settings: TrialSettings
    world: World
    addresses: Addresses

    @property
    def failure(self) -> Failure | None:
        """What goes wrong in it."""
        return FAILURES.get(self.settings.fail)


@asynccontextmanager
async def trial(wanted: TrialSettings) -> AsyncIterator[Trial]:
    """A world with the controller running in it, until the context ends. Raises CannotBegin before it begins."""
    clock = SystemClock()
    azure = AzureSettings(speed=wanted.speed)
    # No token: kubectl sends none over plain http, and it is served on loopback only.
    world_settings = WorldSettings(azure=azure, foreign_pools=("system",))
    async with World(crds=all_crds().values(), now=clock.now, settings=world_settings) as world:
        world.invariants.controllers[CONTROLLER] = None
        addresses = await _listen(world, wanted.kube_port)
        running = Trial(settings=wanted, world=world, addresses=addresses)
        world.cloud.faults.extend(wanted.faults)
        if wanted.fail:
            CAUSES[wanted.fail](world)
        with _kubeconfig(world, addresses, wanted.kubeconfig):
            settings = _controller_settings(azure, addresses, wanted.kubeconfig)
            async with open_clients(settings) as clients, asyncio.TaskGroup() as tasks:
                # How long Azure may hide an accepted PUT is a matter of Azure's time, and that passes faster here.
                config = replace(config_from(settings), settle_seconds=SETTLE_SECONDS / wanted.speed)
                app = tasks.create_task(Operator(clients, config).run())
                try:
                    yield running
                finally:
                    app.cancel()


async def _listen(world: World, port: int) -> Addresses:
    try:
        return await world.listen(kube_port=port)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = f"port {port} of 127.0.0.1 is taken" if taken else f"cannot listen on port {port}: {error.strerror}"
        raise CannotBegin(f"{why}\n    Name another with --port, or leave it out to have any free one.") from None


@contextmanager
def _kubeconfig(world: World, addresses: Addresses, path: Path) -> Iterator[None]:
    """The file, while the trial lasts."""
    try:
        if path.exists() and OWN_MARK not in path.read_text(encoding="utf-8", errors="replace"):
            raise CannotBegin(f"{path} is there and is not a trial's\n    Name another file with --kubeconfig.")
        world.write_kubeconfig(path, addresses)
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise CannotBegin(f"cannot write {path}: {why}\n    Name another file with --kubeconfig.") from None
    try:
        yield
    finally:
        # Another trial may have written it meanwhile: then it is that one's.
        if path.is_file() and addresses.kube in path.read_text(encoding="utf-8"):
            path.unlink()


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
