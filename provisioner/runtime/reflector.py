"""A reflector: the cache of one collection, filled by a list and kept current by a watch.

`run` does not end on errors: they are logged, counted and retried with backoff and the server's Retry-After. The cache
keeps its last objects meanwhile; a failed list is never an empty one. `fresh_at` is the age of the cache.

A new list follows 410, a response that is not a watch, an idle timeout, an event older than the cache that is not a
repetition, and a version that is newer than an own write whose event did not come. (After a restore of etcd, a watch
from a resourceVersion of the future never delivers an event, and reconnecting it would look healthy.) A connection that
ends is resumed from the newest resourceVersion.

A cache without selectors also shows the answers of the writes of its client: it is never behind them (`own_writes`).

Source: docs/references/kubernetes.md#list-and-watch, docs/references/kubernetes.md#python-client,
docs/references/reliability.md#read-faults (faults 11 to 23, 35, 36).
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing, nullcontext
from dataclasses import replace
from enum import Enum
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import Generic, Never, TypeVar

from provisioner.api.byte_budget import Refusals, Refused

from .backoff import Backoff
from .change_handlers import ChangeHandlers, OnChange
from .kept import whole
from .kube import Kube, KubeError
from .kube_errors import IDLE_TIMEOUT
from .logs import get_logger
from .metrics import Metrics, ReflectorMetrics, age_since
from .objects import KubeObject, key_of
from .own_writes import OwnWrites, older, reached
from .rereads import Rereads
from .resources import Resource
from .store import Change, Index, Store
from .watch import EventType, WatchEvent

T = TypeVar("T", bound=KubeObject)

BACKWARD_LISTS_MAX = 3
SHORT_WATCH_SECONDS = 1.0
STEADY_WATCH_SECONDS = 5.0

log = get_logger("reflector")


class State(Enum):
    """The states of a reflector. A failure leads to a backoff, after which it is LISTING or WATCHING."""

    EMPTY = "empty"  # not listed yet; → LISTING
    LISTING = "listing"  # → WATCHING, or a failure
    WATCHING = "watching"  # → WATCHING again, LISTING if the cache is invalid, or a failure
    BACKING_OFF = "backing off"  # the last request failed; → LISTING or WATCHING
    NOT_SERVED = "not served"  # 404: the kind does not exist, for example because its CRD was deleted; → LISTING
    BACKWARD = "backward"  # a list older than the cache was rejected; → LISTING


class Reflector(Generic[T]):
    """`on_change(old, new)` is called after the cache has changed, `on_synced()` after the first list.

    Handlers must not block. A watch ends after `idle_timeout_seconds` without a byte (the server sends a bookmark each
    minute). `digest` replaces each object before it is cached, so that the cache holds only what is used. `refusals`:
    what the digest refused for want of room; it is read again once there is room.
    """

    def __init__(
        self,
        kube: Kube,
        resource: Resource[T],
        *,
        rng: Random,
        indexes: Mapping[str, Index[T]],
        on_change: OnChange[T] | None = None,
        on_synced: Callable[[], None] | None = None,
        label_selector: str = "",
        field_selector: str = "",
        digest: Callable[[T], T] | None = None,
        refusals: Refusals | None = None,
        metrics: ReflectorMetrics | None = None,
        idle_timeout_seconds: float = 75.0,
        base_seconds: float = 0.5,
        cap_seconds: float = 30.0,
    ) -> None:
        self._kube = kube
        self._resource = resource
        self._rng = rng
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._metrics = metrics or Metrics().reflector(resource.plural)
        self._handlers: ChangeHandlers[T] = ChangeHandlers(resource, self._metrics)
        self._handlers.add(on_change, on_synced)
        self._digest = None if digest is None else self._handlers.guarded(digest)
        self._idle_timeout_seconds = idle_timeout_seconds
        self._backoff = Backoff(rng, base_seconds=base_seconds, cap_seconds=cap_seconds)
        self._store: Store[T] = Store(indexes)
        self._own_writes: OwnWrites[T] = OwnWrites()
        self._rereads = None if refusals is None else Rereads(refusals, self._read_again)
        self._must_list = True
        self._backward_lists = 0
        self.state = State.EMPTY
        self.synced = False
        self.fresh_at = float("-inf")
        self.resource_version = ""
        self.last_error: KubeError | None = None

    def add_event_handler(
        self,
        on_change: OnChange[T],
        *,
        on_synced: Callable[[], None] | None = None,
        on_delivered: Callable[[T], None] | None = None,
    ) -> None:
        """Subscribe before `run`. Handlers are called in the order in which they were added.

        `on_delivered(object)`: the watch has delivered an own write, which the cache has shown before.
        """
        self._handlers.add(on_change, on_synced, on_delivered)

    def get(self, name: str) -> T | None:
        """The cached object named `name` or `namespace/name`."""
        return self._store.get(name)

    def items(self) -> tuple[T, ...]:
        """All cached objects."""
        return self._store.items()

    def by_index(self, index: str, value: str) -> tuple[T, ...]:
        """All cached objects under that value of an index."""
        return self._store.by_index(index, value)

    def count(self, index: str, value: str) -> int:
        """The number of cached objects under that value of an index."""
        return self._store.count(index, value)

    def index_values(self, index: str) -> tuple[str, ...]:
        """All values of an index under which there are cached objects."""
        return self._store.index_values(index)

    def delivered(self, key: str, uid: str, version: str) -> bool:
        """Whether watch or list have reached this own write, and with it every earlier change of any object."""
        return reached(self.resource_version, version) and not self._own_writes.pending(key, uid)

    def written(self, found: T) -> None:
        """An own write was answered with this object. An answer that the cache is ahead of changes nothing."""
        held = self._store.get(key_of(found))
        if self.synced and self._own_writes.updated(found, held, self.resource_version, self._now()):
            found = found if self._digest is None else self._digest(found)
            self._notify(self._store.apply(WatchEvent(EventType.MODIFIED, found, found.metadata.resource_version)))

    def removed(self, key: str, uid: str) -> None:
        """An own write has removed this object."""
        held = self._store.get(key)
        if self.synced and held is not None and held.metadata.uid == uid:
            self._own_writes.removed(held, self._now())
            self._notify(self._store.apply(WatchEvent(EventType.DELETED, held, held.metadata.resource_version)))

    async def run(self) -> Never:
        """List and watch until cancelled."""
        self._metrics.age_seconds.set_function(age_since(lambda: self.fresh_at))
        selects = self._label_selector or self._field_selector
        with nullcontext() if selects else self._kube.caches.shown_to(self._resource, self):
            if self._rereads is None:
                await self._follow()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._rereads.run(), name=f"read {self._resource.plural} again")
                await self._follow()
        raise AssertionError("unreachable: following does not end")

    async def _follow(self) -> Never:
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._watch()
            except KubeError as error:
                await self._back_off(error)

    def invalidate(self) -> None:
        """The cache missed an event: list again when the watch delivers the next one."""
        self._must_list = True

    def reset(self) -> None:
        """The kind is no longer served, and `run` was cancelled: drop all objects, and list again in the next run."""
        self._metrics.age_seconds.set_function(float)  # there is nothing that the cache could miss
        self.state, self.synced, self.last_error = State.EMPTY, False, None
        self._must_list, self.resource_version = True, ""
        self._own_writes.clear()
        self._notify(self._store.replace(()))

    async def list_once(self) -> None:
        """Fill the cache once, without a watch. Raises KubeError."""
        await self._list()

    async def _list(self) -> None:
        self.state = State.LISTING
        started = self._now()
        listed = await self._kube.list(
            self._resource,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            digest=self._digest or whole,
        )
        if older(listed.resource_version, self.resource_version):
            self._check_backward_list(listed.resource_version)
            self._own_writes.clear()
        self._backward_lists = 0
        self._must_list, self.resource_version = False, listed.resource_version
        first, self.synced = not self.synced, True
        self.fresh_at, self.last_error = started, None
        self._metrics.lists.inc()
        version, cached = listed.resource_version, self._store.get
        self._notify(self._store.replace(self._own_writes.merged(listed.items, version, cached, self._now())))
        if first:
            self._handlers.synced()

    def _check_backward_list(self, version: str) -> None:
        # A single API server may be stale. After several such lists the older state is accepted as current.
        self._backward_lists += 1
        if self._backward_lists <= BACKWARD_LISTS_MAX:
            raise KubeError(
                0, "Backward", f"list {self._resource.plural}: version {version} is older than {self.resource_version}"
            )
        log.warning(
            "accepting an older resourceVersion after repeated lists; was etcd restored from a backup?",
            resource=self._resource.plural,
            version=version,
            newest=self.resource_version,
        )

    async def _watch(self) -> None:
        self.state = State.WATCHING
        self._metrics.watches.inc()
        started, received = self._now(), False
        watch = self._kube.watch(
            self._resource,
            resource_version=self.resource_version,
            rng=self._rng,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            idle_timeout_seconds=self._idle_timeout_seconds,
            on_open=self._opened,
        )
        try:
            async with aclosing(watch) as events:
                async for event in events:
                    received = True
                    self._apply(event)
        finally:
            duration = self._now() - started
            if duration >= STEADY_WATCH_SECONDS:
                self._backoff.reset()
        if not received and duration < SHORT_WATCH_SECONDS:
            raise KubeError(0, "EmptyWatch", f"watch {self._resource.plural}: ended at once without an event")
        # Against a server that ends every watch: about one watch per second.
        self._backoff.reset()
        await asyncio.sleep(max(0.0, SHORT_WATCH_SECONDS * self._rng.uniform(0.75, 1.25) - duration))

    def _opened(self) -> None:
        # The cache is not fresher yet, but the server accepted the watch.
        self.last_error = None

    def _apply(self, event: WatchEvent[T]) -> None:
        self.fresh_at = self._now()
        if self._must_list:
            raise KubeError(
                410,
                "EventLost",
                f"watch {self._resource.plural}: the API server has a newer version than this watch delivered",
            )
        if older(event.resource_version, self.resource_version):
            self._check_past_event(event)
            return
        self.resource_version = event.resource_version or self.resource_version
        if event.object is not None:
            self._deliver(event, event.object)
        if lost := self._own_writes.lost(self.resource_version):
            raise KubeError(
                410,
                "EventLost",
                f"watch {self._resource.plural}: at {self.resource_version} it has not delivered our write to {lost}",
            )

    def _deliver(self, event: WatchEvent[T], found: T) -> None:
        news, delivers = self._own_writes.delivers(event.type, found, self._now())
        if news:
            found = found if self._digest is None else self._digest(found)
            self._notify(self._store.apply(replace(event, object=found)))
        if delivers:
            self._handlers.delivered(found)

    def _check_past_event(self, event: WatchEvent[T]) -> None:
        # A repeated event is ignored. Any other event from the past means that the cache may be wrong.
        if event.object is not None and self._own_writes.is_gone(event.object.metadata.uid, self._now()):
            return
        known = self._store.get(key_of(event.object)) if event.object is not None else None
        if known is None or not reached(known.metadata.resource_version, event.resource_version):
            raise KubeError(
                410,
                "Backward",
                f"watch {self._resource.plural}: version {event.resource_version} after {self.resource_version}",
            )

    async def _read_again(self, one: Refused) -> None:
        """Digest an object again. A version that is not the cached one comes with the watch."""
        found = await self._kube.list(
            self._resource,
            field_selector=f"metadata.name={one.name}",
            namespace=one.namespace,
            digest=self._digest or whole,
        )
        for again in found.items:
            self._notify(self._store.refresh(again))

    def _notify(self, changes: list[Change[T]]) -> None:
        if self._rereads is not None:
            self._rereads.cached()
        self._metrics.objects.set(len(self._store))
        self._handlers.notify(changes)

    async def _back_off(self, error: KubeError) -> None:
        self.last_error = error
        self._metrics.errors.inc()
        if error.gone or error.unexpected or error.status == 404 or error.reason == IDLE_TIMEOUT:
            self._must_list = True
        self.state = _after(error)
        seconds = self._backoff.next_seconds(error.retry_after)
        write = log.info if error.gone or (error.status == 0 and self._backoff.failures == 1) else log.warning
        write(
            "failed to list or watch",
            resource=self._resource.plural,
            state=self.state.value,
            reason=error.reason,
            error=str(error),
            retry_seconds=round(seconds, 3),
            failures=self._backoff.failures,
        )
        await asyncio.sleep(seconds)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _after(error: KubeError) -> State:
    if error.status == 404:
        return State.NOT_SERVED
    return State.BACKWARD if error.reason == "Backward" else State.BACKING_OFF
