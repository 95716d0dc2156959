"""Reads of the cloud that the controller repeats and can do without: usage of quota, VM sizes, node images.

The right to read them is optional. Without it a read is repeated every hour. A failed read changes nothing.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Never

import structlog

from .errors import CloudError
from .interface import CloudProvider, Instance, InstanceState, ResourceSku, Usage, image_kind

READ_QUOTA_SECONDS, READ_SKUS_SECONDS, READ_IMAGES_SECONDS = 60.0, 86_400.0, 21_600.0
DENIED_SECONDS = 3600.0
RETRY_SECONDS = 300.0
# How often new kinds of pools are looked for, among the pools that are known.
LOOK_SECONDS = 60.0

quota_log, skus_log, images_log = (structlog.get_logger(name) for name in ("quota", "skus", "images"))


class QuotaWatch:
    """The usage of quota, read while a claim waits for it or machines are to be bought: at once, then every minute.

    Without the right to read it, offerings are tried again after their delay only. `on_read(usages, began)` is called
    after each read, with the loop time at which it began.

    Source: docs/references/rules.md#unavailable-offerings.
    """

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
            quota_log.info("failed to read the usage of quota", error=str(error))
            return DENIED_SECONDS if error.status == 403 else READ_QUOTA_SECONDS
        self._on_read(usages, began)
        return READ_QUOTA_SECONDS


class SkuWatch:
    """Which VM sizes the subscription can use, read at once and then every day; without the right, all are offered.

    `skus`: of the last read that succeeded, by name in lower case; None before it. `done`: the first read ended.

    Source: docs/references/rules.md#unavailable-offerings.
    """

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
            skus_log.info("failed to read the VM sizes", error=str(error))
            return DENIED_SECONDS if error.status == 403 else RETRY_SECONDS
        if not found:
            skus_log.warning("the list of VM sizes has no known size; it is not used")
            return RETRY_SECONDS
        self.skus = found
        return READ_SKUS_SECONDS


class ImageWatch:
    """The newest node image of each kind of agent pool, read soon after its first pool appears, then every six hours.

    Agent pools whose images differ only in the release are of one kind, and one of them is read. Without the right to
    read them no newest image is known. `pools()`: those whose images are of interest.

    Source: docs/references/agent-pools.md#node-images.
    """

    def __init__(self, provider: CloudProvider, *, pools: Callable[[], Iterable[Instance]]) -> None:
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
            images_log.info("failed to read the newest node image", pool=pool, error=str(error))
            return DENIED_SECONDS if error.status == 403 else RETRY_SECONDS
        if version and self._newest.get(kind) != version:
            self._newest[kind] = version
            for handler in self._handlers:
                handler()
        return READ_IMAGES_SECONDS


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
