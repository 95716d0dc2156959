"""A running trial: a simulated world on loopback sockets, and the real controller connected to it.

The controller has the same clients as `gpu-provisioner run`, over real sockets. The operations of Azure and the
machines are `speed` times faster than real time; the controller runs at normal speed. The kubeconfig is removed at
the end; a kubeconfig that was not written by `try` is never overwritten.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from provisioner.api.crd import all_crds
from provisioner.operator.clients import open_clients
from provisioner.operator.config import Config, config_from
from provisioner.operator.operator import Operator
from provisioner.runtime.clock import SystemClock
from provisioner.settings import Settings, load
from provisioner.simulator.azure.faults import Fault
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from provisioner.simulator.world import LOOPBACK, Addresses, World, WorldSettings

from . import addons
from .recorder import CONTROLLER
from .scenarios import SCENARIOS, Scenario

SETTLE_SECONDS = 60.0
KUBECONFIG_MARK = "current-context: simulator\n"


class StartError(Exception):
    """The trial cannot start. The message has a line for the cause and a line for the remedy."""


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """`fail`: a key of `SCENARIOS`, or ""; `faults`: a fault plan; `kube_port`: 0 for any free port."""

    speed: float
    fail: str
    kubeconfig: Path
    kube_port: int = 0
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Session:
    settings: SessionSettings
    world: World
    addresses: Addresses
    metrics_port: int

    @property
    def metrics(self) -> str:
        """The URL of the controller's metrics."""
        return f"http://127.0.0.1:{self.metrics_port}/metrics"

    @property
    def scenario(self) -> Scenario | None:
        """The injected failure."""
        return SCENARIOS.get(self.settings.fail)


@asynccontextmanager
async def open_session(settings: SessionSettings) -> AsyncIterator[Session]:
    """A world with a running controller, until the context ends. Raises StartError."""
    clock = SystemClock()
    azure = AzureSettings(speed=settings.speed)
    # No token: kubectl sends none over plain HTTP, and the servers listen on loopback only.
    nodes = NodeSettings(dra_labels=addons.DRA_LABELS)
    world_settings = WorldSettings(azure=azure, nodes=nodes, foreign_pools=("system",))
    async with World(crds=all_crds().values(), now=clock.now, settings=world_settings) as world:
        addons.install(world)
        world.invariants.controllers[CONTROLLER] = None
        addresses = await _listen(world, settings.kube_port)
        running = Session(settings=settings, world=world, addresses=addresses, metrics_port=_free_port())
        world.cloud.faults.extend(settings.faults)
        if running.scenario is not None:
            running.scenario.inject(world)
        with _kubeconfig(world, addresses, settings.kubeconfig):
            controller = _controller_settings(azure, running, settings.kubeconfig)
            async with open_clients(controller) as clients, asyncio.TaskGroup() as tasks:
                config = _at_speed(config_from(controller), settings.speed)
                operator = tasks.create_task(Operator(clients, config).run())
                others = tasks.create_task(addons.run(world, settings.speed))
                try:
                    yield running
                finally:
                    operator.cancel()
                    others.cancel()


def _at_speed(config: Config, speed: float) -> Config:
    """On loopback, with the durations that it knows of Azure: of reads that lag behind a PUT, and of a Node's start."""
    usual_start = config.policy.usual_start_seconds / speed
    policy = msgspec.structs.replace(config.policy, usual_start_seconds=usual_start)
    return replace(config, settle_seconds=SETTLE_SECONDS / speed, policy=policy, bind_address=LOOPBACK)


async def _listen(world: World, port: int) -> Addresses:
    try:
        return await world.listen(kube_port=port)
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        cause = f"port {port} of 127.0.0.1 is in use" if in_use else f"cannot listen on port {port}: {error.strerror}"
        raise StartError(f"{cause}\n    Set another port with --port, or omit the flag to use any free one.") from None


@contextmanager
def _kubeconfig(world: World, addresses: Addresses, path: Path) -> Iterator[None]:
    """The kubeconfig exists while the context is open."""
    try:
        if path.exists() and KUBECONFIG_MARK not in path.read_text(encoding="utf-8", errors="replace"):
            raise StartError(f"{path} exists and was not written by `try`\n    Set another path with --kubeconfig.")
        world.write_kubeconfig(path, addresses)
    except OSError as error:
        cause = (error.strerror or type(error).__name__).lower()
        raise StartError(f"cannot write {path}: {cause}\n    Set another path with --kubeconfig.") from None
    try:
        yield
    finally:
        # Another trial may have replaced the file.
        if path.is_file() and addresses.kube in path.read_text(encoding="utf-8"):
            path.unlink()


def _free_port() -> int:
    """A port of 127.0.0.1 that no process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _controller_settings(azure: AzureSettings, running: Session, kubeconfig: Path) -> Settings:
    """The controller's settings, read from environment variables as usual."""
    return load(
        {},
        {
            "ARM_SUBSCRIPTION_ID": azure.subscription,
            "ARM_RESOURCE_GROUP": azure.resource_group,
            "AZURE_CLUSTER_NAME": azure.cluster,
            "LOCATION": azure.location,
            "ARM_ENDPOINT": running.addresses.arm,
            "KUBECONFIG": str(kubeconfig),
            "METRICS_PORT": str(running.metrics_port),
            "HEALTH_PROBE_PORT": "0",
            "LEADER_ELECTION_NAMESPACE": "kube-system",
        },
    )
