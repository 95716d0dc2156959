"""Keys of new NodeClaims that wait until all NodeClaims of a scheduling decision are written.

NodeClaims of one decision are written one by one. If the first machines were requested meanwhile, their many requests
would delay the NodeClaims of the others: measured with 50 pods on two busy processors, for several seconds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class LaunchGate:
    """`add` adds a key to the work queue."""

    def __init__(self, add: Callable[[str], None]) -> None:
        self._add = add
        self._held: dict[str, None] | None = None

    def new_claim(self, key: str) -> None:
        """A NodeClaim of a NodePool appeared. Its key is added now, or at the end of `held`."""
        if self._held is None:
            self._add(key)
        else:
            self._held[key] = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keys of new NodeClaims wait until the context ends, also by an error. Contexts do not overlap."""
        self._held = {}
        try:
            yield
        finally:
            keys, self._held = self._held, None
            for key in keys:
                self._add(key)
