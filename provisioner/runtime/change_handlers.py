"""The handlers of a cache: called with each change, after the cache has applied all changes of an event or a list.

An error that an object causes in a handler or in the digest is logged and counted, and the object is left out there.
Objects that cannot be decoded are counted and logged once for each cause.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from .isolation import Isolation
from .logs import get_logger
from .metrics import ReflectorMetrics
from .objects import KubeObject, key_of
from .resources import Resource
from .store import Change

T = TypeVar("T", bound=KubeObject)
OnChange = Callable[[T | None, T | None], None]

log = get_logger("reflector")


class ChangeHandlers(Generic[T]):
    """Handlers are called in the order in which they were added, and must not block."""

    def __init__(self, resource: Resource[T], metrics: ReflectorMetrics) -> None:
        self._resource = resource
        self._metrics = metrics
        self._isolation = Isolation(metrics.object_errors)
        self._on_change: list[OnChange[T]] = []
        self._on_synced: list[Callable[[], None]] = []
        self._on_delivered: list[Callable[[T], None]] = []

    def add(
        self,
        on_change: OnChange[T] | None,
        on_synced: Callable[[], None] | None = None,
        on_delivered: Callable[[T], None] | None = None,
    ) -> None:
        """Call these for each change, after the first list, and for each own write that the watch delivers."""
        if on_change is not None:
            self._on_change.append(on_change)
        if on_synced is not None:
            self._on_synced.append(on_synced)
        if on_delivered is not None:
            self._on_delivered.append(on_delivered)

    def notify(self, changes: Iterable[Change[T]]) -> None:
        """Call the handlers for each change."""
        for change in changes:
            self._note_unreadable(change)
            about = change.new or change.old
            name = key_of(about) if about is not None else ""
            for on_change in self._on_change:
                with self._isolation.of(self._resource.kind, name, "a handler of the cache"):
                    on_change(change.old, change.new)

    def delivered(self, found: T) -> None:
        """Call the handlers of an own write that the watch delivers."""
        for on_delivered in self._on_delivered:
            with self._isolation.of(self._resource.kind, key_of(found), "a handler of the cache"):
                on_delivered(found)

    def synced(self) -> None:
        """Call the handlers of the first list."""
        for on_synced in self._on_synced:
            on_synced()

    def guarded(self, digest: Callable[[T], T]) -> Callable[[T], T]:
        """The digest; an object for which it fails keeps its identity only, and the cause."""

        def guarded(found: T) -> T:
            with self._isolation.of(self._resource.kind, key_of(found), "the cache"):
                return digest(found)
            bare = msgspec.structs.replace(found.metadata, unreadable=("spec: it cannot be evaluated",))
            return self._resource.type(metadata=bare)  # type: ignore[call-arg]

        return guarded

    def _note_unreadable(self, change: Change[T]) -> None:
        before = change.old.metadata.unreadable if change.old is not None else ()
        after = change.new.metadata.unreadable if change.new is not None else ()
        self._metrics.unreadable.inc(bool(after) - bool(before))
        if change.new is not None and after not in ((), before):
            log.error(
                "an object has fields that cannot be decoded",
                resource=self._resource.plural,
                object=key_of(change.new),
                fields=list(after),
            )
