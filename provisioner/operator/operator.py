"""The composition root: clients, caches, rules and one TaskGroup around them.

Everything that runs is started here and ends with `run`; the caches are kept warm by every replica, but only
the holder of the lease lists ARM, plans and writes. A task that dies takes the program with it, never silently.
"""

import asyncio
import math
from collections.abc import Mapping

import structlog

from cloudprovider.azure.agentpool import pool_name
from cloudprovider.azure.errors import recalled
from cloudprovider.inventory import Inventory
from controllers.actuator.actuator import Actuator
from controllers.actuator.cloud import CloudActuator
from controllers.actuator.kubernetes import KubernetesActuator
from controllers.garbagecollection.confirmation import decode
from controllers.reconcile.event_handlers import EventHandlers
from controllers.reconcile.reconciler import Reconciler
from controllers.state.cluster import ClusterState
from controllers.state.gc_candidates import GCCandidates
from controllers.state.indexes import Indexes, claim_indexes, node_indexes
from controllers.state.observe import cached_facts
from controllers.state.offering_tracker import OfferingTracker
from controllers.state.unavailable_offerings import UnavailableOfferings
from controllers.state.unhealthy_nodes import UnhealthyNodes
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.metrics.observers.loop_lag import LoopLag
from provisioner.metrics.observers.observer import Observer
from provisioner.metrics.observers.offerings import of_offerings
from provisioner.metrics.observers.removals import of_removals
from provisioner.runtime.controller import Controller
from provisioner.runtime.election import Election
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.objects import CustomResourceDefinition
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import CRDS, NODECLAIMS, NODES
from provisioner.runtime.workqueue import WorkQueue

from . import health, serving
from .config import Outside, Running
from .instance_types import gpus_of, offerings_of

WORKERS = 20
# A pass holds two reads and a write at most; ARM's own limit is 15 s each.
PASS_SECONDS = 60.0

log = structlog.get_logger("app")


