"""Reflector of the agent pools and of the managed cluster: LIST, cached instances, staleness, proof of absence.

The cache holds the newest observation of each pool: a LIST never overrides one that is newer than its start. A pool
missing from a LIST leaves the cache, but is proven absent only by the rules of `absence_proofs`. After a failed LIST
the cache stays as it was and becomes stale. One LIST serves all keys; its interval depends on pools in flight, on
errors and on `Retry-After`.

Source: docs/references/rules.md#absence-needs-proof, docs/references/rules.md#arm-request-budget,
docs/references/agent-pools.md#not-found, docs/references/agent-pools.md#throttling.
"""

import asyncio
import math
from collections.abc import Callable
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import Never

import msgspec
import structlog

from .absence_proofs import AbsenceProofs
from .errors import CloudError
from .interface import CloudProvider, Cluster, Instance, InstanceState
from .observations import Absence, Observation, Tally, instance_of, merge
from .poll_interval import PollInterval

CLUSTER_SECONDS = 60.0

log = structlog.get_logger("inventory")


class Inventory:
    """Times are loop times in seconds.

    `on_change(key)` is called for each key whose instance changed or is proven absent; `on_resync()` when all keys must
    be reconciled: after the first LIST, when LISTs start to fail, and when the managed cluster changes. `list_error` is
    the error of the first of the failed LISTs since the last successful one. `node_resource_group`: that of the managed
    cluster, as read last; "" if it is not known.
    """

    def __init__(
        self,
        provider: CloudProvider,
        *,
        rng: Random,
        on_change: Callable[[str], None],
        on_resync: Callable[[], None],
        settle_seconds: float = 60.0,
        poll_seconds_busy: float = 4.0,
        poll_seconds_idle: float = 60.0,
    ) -> None:
        self._provider = provider
        self._on_change = on_change
        self._on_resync = on_resync
        self._settle_seconds = settle_seconds
        self._poll = PollInterval(
            busy=self._busy, busy_seconds=poll_seconds_busy, idle_seconds=poll_seconds_idle, rng=rng
        )
        self._observations: dict[str, Observation] = {}
        self.tally = Tally()
        self._proofs = AbsenceProofs(settle_seconds)
        self._deleted: dict[str, tuple[str, float]] = {}
        self._in_flight: dict[str, float] = {}
        self._unknown_puts: dict[str, None] = {}
        self._cluster_at: float | None = None
        self._failures = 0
        self.cluster: Cluster | None = None
        self.node_resource_group = ""
        self.list_error: CloudError | None = None

    # Reads

    def get(self, name: str) -> Instance | None:
        """The cached instance; None if the newest observation does not show it."""
        return instance_of(self._observations.get(name))

    def items(self) -> tuple[Instance, ...]:
        return tuple(a.instance for a in self._observations.values() if a.instance is not None)

    def names(self) -> tuple[str, ...]:
        return tuple(name for name, a in self._observations.items() if a.instance is not None)

    @property
    def synced(self) -> bool:
        """Whether a LIST has succeeded since this process became leader."""
        return self._proofs.listed_at is not None

    def age(self) -> float:
        """Seconds since the start of the newest successful LIST; inf if there was none."""
        return math.inf if self._proofs.listed_at is None else self._now() - self._proofs.listed_at

    def staleness_seconds(self) -> float:
        """Seconds since the start of the newest successful LIST; without one, since this process became leader."""
        since = self._proofs.listed_at if self._proofs.listed_at is not None else self._proofs.leading_since
        return 0.0 if since is None else self._now() - since

    def cluster_age(self) -> float:
        """Seconds since the last GET of the managed cluster, successful or not; inf if there was none."""
        return math.inf if self._cluster_at is None else self._now() - self._cluster_at

    def absence(self, name: str) -> Absence:
        """`absent` is proven; `unsettled` is a 404 that may still be read lag."""
        if self.get(name) is not None:
            return "present"
        if (at := self._proofs.absent_at(name)) is None:
            return "unknown"
        return "absent" if self._proofs.settles_in(name, at) <= 0 else "unsettled"

    def settles_in(self, name: str) -> float:
        """Seconds until a 404 of this pool proves its absence."""
        return self._proofs.settles_in(name, self._now())

    # Observations of the controllers

    def put_attempted(self, name: str) -> None:
        """A PUT is about to be sent: a 404 after it may be read lag."""
        self._proofs.put_attempted(name, self._now())

    def put_rejected(self, name: str) -> None:
        """The last PUT was rejected synchronously: it has no effect on 404s. An earlier one, if any, still has."""
        self._proofs.put_rejected(name)

    def put_result_unknown(self, name: str) -> None:
        """The result of the PUT is unknown: list often until the pool is seen or a 404 is settled."""
        self._unknown_puts[name] = None
        self._poll.wake()

    def record_put(self, instance: Instance) -> None:
        """Record the response of an accepted PUT; reads may not show the pool yet."""
        self._proofs.put_accepted(instance, self._now())
        self._record(instance.name, instance)
        self._poll.wake()

    def record_get(self, instance: Instance) -> None:
        """Record the instance that a GET returned, unless it lags behind a PUT and shows an earlier pool."""
        if self._proofs.is_earlier(instance, self._now()):
            return
        self._proofs.got(instance, self._now())
        self._record(instance.name, instance)
        self._poll.wake()

    def record_cluster(self, cluster: Cluster, requested_at: float) -> None:
        """Record the result of a GET of the managed cluster, which was sent at `requested_at`."""
        if self._set_cluster(cluster, requested_at):
            self._on_resync()

    def record_absent(self, name: str) -> None:
        """Record a 404 of a GET or DELETE of this pool."""
        self._proofs.not_found(name, self._now())
        self._record(name, None)

    def record_delete(self, name: str) -> None:
        """Record an accepted DELETE."""
        instance = self.get(name)
        if instance is not None:
            self._deleted[name] = (instance.etag, self._now())
            self._proofs.delete_accepted(name, self._now())
            deleting = msgspec.structs.replace(instance, state=InstanceState.DELETING, raw_state="Deleting")
            self._record(name, deleting)
        self._poll.wake()

    def set_in_flight(self, name: str, seconds: float = math.inf) -> None:
        """List often for so long: a controller waits for a change of this pool."""
        now = self._now()
        before, self._in_flight[name] = self._in_flight.get(name, now), now + seconds
        if before <= now:
            self._poll.wake()

    def clear_in_flight(self, name: str) -> None:
        """Undo `set_in_flight`."""
        self._in_flight.pop(name, None)

    def forget(self, name: str) -> None:
        """Drop all observations of a key without objects."""
        for observed in (self._in_flight, self._unknown_puts, self._deleted):
            observed.pop(name, None)
        self._proofs.forget(name)
        if self.get(name) is None:
            self._observations.pop(name, None)

    def _record(self, name: str, instance: Instance | None) -> None:
        now = self._now()
        before = self.get(name)
        self._observations[name] = Observation(instance=instance, at=now)
        if instance is not None:
            self._proofs.present(name)
        if before != instance:
            self.tally.replace(name, before, instance)
            self._on_change(name)

    # The polling loop

    async def run(self) -> Never:
        """List until cancelled. Only the leader runs this."""
        self._proofs.leading_since = self._now()
        while True:
            started = self._now()
            after: float | None = None
            try:
                await self._list(started)
                self._failures, self.list_error = 0, None
            except CloudError as error:
                self._failures += 1
                after = error.after
                if self.list_error is None:
                    self.list_error = error
                    self._on_resync()
                log.warning("failed to list agent pools", error=str(error), failures=self._failures)
            await self._poll.wait(started, failures=self._failures, after=after)

    async def list_once(self) -> None:
        """Get the managed cluster and list the agent pools once, for commands. Raises CloudError."""
        self._proofs.leading_since = self._now()
        await self._list(self._proofs.leading_since)

    async def _list(self, started: float) -> None:
        resync = self._proofs.listed_at is None
        if self._cluster_at is None or started - self._cluster_at >= CLUSTER_SECONDS or self._failures:
            resync = self._set_cluster(await self._read_cluster(), started) or resync
            started = self._now()
        pages = 1

        async def count_page() -> None:
            nonlocal pages
            pages += 1

        answer = await self._provider.list(before_page=count_page)
        now = self._now()
        listed = [instance for instance in answer if not self._proofs.is_earlier(instance, now)]
        recent = now - self._settle_seconds
        merged = merge(
            self._observations,
            listed,
            started_at=started,
            recent_puts=self._proofs.unlisted_puts(now),
            recent_deletes={name: etag for name, (etag, at) in self._deleted.items() if at > recent},
        )
        before, self._observations = self._observations, dict(merged.observations)
        for name in merged.changed:
            self.tally.replace(name, instance_of(before.get(name)), self.get(name))
        self._proofs.listed(listed, started, pages=pages)
        proven = self._proofs.absent_by_list(self.names())
        for name in self.names():
            self._proofs.present(name)
        # A pool that an earlier LIST did not show either can be proven absent by this one.
        for name in dict.fromkeys((*merged.changed, *proven)):
            self._on_change(name)
        if resync:
            self._on_resync()

    def _set_cluster(self, cluster: Cluster | None, at: float) -> bool:
        """Record what a GET at this time returned, None if it failed; whether that differs from before."""
        before, self.cluster, self._cluster_at = self.cluster, cluster, at
        if cluster is not None:
            self.node_resource_group = cluster.node_resource_group
        return before != cluster

    async def _read_cluster(self) -> Cluster | None:
        """The managed cluster; None if the GET fails, which does not prevent the LIST once the cluster was read.

        Until then its error is raised: pools of a cluster that may be another one must not count.
        """
        try:
            return await self._provider.cluster()
        except CloudError as error:
            log.warning("failed to get the managed cluster", error=str(error))
            if not self.node_resource_group:
                raise
            return None

    def _busy(self) -> bool:
        for name in [n for n in self._unknown_puts if self.get(n) is not None or self.settles_in(n) <= 0]:
            del self._unknown_puts[name]
        waited_for = any(until > self._now() for until in self._in_flight.values())
        return bool(waited_for or self._unknown_puts or self.tally.transient)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
