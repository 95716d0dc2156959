"""The table of list prices, and the tool that writes it."""

from typing import Any

import msgspec
import pytest

from cloudprovider.azure import pricing
from cloudprovider.interface import Offering
from tests.retail_api import RetailApi, item
from tools import prices

from .retail import retail_api

T4, A100 = "Standard_NC4as_T4_v3", "Standard_NC24ads_A100_v4"


def test_every_size_of_the_table_is_complete() -> None:
    """Each region has sizes with vCPUs, memory and a price; the cheapest one is first."""
    assert "eastus" in pricing.regions()
    for region in pricing.regions():
        sizes = pricing.sizes(pricing.list_prices(region))
        assert sizes
        assert all(size.vcpus > 0 and size.memory_gib > 0 and size.price for size in sizes)
        assert [size.price for size in sizes] == sorted(size.price or 0.0 for size in sizes)
    mars = pricing.list_prices("mars")
    assert (pricing.sizes(mars), mars.on_demand, mars.spot) == ((), {}, {})


def test_sizes_without_a_price() -> None:
    """They come after all others, or by their prices elsewhere in a region without any."""
    here = {size.name: size.order_price for size in pricing.unpriced(pricing.list_prices("eastus"))}
    assert min(here.values()) >= pricing.UNPRICED
    assert {"Standard_ND128isr_GB300_v6", "Standard_NG32adms_V620_v1"} <= here.keys()
    elsewhere = {size.name: size.order_price for size in pricing.unpriced(pricing.list_prices("usgovvirginia"))}
    assert 0 < elsewhere["Standard_NC4as_T4_v3"] < elsewhere["Standard_ND96isr_H100_v5"] < pricing.UNPRICED
    assert elsewhere["Standard_ND128isr_GB300_v6"] > pricing.UNPRICED


TODAY = "2026-06-18"
OLD = """# Retail list prices, as of 2025-01-01.
size,capacity_type,vcpus,memory_gib,eastus
Standard_NC4as_T4_v3,on-demand,4,28,9
Standard_NC24ads_A100_v4,on-demand,24,220,9
"""
NEW = """# Retail list prices of Linux machines in USD an hour, as of 2026-06-18.
size,capacity_type,vcpus,memory_gib,eastus,westeurope
Standard_NC4as_T4_v3,on-demand,4,28,0.526,0.631
Standard_NC4as_T4_v3,spot,4,28,0.1052,
Standard_NC24ads_A100_v4,on-demand,24,220,3.673,
"""


@pytest.mark.asyncio
async def test_the_tool_on_pages_of_the_api() -> None:
    """All pages are read; a missing price is an empty cell, and a size without spot prices has no row for spot."""
    rows = [
        item(T4, "eastus", 0.526),
        item(T4, "eastus", 0.1052, suffix=" Spot"),
        item(T4, "eastus", 0.1052, suffix=" Low Priority"),
        item(T4, "eastus", 0.71, productName="Virtual Machines NCasT4 v3 Series Windows"),
        item(T4, "westeurope", 0.631),
        item(A100, "eastus", 3.673),
    ]
    async with retail_api(RetailApi(rows, page=3)) as (api, client):
        assert await prices.updated(OLD, client, TODAY) == NEW
        assert len(api.seen) == 3
    table = pricing.read_table(NEW)
    assert (table.date, table.regions) == (TODAY, ("eastus", "westeurope"))
    assert [(row.capacity_type, dict(row.prices)) for row in table.rows[1:]] == [
        ("spot", {"eastus": 0.1052}),
        ("on-demand", {"eastus": 3.673}),
    ]


@pytest.mark.asyncio
async def test_the_tool_keeps_the_file_if_the_api_has_no_price() -> None:
    """A changed name of a filter would empty the table."""
    async with retail_api(RetailApi()) as (_, client):
        with pytest.raises(ValueError, match="no price of any size"):
            await prices.updated(OLD, client, TODAY)


@pytest.mark.parametrize(
    ("text", "why"), [(OLD.replace("#", "", 1), "no date"), (OLD.replace(",capacity_type", ""), "the columns are not")]
)
def test_a_table_in_another_form(text: str, why: str) -> None:
    """It is an error, not a table with wrong prices."""
    with pytest.raises(ValueError, match=why):
        pricing.read_table(text)


@pytest.mark.parametrize(
    ("price", "spot", "kind", "expected"),
    [
        (2.0, 0.5, "spot", 0.5),
        (2.0, 0.5, "on-demand", 2.0),
        (2.0, None, "spot", 2.0),
        (2.0, 3.0, "spot", 2.0),
        (None, 0.5, "spot", 0.5),
        (None, 0.5, "on-demand", None),
        (None, None, "spot", None),
    ],
)
def test_the_price_of_spot(price: float | None, spot: float | None, kind: Any, expected: float | None) -> None:
    """Without a price of its own a spot machine counts with its price on demand, which it does not exceed."""
    known = pricing.size_of("standard_nc4as_t4_v3")
    assert known is not None
    assert msgspec.structs.replace(known, price=price, spot_price=spot).price_as(kind) == expected


def test_offerings_by_price() -> None:
    """The cheapest comes first, spot before on demand, a size without a price last; of equal ones the first stays."""
    small, large, unknown = "Standard_NC4as_T4_v3", "standard_nc24ads_a100_v4", "Standard_NoPrice"
    wanted = [
        Offering(size=small, capacity_type="spot"),
        Offering(size=small, zone="2"),
        Offering(size=small, zone="1"),
        Offering(size=large),
        Offering(size=unknown),
    ]
    given = [wanted[4], wanted[3], wanted[1], wanted[2], wanted[0]]
    assert [*pricing.by_price(given, "eastus")] == wanted
    # By the prices elsewhere in a region without any.
    assert [*pricing.by_price(given, "usgovvirginia")] == wanted