class App:
    """One controller process, wired and not yet running."""

    def __init__(self, outside: Outside, running: Running) -> None:
        self._outside = outside
        self._running = running
        metrics, rng = outside.metrics, outside.rng
        self.queue = WorkQueue(rng, metrics=metrics.workqueue("nodeclaim"))
        self.events = EventRecorder(outside.kube, outside.clock, metrics=metrics.events())
        self.claims: Reflector[NodeClaim] = Reflector(
            outside.kube,
            NODECLAIMS,
            rng=rng,
            indexes=claim_indexes(pool_name),
            on_change=self._claim_changed,
            on_synced=lambda: self.event_handlers.cache_synced(),  # noqa: PLW0108 - bound late
            metrics=metrics.reflector("nodeclaims"),
        )
        self.nodes: Reflector[Node] = Reflector(
            outside.kube,
            NODES,
            rng=rng,
            indexes=node_indexes(),
            on_change=self._node_changed,
            on_synced=lambda: self.event_handlers.cache_synced(),  # noqa: PLW0108 - bound late
            metrics=metrics.reflector("nodes"),
        )
        self.crds: Reflector[CustomResourceDefinition] = Reflector(
            outside.kube,
            CRDS,
            rng=rng,
            indexes={},
            on_change=lambda old, new: self.event_handlers.crd_changed(old, new),  # noqa: PLW0108 - bound late
            on_synced=lambda: self.event_handlers.cache_synced(),  # noqa: PLW0108 - bound late
            metrics=metrics.reflector("customresourcedefinitions"),
        )
        self.inventory = Inventory(
            outside.provider,
            rng=rng,
            on_change=self._pool_changed,
            on_news=lambda: self.event_handlers.all_changed(),  # noqa: PLW0108 - bound late
            poll_seconds_busy=running.poll_seconds_busy,
            poll_seconds_idle=running.poll_seconds_idle,
            settle_seconds=running.settle_seconds,
        )
        self.election: Election | None = None
        if running.elect:
            self.election = Election(
                outside.lease_kube,
                outside.clock,
                name=running.lease_name,
                namespace=running.lease_namespace,
                identity=running.identity,
                rng=rng,
                metrics=metrics.leader(running.lease_name),
                on_annotations=self._lease_annotated,
            )
        self._leading_alone = False
        self._ending = False
        indexes = Indexes(claims=self.claims, nodes=self.nodes, crds=self.crds, pool_name=pool_name)
        actuator = Actuator(
            KubernetesActuator(outside.kube),
            CloudActuator(outside.provider, self.inventory),
            self.events,
            self._lease_left,
            self._write_cut,
        )
        self.unavailable_offerings = UnavailableOfferings(self.queue.add)
        candidates = GCCandidates(
            lambda key: cached_facts(
                key, indexes=indexes, inventory=self.inventory, policy=running.policy, wall=outside.clock.now()
            ),
            lambda: (*indexes.keys(), *self.inventory.names()),
        )
        self.cluster_state = ClusterState(
            indexes=indexes, inventory=self.inventory, policy=running.policy, candidates=candidates
        )
        self.unhealthy_nodes = UnhealthyNodes(indexes=indexes, policy=running.policy)
        self.observer = Observer(
            metrics,
            indexes=indexes,
            nodes=self.nodes.items,
            inventory=self.inventory,
            wanted=offerings_of,
            clock=outside.clock,
            leading=lambda: self._lease_left() > 0,
            prices=running.prices,
        )
        self.reconciler = Reconciler(
            indexes=indexes,
            inventory=self.inventory,
            actuator=actuator,
            clock=outside.clock,
            policy=running.policy,
            cluster_state=self.cluster_state,
            offering_tracker=OfferingTracker(
                self.unavailable_offerings,
                offerings_of,
                of_offerings(metrics, self.unavailable_offerings, self.observer.errors),
                recalled,
                lambda: self.election.vacant_seconds if self.election is not None else 0.0,
            ),
            gpus=gpus_of,
            unhealthy_nodes=self.unhealthy_nodes,
            observer=self.observer,
        )
        self.event_handlers = EventHandlers(
            queue=self.queue,
            indexes=indexes,
            inventory=self.inventory,
            cluster_state=self.cluster_state,
            known_keys=self.reconciler.keys,
        )
        self.controller = Controller(
            "nodeclaim",
            self.queue,
            self.reconciler.reconcile,
            workers=WORKERS,
            pass_timeout_seconds=PASS_SECONDS,
            metrics=metrics.controller("nodeclaim"),
            about=indexes.about,
        )
        self.loop_lag = LoopLag(metrics)
        of_removals(metrics, self.cluster_state, self.unhealthy_nodes, outside.clock)

    # The rules hear of a change before those who only count it.

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        self.event_handlers.claim_changed(old, new)
        self.observer.claim_changed(old, new)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self.event_handlers.node_changed(old, new)
        self.observer.node_changed(old, new)

    def _pool_changed(self, key: str) -> None:
        self.event_handlers.pool_changed(key)
        self.observer.pool_changed(key)

    def _lease_left(self) -> float:
        if self.election is not None:
            return self.election.remaining()
        return math.inf if self._leading_alone else 0.0

    def _lease_annotated(self, annotations: Mapping[str, str]) -> None:
        """What a person wrote on the Lease: which removals may pass the circuit breaker."""
        text = annotations.get(labels.CONFIRMED_REMOVALS, "")
        confirmation = decode(text) if text else None
        if text and confirmation is None:
            log.warning("a confirmation of removals that cannot be read is ignored", annotation=text[:256])
        self.event_handlers.confirmed(confirmation)

    def _write_cut(self, seconds: float) -> None:
        if self.election is not None:
            self.election.unsettled(seconds)

    async def run(self) -> None:
        """Run until cancelled, or until a task fails (the exception passes)."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._serve(), name="serve")
            tasks.create_task(self.claims.run(), name="claims")
            tasks.create_task(self.nodes.run(), name="nodes")
            tasks.create_task(self.crds.run(), name="crds")
            tasks.create_task(self.events.run(), name="events")
            if self._running.metrics_port is not None:
                tasks.create_task(self.loop_lag.run(), name="loop lag")
            await self._lead_or_follow()

    async def _lead_or_follow(self) -> None:
        if self.election is not None:
            await self.election.lead(self._work)
            return
        log.warning("running without a lease: make sure that this is the only replica")
        self._leading_alone = True
        await self._work()

    async def _work(self) -> None:
        """What only the leader does."""
        log.info("leading", identity=self._running.identity)
        objects, age = self._outside.metrics.mirror("agentpools")
        objects.set_function(lambda: float(len(self.inventory.names())))
        age.set_function(self.inventory.silent_seconds)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.inventory.run(), name="inventory")
                tasks.create_task(self.controller.run(), name="controller")
        finally:
            self._ending = True  # what is left is to give the lease back, and that may take until its timeout

    async def _serve(self) -> None:
        """Health and metrics, for as long as the program runs."""
        await serving.listen(
            health_port=self._running.health_port,
            metrics_port=self._running.metrics_port,
            live=health.live(self.controller, self.queue, lambda: self._lease_left() > 0),
            ready=health.ready(self.claims, self.nodes, self.crds, lambda: self._ending),
            registry=self._outside.metrics.registry,
        )
