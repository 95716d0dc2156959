"""A Namespace, of which only the metadata is read: its labels are what selectors of namespaces compare."""

from collections.abc import Mapping

import msgspec

from .byte_budget import ByteBudget, Refusals
from .meta import ObjectMeta, Struct


class Namespace(Struct, frozen=True, kw_only=True, weakref=True):
    api_version: str = "v1"
    kind: str = "Namespace"
    metadata: ObjectMeta = ObjectMeta()


class NamespaceDigest:
    """The form that a cache keeps: identity and labels. One instance serves one cache, with one budget of bytes.

    Labels that are too large are not known: `ObjectMeta.unreadable` has the cause.
    """

    def __init__(self) -> None:
        self._budget = ByteBudget()
        self.refusals = Refusals(self._budget)

    def __call__(self, found: Namespace) -> Namespace:
        """The Namespace as it is cached."""
        meta = found.metadata
        size = sum(len(key) + len(value) for key, value in meta.labels.items())
        if why := self._budget.refused(size, meta.namespace):
            bare = Namespace(metadata=meta.identity(f"metadata.labels: {why}"))
            self.refusals.remember(bare, size)
            return bare
        kept = Namespace(metadata=msgspec.structs.replace(meta.identity(), labels=meta.labels))
        self._budget.hold(kept, size, meta.namespace)
        return kept


def labels_of(found: Namespace) -> Mapping[str, str] | None:
    """Its labels; None if they are not known."""
    return None if found.metadata.unreadable else found.metadata.labels
