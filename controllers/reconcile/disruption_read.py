"""What a search for machines to replace reads: the machines, their budgets, and the cluster that their pods are in.

Everything is read in one step of the event loop. Each machine is judged once a search, unless volumes of pods had to be
requested meanwhile.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from controllers.actuator.actuator import Actuator
from controllers.disruption.machine import Machine, budget_left
from controllers.disruption.view import View
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nodepools import why_unusable
from controllers.provisioning.pods import CachedPod
from provisioner.api.conditions import CONSOLIDATABLE, DISRUPTION_REASON, DRIFTED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.clock import Clock

from .machines import Machines
from .provisioner import DemandCaches
from .volumes import volumes_of

Known = tuple[int, InstanceTypes, int, Mapping[str, int | None], list[tuple[str, str]]]


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """`max_new`: how many agent pools may still be created. `changes`: of the caches, that had been seen."""

    machines: Sequence[Machine]
    budgets: Mapping[str, int | None]
    types: InstanceTypes
    max_new: int
    changes: int

    @property
    def known(self) -> Known:
        """With an equal value, a search has the same result, as far as it is known."""
        blocked = [(one.claim.uid, one.blocked) for one in self.machines]
        return self.changes, self.types, self.max_new, self.budgets, blocked


class DisruptionReader:
    """`changes()`: how many changes of the caches have been seen."""

    def __init__(
        self,
        caches: DemandCaches,
        actuator: Actuator,
        *,
        machines: Machines,
        changes: Callable[[], int],
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._actuator = actuator
        self._machines = machines
        self._changes = changes
        self._clock = clock

    def read(self, types: InstanceTypes, max_new: int) -> Read:
        """What a search made in this step of the event loop reads."""
        by_pool, now = self._machines.by_pool(), self._clock.now()
        budgets = {
            pool.name: budget_left(pool, by_pool[pool.name], "Underutilized", now)
            for pool in self._caches.node_pools()
            if not why_unusable(pool)
        }
        machines = [one for found in by_pool.values() for one in found]
        return Read(machines=machines, budgets=budgets, types=types, max_new=max_new, changes=self._changes())

    async def view(self, read: Read) -> tuple[View, Read]:
        """The view of a search, and what it was made of: `read`, or a new one if volumes were requested."""
        storage = await volumes_of(self._actuator, self._pods)
        if storage.requested:
            read = self.read(read.types, read.max_new)
        observed = self._caches.observed(self._caches.claims.items(), read.max_new, storage)
        now = self._clock.now()
        return View(observed=observed, types=read.types, machines=read.machines, budgets=read.budgets, now=now), read

    def _pods(self) -> list[CachedPod]:
        """The pods whose volumes the simulation reads: those of machines that may be replaced, and pending ones."""
        names = {one.status.node_name for one in self._caches.claims.items() if is_concerned(one)}
        pods = (one for one in self._caches.pods.items() if isinstance(one, CachedPod) and one.claims)
        return [one for one in pods if one.spec.node_name in names or not (one.spec.node_name or one.waits_for)]


def is_concerned(claim: NodeClaim) -> bool:
    """Whether something may have to be done about this machine."""
    if claim.deleting:
        return False
    return any(claim.condition(kind, "True") is not None for kind in (DRIFTED, DISRUPTION_REASON, CONSOLIDATABLE))
