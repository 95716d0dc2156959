"""Reads the newest node image of each kind of agent pool, soon after its first pool appears and then every six hours.

Agent pools whose images differ only in the release are of one kind, and one of them is read. The right to read them is
optional: without it the read is repeated every hour, and no newest image is known. A failed read changes nothing.

Source: docs/references/agent-pools.md#node-images.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Never

import structlog

from .errors import CloudError
from .interface import CloudProvider, Instance, InstanceState, image_kind

READ_SECONDS = 21_600.0
DENIED_SECONDS = 3600.0
RETRY_SECONDS = 300.0
# How often new kinds of pools are looked for, among the pools that are known.
LOOK_SECONDS = 60.0

log = structlog.get_logger("images")


class ImageWatch:
    """`pools()`: those whose images are of interest."""

    def __init__(
        self,
        provider: CloudProvider,
        *,
        pools: Callable[[], Iterable[Instance]],
    ) -> None:
        self._provider = provider
        self._pools = pools
        self._handlers: list[Callable[[], None]] = []
        self._newest: dict[str, str] = {}
        self._next_read: dict[str, float] = {}

    def add_event_handler(self, handler: Callable[[], None]) -> None:
        """Call it when a newest image has changed."""
        self._handlers.append(handler)

    def newest(self, image: str) -> str:
        """The newest image of the kind of this one; "" if it is not known."""
        return self._newest.get(image_kind(image), "")

    async def run(self) -> Never:
        """Read until cancelled. Only the leader runs this, while a NodePool exists."""
        while True:
            for kind, pool in self._kinds().items():
                if self._next_read.get(kind, 0.0) <= _loop_time():
                    self._next_read[kind] = await self._read(kind, pool) + _loop_time()
            await asyncio.sleep(LOOK_SECONDS)

    def _kinds(self) -> dict[str, str]:
        """The name of one running pool of each kind."""
        running = (one for one in self._pools() if one.state is InstanceState.RUNNING and not one.busy)
        found = {image_kind(one.image_version): one.name for one in running}
        return {kind: name for kind, name in found.items() if kind}

    async def _read(self, kind: str, pool: str) -> float:
        """The seconds until the next read of this kind."""
        try:
            version = await self._provider.latest_image(pool)
        except CloudError as error:
            log.info("failed to read the newest node image", pool=pool, error=str(error))
            return DENIED_SECONDS if error.status == 403 else RETRY_SECONDS
        if version and self._newest.get(kind) != version:
            self._newest[kind] = version
            for handler in self._handlers:
                handler()
        return READ_SECONDS


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
