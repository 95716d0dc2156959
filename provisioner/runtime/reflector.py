"""A collection of the API server, mirrored: list once, watch from there, list again when the thread is lost.

`run` never ends by an error; whatever fails is logged, counted and tried again, more and more slowly, and no
slower than the server asks. The cache keeps its last knowledge meanwhile: "cannot read" is never "there are none".
It knows how fresh it is (`fresh_at`) and which version it has seen (`contains`).

What loses the thread, so that a whole list follows: 410, an answer that is no watch, and silence. (After a restore of
etcd a watch from a version of the future stays silent for ever, while reconnecting from it would look healthy.)
Events from the past lose it too, unless they repeat what is known. A connection that ends, cleanly or not, is resumed
from the newest version seen.

Source: docs/references/kubernetes.md#list-and-watch, docs/references/kubernetes.md#python-client,
docs/references/reliability.md#read-faults (faults 11 to 23, 35, 36).
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from enum import Enum
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import Generic, Never, TypeVar

from .backoff import Backoff
from .kube import Kube, KubeError
from .kube_errors import IDLE_TIMEOUT
from .logs import get_logger
from .metrics import Metrics, ReflectorMetrics, age_since
from .objects import KubeObject, key_of
from .resource_version import older, reached
from .resources import Resource
from .store import Change, Index, Store
from .watch import WatchEvent

T = TypeVar("T", bound=KubeObject)
OnChange = Callable[[T | None, T | None], None]

BACKWARD_LISTS_MAX = 3
SHORT_WATCH_SECONDS = 1.0
STEADY_WATCH_SECONDS = 5.0

log = get_logger("runtime.reflector")


class State(Enum):
    """Where the mirror stands. Every failure leads to a pause, every pause to LISTING or WATCHING."""

    EMPTY = "empty"  # nothing read yet; → LISTING
    LISTING = "listing"  # a whole list is being read; → WATCHING, or a pause
    WATCHING = "watching"  # events come; → WATCHING again, LISTING if the thread is lost, or a pause
    BACKING_OFF = "backing off"  # the last try failed; → LISTING or WATCHING
    NOT_SERVED = "not served"  # 404: the kind itself is unknown there (its CRD is gone?); → LISTING
    BACKWARD = "backward"  # a list older than what was seen was refused; → LISTING


class Reflector(Generic[T]):
    """`on_change(old, new)` is called after the cache has changed, `on_synced()` after the first list, be it empty.

    Neither may block, and an error in them is fatal.
    `silence_seconds` without a byte ends a watch (the server sends a bookmark each minute).
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
        metrics: ReflectorMetrics | None = None,
        idle_timeout_seconds: float = 75.0,
        base_seconds: float = 0.5,
        cap_seconds: float = 30.0,
    ) -> None:
        self._kube = kube
        self._resource = resource
        self._rng = rng
        self._on_change = [on_change] if on_change is not None else []
        self._on_synced = [on_synced] if on_synced is not None else []
        self._label_selector = label_selector
        self._metrics = metrics or Metrics().reflector(resource.plural)
        self._metrics.age_seconds.set_function(age_since(lambda: self.fresh_at))
        self._idle_timeout_seconds = idle_timeout_seconds
        self._backoff = Backoff(rng, base_seconds=base_seconds, cap_seconds=cap_seconds)
        self._store: Store[T] = Store(indexes)
        self._must_list = True
        self._backward_lists = 0
        self.state = State.EMPTY
        self.synced = False
        self.fresh_at = float("-inf")
        self.resource_version = ""
        self.last_error: KubeError | None = None

    def add_event_handler(self, on_change: OnChange[T], *, on_synced: Callable[[], None] | None = None) -> None:
        """Subscribe before `run`. Handlers are called in the order in which they were added."""
        self._on_change.append(on_change)
        if on_synced is not None:
            self._on_synced.append(on_synced)

    def get(self, name: str) -> T | None:
        """The object of that name (`namespace/name` if namespaced), or None if the cache has none."""
        return self._store.get(name)

    def items(self) -> tuple[T, ...]:
        """All objects in the cache."""
        return self._store.items()

    def by_index(self, index: str, value: str) -> tuple[T, ...]:
        """All objects under that value of a declared index."""
        return self._store.by_index(index, value)

    async def run(self) -> Never:
        """Mirror until cancelled."""
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._watch()
            except KubeError as error:
                await self._pause(error)

    def invalidate(self) -> None:
        """An event never came, though the watch looks well: list again with the next thing it says."""
        self._must_list = True

    async def list_once(self) -> None:
        """Mirror the collection as it is now, for who does not stay. Raises KubeError."""
        await self._list()

    async def _list(self) -> None:
        self.state = State.LISTING
        begun = self._now()
        listed = await self._kube.list(self._resource, label_selector=self._label_selector)
        if older(listed.resource_version, self.resource_version):
            self._consider_backward(listed.resource_version)
        self._backward_lists = 0
        self._must_list, self.resource_version = False, listed.resource_version
        first, self.synced = not self.synced, True
        self.fresh_at, self.last_error = begun, None
        self._metrics.lists.inc()
        self._tell(self._store.replace(listed.items))
        if first:
            for on_synced in self._on_synced:
                on_synced()

    def _consider_backward(self, version: str) -> None:
        # One stale server is no reason to forget what was seen; when they all say so, the past is the new present.
        self._backward_lists += 1
        if self._backward_lists <= BACKWARD_LISTS_MAX:
            raise KubeError(
                0, "Backward", f"list {self._resource.plural}: version {version} is older than {self.resource_version}"
            )
        log.warning(
            "accepting an older version after repeated lists: was etcd restored from a backup?",
            resource=self._resource.plural,
            version=version,
            seen=self.resource_version,
        )

    async def _watch(self) -> None:
        self.state = State.WATCHING
        self._metrics.watches.inc()
        begun, heard = self._now(), False
        watch = self._kube.watch(
            self._resource,
            resource_version=self.resource_version,
            rng=self._rng,
            label_selector=self._label_selector,
            idle_timeout_seconds=self._idle_timeout_seconds,
            on_open=self._opened,
        )
        try:
            async with aclosing(watch) as events:
                async for event in events:
                    heard = True
                    self._take(event)
        finally:
            lived = self._now() - begun
            if lived >= STEADY_WATCH_SECONDS:
                self._backoff.reset()
        if not heard and lived < SHORT_WATCH_SECONDS:
            raise KubeError(0, "EmptyWatch", f"watch {self._resource.plural}: ended at once, with nothing said")
        # A server that ends every watch is asked about once a second, however much it says each time.
        self._backoff.reset()
        await asyncio.sleep(max(0.0, SHORT_WATCH_SECONDS * self._rng.uniform(0.75, 1.25) - lived))

    def _opened(self) -> None:
        # Nothing is known to be newer yet, but nothing is wrong any more either.
        self.last_error = None

    def _take(self, event: WatchEvent[T]) -> None:
        self.fresh_at = self._now()
        if self._must_list:
            raise KubeError(410, "EventLost", f"watch {self._resource.plural}: the API server knows more than it told")
        if older(event.resource_version, self.resource_version):
            self._consider_past(event)
            return
        changes = self._store.apply(event)
        self.resource_version = event.resource_version or self.resource_version
        self._tell(changes)

    def _consider_past(self, event: WatchEvent[T]) -> None:
        # A watch goes forward. What it repeats is ignored; what we cannot know to be a repetition loses the thread.
        known = self._store.get(key_of(event.object)) if event.object is not None else None
        if known is None or not reached(known.metadata.resource_version, event.resource_version):
            raise KubeError(
                410,
                "Backward",
                f"watch {self._resource.plural}: version {event.resource_version} after {self.resource_version}",
            )

    def _tell(self, changes: list[Change[T]]) -> None:
        self._metrics.objects.set(len(self._store))
        for change in changes:
            for on_change in self._on_change:
                on_change(change.old, change.new)

    async def _pause(self, error: KubeError) -> None:
        self.last_error = error
        self._metrics.errors.inc()
        if error.gone or error.unexpected or error.status == 404 or error.reason == IDLE_TIMEOUT:
            self._must_list = True
        self.state = _after(error)
        seconds = self._backoff.next_seconds(error.retry_after)
        say = log.info if error.gone or (error.status == 0 and self._backoff.failures == 1) else log.warning
        say(
            "reading the API server failed",
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
