"""Shows the answers of writes to the caches of their resource, so that a cache is never behind its own process.

The answer of a DELETE is the object if finalizers keep it, otherwise a Status.

Source: docs/references/kubernetes.md#writes, docs/references/rules.md#one-write-per-pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from .decoding import decoded
from .kube_errors import UNREADABLE, KubeError
from .nested_json import decode
from .objects import KubeObject, Status, key_of
from .resources import Resource

T = TypeVar("T", bound=KubeObject)
T_contra = TypeVar("T_contra", bound=KubeObject, contravariant=True)


class Cache(Protocol[T_contra]):
    """A cache of all objects of a resource."""

    def written(self, found: T_contra) -> None:
        """A write was answered with this object."""

    def removed(self, key: str, uid: str) -> None:
        """A write has removed this object."""


class WriteThrough:
    """The caches by resource; one instance serves all copies of a client."""

    def __init__(self) -> None:
        self._caches: dict[Resource[Any], list[Cache[Any]]] = {}

    @contextmanager
    def shown_to(self, resource: Resource[T], cache: Cache[T]) -> Iterator[None]:
        """Show this cache all writes to the resource meanwhile."""
        caches = self._caches.setdefault(resource, [])
        caches.append(cache)
        try:
            yield
        finally:
            caches.remove(cache)

    def written(self, resource: Resource[T], found: T) -> T:
        """A write was answered with this object, which is returned. Deleting, and kept by nothing, it is gone."""
        meta = found.metadata
        kept = bool(meta.finalizers or meta.deletion_grace_period_seconds)
        for cache in self._caches.get(resource, ()):
            if meta.deleting and not kept:
                cache.removed(key_of(found), meta.uid)
            else:
                cache.written(found)
        return found

    def deleted(self, resource: Resource[T], answer: bytes, key: str, uid: str) -> None:
        """A DELETE of the object with this UID was answered. What cannot be decoded comes with the watch."""
        caches = self._caches.get(resource, ())
        if not caches:
            return
        found, gone = None, False
        with suppress(KubeError, *UNREADABLE):
            gone = decode(answer, Status).kind == "Status"
            found = None if gone else decoded(answer, resource, f"delete {key}")
        if found is not None:
            self.written(resource, found)
        for cache in caches if gone else ():
            cache.removed(key, uid)
