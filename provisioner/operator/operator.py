"""The composition root of the controller process: builds every part and runs all of them in one TaskGroup.

Every replica fills the caches and serves probes and metrics; only the holder of the Lease lists agent pools, reconciles
and writes. A task that fails ends the process.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from cloudprovider.interface import Identity, identify
from cloudprovider.inventory import Inventory
from controllers.model import confirmation, recent_removals, recent_repairs
from controllers.model.failures import wrong_cluster_message
from controllers.nodeclaim.lifecycle import dra
from provisioner.api import labels
from provisioner.metrics.observers.loop_lag import LoopLag
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.leaderelection import LeaderElector
from provisioner.runtime.metrics_access import MetricsAccess
from provisioner.runtime.resourcelock import LeaseLock
from provisioner.runtime.server import listen

from . import health
from .caches import build_caches
from .config import Clients, Config
from .controllers import build_controllers, build_fence
from .holders import another_release

log = structlog.get_logger("operator")


class Operator:
    """One controller process. The constructor starts nothing."""

    def __init__(self, clients: Clients, config: Config) -> None:
        self._clients = clients
        self._config = config
        self._stopping = False
        self._elector = build_elector(clients, config, self._lease_annotated, self._new_leader)
        self._events = EventRecorder(clients.kube, clients.clock, metrics=clients.metrics.events())
        self._inventory = build_inventory(clients, config, self._pool_changed, self._pools_changed)
        self._caches = build_caches(
            clients,
            node_pools=config.node_pools,
            slices_read=dra.waits_for_devices(config.policy.readiness_rules),
        )
        self._controllers = build_controllers(
            clients,
            config,
            caches=self._caches,
            inventory=self._inventory,
            events=self._events,
            elector=self._elector,
        )
        self._controllers.add_event_handlers(self._caches)
        self._loop_lag = LoopLag(clients.metrics)
        self.claims = self._caches.claims
        self.nodes = self._caches.nodes

    async def run(self) -> None:
        """Run until cancelled, or until a task fails; its exception is raised."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._serve(), name="serve")
            tasks.create_task(self._caches.claims.run(), name="claims")
            tasks.create_task(self._caches.nodes.run(), name="nodes")
            tasks.create_task(self._caches.crds.run(), name="crds")
            for cache in self._caches.optional:
                tasks.create_task(cache.run(), name="optional cache")
            tasks.create_task(self._controllers.objects.run(), name="objects of readiness rules")
            tasks.create_task(self._events.run(), name="events")
            if self._config.metrics_port is not None:
                tasks.create_task(self._loop_lag.run(), name="loop lag")
            if self._elector is not None:
                await self._elector.run(self._lead)
            else:
                log.warning("leader election is disabled: run exactly one replica")
                await self._lead()

    async def _lead(self) -> None:
        """The tasks of the leader."""
        log.info("started leading", identity=self._config.identity)
        objects, age = self._clients.metrics.cache("agentpools")
        objects.set_function(lambda: float(len(self._inventory.names())))
        age.set_function(self._inventory.staleness_seconds)
        annotations = self._elector.annotations if self._elector is not None else {}
        if self._elector is not None:
            self._restore_removals(annotations)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._inventory.run(), name="inventory")
                tasks.create_task(self._controllers.controller.run(), name="controller")
                self._controllers.manager.start(tasks)
                tasks.create_task(self._controllers.quota_watch.run(), name="quota")
                kept = annotations.get(labels.RETAIL_PRICES, "")
                if kept or self._clients.price_source is not None:
                    tasks.create_task(self._controllers.price_watch.lead(kept), name="prices")
                if self._controllers.provisioning is not None:
                    tasks.create_task(self._controllers.provisioning.run(), name="provisioning")
        finally:
            self._stopping = True  # the release of the Lease follows, and may last until its timeout

    async def _serve(self) -> None:
        fence = build_fence(self._elector)
        queue, controller = self._controllers.queue, self._controllers.controller
        await listen(
            host=self._config.bind_address,
            health_port=self._config.health_port,
            metrics_port=self._config.metrics_port,
            live=health.live(controller, queue, lambda: fence.leads),
            ready=health.ready(
                self._caches.claims,
                self._caches.nodes,
                self._caches.crds,
                lambda: self._stopping,
                {"cluster": self._wrong_cluster, "lease": self._waiting},
            ),
            registry=self._clients.metrics.registry,
            access=MetricsAccess(self._clients.kube) if self._config.metrics_authentication else None,
        )

    def _new_leader(self, identity: str) -> None:
        if (found := another_release(self._config.identity, identity)) is not None:
            log.warning("another release leads; this one waits: uninstall one of them", **found._asdict())

    def _waiting(self) -> str | None:
        """Which other release leads; None if none does. A second replica of this one is ready."""
        if self._elector is None or self._elector.remaining() > 0:
            return None
        found = another_release(self._config.identity, self._elector.holder)
        if found is None:
            return None
        return f"held by pod {found.pod} in namespace {found.namespace}, of another release: uninstall one of them"

    def _pool_changed(self, key: str) -> None:
        self._controllers.pool_changed(key)

    def _pools_changed(self) -> None:
        if why := self._wrong_cluster():
            log.error("refused to act on the agent pools of another cluster", error=why)
        self._controllers.pools_changed()

    def _wrong_cluster(self) -> str | None:
        """Why this API server is not that of the managed cluster; None if it is, or if that is not known."""
        group = self._inventory.node_resource_group
        other = identify(self._caches.indexes.resource_groups(), group) is Identity.OTHER
        return wrong_cluster_message(group) if other else None

    def _restore_removals(self, annotations: Mapping[str, str]) -> None:
        """Read the removals that the circuit breaker counted, and the repairs, under former leaders."""
        self._restore_repairs(annotations.get(labels.RECENT_REPAIRS, ""))
        text = annotations.get(labels.INFERRED_REMOVALS, "")
        removals = recent_removals.decode(text) if text else ()
        if removals is None:
            log.warning("ignored invalid removals on the Lease", annotation=text[:256])
            return
        wall, now = self._clients.clock.now(), asyncio.get_running_loop().time()
        self._controllers.cluster_state.restore_removals(removals, wall, now)

    def _restore_repairs(self, text: str) -> None:
        repairs = recent_repairs.decode(text) if text else ()
        if repairs is None:
            log.warning("ignored invalid repairs on the Lease", annotation=text[:256])
            return
        wall, now = self._clients.clock.now(), asyncio.get_running_loop().time()
        self._controllers.repair_history.restore(repairs, wall, now)

    def _lease_annotated(self, annotations: Mapping[str, str]) -> None:
        """Read the removals that an operator confirmed with `gpu-provisioner gc --confirm`."""
        text = annotations.get(labels.CONFIRMED_REMOVALS, "")
        confirmed = confirmation.decode(text) if text else None
        if text and confirmed is None:
            log.warning("ignored an invalid confirmation of removals on the Lease", annotation=text[:256])
        self._controllers.event_handlers.confirmed(confirmed)


