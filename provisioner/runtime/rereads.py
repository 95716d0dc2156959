"""Objects that a cache refused for want of room are read again once there is room.

A watch reports changes only: without this, an object that does not change would stay refused for good.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Never

from provisioner.api.byte_budget import Refusals, Refused

from .kube_errors import KubeError
from .logs import get_logger

EVERY_SECONDS = 5.0
AT_ONCE_MAX = 20

log = get_logger("reflector")


class Rereads:
    """`read(one)` reads an object again. It is called only for those that fit, and for a few of them at a time."""

    def __init__(self, refusals: Refusals, read: Callable[[Refused], Awaitable[None]]) -> None:
        self._refusals = refusals
        self._read = read
        self._wanted = asyncio.Event()

    def cached(self) -> None:
        """The cache has changed: objects may have been refused."""
        if self._refusals:
            self._wanted.set()

    async def run(self) -> Never:
        """Read again what fits, until cancelled."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(EVERY_SECONDS)
            for one in self._refusals.due(AT_ONCE_MAX):
                try:
                    await self._read(one)
                except KubeError as error:
                    log.info("failed to read an object again", reason=error.reason, error=str(error))
            if not self._refusals:
                self._wanted.clear()
