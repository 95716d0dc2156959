"""What is kept of objects of tenants besides pods: no annotations, and no content that is too large."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from .byte_budget import ByteBudget, Refusals
from .deviceclaim import ResourceClaim, ResourceClaimTemplate
from .meta import ObjectMeta
from .poddisruptionbudget import PodDisruptionBudget
from .workload import DaemonSet

T = TypeVar("T", DaemonSet, PodDisruptionBudget, ResourceClaim, ResourceClaimTemplate)


class BoundedDigest:
    """One instance serves one cache or list; the objects that it keeps share one budget of bytes, see `ByteBudget`."""

    def __init__(self, namespaces: Callable[[], int] = lambda: 0) -> None:
        self._budget = ByteBudget(namespaces=namespaces)
        self.refusals = Refusals(self._budget)

    def __call__(self, found: T) -> T:
        """The object; one that is too large has no content, and the cause in `ObjectMeta.unreadable`."""
        meta: ObjectMeta = found.metadata
        size = len(msgspec.json.encode(found.spec, enc_hook=dict))
        if why := self._budget.refused(size, meta.namespace):
            bare = type(found)(metadata=meta.identity(f"spec: {why}"))
            self.refusals.remember(bare, size)
            return bare
        kept = msgspec.structs.replace(found, metadata=meta.identity())
        self._budget.hold(kept, size, meta.namespace)
        return kept
