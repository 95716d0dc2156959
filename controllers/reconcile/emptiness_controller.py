"""Carries out the method emptiness of `controllers.disruption.methods`, beside the controller of the other methods.

That one computes for seconds in a large cluster and waits for the API server; an empty machine goes on time all the
same. A key is the name of a NodePool. Only its machines without use by pods are read, unless pods run on one that is
due.

Nothing is removed while pending pods wait for a decision. The pods of a machine are listed from the API server right
before its NodeClaim is deleted; the removal itself is the ordinary one. After a restart the time without pods begins
anew, so that a machine is never removed too early. One whose pods have no place is kept for a while without another
simulation.

Source: docs/references/karpenter.md#emptiness.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import msgspec

from cloudprovider.cloud import Cloud
from controllers.actuator.actuator import Actuator
from controllers.disruption.blockers import counts, left_over
from controllers.disruption.command import Command, Evaluation
from controllers.disruption.emptiness import decide
from controllers.disruption.machine import Machine, consolidate_after
from controllers.disruption.methods import EMPTINESS
from controllers.disruption.view import View
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nodepools import why_unusable
from controllers.provisioning.observed import Observed
from provisioner.api import labels
from provisioner.api.causes import Cause
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of
from provisioner.api.pod import Pod
from provisioner.metrics.definitions.labels import Queue
from provisioner.runtime.clock import Clock
from provisioner.runtime.compute import Compute
from provisioner.runtime.isolation import Isolation
from provisioner.runtime.kube_errors import KubeError

from .claim_creator import STALE_SECONDS
from .claim_deletion import Deletion
from .demand_caches import DemandCaches
from .disruption_events import EvaluationEvents
from .machines import Machines, nodes_used
from .observers import DisruptionObserver
from .removals import Removals
from .request_errors import RequestErrors
from .volumes import volumes_of

# Schedules of budgets begin and end without an event.
RESYNC_SECONDS = 60.0
BUSY_SECONDS = 1.0
# How long a machine is kept whose pods have no place, or whose deletion failed.
KEPT_SECONDS = 30.0


class EmptinessController:
    """`instance_types` returns None while they are unknown: machines with pods are kept as long. They are of `cloud`.

    `undecided()`: whether pending pods wait for a decision. `disrupted(claim, reason)`: metrics of removals.
    """

    name: ClassVar[Queue] = "emptiness"

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        machines: Machines,
        cloud: Cloud,
        instance_types: Callable[[], InstanceTypes | None],
        undecided: Callable[[], bool],
        disrupted: Callable[[NodeClaim, Cause], None],
        observer: DisruptionObserver,
        isolation: Isolation,
        wake: Callable[[str], None],
        clock: Clock,
        compute: Compute,
    ) -> None:
        self._caches = caches
        self._machines = machines
        self._instance_types = instance_types
        self._no_types = InstanceTypes(types=(), well_known=frozenset(), cloud=cloud)
        self._actuator = actuator
        self._undecided = undecided
        self._removals = Removals(
            caches, actuator, machines=machines, instance_types=instance_types, disrupted=disrupted, clock=clock
        )
        self._observer = observer
        self._events = EvaluationEvents(caches, actuator.record_event, isolation)
        self._wake = wake
        self._clock = clock
        self._compute = compute
        # Why machines are kept, and until when (loop times), by the UID of the NodeClaim: with pods, or in any case.
        self._kept: dict[str, tuple[str, float]] = {}
        self._failed: dict[str, tuple[str, float]] = {}

    def add_event_handlers(self) -> None:
        """Subscribe to the caches."""
        self._caches.every_node_pool.add_event_handler(self._pool_changed)
        self._caches.claims.add_event_handler(self._claim_changed)
        self._caches.nodes.add_event_handler(self._node_changed)
        self._caches.pods.add_event_handler(self._pod_changed)

    def _pool_changed(self, _: NodePool | None, new: NodePool | None) -> None:
        if new is not None:
            self._wake(new.name)

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        claim = new or old
        if claim is not None and (owner := nodepool_of(claim)) is not None:
            self._wake(owner.name)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None or (old is not None and _content(old) == _content(new)):
            return
        if name := new.metadata.labels.get(labels.NODEPOOL):
            self._wake(name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """One was bound, or ended. A machine that a pod uses is not removed, whatever other pods it has."""
        for name in nodes_used(old, new):
            node = self._caches.nodes.get(name)
            pool = node.metadata.labels.get(labels.NODEPOOL) if node is not None else None
            if pool and not any(counts(pod, gpus=True) for pod in self._caches.pods_on(name)):
                self._wake(pool)

    async def reconcile(self, name: str) -> float | None:
        """One pass over one NodePool; returns the seconds until the next one, None: when something changes.

        Raises KubeError for a request that can succeed when it is repeated.
        """
        pool = self._caches.node_pool(name)
        if pool is None or consolidate_after(pool) is None:
            return None  # nothing need be counted
        if why_unusable(pool):
            return None  # what it loses it could not buy again; its conditions state the cause
        if not self._machines.current:
            return STALE_SECONDS
        began = _now()
        view = self._alone(pool)
        found = EMPTINESS.compute(view)
        self._observer.evaluated("Empty", _now() - began)
        self._observer.candidates("Empty", found.eligible, name)
        if (found.command is not None or found.unplaced) and self._undecided():
            return BUSY_SECONDS
        if found.unplaced:
            used = tuple(one for one in view.machines if one.claim.uid in found.unplaced)
            found = await self._in_cluster(pool, used, found)
        if found.command is not None and (seconds := await self._remove(found.command)) is not None:
            return seconds
        self._events.record(EMPTINESS, found)
        return BUSY_SECONDS if found.unplaced else min(found.after, RESYNC_SECONDS)

    def _alone(self, pool: NodePool) -> View:
        """The NodePool without the rest of the cluster, in which pods have no place."""
        return View(
            observed=Observed(node_pools=(pool,), nodes=(), claims=(), pods=()),
            types=self._no_types,
            node_pools=(pool,),
            machines=self._unused(pool),
            budgets={},
            now=self._clock.now(),
            counts={pool.name: self._machines.count(pool)},
        )

    async def _in_cluster(self, pool: NodePool, used: tuple[Machine, ...], alone: Evaluation) -> Evaluation:
        """The same, with the other machines, on which the pods of those `used` may have a place.

        `alone` if that is not known.
        """
        types = self._instance_types()
        if types is None:
            self._observer.rejected(Command(reason="Empty", machines=used))
            return alone
        pods = [pod for one in used for pod in left_over(one)]
        storage = await volumes_of(self._actuator, lambda: pods, of_drivers=self._caches.of_drivers)
        machines = self._machines.by_pool()
        machines[pool.name] = self._with_kept(machines[pool.name])
        view = View(
            observed=self._caches.observed(self._caches.claims.items(), None, storage),
            types=types,
            node_pools=(pool,),
            machines=[one for found in machines.values() for one in found],
            budgets={},
            now=self._clock.now(),
        )
        found = await self._compute(lambda: EMPTINESS.compute(view))
        self._kept |= {uid: (why, _now() + KEPT_SECONDS) for uid, why in found.unplaced.items()}
        if kept := tuple(one for one in used if one.claim.uid in found.unplaced):
            self._observer.rejected(Command(reason="Empty", machines=kept))
        if found.command is None:
            return found
        # Other controllers, and kube-scheduler, went on meanwhile.
        still = decide(pool, self._unused(pool), self._machines.count(pool), self._clock.now())
        uids = {one.claim.uid for one in still.remove}
        left = tuple(one for one in found.command.machines if one.claim.uid in uids)
        command = msgspec.structs.replace(found.command, machines=left) if left else None
        return msgspec.structs.replace(found, command=command)

    def _unused(self, pool: NodePool) -> tuple[Machine, ...]:
        """The machines of the NodePool that no pod uses."""
        return self._with_kept(self._machines.unused(pool))

    def _with_kept(self, machines: Iterable[Machine]) -> tuple[Machine, ...]:
        """The machines; those whose pods had no place, or whose deletion failed, shortly before are blocked."""
        self._kept, self._failed = _current(self._kept), _current(self._failed)
        found = list[Machine]()
        for one in machines:
            kept = self._failed.get(one.claim.uid) or (self._kept.get(one.claim.uid) if left_over(one) else None)
            why = one.blocked or (kept[0] if kept is not None else "")
            found.append(one if why == one.blocked else msgspec.structs.replace(one, blocked=why))
        return tuple(found)

    async def _remove(self, command: Command) -> float | None:
        """Remove the machines one by one; seconds to wait if that was not possible."""
        errors, removed = RequestErrors(), list[Machine]()
        again: float | None = None
        with self._machines.leaving.reserved(one.claim for one in command.machines):
            try:
                for machine in command.machines:
                    with errors.kept():
                        if await self._removals.is_used(machine):
                            self._observer.rejected(Command(reason="Empty", machines=(machine,)))
                            continue
                        match await self._delete(machine):
                            case Deletion.DELETED:
                                removed.append(machine)
                            case Deletion.REFUSED:
                                again = BUSY_SECONDS  # others may go in place of these
                errors.raise_first()
            finally:
                if removed:
                    self._observer.decided(msgspec.structs.replace(command, machines=tuple(removed)))
        return again

    async def _delete(self, machine: Machine) -> Deletion:
        """Raises KubeError for a request that can succeed when it is repeated; others have their turn before."""
        try:
            return await self._removals.delete(machine.claim, "Empty")
        except KubeError as error:
            self._failed[machine.claim.uid] = f"failed to delete: {error}", _now() + KEPT_SECONDS
            raise


def _current(kept: Mapping[str, tuple[str, float]]) -> dict[str, tuple[str, float]]:
    now = _now()
    return {uid: (why, until) for uid, (why, until) in kept.items() if until > now}


def _now() -> float:
    return asyncio.get_running_loop().time()


def _content(node: Node) -> tuple[object, ...]:
    """What of a Node matters here; its conditions change all the time."""
    return node.metadata.labels, node.metadata.annotations, node.deleting, node.spec, node.status.capacity
