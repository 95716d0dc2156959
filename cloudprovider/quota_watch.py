"""Reads the usage of quota while a claim waits for quota or machines are to be bought: at once, then every minute.

The right to read it is optional. Without it nothing is read for an hour, and offerings are tried again after their
delay only. A failed read changes nothing.

Source: docs/references/rules.md#unavailable-offerings.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Never

import structlog

from .errors import CloudError
from .interface import CloudProvider, Usage

READ_SECONDS = 60.0
DENIED_SECONDS = 3600.0

log = structlog.get_logger("quota")


class QuotaWatch:
    """`on_read(usages, began)` is called after each read, with the loop time at which it began."""

    def __init__(self, provider: CloudProvider, *, on_read: Callable[[Mapping[str, Usage], float], None]) -> None:
        self._provider = provider
        self._on_read = on_read
        self._needed: list[Callable[[], bool]] = []
        self._begin = asyncio.Event()

    def add_user(self, needed: Callable[[], bool]) -> None:
        """Usages are read while `needed()` of a user is true; `wake` is called when that begins."""
        self._needed.append(needed)

    def wake(self) -> None:
        """A user needs the usages."""
        self._begin.set()

    async def run(self) -> Never:
        """Read until cancelled. Only the leader runs this."""
        while True:
            await self._begin.wait()
            self._begin.clear()
            if any(needed() for needed in self._needed):
                await asyncio.sleep(await self.read_once())
                self._begin.set()

    async def read_once(self) -> float:
        """Read, also for commands; the seconds until the next read."""
        began = asyncio.get_running_loop().time()
        try:
            usages = await self._provider.usages()
        except CloudError as error:
            log.info("failed to read the usage of quota", error=str(error))
            return DENIED_SECONDS if error.status == 403 else READ_SECONDS
        self._on_read(usages, began)
        return READ_SECONDS
