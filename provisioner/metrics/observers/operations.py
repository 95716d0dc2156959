"""Durations and results of agent pool operations after ARM accepted them.

An operation counts once, in the process that observed its start or found it in progress. The start of a creation is
stored in the pool's tags, that of a deletion in memory only; operations that ended before this process started are not
counted. A failure without a reason counts when the reason is known.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cloudprovider.interface import Instance, InstanceState, Offering
from cloudprovider.inventory import Inventory
from provisioner.metrics.definitions import own
from provisioner.metrics.definitions.labels import OTHER
from provisioner.runtime.clock import Clock
from provisioner.runtime.metrics import Metrics

from .failures import failure_class


@dataclass(slots=True)
class _Pool:
    """The last state of a pool. `deleting_at`: loop time of the start of its deletion, if this process observed it."""

    instance: Instance
    deleting_at: float | None = None
    unexplained: bool = False


class Operations:
    """Observes the inventory. `on_failure(offering, reason class)` is called for each failed creation."""

    def __init__(self, metrics: Metrics, inventory: Inventory, clock: Clock) -> None:
        self._inventory = inventory
        self._clock = clock
        self._seconds = metrics.histogram(own.ARM_OPERATION)
        self._pools: dict[str, _Pool] = {}
        self.on_failure: Callable[[Offering | None, str], None] = lambda *_: None

    def pool_changed(self, key: str) -> None:
        """The inventory has another state of an agent pool."""
        before, instance = self._pools.get(key), self._inventory.get(key)
        if instance is None:
            self._pools.pop(key, None)
            if before is not None:
                self._gone(before)
        elif not instance.foreign:
            now = self._pools[key] = _Pool(instance)
            if before is not None:
                self._changed(before, now)

    def explained(self, instance: Instance, reason: str) -> None:
        """The reason of a failed creation that the pool did not contain."""
        pool = self._pools.get(instance.name)
        if pool is not None and pool.unexplained:
            pool.unexplained = False
            self.on_failure(pool.instance.offering, failure_class(reason))

    def _changed(self, before: _Pool, now: _Pool) -> None:
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

    def _created(self, now: _Pool) -> None:
        failed, instance = now.instance.state is InstanceState.FAILED, now.instance
        if instance.put_time is not None:
            took = (self._clock.now() - instance.put_time).total_seconds()
            self._seconds.labels("create", "failed" if failed else "succeeded").observe(max(0.0, took))
        if failed and instance.failure is not None:
            self.on_failure(instance.offering, failure_class(instance.failure.reason))
        elif failed:
            now.unexplained = True

    def _gone(self, before: _Pool) -> None:
        if before.deleting_at is not None:
            self._seconds.labels("delete", "succeeded").observe(_loop_time() - before.deleting_at)
        if before.unexplained:
            self.on_failure(before.instance.offering, OTHER)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
