"""The purchase brake in one pass of provisioning: assesses machines, records those that did not take their pods.

Nothing is bought before a new record is written, so that no restart loses one: for the NodePools of a node class that
cannot be written, or whose records the API server drops. A record that the API server refuses for good counts as long
as the process runs.

Source: docs/adr/0063-purchase-brake.md.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import structlog

from cloudprovider.cloud import Cloud
from controllers.actuator.nodepools import NOT_STORED, NodePoolActuator
from controllers.model.pool_steps import RecordMachines
from controllers.model.steps import Event
from controllers.model.storage import Storage
from controllers.provisioning.assessment import Assessment, assess_machines, ran_of
from controllers.provisioning.bought_machine import Machine, Waiting
from controllers.provisioning.brake import NOT_WRITTEN, OLD_CRD, Brake, scopes_of
from controllers.provisioning.brake_folding import with_strikes
from controllers.provisioning.brake_records import Index, Strike, current, pruned, revision
from controllers.provisioning.daemons import observed_daemon_sets
from controllers.provisioning.demand import with_volumes
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.learned import observed_types
from controllers.provisioning.pods import CachedPod
from controllers.provisioning.volumes import selected_node
from provisioner.api import reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, Misfit, ObservedDaemonSet, ObservedType
from provisioner.api.nodepool import NodePool
from provisioner.api.pod import Pod
from provisioner.runtime.clock import Clock
from provisioner.runtime.compute import Compute
from provisioner.runtime.kube_errors import KubeError

from .bought_machines import BoughtMachines
from .demand_caches import DemandCaches
from .refusals import RefusedPods
from .request_errors import RequestErrors
from .wall_clock import WallClock

Record = Callable[[NodePool | NodeClaim | Pod, Event], bool]

# Machines with shapes of pods that are compared in the event loop; it takes some milliseconds.
COMPARED_MAX = 100

log = structlog.get_logger("provisioner")


class BrakeObserver(Protocol):
    """Metrics of the brake."""

    def misfit(self, cause: str) -> None:
        """A machine did not take the pods that it was bought for."""

    def braked(self, pods: int) -> None:
        """For so many pods no machine is bought."""


class PurchaseBrake:
    """`record(about, event)` records an Event. `compute` runs comparisons beside the event loop.

    What this process has recorded counts before the cached node class.
    """

    def __init__(
        self,
        caches: DemandCaches,
        actuator: NodePoolActuator,
        record: Record,
        *,
        clock: Clock,
        compute: Compute,
        observer: BrakeObserver,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._record = record
        self._wall = WallClock(clock)
        self._compute = compute
        self._observer = observer
        self._records: dict[str, Sequence[Misfit]] = {}
        self._types: dict[str, tuple[ObservedType, ...]] = {}
        self._daemons: dict[str, tuple[ObservedDaemonSet, ...]] = {}
        self._seen: dict[str, float] = {}
        self._unstored: dict[str, str] = {}
        self._turn = 0
        self.machines = BoughtMachines(caches)
        self.refused = RefusedPods()

    async def assess(
        self, pods: Sequence[CachedPod], types: InstanceTypes, storage: Storage, errors: RequestErrors | None
    ) -> Brake:
        """The brake of the next decision.

        `errors`: keeps those of writes that can be repeated; None: nothing is written or reported, as for a preview.
        """
        now, time = self._wall.now(), asyncio.get_running_loop().time()
        self._seen = {pod.metadata.uid: self._seen.get(pod.metadata.uid, time) for pod in pods if not pod.moves}
        pools = {pool.name: pool for pool in self._caches.node_pools()}
        classes = self._classes(pools.values())
        revisions = {name: revision(pools[name], found) for name, found in classes.items()}
        known = {found.metadata.uid: self._known(found, revisions) for found in classes.values()}
        waiting = [*self._waiting(pods, storage, types.cloud, time)]
        namespaces = {one.pod.metadata.namespace for one in waiting}
        shapes, displaced = {one.shape for one in waiting}, {pod.metadata.uid for pod in pods if pod.moves}
        bought = [*self.machines.find(shapes, namespaces, types, storage, now, displaced=displaced)]
        index, daemons = Index(one for found in known.values() for one in found), self._caches.daemons()
        ran = ran_of(bought)
        self._turn += 1

        def assess() -> Assessment:
            return assess_machines(bought, waiting, index, daemons, types.well_known, ran=ran, turn=self._turn)

        many = sum(len(one.purchase.pods) for one in bought) > COMPARED_MAX
        assessed = await self._compute(assess) if many else assess()
        uids = self._waiting_uids()
        learned = dict[str, tuple[ObservedType, ...]]()
        for uid, found in {found.metadata.uid: found for found in classes.values()}.items():
            own = {name for name, one in classes.items() if one.metadata.uid == uid}
            strikes = [one for one in assessed.strikes if one.node_pool in own]
            kept = pruned(known[uid], uids=uids, ran=ran, now=now)
            wanted = with_strikes(kept, strikes, revisions, now)
            learned[found.name] = self._learned(found)
            known[uid] = wanted
            if errors is None:
                continue
            await self._save(found, wanted, learned[found.name], errors, added=bool(strikes))
            self._report(strikes, pools, bought, pods)
        records = [one for found in known.values() for one in found]
        unproven = self.machines.unproven() if records else {}
        unstored = {
            name: self._unstored[one.metadata.uid]
            for name, one in classes.items()
            if one.metadata.uid in self._unstored
        }
        brake = Brake(
            Index(records), scopes_of(records), assessed, now, unproven, learned, self.refused.refusing, unstored
        )
        self._observer.braked(sum(brake.braked(pod) for pod in pods) if records else 0)
        return brake

    async def learn(self, errors: RequestErrors) -> None:
        """Record what machines offer while nothing is to be bought. `errors`: keeps those of writes to repeat."""
        for found in {one.metadata.uid: one for one in self._classes(self._caches.node_pools()).values()}.values():
            records = self._records.get(found.metadata.uid, found.status.misfits)
            await self._save(found, records, self._learned(found), errors, added=False)

    def _classes(self, pools: Iterable[NodePool]) -> dict[str, AgentPoolNodeClass]:
        """The node class of each NodePool, if it is known."""
        named = ((pool.name, pool.spec.template.spec.node_class_ref.name) for pool in pools)
        found = ((name, self._caches.node_class(of)) for name, of in named)
        return {name: one for name, one in found if one is not None}

    def _known(self, found: AgentPoolNodeClass, revisions: Mapping[str, str]) -> Sequence[Misfit]:
        return current(self._records.get(found.metadata.uid, found.status.misfits), revisions)

    def _waiting(self, pods: Sequence[CachedPod], storage: Storage, cloud: Cloud, time: float) -> Iterator[Waiting]:
        for pod in pods:
            if selected_node(pod.claims, storage):
                continue  # it has a Node, and waits for its volume
            try:
                spec = with_volumes(pod, storage, cloud)
            except ValueError:
                continue
            yield Waiting(pod, pod.shape, spec, time - self._seen.get(pod.metadata.uid, time))

    def _waiting_uids(self) -> set[str]:
        return {pod.metadata.uid for pod in self._caches.pods.items() if not pod.spec.node_name}

    def _learned(self, found: AgentPoolNodeClass) -> tuple[ObservedType, ...]:
        before, nodes = self._types.get(found.metadata.uid, found.status.observed_types), self._caches.nodes_by_claim()
        return observed_types(found, before, nodes, self._caches.claims.items(), self._wall.now())

    def _requested(self) -> tuple[ObservedDaemonSet, ...]:
        known = self._caches.observed_daemon_sets()
        return observed_daemon_sets(self._caches.daemon_sets.items(), self._caches.pods.items(), known)

    async def _save(
        self,
        found: AgentPoolNodeClass,
        wanted: Sequence[Misfit],
        types: tuple[ObservedType, ...],
        errors: RequestErrors,
        *,
        added: bool,
    ) -> None:
        """Write what is recorded if some of it is new or over.

        `added`: a machine was added, without which nothing may be bought.
        """
        uid = found.metadata.uid
        before = self._records.get(uid, found.status.misfits)
        stored = self._types.get(uid, found.status.observed_types)
        daemons = self._requested()
        changed = self._daemons.get(uid, found.status.observed_daemon_sets) != daemons
        # A CRD can be upgraded, a webhook repaired: what is not stored is written again.
        due = added or changed or uid in self._unstored or _offers(stored) != _offers(types)
        if not due and _scopes(before) == _scopes(wanted):
            return
        try:
            await self._actuator.write(
                RecordMachines(
                    node_class=found, misfits=tuple(wanted), observed_types=types, observed_daemon_sets=daemons
                )
            )
        except KubeError as error:
            log.warning("cannot record machines that did not take their pods", node_class=found.name, error=str(error))
            if error.reason == NOT_STORED:
                self._unstored[uid] = OLD_CRD
            elif not error.refused and not error.not_found and not error.conflict:
                errors.keep(error)
                if added:
                    self._records[uid], self._unstored[uid] = wanted, NOT_WRITTEN
                return
            elif self._unstored.get(uid) == NOT_WRITTEN:
                del self._unstored[uid]
        else:
            self._unstored.pop(uid, None)
        self._records[uid] = wanted
        self._types[uid] = types
        self._daemons[uid] = daemons

    def _report(
        self,
        strikes: Sequence[Strike],
        pools: Mapping[str, NodePool],
        bought: Sequence[Machine],
        pods: Sequence[CachedPod],
    ) -> None:
        claims = {one.claim.uid: one.claim for one in bought}
        named = {pod.metadata.uid: pod for pod in pods}
        stated = set[tuple[str, str]]()
        for strike in strikes:
            claim = claims[strike.claim_uid]
            self._observer.misfit(strike.cause)
            event = Event(
                type="Warning", reason=reasons.MACHINE_DOES_NOT_FIT, message=f"{claim.name}: {strike.message}"
            )
            for pod in (named[uid] for uid in strike.uids if uid in named):
                self._record(pod, event)
            if (claim.uid, strike.message) in stated:
                continue
            stated.add((claim.uid, strike.message))
            log.warning(
                "a machine does not take the pods that it was bought for",
                NodeClaim={"name": claim.name},
                pod=strike.pod,
                difference=strike.message,
            )
            self._record(claim, event)
            if strike.node_pool in pools:
                self._record(pools[strike.node_pool], event)


def _offers(types: Iterable[ObservedType]) -> dict[str, tuple[object, str]]:
    """What is worth a write: the next Node of a size that offers the same is not."""
    return {one.instance_type: (dict(one.allocatable), one.revision) for one in types}


def _scopes(records: Iterable[Misfit]) -> set[tuple[str, str, str]]:
    return {(one.node_pool, one.namespace, one.shape) for one in records}
