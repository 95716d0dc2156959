"""Replacement of drifted machines: which command may begin, and Events about those that are kept.

Source: docs/references/karpenter.md#replacement-of-drifted-machines.
"""

import asyncio
from collections.abc import Iterable, Mapping

from controllers.disruption.blockers import NOMINATED
from controllers.disruption.command import Command
from controllers.disruption.drift import NO_BUDGET, drift
from controllers.disruption.retries import Retries
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

from .disruption_events import DisruptionEvents
from .disruption_observer import DisruptionObserver, timed
from .machines import Machines
from .provisioner import DemandCaches


class DriftMethod:
    """`retries`: the NodePools of which a replacement was undone."""

    def __init__(
        self,
        caches: DemandCaches,
        *,
        machines: Machines,
        retries: Retries,
        events: DisruptionEvents,
        observer: DisruptionObserver,
        clock: Clock,
        compute: Compute,
    ) -> None:
        self._caches = caches
        self._machines = machines
        self._retries = retries
        self._events = events
        self._observer = observer
        self._clock = clock
        self._compute = compute

    def static(self, types: InstanceTypes) -> Command | None:
        """The first command of a static NodePool."""
        began = _now()
        try:
            return self._static(types)
        finally:
            self._observer.evaluated("Drifted", _now() - began)

    def _static(self, types: InstanceTypes) -> Command | None:
        for pool in self._caches.node_pools():
            if pool.spec.replicas is None or pool.metadata.deleting or why_unusable(pool):
                continue
            found = static_drift(pool, self._machines.of(pool), self._clock.now())
            if found.held:
                self._events.record(pool, reasons.DISRUPTION_BLOCKED, found.held, _now())
            if not found.replace or self._waits(pool):
                continue
            machine = static_machine(pool, types, self._caches.gpu_settings(pool))
            if machine is not None:
                return Command(reason="Drifted", machines=found.replace[:1], replacements=(machine,))
        return None

    async def dynamic(self, view: View) -> Command | None:
        """A command of the other NodePools."""
        waiting = {pool.name for pool in self._caches.node_pools() if why_unusable(pool) or self._waits(pool)}
        found = await timed(
            self._observer, self._compute, "Drifted", lambda: drift(view, lambda pool: pool.name in waiting)
        )
        self._report(found.kept, found.no_budget)
        return found.command

    def _report(self, kept: Mapping[str, str], no_budget: Iterable[str]) -> None:
        """Events about drifted machines that are not replaced."""
        for pool in self._caches.node_pools():
            if pool.name in no_budget:
                self._events.record(pool, reasons.DISRUPTION_BLOCKED, NO_BUDGET, _now())
        for name, why in kept.items():
            if why == NOMINATED:
                continue  # for seconds only
            claim = self._caches.claims.get(name)
            node = self._caches.nodes.get(claim.status.node_name) if claim is not None else None
            abouts: list[NodeClaim | Node] = [one for one in (claim, node) if one is not None]
            for about in abouts:
                self._events.record(about, reasons.DISRUPTION_BLOCKED, why, _now())

    def _waits(self, pool: NodePool) -> bool:
        """Whether the NodePool has to wait, because a replacement of it was undone."""
        left = self._retries.left(pool.name, _now())
        if left > 0:
            message = f"The next replacement waits, the last one was undone: {self._retries.why(pool.name)}"
            self._events.record(pool, reasons.DISRUPTION_BLOCKED, message, _now())
        return left > 0


def _now() -> float:
    return asyncio.get_running_loop().time()
