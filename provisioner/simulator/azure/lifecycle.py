"""What happens after Azure has said yes: the course of each operation, as timers over the pools.

Operations take the time the settings say and end once; a failed create leaves a Failed pool; a machine is up
at `node_share` of the pool's time, before or after the pool turns Succeeded; machines die before their pool is gone; a
pool's timers never touch a later pool of the same name, nor one that another operation has taken over.

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
    """An accepted write: the pool as the answer shows it, and the id of the operation that was started."""

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
        """A fresh id: an eTag, an operation, a request."""
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
        """An accepted PUT of an existing pool: Scaling if `count` changed, Updating else; nothing to do: Succeeded."""
        pool = self.pool_store.pools[name]
        wanted = agentpool.with_defaults(properties, self.settings.kubernetes_version)
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
        """An accepted DELETE: Deleting, then machines gone, then pool gone. Preempts whatever runs."""
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
        """An accepted deleteMachines: `count` falls with them; nothing is drained."""
        pool = self.start_operation(self.pool_store.pools[name], "Scaling", "updated")
        seconds = self.draw(DELETE_MACHINES_SECONDS)
        self.scheduler.after(seconds, partial(self._remove_machines, name, pool.operation, instances, shrink=True))
        self.scheduler.after(seconds, partial(self._succeed, name, pool.operation))
        return Accepted(pool, pool.operation)

    def abort(self, name: str) -> Accepted:
        """An accepted abort: Canceling, then Canceled, as is the operation; what was done stays done."""
        pool = self.pool_store.pools[name]
        aborted = pool.operation
        canceling = self.start_operation(pool, "Canceling", "updated")
        self.scheduler.after(self.draw(ABORT_SECONDS), partial(self._cancel, name, canceling.operation, aborted))
        return Accepted(canceling, canceling.operation)

    # what operations are made of

    def new(self, name: str, properties: Mapping[str, Any]) -> Pool:
        """A pool that nobody works on and that has no machines yet; not in the book."""
        self._incarnations += 1
        return Pool(
            name=name,
            properties=agentpool.with_defaults(properties, self.settings.kubernetes_version),
            state="Succeeded",
            etag=self.guid(),
            incarnation=self._incarnations,
            created=self._now(),
        )

    def reconciled(self, pool: Pool) -> Pool:
        """The pool with as many machines as it should have; not in the book."""
        return agentpool.reconciled(pool, self.guid())

    def start_operation(self, pool: Pool, word: str, kind: Kind) -> Pool:
        """Start an operation that holds the pool's lock."""
        now = self.scheduler.time()
        operation = Operation(id=self.guid(), pool=pool.name, start=self._now(), since=now)
        self.operations.start(operation)
        return self.pool_store.put(kind, replace(pool, state=word, operation=operation.id, etag=self.guid()))

    def schedule_boot(self, pool: Pool, seconds: float) -> None:
        """Let the machines boot around, and the operation succeed at, `seconds` from now."""
        boot_at = seconds * self.draw(self.settings.node_share)
        self.scheduler.after(boot_at, partial(self.boot, pool.name, pool.incarnation))
        self.scheduler.after(seconds, partial(self._succeed, pool.name, pool.operation))

    def boot(self, name: str, incarnation: int) -> None:
        """The machines of that very pool are up, unless it has come to grief meanwhile."""
        pool = self.pool_store.pools.get(name)
        if pool is None or pool.incarnation != incarnation or pool.state in _NO_BOOT or pool.power == "Stopped":
            return
        self.pool_store.put("updated", self.reconciled(pool))

    def end(self, operation: str, status: str, reason: Mapping[str, Any] | None = None) -> None:
        """The operation, if there is one and it still runs, ends here."""
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
            told = None if failure.silent else failure.error
            self.pool_store.put("failed", agentpool.failed(pool, told, self.guid()))

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
