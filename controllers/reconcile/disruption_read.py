"""What a search for machines to replace reads: the machines, their budgets, and the cluster that their pods are in.

Everything is read in one step of the event loop. Each machine is judged once a search, unless volumes of pods had to be
requested meanwhile.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from cloudprovider.interface import QuotaLeft
from controllers.actuator.actuator import Actuator
from controllers.disruption.machine import Machine, budget_left
from controllers.disruption.methods import CONDITIONS
from controllers.disruption.view import View
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.launchable import Refusals
from controllers.provisioning.nodepools import why_unusable
from controllers.provisioning.pods import CachedPod
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.clock import Clock
from provisioner.runtime.isolation import Isolation

from .demand_caches import DemandCaches
from .launch_obstacles import LaunchObstacles
from .machines import Machines
from .volumes import volumes_of

Known = tuple[object, ...]


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """`max_new`: how many agent pools may still be created, None if that is not known. `changes`: of the caches, that
    had been seen.

    `refused` and `quotas`: what NodePools cannot launch, and what new machines may use of each quota.
    """

    machines: Sequence[Machine]
    budgets: Mapping[str, int | None]
    types: InstanceTypes
    max_new: int | None
    changes: int
    refused: Mapping[str, Refusals]
    quotas: Mapping[str, QuotaLeft]

    @property
    def known(self) -> Known:
        """With an equal value, a search has the same result, as far as it is known."""
        blocked = [(one.claim.uid, one.blocked) for one in self.machines]
        return self.changes, self.types, self.max_new, self.budgets, blocked, self.refused, self.quotas


class DisruptionReader:
    """`changes()`: how many changes of the caches have been seen."""

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        machines: Machines,
        obstacles: LaunchObstacles,
        changes: Callable[[], int],
        isolation: Isolation,
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._machines = machines
        self._obstacles = obstacles
        self._changes = changes
        self._isolation = isolation
        self._clock = clock

    def read(self, types: InstanceTypes, max_new: int | None) -> Read:
        """What a search made in this step of the event loop reads."""
        by_pool, now = self._machines.by_pool(), self._clock.now()
        budgets = dict[str, int | None]()
        for pool in self._caches.node_pools():
            if not why_unusable(pool):
                budgets[pool.name] = 0  # unless it can be evaluated
                with self._isolation.of(pool.kind, pool.name, "consolidation"):
                    budgets[pool.name] = budget_left(pool, self._machines.count(pool), "Underutilized", now)
        machines = [one for found in by_pool.values() for one in found]
        return Read(
            machines=machines,
            budgets=budgets,
            types=types,
            max_new=max_new,
            changes=self._changes(),
            refused=self._obstacles.refused(self._caches.node_pools()),
            quotas=self._obstacles.quotas(types.quotas, self._caches.claims.items()),
        )

    async def view(self, read: Read) -> tuple[View, Read]:
        """The view of a search, and what it was made of: `read`, or a new one if volumes or devices were read."""
        storage = await volumes_of(self._actuator, self._pods, of_drivers=self._caches.of_drivers)
        if storage.requested or storage.devices.requested:
            read = self.read(read.types, read.max_new)
        observed = self._caches.observed(
            self._caches.claims.items(), read.max_new, storage, read.refused, quotas=read.quotas
        )
        view = View(
            observed=observed,
            types=read.types,
            node_pools=tuple(pool for pool in observed.node_pools if not why_unusable(pool)),
            machines=read.machines,
            budgets=read.budgets,
            now=self._clock.now(),
        )
        return view, read

    def _pods(self) -> list[CachedPod]:
        """The pods whose volumes and devices are read: those of machines that may be replaced, and pending ones."""
        names = {one.status.node_name for one in self._caches.claims.items() if is_concerned(one)}
        by_drivers = self._caches.of_drivers
        cached = (one for one in self._caches.pods.items() if isinstance(one, CachedPod))
        pods = (one for one in cached if one.claims or one.devices or by_drivers)
        return [one for one in pods if one.spec.node_name in names or not (one.spec.node_name or one.waits_for)]


def is_concerned(claim: NodeClaim) -> bool:
    """Whether something may have to be done about this machine."""
    return not claim.deleting and any(claim.condition(kind, "True") is not None for kind in CONDITIONS)
