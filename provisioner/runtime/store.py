"""The store of a reflector: objects by name, with indexes. No I/O.

A list replaces the content; objects that it does not contain are reported as deleted. An object of the same name with
another UID is a deletion and an addition. Changes are returned after all of them have been applied, so that handlers
see the new state.

Source: docs/references/kubernetes.md#list-and-watch, docs/references/reliability.md#read-faults.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from .objects import KubeObject, key_of
from .watch import EventType, WatchEvent

T = TypeVar("T", bound=KubeObject)
Index = Callable[[T], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """`old` is None for an addition, `new` for a deletion; an update has equal UIDs."""

    old: T | None
    new: T | None


class Store(Generic[T]):
    """`indexes` maps the name of an index to a function that returns the index values of an object."""

    def __init__(self, indexes: Mapping[str, Index[T]]) -> None:
        self._functions = dict(indexes)
        self._objects: dict[str, T] = {}
        self._indexes: dict[str, dict[str, dict[str, None]]] = {name: {} for name in indexes}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: str) -> T | None:
        """The object named `name` or `namespace/name`."""
        return self._objects.get(key)

    def items(self) -> tuple[T, ...]:
        """All objects."""
        return tuple(self._objects.values())

    def by_index(self, index: str, value: str) -> tuple[T, ...]:
        """All objects under that value. Raises KeyError for an unknown index."""
        return tuple(self._objects[key] for key in self._indexes[index].get(value, ()))

    def count(self, index: str, value: str) -> int:
        """The number of objects under that value. Raises KeyError for an unknown index."""
        return len(self._indexes[index].get(value, ()))

    def index_values(self, index: str) -> tuple[str, ...]:
        """All values of an index under which there are objects. Raises KeyError for an unknown index."""
        return tuple(self._indexes[index])

    def replace(self, items: Iterable[T]) -> list[Change[T]]:
        """Replace all objects; returns deletions first."""
        fresh = {key_of(item): item for item in items}
        deletions = [Change(old, None) for key, old in self._objects.items() if _replaced(old, fresh.get(key))]
        updates: list[Change[T]] = []
        for key, new in fresh.items():
            old = self._objects.get(key)
            if old is None or _replaced(old, new):
                updates.append(Change(None, new))
            elif old.metadata.resource_version != new.metadata.resource_version:
                updates.append(Change(old, new))
        self._objects = fresh
        self._reindex()
        return deletions + updates

    def apply(self, event: WatchEvent[T]) -> list[Change[T]]:
        """Apply one event; returns [] for a bookmark or a repetition."""
        new = event.object
        if new is None:
            return []
        key = key_of(new)
        old = self._objects.get(key)
        if event.type == EventType.DELETED:
            self._set(key, old, None)
            return [Change(old, None)] if old is not None else []
        if old is not None and old.metadata.resource_version == event.resource_version and not _replaced(old, new):
            return []
        self._set(key, old, new)
        if old is not None and _replaced(old, new):
            return [Change(old, None), Change(None, new)]
        return [Change(old, new)]

    def refresh(self, new: T) -> list[Change[T]]:
        """Replace an object by the same version of it; returns [] if the store has another version, or none."""
        key = key_of(new)
        old = self._objects.get(key)
        if old is None or _replaced(old, new) or old.metadata.resource_version != new.metadata.resource_version:
            return []
        self._set(key, old, new)
        return [Change(old, new)]

    def _set(self, key: str, old: T | None, new: T | None) -> None:
        if old is not None:
            self._unindex(key, old)
            del self._objects[key]
        if new is not None:
            self._objects[key] = new
            self._index(key, new)

    def _index(self, key: str, item: T) -> None:
        for name, values_of in self._functions.items():
            for value in values_of(item):
                self._indexes[name].setdefault(value, {})[key] = None

    def _unindex(self, key: str, item: T) -> None:
        for name, values_of in self._functions.items():
            for value in values_of(item):
                keys = self._indexes[name].get(value, {})
                keys.pop(key, None)
                if not keys:
                    self._indexes[name].pop(value, None)

    def _reindex(self) -> None:
        self._indexes = {name: {} for name in self._functions}
        for key, item in self._objects.items():
            self._index(key, item)


def _replaced(old: T, new: T | None) -> bool:
    return new is None or old.metadata.uid != new.metadata.uid
