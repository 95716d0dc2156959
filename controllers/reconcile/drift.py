"""Replacement of drifted machines: which command may begin, and Events about those that are kept.

Source: docs/references/karpenter.md#replacement-of-drifted-machines.
"""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial

import msgspec

from controllers.disruption.blockers import Unreported
from controllers.disruption.command import Command
from controllers.disruption.drift import NO_BUDGET, drift
from controllers.disruption.queue import Replacement
from controllers.disruption.retries import Retries
from controllers.disruption.search import WAITS
from controllers.disruption.static_drift import static_drift
from controllers.disruption.view import View
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.nodepools import why_unusable
from controllers.provisioning.static_machine import static_machine
from provisioner.api import reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.runtime.clock import Clock
from provisioner.runtime.compute import Compute
from provisioner.runtime.isolation import Isolation

from .demand_caches import DemandCaches
from .disruption_events import RecordEvent, disruption_event
from .disruption_observer import DisruptionObserver, timed
from .machines import Machines


class DriftMethod:
    """`retries`: the machines and NodePools of which a replacement was undone."""

    def __init__(
        self,
        caches: DemandCaches,
        *,
        machines: Machines,
        retries: Retries,
        record_event: RecordEvent,
        observer: DisruptionObserver,
        isolation: Isolation,
        clock: Clock,
        compute: Compute,
    ) -> None:
        self._caches = caches
        self._machines = machines
        self._retries = retries
        self._record_event = record_event
        self._observer = observer
        self._isolation = isolation
        self._clock = clock
        self._compute = compute

    def static(self, types: InstanceTypes, max_new: int) -> Command | None:
        """The first command of a static NodePool. `max_new`: how many agent pools may still be created."""
        began = _now()
        try:
            return self._static(types, max_new)
        finally:
            self._observer.evaluated("Drifted", _now() - began)

    def _static(self, types: InstanceTypes, max_new: int) -> Command | None:
        for pool in self._caches.node_pools():
            if pool.spec.replicas is None or pool.metadata.deleting or why_unusable(pool):
                continue
            command = None
            with self._isolation.of(pool.kind, pool.name, "drift", partial(self._left_out, pool)):
                command = self._of_static(pool, types, max_new)
            if command is not None:
                return command
        return None

    def _of_static(self, pool: NodePool, types: InstanceTypes, max_new: int) -> Command | None:
        machines, undone = self._machines.of(pool), self._retries.numbers
        waiting = self._retries.waiting((one.claim for one in machines), _now())
        found = static_drift(pool, machines, self._clock.now(), max_new=max_new, undone=undone, waiting=waiting)
        if found.held:
            self._record_event(pool, disruption_event(pool, reasons.DISRUPTION_BLOCKED, found.held))
        self._report(found.kept, ())
        if not found.replace or self._waits(pool):
            return None
        machine = static_machine(pool, types, self._caches.settings_of(pool))
        if machine is None:
            return None
        return Command(reason="Drifted", machines=found.replace[:1], replacements=(machine,))

    def keep(self, command: Command, why: str) -> None:
        """The machines are not replaced for now: a pod of them would have no place."""
        old = tuple(one.claim for one in command.machines)
        self._retries.failed(Replacement(id="", old=old, decided="Drifted"), why, _now(), static=True)
        self._report({claim.name: why for claim in old}, ())

    def _left_out(self, pool: NodePool, why: str) -> None:
        self._record_event(pool, disruption_event(pool, reasons.DISRUPTION_BLOCKED, why))

    async def dynamic(self, view: View) -> Command | None:
        """A command of the other NodePools."""
        waiting = {pool.name for pool in self._caches.node_pools() if why_unusable(pool) or self._waits(pool)}
        undone = self._retries.numbers
        machines = self._retries.waiting((one.claim for one in view.machines), _now())
        view = msgspec.structs.replace(view, waiting=machines)
        found = await timed(
            self._observer, self._compute, "Drifted", lambda: drift(view, lambda pool: pool.name in waiting, undone)
        )
        self._report(found.kept, found.no_budget)
        return found.command

    def _report(self, kept: Mapping[str, str], no_budget: Iterable[str]) -> None:
        """Events about drifted machines that are not replaced."""
        for pool in self._caches.node_pools():
            if pool.name in no_budget:
                self._record_event(pool, disruption_event(pool, reasons.DISRUPTION_BLOCKED, NO_BUDGET))
        for name, why in kept.items():
            if isinstance(why, Unreported):
                continue
            claim = self._caches.claims.get(name)
            node = self._caches.nodes.get(claim.status.node_name) if claim is not None else None
            abouts: list[NodeClaim | Node] = [one for one in (claim, node) if one is not None]
            for about in abouts:
                self._record_event(about, disruption_event(about, reasons.DISRUPTION_BLOCKED, why))

    def _waits(self, pool: NodePool) -> bool:
        """Whether the NodePool has to wait, because a replacement of it was undone."""
        why = self._retries.waits(pool.name, _now())
        if why:
            self._record_event(pool, disruption_event(pool, reasons.DISRUPTION_BLOCKED, f"{WAITS}: {why}"))
        return bool(why)


def _now() -> float:
    return asyncio.get_running_loop().time()
