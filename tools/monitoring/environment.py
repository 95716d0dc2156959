"""Simulated API server and Azure on loopback, with controllers whose metrics Prometheus can scrape.

Each controller is the whole program with both SDKs, its own registry and its own metrics port. The clock is real; the
simulated Azure is faster than the real one, and `policy` shortens the controller's delays.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from controllers.model.policy import Policy
from provisioner.api.crd import all_crds
from provisioner.operator.clients import open_clients
from provisioner.operator.config import Clients, config_from
from provisioner.operator.operator import Operator
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.server import metrics_app, serve
from provisioner.settings import load
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.world import Addresses, World, WorldSettings
from provisioner.trial.client import Client, connected

LOOPBACK = "127.0.0.1"
POLL_SECONDS = 0.05
# The user agent by which the simulator identifies a controller.
CONTROLLER = "gpu-provisioner"
CLAIM_KIND = "nodeclaims.karpenter.sh"

Json = dict[str, Any]


@dataclass(kw_only=True)
class Environment:
    """By the name of each controller, `targets`: the address of its metrics; `registries`: its registry."""

    world: World
    addresses: Addresses
    user: Client
    kubeconfig: Path
    azure: AzureSettings
    policy: Policy
    prices: str
    tasks: asyncio.TaskGroup
    targets: dict[str, str] = field(default_factory=dict)
    controllers: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    registries: dict[str, CollectorRegistry] = field(default_factory=dict)

    async def start(self, name: str) -> None:
        """Start a controller; returns once its metrics can be scraped."""
        serving: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.controllers[name] = self.tasks.create_task(self._run(name, serving), name=name)
        self.targets[name] = f"{LOOPBACK}:{await serving}"

    async def stop(self, name: str) -> None:
        """Cancel it, as SIGTERM does, and wait for its end."""
        self.controllers[name].cancel()
        await asyncio.wait([self.controllers[name]])

    async def until(self, predicate: Callable[[], object], what: str, within_seconds: float = 60.0) -> None:
        """Wait until the predicate is true. Raises TimeoutError with `what`."""
        try:
            async with asyncio.timeout(within_seconds):
                while not predicate():  # noqa: ASYNC110 - the state of the simulators cannot be awaited
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise TimeoutError(f"not within {within_seconds:g} s: {what}\n{self.world.audit_log.tail()}") from None

    def claim(self, name: str) -> Json | None:
        """The current NodeClaim, or None."""
        return self.world.store.get(CLAIM_KIND, name)

    def condition(self, name: str, kind: str) -> tuple[str, str, str]:
        """Status, reason and message of a condition; empty texts if there is none."""
        status = (self.claim(name) or {}).get("status") or {}
        found: Json = next((one for one in status.get("conditions") or () if one["type"] == kind), {})
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    def counted(self, series: str, **labels: str) -> float:
        """The sum of a counter over all controllers."""
        return sum(registry.get_sample_value(series, labels) or 0.0 for registry in self.registries.values())

    def node_of(self, name: str) -> str:
        """The name of the Node of a claim."""
        node: str = (self.claim(name) or {})["status"]["nodeName"]
        return node

    async def _run(self, name: str, serving: "asyncio.Future[int]") -> None:
        settings = load({}, self._environment())
        async with AsyncExitStack() as life:
            clients: Clients = await life.enter_async_context(open_clients(settings))
            registry = self.registries[name] = clients.metrics.registry
            # The replicas run in one process; only their identities differ.
            config = replace(config_from(settings), identity=name, policy=self.policy, poll_seconds_idle=2.0)
            app = Operator(clients, replace(config, settle_seconds=60.0 / self.azure.speed))
            serving.set_result(await life.enter_async_context(serve(LOOPBACK, 0, metrics_app(registry))))
            await app.run()

    def _environment(self) -> Mapping[str, str]:
        azure = self.azure
        return {
            "ARM_SUBSCRIPTION_ID": azure.subscription,
            "ARM_RESOURCE_GROUP": azure.resource_group,
            "AZURE_CLUSTER_NAME": azure.cluster,
            "LOCATION": azure.location,
            "ARM_ENDPOINT": self.addresses.arm,
            "KUBECONFIG": str(self.kubeconfig),
            "METRICS_PORT": "0",
            "HEALTH_PROBE_PORT": "0",
            "LEADER_ELECTION_NAMESPACE": "kube-system",
            "PRICES": self.prices,
        }


@asynccontextmanager
async def environment(home: Path, azure: AzureSettings, policy: Policy, prices: str) -> AsyncIterator[Environment]:
    """An environment without controllers; controllers that are started stop at the end of the context."""
    clock, kubeconfig = SystemClock(), home / "kubeconfig"
    settings = WorldSettings(azure=azure, foreign_pools=("system",))
    async with World(crds=all_crds().values(), now=clock.now, settings=settings) as world:
        world.invariants.controllers[CONTROLLER] = None
        addresses = await world.listen()
        world.write_kubeconfig(kubeconfig, addresses)
        async with connected(world, addresses) as user, asyncio.TaskGroup() as tasks:
            made = Environment(
                world=world,
                addresses=addresses,
                user=user,
                kubeconfig=kubeconfig,
                azure=azure,
                policy=policy,
                prices=prices,
                tasks=tasks,
            )
            try:
                yield made
            finally:
                for task in made.controllers.values():
                    task.cancel()
