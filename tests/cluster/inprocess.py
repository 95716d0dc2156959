"""Runs our program in this process, as a pod of the real control plane: over sockets, with the chart's service account.

Connections are made as `provisioner.operator.clients` makes them, from a pod's mounted files; a process that loses its
Lease is followed by another, as with a kubelet. Its caches, its connections and each reconcile can be inspected. ARM is
the emulator on loopback, and machines exist only as objects.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import azure.mgmt.containerservice.aio  # noqa: F401 - imported late by the program, in a loop that we time
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from cloudprovider.azure.client import AzureConfig, build_arm
from cloudprovider.azure.cloud import AksCloud
from cloudprovider.azure.provider import AzureProvider
from controllers.actuator.kubernetes import KubernetesActuator
from controllers.model.facts import Facts
from controllers.model.policy import Policy
from controllers.model.results import Evicted, Wrote
from controllers.reconcile import reconciler
from controllers.state.observe import observe
from provisioner.operator import clients
from provisioner.operator.config import Clients, Config
from provisioner.operator.operator import Operator
from provisioner.runtime.clock import SystemClock
from provisioner.runtime.compute import ThreadCompute
from provisioner.runtime.connection import Connection, build_api_client
from provisioner.runtime.kept import whole
from provisioner.runtime.kube import Kube
from provisioner.runtime.leaderelection import LeadershipLost
from provisioner.runtime.metrics import Metrics
from provisioner.runtime.resources import NODECLAIMS, NODES
from provisioner.simulator.azure.arm import make_arm_app
from provisioner.simulator.azure.cloud import AzureCloud
from provisioner.simulator.azure.settings import AzureSettings

from .bystanders import Hand, machines
from .controlplane import NAMESPACE, ControlPlane
from .processes import PATIENCE_SECONDS

Json = dict[str, Any]
T = TypeVar("T")

LEASE = "gpu-provisioner-leader-election"
LOOK_SECONDS = 0.1
TOLD_LINES = 60
WATCHES = 9  # claims, Nodes, NodePools, their node classes, NodeOverlays, and each of four CRDs


class Passes:
    """Compares the facts of every reconcile with our own last write of the same object."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.behind: list[str] = []
        self._written: dict[str, tuple[int, str]] = {}
        write = KubernetesActuator.write

        def observed(key: str, **sources: Any) -> Facts:
            facts = observe(key, **sources)
            self._look(facts)
            return facts

        async def written(acts: KubernetesActuator, step: Any) -> Wrote | Evicted:
            outcome = await write(acts, step)
            if isinstance(outcome, Wrote) and outcome.resource_version:
                self._written[outcome.uid] = (int(outcome.resource_version), type(step).__name__)
            return outcome

        patch.setattr(reconciler, "observe", observed)
        patch.setattr(KubernetesActuator, "write", written)

    @property
    def writes(self) -> int:
        """The number of objects that we wrote at least once."""
        return len(self._written)

    def _look(self, facts: Facts) -> None:
        obj: Any
        self.count += 1
        for obj in (*facts.claims, *facts.nodes):
            version = int(obj.metadata.resource_version)
            ours, step = self._written.get(obj.uid, (0, ""))
            if version < ours:
                self.behind.append(f"{facts.key}: {obj.name} at {version}, ours is {ours}, by {step}")


