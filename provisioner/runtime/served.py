"""Runs a reflector of custom resources while their CRD exists, so that a kind without CRD costs no request.

The cache of CRDs shows whether it does. When a CRD is deleted, the cache of its objects is emptied.
"""

import asyncio
from typing import Any, Never

from .named import NamedReflectors
from .objects import CustomResourceDefinition
from .reflector import Reflector
from .resources import Resource, crd_name


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
