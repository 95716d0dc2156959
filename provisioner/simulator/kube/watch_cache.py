"""The history of one kind: the events for watches, and past states.

Events are in order of revision, each with the previous version, so that the objects at any revision of the window can
be rebuilt. A request outside the window is `Expired` (410), as in kube-apiserver's watch cache. Readers keep a
position and pull, so a slow watcher falls out of the window.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .errors import expired
from .objects import Key, Record, key_of
from .resources import Resource
from .selectors import Predicate

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `record` is the version after it (for DELETED the last one), `before` the version before it."""

    type: EventType
    record: Record
    before: Record | None

    @property
    def revision(self) -> int:
        return self.record.revision


class History:
    """The last `window` events of one kind; `floor` is the oldest revision a watch may be resumed from."""

    def __init__(self, window: int, floor: int) -> None:
        self._events: deque[Event] = deque()
        self._window = window
        self._reach = floor
        self.floor = floor

    @property
    def newest(self) -> int:
        """The revision of the last event, 0 if there is none."""
        return self._events[-1].revision if self._events else 0

    def append(self, event: Event) -> None:
        self._events.append(event)
        while len(self._events) > self._window:
            self._reach = self._events.popleft().revision
            self.floor = max(self.floor, self._reach)

    def compact(self, revision: int) -> None:
        """Expire watches before `revision`, as etcd's compaction does; older states can still be rebuilt."""
        self.floor = max(self.floor, revision)

    def since(self, revision: int, until: int) -> list[Event]:
        """The events after `revision`, not after `until`. Raises ApiError 410 outside the window."""
        if revision < self.floor:
            raise expired(f"too old resource version: {revision} ({self.floor})")
        return self._tail(revision, until)

    def _tail(self, revision: int, until: int) -> list[Event]:
        found: list[Event] = []
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            if event.revision <= until:
                found.append(event)
        found.reverse()
        return found

    def rebuild(self, objects: dict[Key, Record], revision: int) -> dict[Key, Record]:
        """The objects as they were at `revision`. Raises ApiError 410 outside the window."""
        if revision < self._reach:
            raise expired(f"too old resource version: {revision} ({self._reach})")
        past = dict(objects)
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            if event.before is None:
                past.pop(key_of(event.record.obj), None)
            else:
                past[key_of(event.before.obj)] = event.before
        return past


class Collection:
    """All objects of one kind, and their history."""

    __slots__ = ("history", "objects", "resource")

    def __init__(self, resource: Resource, window: int, revision: int) -> None:
        self.resource = resource
        self.objects: dict[Key, Record] = {}
        self.history = History(window, revision)


def _as_it_was(before: Record, after: Record) -> Record:
    """The DELETED event of an object that stops matching: its last matching state, at the version of the change."""
    meta = {**before.obj["metadata"], "resourceVersion": str(after.revision)}
    return Record({**before.obj, "metadata": meta})


def selected(events: list[Event], chosen: Predicate | None, namespace: str) -> Iterator[tuple[EventType, Record]]:
    """The events of a watch with a selector: ADDED when an object starts to match, DELETED when it stops."""
    for event in events:
        if namespace and event.record.obj["metadata"].get("namespace") != namespace:
            continue
        if chosen is None:
            yield event.type, event.record
            continue
        after = event.type != "DELETED" and chosen(event.record.obj)
        before = event.before is not None and chosen(event.before.obj)
        if after:
            yield ("MODIFIED" if before else "ADDED"), event.record
        elif event.before is not None and before:
            yield "DELETED", _as_it_was(event.before, event.record)
