"""Retail prices: which rows count, and what the client does with pages, errors and answers in another form."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from cloudprovider.azure import retail_client
from cloudprovider.azure.pricing import known_sizes
from cloudprovider.azure.retail_prices import SIZES_MAX
from cloudprovider.prices import PricesUnavailable
from tests.retail_api import STALLED, RetailApi, item

from .retail import NOW, retail_api

T4, A100, REGION = "Standard_NC4as_T4_v3", "Standard_NC24ads_A100_v4", "eastus"
KEY = T4.lower()


def t4(price: Any = 2.0, **changes: Any) -> dict[str, Any]:
    return item(T4, REGION, price, **changes)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are repeated without a pause."""
    monkeypatch.setattr(retail_client, "FIRST_WAIT_SECONDS", 0.0)


OTHER = t4(3.0, effectiveStartDate="2026-05-01T00:00:00Z")


@pytest.mark.parametrize(
    ("rows", "on_demand", "spot", "dropped"),
    [
        ([t4()], 2.0, None, 0),
        ([t4(), t4(0.5, suffix=" Spot")], 2.0, 0.5, 0),
        ([t4(), t4(0.5, meterName="NC4as T4 v3 Spot")], 2.0, 0.5, 0),
        ([t4(), t4(0.5, suffix=" Low Priority")], 2.0, None, 0),
        ([t4(), t4(4.0, productName="Virtual Machines NCasT4 v3 Series Windows")], 2.0, None, 0),
        # The newest row, at the price of Windows, of machines for another service.
        ([t4(), t4(4.0, productName="NCasT4 v3 Series CloudServices", effectiveStartDate="2026-06-01")], 2.0, None, 0),
        ([t4(), t4(4.0, productName="NCasT4 v3 Series Dedicated Host")], 2.0, None, 0),
        ([t4(productName="NCasT4 v3 Series Linux")], 2.0, None, 0),
        ([OTHER, t4()], 3.0, None, 0),
        ([t4(), OTHER, t4(4.0, effectiveStartDate="2026-07-01T00:00:00Z")], 3.0, None, 0),
        ([t4(), t4(4.0, effectiveStartDate="2025-01-01", effectiveEndDate="2026-01-01T00:00:00Z")], 2.0, None, 0),
        ([t4(), {**OTHER, "isPrimaryMeterRegion": False}], 2.0, None, 0),
        ([t4(), t4(300.0, type="Reservation", reservationTerm="1 Year")], 2.0, None, 1),
        ([t4(), t4(1.8, currencyCode="EUR"), t4(60.0, unitOfMeasure="1 Month")], 2.0, None, 2),
        ([t4(), t4(0.0), t4(-1.0), t4(1e7), t4("2.0"), t4(None)], 2.0, None, 5),
        ([t4(), "row", 7, None, [], {}, {"armSkuName": T4}], 2.0, None, 6),
        ([t4(), item("Standard_Unheard_v9", REGION, 1.0), item(T4, "westeurope", 1.0)], 2.0, None, 0),
    ],
)
@pytest.mark.asyncio
async def test_which_rows_count(rows: list[Any], on_demand: float, spot: float | None, dropped: int) -> None:
    """Linux, in USD an hour, in force; of several rows the newest of the primary region. Bad rows are counted."""
    async with retail_api(RetailApi()) as (api, client):
        api.unfiltered = rows
        found = await client.read(REGION)
    prices = found.prices
    assert (prices.region, prices.read_at, dict(prices.on_demand)) == (REGION, NOW, {KEY: on_demand})
    assert prices.spot.get(KEY) == spot
    assert found.dropped == dropped


@pytest.mark.asyncio
async def test_the_requests_of_one_read() -> None:
    """Every known size is requested for once, a few at a time, in this region only; all pages are followed."""
    rows = [t4(), *(item(A100, REGION, 3.0 + number, effectiveStartDate="2027-01-01") for number in range(4))]
    async with retail_api(RetailApi([*rows, item(A100, REGION, 3.0)], page=2)) as (api, client):
        found = await client.read(REGION)
    assert dict(found.prices.on_demand) == {KEY: 2.0, A100.lower(): 3.0}
    requested = [re.findall(r"armSkuName eq '([^']+)'", one) for one in dict.fromkeys(api.seen)]
    assert [size for sizes in requested for size in sizes] == list(known_sizes())
    assert max(map(len, requested)) == SIZES_MAX
    assert all(f"armRegionName eq '{REGION}'" in one and "priceType eq 'Consumption'" in one for one in api.seen)
    assert len(api.seen) > len(requested)


Change = Callable[[RetailApi], None]


def statuses(*found: int) -> Change:
    return lambda api: api.statuses.extend(found)


def bodies(*found: bytes) -> Change:
    return lambda api: api.bodies.extend(found)


def _elsewhere(api: RetailApi) -> None:
    api.origin, api.page, api.items = "http://127.0.0.2:80", 1, [t4(), OTHER]


def _endless(api: RetailApi) -> None:
    api.items = [t4() for _ in range(retail_client.PAGES_MAX + 1)]
    api.page = 1


def _nothing(api: RetailApi) -> None:
    api.items = [t4(0.5, suffix=" Spot")]


@pytest.mark.parametrize(
    ("change", "reason", "requests"),
    [
        (statuses(500, 503), None, None),
        (statuses(429, 0), None, None),
        (statuses(429, 429, 429), "throttled", 3),
        (statuses(500, 500, 500), "status", 3),
        (statuses(0, 0, 0), "network", 3),
        (statuses(400), "status", 1),
        (statuses(302), "status", 1),
        (bodies(b"<html>"), "body", 1),
        (bodies(b'{"Items": {}}'), "body", 1),
        (bodies(b"[" * 100_000), "body", 1),
        (bodies(b'{"Items": [], "NextPageLink": "http://[::1"}'), "body", 1),
        (bodies(b'{"Items": [], "NextPageLink": "file:///etc/passwd"}'), "body", 1),
        (bodies(b" " * (retail_client.PAGE_BYTES + 1)), "body", 1),
        (_elsewhere, "body", None),
        (_endless, "body", None),
        (_nothing, "empty", None),
    ],
)
@pytest.mark.asyncio
async def test_what_fails(change: Change, reason: str | None, requests: int | None) -> None:
    """What may pass is repeated; an answer that cannot be used is not, and no other address is read."""
    async with retail_api(RetailApi([t4()])) as (api, client):
        change(api)
        if reason is None:
            assert dict((await client.read(REGION)).prices.on_demand) == {KEY: 2.0}
            return
        with pytest.raises(PricesUnavailable) as raised:
            await client.read(REGION)
        assert raised.value.reason == reason
        assert requests in (None, len(api.seen))


@pytest.mark.asyncio
async def test_an_api_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request and the whole read have a limit."""
    for limit in ("REQUEST_SECONDS", "READ_SECONDS"):
        with monkeypatch.context() as changed:
            changed.setattr(retail_client, limit, 0.05)
            async with retail_api(RetailApi([t4()])) as (api, client):
                api.statuses = [STALLED] * 3
                with pytest.raises(PricesUnavailable) as raised:
                    await client.read(REGION)
                assert raised.value.reason == "timeout"


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("9999", 30.0), ("soon", 2.0), ("-1", 2.0), ("", 2.0)])
def test_the_pause_after_a_refusal(monkeypatch: pytest.MonkeyPatch, header: str, seconds: float) -> None:
    """As the API states, at most 30 seconds."""
    monkeypatch.undo()
    assert retail_client.pause(1, retail_client.retry_after(header)) == seconds
