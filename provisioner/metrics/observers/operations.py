"""How long Azure works on a pool after it said yes, and how that ends.

An operation counts once, by the process that saw it begin or found it under way: the time of a creation is
written on the pool, that of a deletion is remembered. What was over before this process looked is not counted again.
A failure that is told later than it is seen counts when it is told.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cloudprovider.interface import Instance, InstanceState, Offering
from cloudprovider.inventory import Inventory
from controllers.model.ownership import Verdict, verdict
from provisioner.metrics.definitions import own
from provisioner.metrics.definitions.labels import OTHER
from provisioner.runtime.clock import Clock
from provisioner.runtime.metrics import Metrics

from .failures import failure_class


@dataclass(slots=True)
class _Seen:
    """A pool as it was last seen; `deleting_at`: since when it goes, if that began before our eyes (loop time)."""

    instance: Instance
    deleting_at: float | None = None
    unexplained: bool = False


class Operations:
    """Listens to the inventory. `on_failure(offering, reason class)` is told of pools that fail."""

    def __init__(self, metrics: Metrics, inventory: Inventory, clock: Clock) -> None:
        self._inventory = inventory
        self._clock = clock
        self._seconds = metrics.histogram(own.ARM_OPERATION)
        self._seen: dict[str, _Seen] = {}
        self.on_failure: Callable[[Offering | None, str], None] = lambda *_: None

    def pool_changed(self, key: str) -> None:
        """The inventory learned something new of a pool."""
        before, instance = self._seen.get(key), self._inventory.get(key)
        if instance is None:
            self._seen.pop(key, None)
            if before is not None:
                self._gone(before)
        elif verdict(instance, None) is not Verdict.FOREIGN:
            now = self._seen[key] = _Seen(instance)
            if before is not None:
                self._changed(before, now)

    def explained(self, instance: Instance, reason: str) -> None:
        """Why a pool failed that did not say it itself."""
        seen = self._seen.get(instance.name)
        if seen is not None and seen.unexplained:
            seen.unexplained = False
            self.on_failure(seen.instance.offering, failure_class(reason))

    def _changed(self, before: _Seen, now: _Seen) -> None:
        was, state = before.instance.state, now.instance.state
        now.unexplained = before.unexplained
        now.deleting_at = before.deleting_at if state is InstanceState.DELETING else None
        if was is state:
            return
        if was is InstanceState.CREATING and state in (InstanceState.RUNNING, InstanceState.FAILED):
            self._created(now)
        elif state is InstanceState.DELETING:
            now.deleting_at = _loop_time()
        elif was is InstanceState.DELETING and before.deleting_at is not None:
            self._seconds.labels("delete", "failed").observe(_loop_time() - before.deleting_at)

    def _created(self, now: _Seen) -> None:
        failed, instance = now.instance.state is InstanceState.FAILED, now.instance
        if instance.put_time is not None:
            took = (self._clock.now() - instance.put_time).total_seconds()
            self._seconds.labels("create", "failed" if failed else "succeeded").observe(max(0.0, took))
        if failed and instance.failure is not None:
            self.on_failure(instance.offering, failure_class(instance.failure.reason))
        elif failed:
            now.unexplained = True

    def _gone(self, before: _Seen) -> None:
        if before.deleting_at is not None:
            self._seconds.labels("delete", "succeeded").observe(_loop_time() - before.deleting_at)
        if before.unexplained:
            self.on_failure(before.instance.offering, OTHER)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
