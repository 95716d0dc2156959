"""Retail prices of a region, which the leader reads again and again if that is enabled.

No decision and no start waits for them. The last prices that were read stay in use, however long reads fail; they are
kept on the Lease, so that a new leader decides by the same ones.

Source: docs/adr/0090-retail-prices.md.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Annotated, Literal, Never, Protocol

import msgspec
import structlog

from provisioner.runtime.clock import Clock

from .cloud import PriceList

READ_SECONDS, RETRY_SECONDS = 43_200.0, 3600.0
# Until the region of the cluster is known.
LOOK_SECONDS = 5.0

# Why prices could not be read. `empty`: no size has a price in the region.
PriceFailure = Literal["network", "timeout", "throttled", "status", "body", "empty"]

Price = Annotated[float, msgspec.Meta(gt=0, le=1e6)]

log = structlog.get_logger("prices")


class PricesUnavailable(Exception):
    """Retail prices could not be read; the text is the cause, without secrets."""

    def __init__(self, reason: PriceFailure, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RetailPrices(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """USD an hour by the name of the size in lower case. Its JSON is the value of `labels.RETAIL_PRICES`."""

    region: str
    read_at: Annotated[datetime, msgspec.Meta(tz=True)]
    on_demand: Mapping[str, Price]
    spot: Mapping[str, Price] = {}


class PriceReading(msgspec.Struct, frozen=True, kw_only=True):
    """`dropped`: how many rows of the answer were not usable."""

    prices: RetailPrices
    dropped: int = 0


class PriceSource(Protocol):
    """Where retail prices are read."""

    async def read(self, region: str) -> PriceReading:
        """The prices of a region. Raises PricesUnavailable."""


class PriceObserver(Protocol):
    """Metrics of the reads."""

    def dropped(self, rows: int) -> None:
        """So many rows of an answer were not usable."""

    def failed(self, reason: PriceFailure) -> None:
        """A read failed."""


def with_retail(listed: PriceList, retail: RetailPrices | None, region: str) -> PriceList:
    """The list prices of a region, with the retail prices of the same one in their place."""
    if retail is None or retail.region != region:
        return listed
    return msgspec.structs.replace(
        listed,
        on_demand={**listed.on_demand, **retail.on_demand},
        spot={**listed.spot, **retail.spot},
        read_at=retail.read_at,
    )


def encode(prices: RetailPrices) -> str:
    """The annotation's value."""
    return msgspec.json.encode(prices).decode()


def decode(text: str) -> RetailPrices | None:
    """The prices in an annotation's value; None if there are none, or the value is invalid."""
    try:
        return msgspec.json.decode(text, type=RetailPrices) if text else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


class PriceWatch:
    """`current`: the prices that were read last, by this process or a former leader; None without any.

    `source` None: they are not read. `region()`: that of the cluster, "" while it is not known. `save(text)` keeps them
    for the next leader; it does not raise.
    """

    def __init__(
        self,
        source: PriceSource | None,
        *,
        region: Callable[[], str],
        save: Callable[[str], Awaitable[None]],
        observer: PriceObserver,
        clock: Clock,
    ) -> None:
        self._source = source
        self._region = region
        self._save = save
        self._observer = observer
        self._clock = clock
        self.current: RetailPrices | None = None

    def restore(self, text: str) -> None:
        """Use the prices of a former leader, if the value of the annotation has some."""
        if (found := decode(text)) is not None:
            self.current = found
        elif text:
            log.warning("ignored invalid retail prices on the Lease", annotation=text[:256])

    async def lead(self, text: str) -> None:
        """Restore the prices, and read them until cancelled; only the leader runs this.

        If reads are disabled, what a former leader kept is removed: commands show it as the prices in use.
        """
        if self._source is not None:
            self.restore(text)
            await self._run(self._source)
        elif text:
            await self._save("")

    async def _run(self, source: PriceSource) -> Never:
        while not self._region():  # noqa: ASYNC110 - the inventory has no event for it
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(self._remaining())
        while True:
            seconds = await self._read(source, self._region())
            await asyncio.sleep(seconds)

    def _remaining(self) -> float:
        """Seconds until the prices of a former leader are due."""
        if self.current is None or self.current.region != self._region():
            return 0.0
        age = (self._clock.now() - self.current.read_at).total_seconds()
        return max(0.0, READ_SECONDS - age) if age >= 0 else 0.0

    async def _read(self, source: PriceSource, region: str) -> float:
        """The seconds until the next read."""
        try:
            found = await source.read(region)
        except PricesUnavailable as error:
            self._observer.failed(error.reason)
            in_use = self.current.read_at.isoformat() if self.current is not None else "none"
            log.warning("failed to read the retail prices", region=region, error=str(error), last_read=in_use)
            return RETRY_SECONDS
        before, self.current = self.current, found.prices
        self._observer.dropped(found.dropped)
        log.info(
            "read the retail prices",
            region=region,
            on_demand=len(found.prices.on_demand),
            spot=len(found.prices.spot),
            changed=_changed(before, found.prices),
            dropped_rows=found.dropped,
        )
        await self._save(encode(found.prices))
        return READ_SECONDS


def _changed(before: RetailPrices | None, now: RetailPrices) -> int:
    """How many prices differ from those that were read before."""
    pairs = ((before.on_demand, now.on_demand), (before.spot, now.spot)) if before is not None else ()
    return sum(new.get(size) != price for old, new in pairs for size, price in old.items())
