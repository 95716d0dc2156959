"""Reads which VM sizes the subscription can use, at once and then every day.

The right to read them is optional. Without it the read is repeated every hour, and all sizes of the table are offered.
A failed read changes nothing.

Source: docs/references/rules.md#unavailable-offerings.
"""

import asyncio
from collections.abc import Mapping
from typing import Never

import structlog

from .errors import CloudError
from .interface import CloudProvider, ResourceSku

READ_SECONDS = 86_400.0
DENIED_SECONDS = 3600.0
RETRY_SECONDS = 300.0

log = structlog.get_logger("skus")


class SkuWatch:
    """`skus`: of the last read that succeeded, by name in lower case; None before it. `done`: the first read ended."""

    def __init__(self, provider: CloudProvider) -> None:
        self._provider = provider
        self.skus: Mapping[str, ResourceSku] | None = None
        self.done = False

    async def run(self) -> Never:
        """Read until cancelled. Only the leader runs this, while a NodePool exists."""
        while True:
            seconds = await self.read_once()
            await asyncio.sleep(seconds)

    async def read_once(self) -> float:
        """Read, also for commands; the seconds until the next read."""
        seconds = await self._read()
        self.done = True
        return seconds

    async def _read(self) -> float:
        """The seconds until the next read."""
        try:
            found = await self._provider.skus()
        except CloudError as error:
            log.info("failed to read the VM sizes", error=str(error))
            return DENIED_SECONDS if error.status == 403 else RETRY_SECONDS
        if not found:
            log.warning("the list of VM sizes has no known size; it is not used")
            return RETRY_SECONDS
        self.skus = found
        return READ_SECONDS