@dataclass
class Pod:
    """The program and its environment. `app` is the running instance; `lives` counts them."""

    cp: ControlPlane
    folder: Path
    cloud: AzureCloud
    policy: Policy
    passes: Passes
    log: list[Json]
    arm_url: str = ""
    lives: int = 0
    answers: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    app: Operator = field(init=False)
    connection: Connection = field(init=False)
    kube: Kube = field(init=False)

    def move_in(self) -> None:
        """Write all files of a service account's mount."""
        (self.folder / "ca.crt").write_bytes(self.cp.ca_file.read_bytes())
        (self.folder / "namespace").write_text(NAMESPACE)
        self.mount(self.cp.controller_token)

    def mount(self, token: str) -> None:
        """Replace the token file atomically, as the kubelet does."""
        fresh = self.folder / ".token"
        fresh.write_text(token)
        fresh.rename(self.folder / "token")

    async def run(self) -> None:
        """Run one instance after another."""
        while True:
            try:
                await self._live()
            except* LeadershipLost:
                pass
            await asyncio.sleep(1.0)

    async def _live(self) -> None:
        clock, metrics = SystemClock(), Metrics()
        async with AsyncExitStack() as life:
            self.connection = await self._connect(life)
            lease = await self._connect(life)
            self.kube = Kube(
                self.connection.api_client,
                renew_credentials=self.connection.renew_credentials,
                on_request=self._count,
            )
            azure = self.cloud.settings
            config = AzureConfig(
                subscription_id=azure.subscription,
                resource_group=azure.resource_group,
                cluster_name=azure.cluster,
                location=azure.location,
                arm_endpoint=self.arm_url,
                static_token="simulator",
            )
            arm = build_arm(config, version="test")
            made = AzureProvider(arm.client, config, clock=clock, owned=(arm.credential, arm.session))
            provider = clients.decorate(made, metrics)
            life.push_async_callback(provider.close)
            self.lives += 1
            self.app = Operator(
                Clients(
                    kube=self.kube,
                    lease_kube=Kube(
                        lease.api_client,
                        timeout_seconds=clients.LEASE_TIMEOUT_SECONDS,
                        renew_credentials=lease.renew_credentials,
                    ),
                    provider=provider,
                    cloud=AksCloud(),
                    clock=clock,
                    rng=Random(self.lives),
                    metrics=metrics,
                    compute=ThreadCompute(),
                ),
                Config(
                    policy=self.policy,
                    elect=True,
                    lease_name=LEASE,
                    lease_namespace="kube-system",
                    identity=f"pod-{self.lives}",
                    poll_seconds_busy=2.0,
                ),
            )
            await self.app.run()

    async def _connect(self, life: AsyncExitStack) -> Connection:
        host, port = self.cp.url.removeprefix("https://").split(":")
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        made = await build_api_client(version="test", in_cluster=True, service_account=self.folder, environ=environ)
        life.push_async_callback(made.close)
        return made

    def _count(self, verb: str, kind: str, status: int, _seconds: float) -> None:
        self.answers[verb, kind, status] += 1

    @property
    def in_use(self) -> int:
        """The open connections to the API server without those of the Lease: at rest, one for each watch."""
        requests: Any = self.connection.api_client.rest_client.pool_manager
        connector = requests._session.connector
        return len(connector._acquired)

    async def equals_a_fresh_list(self) -> None:
        """Compare the caches to a fresh list, up to the resourceVersion. Raises AssertionError with the differences."""
        caches: tuple[tuple[Any, Any], ...] = ((self.app.claims, NODECLAIMS), (self.app.nodes, NODES))
        for cache, resource in caches:
            deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
            while True:
                fresh = {item.metadata.name: item for item in (await self.kube.list(resource, digest=whole)).items}
                cached = {item.metadata.name: item for item in cache.items()}
                if cached == fresh:
                    break
                odd = [name for name in {**cached, **fresh} if cached.get(name) != fresh.get(name)]
                assert asyncio.get_running_loop().time() < deadline, f"{resource.plural}: {len(odd)} differ: {odd[:5]}"
                await asyncio.sleep(LOOK_SECONDS)

    async def until(self, true: Callable[[], T], what: str) -> T:
        """Wait until the condition is met; returns its value."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not (found := true()):
            late = asyncio.get_running_loop().time() >= deadline
            assert not late, f"not within {PATIENCE_SECONDS:g} s: {what}\n{self.describe()}"
            await asyncio.sleep(LOOK_SECONDS)
        return found

    def describe(self) -> str:
        """The conditions of every claim, and the pools."""
        lines = [f"life {self.lives}, {self.in_use} connections in use, {WATCHES} watches"]
        for claim in self.app.claims.items():
            conditions = [
                f"{c.type}={c.status} {c.reason}: {c.message}" for c in claim.status.conditions if c.status != "True"
            ]
            lines.append(f"claim {claim.name} deleting={claim.deleting} {claim.metadata.finalizers} {conditions}")
        lines += [f"pool {pool.name} {pool.state}" for pool in self.cloud.pools.values()]
        lines += [f"node {node.name} deleting={node.deleting}" for node in self.app.nodes.items()]
        return "\n".join(lines[:TOLD_LINES])

    def ready(self) -> int:
        """The number of Ready claims in the cache."""
        return sum(
            any(c.type == "Ready" and c.status == "True" for c in claim.status.conditions)
            for claim in self.app.claims.items()
        )


@asynccontextmanager
async def proven(
    cp: ControlPlane, folder: Path, policy: Policy | None = None, *, claims: bool = True
) -> AsyncIterator[Pod]:
    """The started program. At the end its caches equal a fresh list, it has left no task and no connection open, and no
    reconcile has used an object older than our own last write of it.

    `claims`: there are NodeClaims; without any, nothing needs to be reconciled.
    """
    tasks = len(asyncio.all_tasks())
    with capture_logs() as log, pytest.MonkeyPatch.context() as patch:
        passes = Passes(patch)
        async with _begun(cp, folder, policy or Policy(), passes, log) as made:
            yield made
            await made.equals_a_fresh_list()
            await made.until(lambda: made.in_use == WATCHES, "a connection for each watch and no other")
    assert len(asyncio.all_tasks()) == tasks, asyncio.all_tasks()
    assert not passes.behind, passes.behind[:5]
    assert passes.count or not claims, "no pass was looked at"


@asynccontextmanager
async def _begun(cp: ControlPlane, folder: Path, policy: Policy, passes: Passes, log: list[Any]) -> AsyncIterator[Pod]:
    cloud = AzureCloud(AzureSettings(speed=60.0), SystemClock().now, Random("cloud"))
    made = Pod(cp, folder, cloud, policy, passes, log)
    made.move_in()
    runner = web.AppRunner(make_arm_app(cloud), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        made.arm_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with cp.session() as session, asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(work) for work in (cloud.run(), machines(Hand(session), cloud), made.run())]
            await made.until(lambda: made.lives and made.app.claims.synced and made.app.nodes.synced, "it began")
            yield made
            for task in running:
                task.cancel()
    finally:
        await runner.cleanup()
