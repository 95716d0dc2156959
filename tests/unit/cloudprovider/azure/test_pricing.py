"""The table of list prices, and the tool that writes it."""

from typing import Any

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


@pytest.mark.parametrize(
    ("vcpus", "gib", "cpu", "memory"),
    [(1, 2, "60m", "765Mi"), (4, 28, "140m", "4500Mi"), (96, 1900, "1060m", "148270Mi")],
)
def test_reserved_resources(vcpus: int, gib: int, cpu: str, memory: str) -> None:
    """6 % of the first core, 4 % of the second, 2 % up to four, 1 % beyond; memory as the docstring states."""
    assert pricing.reserved(vcpus, gib) == {"cpu": cpu, "memory": memory}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([_item(2.0)], {"eastus": 2.0}),
        ([_item(2.0, productName="Virtual Machines NC Windows")], {}),
        ([_item(2.0, skuName="NC4as T4 v3 Spot"), _item(3.0)], {"eastus": 3.0}),
        ([_item(2.0, skuName="NC4as T4 v3 Low Priority")], {}),
        ([_item(2.0, isPrimaryMeterRegion=False), _item(3.0)], {"eastus": 3.0}),
        ([_item(2.0), _item(3.0, effectiveStartDate="2026-05-01T00:00:00Z")], {"eastus": 3.0}),
        ([_item(2.0, unitOfMeasure="1 Month"), _item(0.0)], {}),
    ],
)
def test_the_tool_chooses_the_price_of_linux_on_demand(items: list[dict[str, Any]], expected: dict[str, float]) -> None:
    """Of several rows the newest of the primary region counts."""
    assert prices.prices(items) == expected


def test_the_tool_follows_pages_and_writes_the_table() -> None:
    """All pages are read; a missing price is an empty cell."""
    bodies = {"first": {"Items": [_item()], "NextPageLink": "second"}, "second": {"Items": [_item()]}}
    found = [
        *prices.pages("Standard_NC4as_T4_v3", lambda address: bodies["second" if address == "second" else "first"])
    ]
    assert len(found) == 2
    text = prices.table([("a", "4", "28"), ("b", "8", "56")], {"a": {"eastus": 0.5}, "b": {"westus": 1.0}})
    assert text == "size,vcpus,memory_gib,eastus,westus\na,4,28,0.5,\nb,8,56,,1\n"


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
    assert [*pricing.by_price(given, "atlantis")] == [wanted[0], wanted[4], wanted[3], wanted[1], wanted[2]]
