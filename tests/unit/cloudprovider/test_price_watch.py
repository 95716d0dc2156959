"""When retail prices are read, which of them count, and what is kept for the next leader, on virtual time."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from cloudprovider.cloud import PriceList
from cloudprovider.prices import (
    PriceFailure,
    PriceReading,
    PricesUnavailable,
    PriceWatch,
    RetailPrices,
    decode,
    encode,
    with_retail,
)
from provisioner.metrics.definitions import own
from provisioner.simulator.loop import VirtualClock, run
from tests.stories import run_by

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
T4, A100 = "standard_nc4as_t4_v3", "standard_nc24ads_a100_v4"
FAILED = PricesUnavailable("network", "connection failed")


def read_at(hours: float, region: str = "eastus", price: float = 0.5) -> RetailPrices:
    return RetailPrices(region=region, read_at=EPOCH + timedelta(hours=hours), on_demand={T4: price})


class Source:
    """Gives one price after the other, None for a failure, and then the last one."""

    def __init__(self, answers: Sequence[float | None], clock: VirtualClock) -> None:
        self.answers = [*answers]
        self.clock = clock
        self.reads: list[int] = []

    async def read(self, region: str) -> PriceReading:
        now = self.clock.now()
        self.reads.append(round((now - EPOCH).total_seconds()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise FAILED
        prices = RetailPrices(region=region, read_at=now, on_demand={T4: answer})
        return PriceReading(prices=prices, dropped=2)


class Counts:
    def __init__(self) -> None:
        self.failures: list[str] = []
        self.rows = 0

    def failed(self, reason: PriceFailure) -> None:
        self.failures.append(reason)

    def dropped(self, rows: int) -> None:
        self.rows += rows


HOUR = 3600


@pytest.mark.parametrize(
    ("answers", "kept", "reads", "price"),
    [
        ([0.5, 0.6], "", [0, 12 * HOUR, 24 * HOUR], 0.6),
        ([None], "", [hour * HOUR for hour in range(30)], None),
        ([0.5, None, None, 0.7], "", [0, 12 * HOUR, 13 * HOUR, 14 * HOUR, 26 * HOUR], 0.7),
        ([0.5, None], "", [0, *(hour * HOUR for hour in range(12, 30))], 0.5),
        ([0.5], encode(read_at(-2)), [10 * HOUR, 22 * HOUR], 0.5),
        ([None], encode(read_at(-9000, price=0.9)), [hour * HOUR for hour in range(30)], 0.9),
        ([0.5], encode(read_at(5)), [0, 12 * HOUR, 24 * HOUR], 0.5),
        ([0.5], encode(read_at(-2, "westeurope")), [0, 12 * HOUR, 24 * HOUR], 0.5),
        ([0.5], '{"region": "eastus", "readAt": "now", "onDemand": {}}', [0, 12 * HOUR, 24 * HOUR], 0.5),
    ],
    ids=[
        "twice a day",
        "hourly while it fails",
        "after failures",
        "the last prices are kept",
        "those of a former leader until they are due",
        "old ones of a former leader while reads fail",
        "a clock that was wrong",
        "of another region",
        "an invalid annotation",
    ],
)
@run_by(run, given=0, seed=1, epoch=EPOCH)
async def test_reads(answers: list[float | None], kept: str, reads: list[int], price: float | None) -> None:
    """In thirty hours."""
    clock, counts, saved = VirtualClock(asyncio.get_running_loop(), EPOCH), Counts(), list[str]()

    async def save(text: str) -> None:
        saved.append(text)

    source = Source(answers, clock)
    watch = PriceWatch(source, region=lambda: "eastus", save=save, observer=counts, clock=clock)
    task = asyncio.get_running_loop().create_task(watch.lead(kept))
    await asyncio.sleep(30 * HOUR - 1)
    task.cancel()
    assert source.reads == reads
    assert (watch.current.on_demand[T4] if watch.current is not None else None) == price
    assert len(saved) == counts.rows / 2 == len(reads) - len(counts.failures)
    assert all(decode(one) is not None for one in saved)
    assert set(counts.failures) <= {"network"}


@run_by(run, given=0, seed=1, epoch=EPOCH)
async def test_reads_that_are_disabled() -> None:
    """What a former leader kept is removed, because commands show it as the prices in use."""
    clock, saved = VirtualClock(asyncio.get_running_loop(), EPOCH), list[str]()

    async def save(text: str) -> None:
        saved.append(text)

    watch = PriceWatch(None, region=lambda: "eastus", save=save, observer=Counts(), clock=clock)
    for kept in ("", encode(read_at(0))):
        await watch.lead(kept)
    assert (watch.current, saved) == (None, [""])


LISTED = PriceList(on_demand={T4: 1.0, A100: 4.0}, spot={A100: 2.0}, date="2026-02-01")


@pytest.mark.parametrize(
    ("retail", "on_demand", "spot"),
    [
        (None, LISTED.on_demand, LISTED.spot),
        (read_at(0), {T4: 0.5, A100: 4.0}, LISTED.spot),
        (read_at(0, "westeurope"), LISTED.on_demand, LISTED.spot),
        (
            RetailPrices(region="eastus", read_at=EPOCH, on_demand={T4: 0.5}, spot={T4: 0.1, A100: 1.5}),
            {T4: 0.5, A100: 4.0},
            {T4: 0.1, A100: 1.5},
        ),
    ],
    ids=["none", "a size without one has its list price", "another region", "spot"],
)
def test_which_prices_count(
    retail: RetailPrices | None, on_demand: Mapping[str, float], spot: Mapping[str, float]
) -> None:
    """Retail prices of the region, else those of the list."""
    found = with_retail(LISTED, retail, "eastus")
    assert (found.on_demand, found.spot) == (on_demand, spot)
    assert (found.read_at is not None) == (found is not LISTED)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"region": "eastus", "readAt": "2026-03-01T00:00:00Z", "onDemand": {"a": 0}}',
        '{"region": "eastus", "readAt": "2026-03-01T00:00:00Z", "onDemand": {"a": 1e9}}',
        '{"region": "eastus", "readAt": "2026-03-01T00:00:00", "onDemand": {"a": 1}}',
        "[" * 100_000,
    ],
)
def test_an_annotation_that_holds_no_prices(text: str) -> None:
    assert decode(text) is None


def test_the_metric_has_every_reason() -> None:
    assert get_args(PriceFailure) == own.PRICE_FAILURES.reasons
