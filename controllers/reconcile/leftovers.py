"""Finds out whether the pods that run on empty machines have a place elsewhere, as `controllers.disruption.leftovers`.

A machine whose pods have none is kept for a while without another simulation.

Source: docs/concepts/nodepools.md#what-is-never-disrupted.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from controllers.actuator.actuator import Actuator
from controllers.disruption.blockers import left_over
from controllers.disruption.leftovers import kept_by_pods
from controllers.disruption.machine import Machine
from controllers.disruption.view import View
from controllers.model.storage import Storage
from controllers.provisioning.instances import InstanceTypes
from provisioner.api.nodepool import NodePool
from provisioner.runtime.clock import Clock
from provisioner.runtime.compute import Compute

from .demand_caches import DemandCaches
from .machines import Machines
from .volumes import volumes_of

KEPT_SECONDS = 30.0


class Leftovers:
    """`instance_types` returns None while they are unknown: machines with pods are kept as long."""

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        machines: Machines,
        instance_types: Callable[[], InstanceTypes | None],
        compute: Compute,
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._machines = machines
        self._instance_types = instance_types
        self._compute = compute
        self._clock = clock
        self._kept: dict[str, tuple[str, float]] = {}

    def marked(self, machines: Sequence[Machine]) -> tuple[Machine, ...]:
        """The machines; those whose pods had no place shortly before are blocked."""
        now = _now()
        self._kept = {uid: (why, until) for uid, (why, until) in self._kept.items() if until > now}
        return tuple(
            msgspec.structs.replace(one, blocked=self._kept[one.claim.uid][0])
            if one.claim.uid in self._kept and left_over(one) and not one.blocked
            else one
            for one in machines
        )

    def view(self) -> View | None:
        """What a simulation reads, before the machines that are due are reserved; None while it is not known."""
        types = self._instance_types()
        if types is None:
            return None
        observed = self._caches.observed(self._caches.claims.items(), None, Storage())
        machines = [one for found in self._machines.by_pool().values() for one in found]
        return View(observed=observed, types=types, machines=machines, budgets={}, now=self._clock.now())

    async def kept(self, view: View | None, pool: NodePool, due: Sequence[Machine]) -> frozenset[str]:
        """The UIDs of the NodeClaims that must be kept. `view` is of the same step of the event loop as `due`."""
        pods = [pod for one in due for pod in left_over(one)]
        if not pods:
            return frozenset()
        if view is None:
            return frozenset(one.claim.uid for one in due if left_over(one))
        storage = await volumes_of(self._actuator, lambda: pods, of_drivers=self._caches.of_drivers)
        view = msgspec.structs.replace(view, observed=msgspec.structs.replace(view.observed, storage=storage))
        found = await self._compute(lambda: kept_by_pods(view, pool, due))
        self._kept |= {uid: (why, _now() + KEPT_SECONDS) for uid, why in found.items()}
        return frozenset(found)


def _now() -> float:
    return asyncio.get_running_loop().time()
