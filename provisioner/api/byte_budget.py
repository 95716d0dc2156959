"""A bound on the bytes that objects of users occupy together in one cache.

Small objects are always kept: their number is bounded by what the cluster holds. A large object is kept while there is
room for it, so that no single owner can fill the memory of the process with large ones. Every namespace has a share
besides, of bytes that no other namespace can use. What is refused although it is small enough by itself is due to be
read again once there is room.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from .meta import ObjectMeta

KIB, MIB = 2**10, 2**20
# The namespaces that share while their number is not known.
NAMESPACES = 1000


class Identified(Protocol):
    """An object that can be read again."""

    @property
    def metadata(self) -> ObjectMeta: ...


class Refused(NamedTuple):
    """An object that is not kept for want of room."""

    namespace: str
    name: str
    size: int


class ByteBudget:
    """`small`, `each`: bytes of an object that is not counted, and of the largest one that is kept.

    `total`: of all counted ones, whosever they are. `reserved`: beyond them, in equal shares for all namespaces.
    `namespaces()`: their number, 0 if it is not known.
    """

    def __init__(
        self,
        *,
        small: int = 2 * KIB,
        each: int = 64 * KIB,
        total: int = 12 * MIB,
        reserved: int = 4 * MIB,
        namespaces: Callable[[], int] = lambda: 0,
    ) -> None:
        self._small = small
        self.each = each
        self._total = total
        self._reserved = reserved
        self._namespaces = namespaces
        self._held: Counter[str] = Counter()
        self.used = 0

    def refused(self, size: int, namespace: str) -> str:
        """Why an object of so many bytes is not kept; "" if it is."""
        if size > self.each:
            return f"it has {size:,} bytes, at most {self.each:,} are kept of one object"
        if not self.has_room(size, namespace, self.share):
            return f"it has {size:,} bytes, and all large objects of its kind have the most that is kept"
        return ""

    def hold(self, kept: object, size: int, namespace: str) -> None:
        """Count the bytes of this object until nothing refers to it any more."""
        if size > self._small:
            weakref.finalize(kept, self._release, size, namespace).atexit = False
            self.used += size
            self._held[namespace] += size

    def has_room(self, size: int, namespace: str, share: Callable[[], int]) -> bool:
        """Whether an object of so many bytes, and of this namespace, is kept. `share()`: of each namespace."""
        if size <= self._small or self.used + size <= self._total:
            return True
        return self._held[namespace] + size <= share() and self.used + size <= self._total + self._reserved

    def share(self) -> int:
        """The bytes that each namespace can use whatever others hold."""
        return self._reserved // (self._namespaces() or NAMESPACES)

    def held(self, namespace: str) -> int:
        """The bytes of counted objects of this namespace."""
        return self._held[namespace]

    def _release(self, size: int, namespace: str) -> None:
        self.used -= size
        self._held[namespace] -= size
        if not self._held[namespace]:
            del self._held[namespace]


class Refusals:
    """The objects of one cache that are not kept for want of room in the budget, as long as the cache has them."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._refused: dict[int, Refused] = {}

    def __len__(self) -> int:
        return len(self._refused)

    def remember(self, bare: Identified, size: int) -> None:
        """`bare` stands for an object of so many bytes that was refused; one that is too large by itself stays so."""
        if size <= self._budget.each:
            self._refused[id(bare)] = Refused(bare.metadata.namespace, bare.metadata.name, size)
            weakref.finalize(bare, self._refused.pop, id(bare), None).atexit = False

    def due(self, most: int) -> Iterator[Refused]:
        """Those for which there is room when they are returned, those of the smallest holder first.

        Those that were not returned for the longest time come first among those of one namespace.
        """
        share = self._budget.share()
        for mark, one in sorted(self._refused.items(), key=lambda item: self._budget.held(item[1].namespace)):
            if not most:
                return
            if mark in self._refused and self._budget.has_room(one.size, one.namespace, lambda: share):
                most -= 1
                self._refused[mark] = self._refused.pop(mark)
                yield one