def build_elector(
    clients: Clients,
    config: Config,
    on_annotations: Callable[[Mapping[str, str]], None] = lambda _: None,
    on_new_leader: Callable[[str], None] = lambda _: None,
) -> LeaderElector | None:
    """None if leader election is disabled."""
    if not config.elect:
        return None
    lock, former = (
        LeaseLock(
            clients.lease_kube,
            clients.clock,
            name=config.lease_name,
            namespace=namespace,
            identity=config.identity,
            lease_duration_seconds=config.lease_duration_seconds,
            on_annotations=on_annotations,
        )
        for namespace in (config.lease_namespace, config.former_lease_namespace)
    )
    elector = partial(
        LeaderElector, clock=clients.clock, rng=clients.rng, retry_period_seconds=config.lease_retry_seconds
    )
    return elector(
        lock,
        metrics=clients.metrics.leader(config.lease_name),
        former=elector(former) if config.former_lease_namespace else None,
        on_new_leader=on_new_leader,
    )


def build_inventory(
    clients: Clients, config: Config, on_change: Callable[[str], None], on_resync: Callable[[], None]
) -> Inventory:
    """The cache of agent pools, which the leader fills."""
    return Inventory(
        clients.provider,
        rng=clients.rng,
        on_change=on_change,
        on_resync=on_resync,
        poll_seconds_busy=config.poll_seconds_busy or config.policy.busy_list_seconds,
        poll_seconds_idle=config.poll_seconds_idle or config.policy.idle_list_seconds,
        settle_seconds=config.settle_seconds,
    )
