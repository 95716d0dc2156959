"""Runs a reflector while an object of another cache needs it, so that a kind that nobody uses costs no request."""

import asyncio
from collections.abc import Callable
from typing import Any, Never, TypeVar

from .objects import KubeObject
from .reflector import Reflector

T = TypeVar("T", bound=KubeObject)


class WhileNeeded:
    """`needed()`: whether any object needs the cache now; it is asked when an object of `needed_by` changes."""

    def __init__(self, reflector: Reflector[Any], needed: Callable[[], bool]) -> None:
        self._reflector = reflector
        self._needed = needed
        self._changed = asyncio.Event()

    def needed_by(self, cache: Reflector[T], needs: Callable[[T], bool]) -> None:
        """Subscribe to a cache, which must not run yet. `needs`: whether one of its objects needs the reflector."""

        def changed(old: T | None, new: T | None) -> None:
            if any(needs(one) for one in (old, new) if one is not None):
                self._changed.set()

        cache.add_event_handler(changed)

    async def run(self) -> Never:
        """List and watch while the cache is needed, until cancelled."""
        while True:
            await self._until(needed=True)
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(self._reflector.run(), name="needed cache")
                await self._until(needed=False)
                watching.cancel()
            self._reflector.reset()

    async def _until(self, *, needed: bool) -> None:
        while self._needed() is not needed:
            self._changed.clear()
            await self._changed.wait()
