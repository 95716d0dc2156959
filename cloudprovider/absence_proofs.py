"""When an agent pool is proven absent: by a 404 of this pool that is settled, or by LISTs.

Reads lag behind writes, GETs and LISTs independently of each other. A 404 is settled some time after the last PUT, or
if a read has shown the pool since and it is being deleted: otherwise the 404 can be older than the PUT. A LIST some
time after that PUT, or one that shows the pool of a later PUT, proves the absence of a pool that an earlier LIST showed
and that was being deleted, so that many removals at once need no GET each.

Source: docs/references/rules.md#absence-needs-proof, docs/references/agent-pools.md#not-found.
"""

import math
from collections.abc import Iterable
from datetime import datetime

import msgspec

from .interface import Instance, InstanceState
from .observations import settles_in


class _Put(msgspec.Struct):
    """A PUT attempt of a pool, sent at `at`.

    `accepted_at`: inf until its answer; `put_time`: in the tag of the accepted pool; `before`: the previous attempt.
    """

    at: float
    accepted_at: float = math.inf
    put_time: datetime | None = None
    before: "_Put | None" = None


class AbsenceProofs:
    """Times are loop times in seconds. `leading_since`: since when this process is leader."""

    def __init__(self, settle_seconds: float) -> None:
        self.leading_since: float | None = None
        self.listed_at: float | None = None
        self._settle_seconds = settle_seconds
        self._puts: dict[str, _Put] = {}
        self._got_at: dict[str, float] = {}
        self._in_list_at: dict[str, float] = {}
        # When the latest PUT was sent whose pool the last LIST showed.
        self._listed_put_at = -math.inf
        # Since when a pool is known to be in deletion.
        self._deleting: dict[str, float] = {}
        # The pools whose deletion was accepted or shown since the last PUT, until it ends without effect.
        self._going: set[str] = set()
        self._absent_at: dict[str, float] = {}

    # Observations

    def put_attempted(self, name: str, now: float) -> None:
        """A PUT is about to be sent: what reads showed before says nothing about its pool."""
        if (before := self._puts.get(name)) is not None:
            before.before = None
        self._puts[name] = _Put(at=now, before=before)
        for observed in (self._absent_at, self._in_list_at, self._deleting):
            observed.pop(name, None)
        self._going.discard(name)

    def put_rejected(self, name: str) -> None:
        """The last PUT was rejected synchronously: it has no effect on 404s. An earlier one, if any, still has."""
        rejected = self._puts.pop(name, None)
        if rejected is not None and rejected.before is not None:
            self._puts[name] = rejected.before

    def put_accepted(self, instance: Instance, now: float) -> None:
        """The response of the PUT: it identifies the pool, but is not a read of it."""
        if (put := self._puts.get(instance.name)) is not None:
            put.accepted_at, put.put_time = now, instance.put_time

    def delete_accepted(self, name: str, now: float) -> None:
        """A DELETE of this pool was accepted."""
        self._deleting[name] = now
        self._going.add(name)

    def got(self, instance: Instance, now: float) -> None:
        """A GET returned this instance."""
        self._got_at[instance.name] = now
        if instance.state is InstanceState.DELETING:
            self._going.add(instance.name)

    def not_found(self, name: str, now: float) -> None:
        """A GET or DELETE of this pool answered 404."""
        self._absent_at[name] = now

    def present(self, name: str) -> None:
        """The newest observation shows the pool."""
        self._absent_at.pop(name, None)

    def listed(self, instances: Iterable[Instance], started: float, *, pages: int) -> None:
        """A LIST of so many pages that was sent at `started` returned these instances."""
        self._listed_put_at = -math.inf
        for instance in instances:
            name, deleting = instance.name, instance.state is InstanceState.DELETING
            self._in_list_at[name] = started
            put = self._puts.get(name)
            if pages == 1 and put is not None and put.put_time is not None and put.put_time == instance.put_time:
                self._listed_put_at = max(self._listed_put_at, put.at)
            if deleting:
                self._deleting.setdefault(name, started)
                self._going.add(name)
            elif started >= self._deleting.get(name, started) + self._settle_seconds:
                # The deletion ended without effect; a lagging LIST would not have shown this for so long.
                self._deleting.pop(name, None)
                self._going.discard(name)
        self.listed_at = started

    def absent_by_list(self, shown: Iterable[str]) -> tuple[str, ...]:
        """Record and return the pools whose absence the last LIST proves. `shown`: what the newest observations show.

        A LIST shortly after a PUT proves nothing, although an earlier one showed the pool: it can be the older one. It
        is not if it shows the pool of a later PUT: a page shows all pools as they were at one moment.
        """
        listed, visible = self.listed_at, frozenset(shown)
        proven = []
        for name in self._in_list_at.keys() & self._deleting.keys() - visible:
            vanished = listed is not None and self._in_list_at[name] < listed and self._deleting[name] < listed
            if listed is not None and vanished and self._shows_put(name, listed):
                self._absent_at[name] = listed
                del self._deleting[name]
                proven.append(name)
        return tuple(sorted(proven))

    def forget(self, name: str) -> None:
        """Drop all observations of this pool."""
        for observed in (self._puts, self._got_at, self._in_list_at, self._deleting, self._absent_at):
            observed.pop(name, None)
        self._going.discard(name)

    # Conclusions

    def absent_at(self, name: str) -> float | None:
        """When the pool was last observed as absent; None if it was not."""
        return self._absent_at.get(name)

    def settles_in(self, name: str, at: float) -> float:
        """Seconds, from the time `at`, until a 404 of this pool proves its absence."""
        return self._settles_in(name, at, self._last_seen(name) if name in self._going else None)

    def _put_settles_in(self, name: str, at: float) -> float:
        """The same, whatever reads have shown."""
        return self._settles_in(name, at, None)

    def _shows_put(self, name: str, listed: float) -> bool:
        """Whether the last LIST, which began at `listed`, is newer than the last PUT of this pool."""
        put, leading = self._puts.get(name), self.leading_since
        if put is not None and leading is not None and leading <= put.at and put.accepted_at < self._listed_put_at:
            return True
        return self._put_settles_in(name, listed) <= 0

    def _settles_in(self, name: str, at: float, seen_at: float | None) -> float:
        put = self._puts.get(name)
        return settles_in(
            now=at,
            seen_at=seen_at,
            put_at=put.at if put is not None else None,
            leading_since=self.leading_since if self.leading_since is not None else at,
            settle_seconds=self._settle_seconds,
        )

    def is_earlier(self, instance: Instance, now: float) -> bool:
        """Whether a lagging read shows the pool of this name that existed before the last PUT."""
        put = self._puts.get(instance.name)
        if put is None or put.put_time is None or instance.put_time is None or now >= put.at + self._settle_seconds:
            return False
        return instance.put_time != put.put_time

    def unlisted_puts(self, now: float) -> frozenset[str]:
        """The pools with a recent PUT that no LIST has shown since."""
        recent = now - self._settle_seconds
        return frozenset(
            n for n, put in self._puts.items() if put.at > recent and self._in_list_at.get(n, -1.0) < put.at
        )

    def _last_seen(self, name: str) -> float | None:
        """When a kind of read that does not show this pool now last showed it.

        GETs and LISTs lag independently of each other, and both lag behind the responses of PUT and DELETE. A read
        shows the result of the last PUT only if it has shown this pool since.
        """
        in_list, listed = self._in_list_at.get(name), self.listed_at
        vanished = in_list is not None and listed is not None and in_list < listed
        seen = [at for at in (self._got_at.get(name), in_list if vanished else None) if at is not None]
        return max(seen, default=None)
