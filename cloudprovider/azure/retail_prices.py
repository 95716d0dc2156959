"""What the retail price API states: the rows that count, and the query for them.

Of a size in a region it has rows for Linux, Windows, cloud services and dedicated hosts, on demand, of spot and of low
priority, and of prices that begin later. A row in another form than was asked for is left out and counted.

Source: https://learn.microsoft.com/en-us/rest/api/cost-management/retail-prices/azure-retail-prices,
docs/references/agent-pools.md#retail-prices.
"""

import math
from collections.abc import Iterable, Mapping

import msgspec

from cloudprovider.interface import ON_DEMAND, SPOT, CapacityType

# The values are case-sensitive in this version.
QUERY = "api-version=2023-01-01-preview&$filter="
COMMON = (
    "priceType eq 'Consumption' and currencyCode eq 'USD' and serviceFamily eq 'Compute'"
    " and serviceName eq 'Virtual Machines'"
)
# The API refuses long filters; clients of others ask for at most 15 sizes at a time.
SIZES_MAX = 10
# USD an hour. No machine costs more.
PRICE_MAX = 1e6

# Price by size, capacity type and region, as the API writes them.
Prices = Mapping[tuple[str, CapacityType, str], float]


class RetailItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A row. Dates are in ISO form; `effective_end_date` is None for a price without an end."""

    arm_region_name: str
    arm_sku_name: str
    product_name: str
    sku_name: str
    meter_name: str
    unit_of_measure: str
    type: str
    currency_code: str
    retail_price: float
    effective_start_date: str
    effective_end_date: str | None = None
    is_primary_meter_region: bool = False


class RetailPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the answer; the rows are decoded one by one."""

    items: list[msgspec.Raw] = msgspec.field(name="Items")
    next_page: str | None = msgspec.field(name="NextPageLink", default=None)


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """`dropped`: how many rows are in another form than was asked for."""

    items: tuple[RetailItem, ...]
    dropped: int = 0


def filter_of(sizes: Iterable[str], region: str = "") -> str:
    """The filter for these sizes, at most `SIZES_MAX`, in one region or in all."""
    named = " or ".join(f"armSkuName eq '{one}'" for one in sizes)
    where = f" and armRegionName eq '{region}'" if region else ""
    return f"{COMMON}{where} and ({named})"


def rows_of(page: RetailPage) -> Rows:
    """The usable rows of a page."""
    found = [item for raw in page.items if (item := _decoded(raw)) is not None]
    return Rows(items=tuple(found), dropped=len(page.items) - len(found))


def prices_of(items: Iterable[RetailItem], today: str) -> Prices:
    """USD an hour with Linux. `today`: in ISO form.

    Of several rows the newest of the primary region counts; one that is not in force is left out.
    """
    chosen: dict[tuple[str, CapacityType, str], tuple[tuple[bool, str], float]] = {}
    for item in items:
        kind = _capacity_type(item)
        if kind is None or not _in_force(item, today):
            continue
        rank = item.is_primary_meter_region, item.effective_start_date
        key = item.arm_sku_name, kind, item.arm_region_name
        if key not in chosen or rank > chosen[key][0]:
            chosen[key] = rank, item.retail_price
    return {key: price for key, (_, price) in chosen.items()}


def _decoded(raw: msgspec.Raw) -> RetailItem | None:
    try:
        item = msgspec.json.decode(raw, type=RetailItem)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    right = (item.type, item.currency_code, item.unit_of_measure) == ("Consumption", "USD", "1 Hour")
    price = item.retail_price
    return item if right and math.isfinite(price) and 0 < price <= PRICE_MAX else None


def _capacity_type(item: RetailItem) -> CapacityType | None:
    """None for what is no virtual machine with Linux that AKS can order."""
    product = item.product_name.lower().replace(" ", "")
    if product.endswith("windows") or "cloudservices" in product or "dedicatedhost" in product:
        return None
    names = item.sku_name.lower(), item.meter_name.lower()
    if any(name.endswith(" low priority") for name in names):
        return None
    return SPOT if any(name.endswith(" spot") for name in names) else ON_DEMAND


def _in_force(item: RetailItem, today: str) -> bool:
    end = (item.effective_end_date or "")[:10]
    return item.effective_start_date[:10] <= today and (not end or today <= end)
