"""What a list keeps of each object: functions for `Kube.list`, which are called as each object is decoded.

Any tenant may write megabytes of labels, annotations and owners. A use that needs more than `identity` of an object of
a tenant has a function of its own, next to it, that keeps what it reads; None leaves an object out.
"""

from collections.abc import Callable, Collection
from typing import TypeVar

import msgspec

from .objects import KubeObject, key_of

T = TypeVar("T", bound=KubeObject)


def whole(found: T) -> T:
    """The object as it was read: for kinds that no tenant writes, and for commands."""
    return found


def identity(found: T) -> T:
    """Without labels, annotations, owners and finalizers."""
    return msgspec.structs.replace(found, metadata=found.metadata.identity())  # type: ignore[type-var]


def only(keys: Collection[str], digest: Callable[[T], T]) -> Callable[[T], T | None]:
    """Those of the objects `name` or `namespace/name`, each as `digest` makes it."""

    def kept(found: T) -> T | None:
        return digest(found) if key_of(found) in keys else None

    return kept
