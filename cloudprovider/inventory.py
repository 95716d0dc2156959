"""The cloud's reflector: one shared LIST, the cluster's state, and how much of it can be believed.

A cached instance is the newest answer there is: a LIST never overrides an answer that is newer than the
list's own start. A pool missing from a list leaves the cache, but that proves nothing: absence is only what a GET or a
DELETE said of this very pool, and only once it is settled (`absence`). A list that fails is "unknown", never empty.
One LIST serves all keys: often while something is in flight, rarely when idle, later when the cloud asks for it.

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

from .errors import CloudError
from .interface import CloudProvider, Cluster, Instance, InstanceState
from .observations import Absence, Answer, merge, settles_in, shown
from .poll_interval import Pacing

CLUSTER_SECONDS = 60.0

log = structlog.get_logger("inventory")


class Inventory:
    """Times are loop times in seconds.

    `on_change(key)` is called for each key whose instance changed; `on_news()` when something changed for all keys: the
    first whole LIST, that it fails, or the managed cluster's state. `failing` is what the first of the LISTs in a row
    that have failed said: it stays the same while they do.
    """

    def __init__(
        self,
        provider: CloudProvider,
        *,
        rng: Random,
        on_change: Callable[[str], None],
        on_news: Callable[[], None],
        settle_seconds: float = 60.0,
        poll_seconds_busy: float = 4.0,
        poll_seconds_idle: float = 60.0,
    ) -> None:
        self._provider = provider
        self._on_change = on_change
        self._on_news = on_news
        self._settle_seconds = settle_seconds
        self._pacing = Pacing(busy=self._busy, busy_seconds=poll_seconds_busy, idle_seconds=poll_seconds_idle, rng=rng)
        self._answers: dict[str, Answer] = {}
        self._got_at: dict[str, float] = {}
        self._shown_at: dict[str, float] = {}
        self._put_at: dict[str, float] = {}
        self._absent_at: dict[str, float] = {}
        self._deleted: dict[str, tuple[str, float]] = {}
        self._expected: dict[str, None] = {}
        self._unheard: dict[str, None] = {}
        self._leading_since: float | None = None
        self._listed_at: float | None = None
        self._cluster_at: float | None = None
        self._failures = 0
        self.cluster: Cluster | None = None
        self.failing: CloudError | None = None

    # What is known

    def get(self, name: str) -> Instance | None:
        """The pool as last described, None if no answer shows it."""
        return shown(self._answers.get(name))

    def items(self) -> tuple[Instance, ...]:
        return tuple(a.instance for a in self._answers.values() if a.instance is not None)

    def names(self) -> tuple[str, ...]:
        return tuple(name for name, a in self._answers.items() if a.instance is not None)

    @property
    def synced(self) -> bool:
        """Whether a whole LIST was ever read in this leadership."""
        return self._listed_at is not None

    def age(self) -> float:
        """Seconds since the start of the newest successful LIST, inf if there was none."""
        return math.inf if self._listed_at is None else self._now() - self._listed_at

    def silent_seconds(self) -> float:
        """Seconds since the start of the newest successful LIST; without one, since lists were first asked for."""
        since = self._listed_at if self._listed_at is not None else self._leading_since
        return 0.0 if since is None else self._now() - since

    def cluster_age(self) -> float:
        """Seconds since the managed cluster was last asked for, inf if it never was."""
        return math.inf if self._cluster_at is None else self._now() - self._cluster_at

    def absence(self, name: str) -> Absence:
        """What is known of a pool's absence: `absent` is proof, `unsettled` a 404 too soon to believe."""
        if self.get(name) is not None:
            return "present"
        if name not in self._absent_at:
            return "unknown"
        return "absent" if self._settles_in(name, self._absent_at[name]) <= 0 else "unsettled"

    def settles_in(self, name: str) -> float:
        """Seconds until a 404 of this pool may be believed."""
        return self._settles_in(name, self._now())

    def _settles_in(self, name: str, at: float) -> float:
        leading = self._leading_since if self._leading_since is not None else at
        return settles_in(
            now=at,
            seen_at=self._last_shown(name),
            put_at=self._put_at.get(name),
            leading_since=leading,
            settle_seconds=self._settle_seconds,
        )

    def _last_shown(self, name: str) -> float | None:
        """When a read that denies this pool now has last shown it: no other is known to have caught up with its PUT.

        GETs and LISTs lag independently, and both behind what PUT and DELETE answer.
        """
        shown, listed = self._shown_at.get(name), self._listed_at
        vanished = shown is not None and listed is not None and shown < listed
        seen = [at for at in (self._got_at.get(name), shown if vanished else None) if at is not None]
        return max(seen, default=None)

    # What the rules tell us

    def put_attempted(self, name: str) -> None:
        """A PUT is about to be sent: from now on a 404 may be read lag."""
        self._put_at[name] = self._now()
        self._absent_at.pop(name, None)

    def put_refused(self, name: str) -> None:
        """The PUT was refused before anything was made: it counts for nothing."""
        self._put_at.pop(name, None)
        self._unheard.pop(name, None)

    def put_unheard(self, name: str) -> None:
        """Nobody knows what became of the PUT: until a 404 can be believed, or the pool is seen, look often."""
        self._unheard[name] = None
        self._pacing.wake()

    def accepted(self, instance: Instance) -> None:
        """A PUT was accepted: this is what it answered, and reads may not know of it yet."""
        self._note(instance.name, instance)
        self._pacing.wake()

    def learned(self, instance: Instance) -> None:
        """A GET showed this pool."""
        self._got_at[instance.name] = self._now()
        self._note(instance.name, instance)
        self._pacing.wake()

    def learned_cluster(self, cluster: Cluster, asked_at: float) -> None:
        """A fresh read, sent at that moment, showed the managed cluster so."""
        before, self.cluster, self._cluster_at = self.cluster, cluster, asked_at
        if before != cluster:
            self._on_news()

    def answered_absent(self, name: str) -> None:
        """A GET or DELETE said that this pool is not there."""
        self._absent_at[name] = self._now()
        self._note(name, None)

    def deleting(self, name: str) -> None:
        """A DELETE was accepted."""
        instance = self.get(name)
        if instance is not None:
            self._deleted[name] = (instance.etag, self._now())
            going = msgspec.structs.replace(instance, state=InstanceState.DELETING, raw_state="Deleting")
            self._note(name, going)
        self._pacing.wake()

    def expect(self, name: str) -> None:
        """The next answer about this pool may change what is done: look often."""
        if name not in self._expected:
            self._expected[name] = None
            self._pacing.wake()

    def relax(self, name: str) -> None:
        self._expected.pop(name, None)

    def forget(self, name: str) -> None:
        """Nothing of this key is left anywhere."""
        for memory in (
            self._expected,
            self._unheard,
            self._shown_at,
            self._put_at,
            self._got_at,
            self._absent_at,
            self._deleted,
        ):
            memory.pop(name, None)
        if self.get(name) is None:
            self._answers.pop(name, None)

    def _note(self, name: str, instance: Instance | None) -> None:
        now = self._now()
        before = self.get(name)
        self._answers[name] = Answer(instance=instance, at=now)
        if instance is not None:
            self._absent_at.pop(name, None)
        if before != instance:
            self._on_change(name)

    # The loop

    async def run(self) -> Never:
        """List until cancelled; only the leader may run this."""
        self._leading_since = self._now()
        while True:
            started = self._now()
            after: float | None = None
            try:
                await self._look(started)
                self._failures, self.failing = 0, None
            except CloudError as error:
                self._failures += 1
                after = error.after
                if self.failing is None:
                    self.failing = error
                    self._on_news()
                log.warning("the agent pools could not be listed", error=str(error), failures=self._failures)
            await self._pacing.pause(started, failures=self._failures, after=after)

    async def look(self) -> None:
        """One look at the managed cluster and all pools, for who does not stay. Raises CloudError."""
        self._leading_since = self._now()
        await self._look(self._leading_since)

    async def _look(self, started: float) -> None:
        news = self._listed_at is None
        if self._cluster_at is None or started - self._cluster_at >= CLUSTER_SECONDS or self._failures:
            before, self.cluster = self.cluster, await self._read_cluster()
            news = news or before != self.cluster
            self._cluster_at = started
            started = self._now()
        listed = await self._provider.list()
        recent = self._now() - self._settle_seconds
        merged = merge(
            self._answers,
            listed,
            started_at=started,
            put_lately={n for n, at in self._put_at.items() if at > recent and self._shown_at.get(n, -1.0) < at},
            deleted_lately={name: etag for name, (etag, at) in self._deleted.items() if at > recent},
        )
        self._answers, self._listed_at = dict(merged.answers), started
        for instance in listed:
            self._shown_at[instance.name] = started
        for name in self.names():
            self._absent_at.pop(name, None)
        for name in merged.changed:
            self._on_change(name)
        if news:
            self._on_news()

    async def _read_cluster(self) -> Cluster | None:
        """The managed cluster, None if it cannot be read: unknown is not running, and no reason not to list."""
        try:
            return await self._provider.cluster()
        except CloudError as error:
            log.warning("the managed cluster could not be read", error=str(error))
            return None

    def _busy(self) -> bool:
        moving = (InstanceState.CREATING, InstanceState.DELETING)
        for name in [n for n in self._unheard if self.get(n) is not None or self._settles_in(n, self._now()) <= 0]:
            del self._unheard[name]
        return bool(self._expected or self._unheard) or any(i.state in moving for i in self.items())

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
