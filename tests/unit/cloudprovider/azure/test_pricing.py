"""The table of list prices, and the tool that writes it."""

import json
import urllib.parse
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cloudprovider.azure import pricing
from cloudprovider.interface import Offering
from tools import prices


def _item(price: float = 1.0, **changes: Any) -> dict[str, Any]:
    return {
        "armRegionName": "eastus",
        "productName": "Virtual Machines NC",
        "skuName": "NC4as T4 v3",
        "unitOfMeasure": "1 Hour",
        "retailPrice": price,
        "isPrimaryMeterRegion": True,
        "effectiveStartDate": "2026-01-01T00:00:00Z",
        **changes,
    }


def test_every_size_of_the_table_is_complete() -> None:
    """Each region has sizes with vCPUs, memory and a price; the cheapest one is first."""
    assert "eastus" in pricing.regions()
    for region in pricing.regions():
        sizes = pricing.sizes(region)
        assert sizes
        assert all(size.vcpus > 0 and size.memory_gib > 0 and size.price for size in sizes)
        assert [size.price for size in sizes] == sorted(size.price or 0.0 for size in sizes)
    assert pricing.sizes("mars") == ()
    assert not pricing.list_prices("mars").has_spot


def test_sizes_without_a_price() -> None:
    """They come after all others, or by their prices elsewhere in a region without any."""
    here = {size.name: size.order_price for size in pricing.unpriced("eastus")}
    assert min(here.values()) >= pricing.UNPRICED
    assert {"Standard_ND128isr_GB300_v6", "Standard_NG32adms_V620_v1"} <= here.keys()
    elsewhere = {size.name: size.order_price for size in pricing.unpriced("usgovvirginia")}
    assert 0 < elsewhere["Standard_NC4as_T4_v3"] < elsewhere["Standard_ND96isr_H100_v5"] < pricing.UNPRICED
    assert elsewhere["Standard_ND128isr_GB300_v6"] > pricing.UNPRICED


ON_DEMAND, SPOT = ("on-demand", "eastus"), ("spot", "eastus")
TODAY = "2026-06-18"


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([_item(2.0)], {ON_DEMAND: 2.0}),
        ([_item(2.0, productName="Virtual Machines NC Windows")], {}),
        ([_item(2.0, skuName="NC4as T4 v3 Spot"), _item(3.0)], {SPOT: 2.0, ON_DEMAND: 3.0}),
        ([_item(2.0, skuName="NC4as T4 v3 Low Priority")], {}),
        ([_item(2.0, isPrimaryMeterRegion=False), _item(3.0)], {ON_DEMAND: 3.0}),
        ([_item(2.0), _item(3.0, effectiveStartDate="2026-05-01T00:00:00Z")], {ON_DEMAND: 3.0}),
        ([_item(2.0), _item(3.0, effectiveStartDate="2026-07-01T00:00:00Z")], {ON_DEMAND: 2.0}),
        ([_item(2.0, unitOfMeasure="1 Month"), _item(0.0)], {}),
    ],
)
def test_the_tool_chooses_prices_of_linux(items: list[dict[str, Any]], expected: dict[tuple[str, str], float]) -> None:
    """Of several rows the newest of the primary region that is in force counts."""
    assert prices.prices(items, TODAY) == expected


# The form of the API's responses, two pages for the first size.
RECORDED = Path(__file__).with_name("retail_prices.json")
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


def test_the_tool_on_a_recorded_answer() -> None:
    """All pages are read; a missing price is an empty cell, and a size without spot prices has no row for spot."""
    bodies: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    read: list[str] = []

    def get(address: str) -> Any:
        query = urllib.parse.unquote(address)
        read.append(query)
        return next(body for name, body in bodies.items() if name in query)

    assert prices.updated(OLD, get, TODAY) == NEW
    assert len(read) == 3
    table = pricing.read_table(NEW)
    assert (table.date, table.regions) == (TODAY, ("eastus", "westeurope"))
    assert [(row.capacity_type, dict(row.prices)) for row in table.rows[1:]] == [
        ("spot", {"eastus": 0.1052}),
        ("on-demand", {"eastus": 3.673}),
    ]


def test_the_tool_keeps_the_file_if_the_api_has_no_price() -> None:
    """A changed name of a filter would empty the table."""
    with pytest.raises(ValueError, match="no price of any size"):
        prices.updated(OLD, lambda _: {"Items": [], "NextPageLink": None}, TODAY)


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
