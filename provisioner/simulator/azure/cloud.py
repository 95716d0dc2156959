"""The state of the simulated Azure: one managed cluster, its agent pools, and the request log.

The methods here validate nothing. They stand for actions without the API (a user in the portal, an eviction). `pools`,
`requests` and `put_log` are read-only.

Source: docs/references/agent-pools.md#etags, docs/references/agent-pools.md#conflicts,
docs/references/simulator.md#simulated-arm.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from random import Random  # noqa: TID251 - the type only
from typing import Any

from . import agentpool, errors, faults
from .agentpool import Pool
from .compute import Compute
from .faults import Failure, Fault
from .lifecycle import Lifecycle
from .pool_store import Subscriber
from .request_log import Put, Request
from .settings import AzureSettings
from .token_buckets import Throttle


class AzureCloud:
    """`now`: the wall clock; `rng`: the only source of randomness. Methods need a running loop, and `run()` running.

    `past`: what reads of a verb (GET, LIST) show instead of the current state.
    """

    def __init__(self, settings: AzureSettings, now: Callable[[], datetime], rng: Random) -> None:
        self.now = now
        self.lifecycle = Lifecycle(settings, now, rng)
        self.scheduler = self.lifecycle.scheduler
        self.pool_store = self.lifecycle.pool_store
        self.request_log = self.lifecycle.request_log
        self.operations = self.lifecycle.operations
        self.throttle = Throttle()
        self.faults: list[Fault] = []
        self.past: dict[str, Mapping[str, Pool]] = {}
        self.compute = Compute()
        self.cluster_state = "Succeeded"
        self.cluster_power = "Running"
        self.cluster_etag = self.lifecycle.guid()

    async def run(self) -> None:
        """Run the timers of operations, until cancelled."""
        await self.scheduler.run()

    def configure(self, **changes: Any) -> None:
        """Change settings except the speed; running operations keep their durations."""
        self.lifecycle.settings = replace(self.settings, **changes, speed=self.scheduler.speed)

    # for tests and `try`

    @property
    def settings(self) -> AzureSettings:
        return self.lifecycle.settings

    @property
    def pools(self) -> dict[str, Pool]:
        """The current pools, by name; change them only through methods."""
        return self.pool_store.pools

    @property
    def requests(self) -> list[Request]:
        return self.request_log.requests

    @property
    def counts(self) -> Mapping[str, int]:
        """Calls so far, by verb."""
        return self.request_log.counts

    @property
    def put_log(self) -> list[Put]:
        return self.request_log.puts

    def view(self, verb: str) -> Mapping[str, Pool]:
        """The pools as reads of this verb (GET, LIST) show them: those in `past`, or with the configured lag."""
        lag = self.settings.get_lag_seconds if verb == "GET" else self.settings.list_lag_seconds
        return self.past[verb] if verb in self.past else self.pool_store.view(lag)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call it synchronously with every change: (kind, the pool after it; for "gone", its last state)."""
        self.pool_store.subscribe(subscriber)

    # actions without the API

    def seed_pool(
        self, name: str, *, state: str = "Succeeded", error: Mapping[str, Any] | None = None, **properties: Any
    ) -> Pool:
        """An existing pool, with machines unless it Failed; `properties` as in the API (vmSize=…)."""
        pool = replace(self.lifecycle.new(name, properties), state=state, error=error)
        if state == "Failed":
            return self.pool_store.put("failed", pool)
        return self.pool_store.put("running", self.lifecycle.reconciled(pool))

    def delete_pool_by_hand(self, name: str) -> None:
        """A user deletes the pool in the portal."""
        self.lifecycle.delete(name)

    def fail_next_create(
        self,
        code: str,
        message: str,
        *,
        sync: bool = False,
        after_seconds: float = 45.0,
        details: Sequence[Mapping[str, Any]] = (),
        pool: str = "*",
    ) -> None:
        """The next matching PUT is rejected with 400 (`sync`), or accepted and fails after `after_seconds`."""
        if sync:
            self.faults.append(Fault(verb="PUT", pool=pool, answer=errors.rp(400, code, message)))
        else:
            failure = Failure(error=faults.error(code, message, details), after_seconds=after_seconds)
            self.faults.append(Fault(verb="PUT", pool=pool, failure=failure))

    def cluster_operation(self, state: str) -> None:
        """A cluster-level operation begins ("Updating", …) or ends ("Succeeded"); all eTags change."""
        self.cluster_state = state
        self.cluster_etag = self.lifecycle.guid()
        for pool in list(self.pools.values()):
            self.pool_store.put("updated", replace(pool, etag=self.lifecycle.guid()))

    def release_node_image(self, release: str) -> None:
        """AKS releases node images, such as 202608.17.0: new pools get them, others keep theirs."""
        self.configure(node_image_release=release)

    def upgrade_control_plane(self, version: str) -> None:
        """A user upgrades the control plane only: new pools get its version, others keep theirs."""
        self.configure(kubernetes_version=version)
        self.cluster_etag = self.lifecycle.guid()

    def stop_cluster(self) -> None:
        """`az aks stop`: the machines are deleted at once; the pools stay, with power state Stopped."""
        self.cluster_power = "Stopped"
        for pool in list(self.pools.values()):
            if pool.state == "Deleting":
                continue
            self.lifecycle.end(pool.operation, "Canceled")
            idle = "Succeeded" if pool.busy else pool.state
            stopped = replace(pool, power="Stopped", state=idle, machines=(), operation="", etag=self.lifecycle.guid())
            self.pool_store.put("updated", stopped)

    def start_cluster(self) -> None:
        """`az aks start`: pools are Starting, and get new machines."""
        self.cluster_power, self.cluster_state = "Running", "Starting"
        longest = 0.0
        for pool in list(self.pools.values()):
            if pool.power != "Stopped":
                continue
            seconds = self.lifecycle.draw(self.settings.create_seconds)
            longest = max(longest, seconds)
            if pool.state == "Failed":
                self.pool_store.put("updated", replace(pool, power="Running", etag=self.lifecycle.guid()))
                continue
            starting = self.lifecycle.start_operation(replace(pool, power="Running"), "Starting", "updated")
            self.lifecycle.schedule_boot(starting, seconds)
        self.scheduler.after(longest, partial(self.cluster_operation, "Succeeded"))

    def evict(self, name: str, *, refill_after_seconds: float | None = None) -> None:
        """Azure evicts a spot pool's machines; the pool has count 0 afterwards, or gets new machines."""
        pool = self.pools[name]
        shrink = refill_after_seconds is None
        self.pool_store.put(
            "updated", agentpool.without_machines(pool, pool.machines, self.lifecycle.guid(), shrink=shrink)
        )
        if refill_after_seconds is not None:
            self.scheduler.after(refill_after_seconds, partial(self.lifecycle.boot, name, pool.incarnation))

    def add_machine(self, name: str) -> None:
        """One machine more than `count`, as after a failed surge upgrade."""
        pool = self.pools[name]
        extra = replace(pool, machines=(*pool.machines, pool.next_instance), next_instance=pool.next_instance + 1)
        self.pool_store.put("updated", replace(extra, etag=self.lifecycle.guid()))

    def remove_machine(self, name: str, instance: int) -> None:
        """This machine of a pool is deleted, if it runs; `count` stays."""
        pool = self.pools[name]
        self.pool_store.put("updated", agentpool.without_machines(pool, (instance,), self.lifecycle.guid()))
