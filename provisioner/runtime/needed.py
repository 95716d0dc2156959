"""Runs a reflector while an object of another cache needs it, or while the CRD of its kind exists.

A kind that nobody uses, or that is not served, costs no request. When the reflector stops, its cache is emptied.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Never, TypeVar

from .named import NamedReflectors
from .objects import CustomResourceDefinition, KubeObject
from .reflector import Reflector
from .resources import Resource, crd_name

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


class WhileServed:
    """Subscribes to `crds`, which must not run yet and must have the CRD of the resource."""

    def __init__(
        self, reflector: Reflector[Any], resource: Resource[Any], crds: NamedReflectors[CustomResourceDefinition]
    ) -> None:
        self._reflector = reflector
        self._name = crd_name(resource)
        self._crds = crds
        self._changed = asyncio.Event()
        crds.add_event_handler(self._crd_changed)

    async def run(self) -> Never:
        """List and watch while the CRD exists, until cancelled."""
        while True:
            uid = await self._next_uid("")
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(self._reflector.run(), name=self._name)
                await self._next_uid(uid)
                watching.cancel()
            self._reflector.reset()

    async def _next_uid(self, uid: str) -> str:
        """Wait until the CRD has another UID than this one; "" is no CRD."""
        while (seen := self._uid()) == uid:
            self._changed.clear()
            await self._changed.wait()
        return seen

    def _uid(self) -> str:
        crd = self._crds.get(self._name)
        return crd.metadata.uid if crd is not None else ""

    def _crd_changed(self, old: CustomResourceDefinition | None, new: CustomResourceDefinition | None) -> None:
        changed = new or old
        if changed is not None and changed.metadata.name == self._name:
            self._changed.set()
