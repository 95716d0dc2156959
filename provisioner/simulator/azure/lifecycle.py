"""The operations on agent pools after their acceptance, as timers.

An operation lasts as long as the settings say and ends once. A failed create leaves a Failed pool. A machine boots at
`node_share` of the operation's duration, before or after the pool is Succeeded. Machines are deleted before their
pool. The timers of a pool never affect a later pool of the same name, nor one that another operation holds.

Source: docs/references/agent-pools.md#calls-and-accepted-statuses, docs/references/agent-pools.md#responses,
docs/references/agent-pools.md#quota-and-capacity-errors, docs/references/agent-pools.md#conflicts,
docs/references/agent-pools.md#durations, docs/references/simulator.md#simulated-arm.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from random import Random  # noqa: TID251 - the type only
from typing import Any, NamedTuple

from provisioner.simulator.scheduler import Scheduler

from . import agentpool, faults
from .agentpool import Pool
from .faults import Failure, Fault
from .operations import Operation, Operations
from .pool_store import AgentPoolStore, Kind
from .request_log import Put, RequestLog
from .settings import AzureSettings, Range

PREEMPTED = faults.error("AKSOperationPreemptedByDelete", "This operation has been preempted by Deleting operation.")
DELETE_MACHINES_SECONDS: Range = (25.0, 40.0)
ABORT_SECONDS: Range = (10.0, 30.0)
_NO_BOOT = frozenset({"Deleting", "Failed", "Canceling", "Canceled"})


class Accepted(NamedTuple):
    """An accepted write: the pool in the response, and the id of the started operation."""

    pool: Pool
    operation: str


class Lifecycle:
    def __init__(self, settings: AzureSettings, now: Callable[[], datetime], rng: Random) -> None:
        self.scheduler = Scheduler(settings.speed)
        self.pool_store = AgentPoolStore(self.scheduler)
        self.request_log = RequestLog()
        self.operations = Operations(settings.operation_ttl_seconds)
        self.settings = settings
        self._now = now
        self._rng = rng
        self._incarnations = 0

    def guid(self) -> str:
        """A new id of an eTag, operation or request."""
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def draw(self, between: Range) -> float:
        return self._rng.uniform(*between)

    # accepted calls

    def create(self, name: str, properties: Mapping[str, Any], fault: Fault | None = None) -> Accepted:
        """An accepted PUT of a new pool."""
        pool = self.start_operation(self.new(name, properties), "Creating", "creating")
        self.request_log.record_put(Put(self._now(), name, properties, created=True))
        failure = fault.failure if fault else None
        if failure is None:
            self.schedule_boot(pool, self._seconds(fault, self.settings.create_seconds))
        else:
            if failure.machine:
                boot_at = failure.after_seconds * self.draw((0.3, 0.8))
                self.scheduler.after(boot_at, partial(self.boot, name, pool.incarnation))
            self._fail_later(pool, failure)
        return Accepted(pool, pool.operation)

    def update(self, name: str, properties: Mapping[str, Any], fault: Fault | None = None) -> Accepted:
        """An accepted PUT of an existing pool: Scaling if `count` changed, else Updating; Succeeded if unchanged."""
        pool = self.pool_store.pools[name]
        wanted = agentpool.with_defaults(properties, self.settings, pool.properties)
        self.request_log.record_put(Put(self._now(), name, properties, created=False))
        unchanged = wanted == pool.properties and pool.state == "Succeeded"
        word = "Scaling" if wanted["count"] != pool.count else "Updating"
        changing = self.start_operation(replace(pool, properties=wanted), word, "updated")
        if unchanged:
            return Accepted(self._succeed(name, changing.operation) or changing, changing.operation)
        if fault and fault.failure:
            self._fail_later(changing, fault.failure)
            return Accepted(changing, changing.operation)
        seconds = self._seconds(fault, self.settings.update_seconds)
        self.scheduler.after(seconds, partial(self.boot, name, pool.incarnation))
        self.scheduler.after(seconds, partial(self._succeed, name, changing.operation))
        return Accepted(changing, changing.operation)

    def delete(self, name: str, fault: Fault | None = None) -> Accepted:
        """An accepted DELETE: deletes the machines, then the pool. Preempts a running operation."""
        pool = self.pool_store.pools[name]
        self.end(pool.operation, "Failed", PREEMPTED)
        deleting = self.start_operation(pool, "Deleting", "deleting")
        if fault and fault.failure:
            self._fail_later(deleting, fault.failure)
            return Accepted(deleting, deleting.operation)
        seconds = self._seconds(fault, self.settings.delete_seconds)
        unplug = partial(self._remove_machines, name, deleting.operation, pool.machines)
        self.scheduler.after(seconds * self.draw((0.5, 0.95)), unplug)
        self.scheduler.after(seconds, partial(self._remove_pool, name, deleting.operation))
        return Accepted(deleting, deleting.operation)

    def delete_machines(self, name: str, instances: tuple[int, ...]) -> Accepted:
        """An accepted deleteMachines: decreases `count`; nothing is drained."""
        pool = self.start_operation(self.pool_store.pools[name], "Scaling", "updated")
        seconds = self.draw(DELETE_MACHINES_SECONDS)
        self.scheduler.after(seconds, partial(self._remove_machines, name, pool.operation, instances, shrink=True))
        self.scheduler.after(seconds, partial(self._succeed, name, pool.operation))
        return Accepted(pool, pool.operation)

    def abort(self, name: str) -> Accepted:
        """An accepted abort: Canceling, then Canceled, as the operation; its effects so far remain."""
        pool = self.pool_store.pools[name]
        aborted = pool.operation
        canceling = self.start_operation(pool, "Canceling", "updated")
        self.scheduler.after(self.draw(ABORT_SECONDS), partial(self._cancel, name, canceling.operation, aborted))
        return Accepted(canceling, canceling.operation)

    # parts of operations

    def new(self, name: str, properties: Mapping[str, Any]) -> Pool:
        """A pool without operation and machines; not stored."""
        self._incarnations += 1
        return Pool(
            name=name,
            properties=agentpool.with_defaults(properties, self.settings),
            state="Succeeded",
            etag=self.guid(),
            incarnation=self._incarnations,
            created=self._now(),
        )

    def reconciled(self, pool: Pool) -> Pool:
        """The pool with as many machines as `count`; not stored."""
        return agentpool.reconciled(pool, self.guid())

    def start_operation(self, pool: Pool, word: str, kind: Kind) -> Pool:
        """Start an operation that holds the pool's lock."""
        now = self.scheduler.time()
        operation = Operation(id=self.guid(), pool=pool.name, start=self._now(), since=now)
        self.operations.start(operation)
        return self.pool_store.put(kind, replace(pool, state=word, operation=operation.id, etag=self.guid()))

    def schedule_boot(self, pool: Pool, seconds: float) -> None:
        """Schedule the end of the operation, `seconds` from now, and the boot of the machines."""
        boot_at = seconds * self.draw(self.settings.node_share)
        self.scheduler.after(boot_at, partial(self.boot, pool.name, pool.incarnation))
        self.scheduler.after(seconds, partial(self._succeed, pool.name, pool.operation))

    def boot(self, name: str, incarnation: int) -> None:
        """The machines of this incarnation of the pool boot, unless it failed or was deleted."""
        pool = self.pool_store.pools.get(name)
        if pool is None or pool.incarnation != incarnation or pool.state in _NO_BOOT or pool.power == "Stopped":
            return
        self.pool_store.put("updated", self.reconciled(pool))

    def end(self, operation: str, status: str, reason: Mapping[str, Any] | None = None) -> None:
        """End the operation if it is still running."""
        self.operations.end(operation, status, self._now(), reason)

    def _seconds(self, fault: Fault | None, usual: Range) -> float:
        override = fault.operation_seconds if fault else None
        return self.draw(usual) if override is None else override

    def _fail_later(self, pool: Pool, failure: Failure) -> None:
        self.scheduler.after(failure.after_seconds, partial(self._fail, pool.name, pool.operation, failure))

    def _held(self, name: str, operation: str) -> Pool | None:
        """The pool, if that operation still holds it."""
        pool = self.pool_store.pools.get(name)
        return pool if pool is not None and pool.operation == operation else None

    def _succeed(self, name: str, operation: str) -> Pool | None:
        pool = self._held(name, operation)
        if pool is None:
            return None
        self.end(operation, "Succeeded")
        return self.pool_store.put("running", agentpool.settled(pool, "Succeeded", self.guid()))

    def _fail(self, name: str, operation: str, failure: Failure) -> None:
        pool = self._held(name, operation)
        if pool is not None:
            self.end(operation, "Failed", failure.error)
            error = None if failure.silent else failure.error
            self.pool_store.put("failed", agentpool.failed(pool, error, self.guid()))

    def _cancel(self, name: str, operation: str, aborted: str) -> None:
        pool = self._held(name, operation)
        if pool is not None:
            self.end(aborted, "Canceled")
            self.end(operation, "Succeeded")
            self.pool_store.put("updated", agentpool.settled(pool, "Canceled", self.guid()))

    def _remove_machines(self, name: str, operation: str, instances: tuple[int, ...], *, shrink: bool = False) -> None:
        pool = self._held(name, operation)
        if pool is not None:
            self.pool_store.put("updated", agentpool.without_machines(pool, instances, self.guid(), shrink=shrink))

    def _remove_pool(self, name: str, operation: str) -> None:
        if self._held(name, operation) is not None:
            self.end(operation, "Succeeded")
            self.pool_store.remove(name)
