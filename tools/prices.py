"""Writes `cloudprovider/azure/prices.csv` from the retail price API: `python -m tools.prices`.

Sizes, vCPUs and memory are those of the existing file; the API has prices only, on demand and of spot. Regions in which
no size has a price on demand are left out. The first line of the file has the date of the prices.

Source: https://learn.microsoft.com/en-us/rest/api/cost-management/retail-prices/azure-retail-prices.
"""

import asyncio
import csv
import io
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from cloudprovider.azure.client import AzureConfig
from cloudprovider.azure.pricing import read_table
from cloudprovider.azure.retail_client import RetailPriceClient, open_retail_prices
from cloudprovider.azure.retail_prices import prices_of
from cloudprovider.interface import ON_DEMAND, SPOT, CapacityType
from cloudprovider.prices import PricesUnavailable
from provisioner.runtime.clock import SystemClock
from provisioner.version import own_version

TABLE = Path("cloudprovider/azure/prices.csv")
COMMENT = "# Retail list prices of Linux machines in USD an hour, as of {}."

# Of one size.
Prices = Mapping[tuple[CapacityType, str], float]


def table(sizes: Iterable[tuple[str, int, int]], found: Mapping[str, Prices], date: str) -> str:
    """The file: rows for each (size, vCPUs, GiB), one column for each region; a size has a row for spot if it can."""
    regions = sorted({region for of_size in found.values() for kind, region in of_size if kind == ON_DEMAND})
    text = io.StringIO()
    text.write(COMMENT.format(date) + "\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["size", "capacity_type", "vcpus", "memory_gib", *regions])
    for size, vcpus, memory in sizes:
        for kind in (ON_DEMAND, SPOT):
            cells = [f"{found[size][kind, r]:g}" if (kind, r) in found[size] else "" for r in regions]
            if kind == ON_DEMAND or any(cells):
                writer.writerow([size, kind, vcpus, memory, *cells])
    return text.getvalue()


async def updated(text: str, api: RetailPriceClient, today: str) -> str:
    """The new text of the file, with the sizes of the old one. Raises PricesUnavailable."""
    sizes = [(row.size, row.vcpus, row.memory_gib) for row in read_table(text).rows if row.capacity_type == ON_DEMAND]
    found = dict[str, Prices]()
    for size, _, _ in sizes:
        rows = await api.rows((size,))
        found[size] = {(kind, region): price for (_, kind, region), price in prices_of(rows.items, today).items()}
    if not any(kind == ON_DEMAND for of_size in found.values() for kind, _ in of_size):
        raise ValueError("the API has no price of any size; the file is not changed")
    return table(sizes, found, today)


async def _read(text: str) -> str:
    clock, config = SystemClock(), AzureConfig(subscription_id="", resource_group="", cluster_name="")
    async with open_retail_prices(config, clock, version=own_version()) as api:
        return await updated(text, api, clock.now().date().isoformat())


def main() -> int:
    """Returns the exit code."""
    try:
        text = asyncio.run(_read(TABLE.read_text(encoding="utf-8")))
    except PricesUnavailable as error:
        print(f"the prices could not be read, the file is not changed: {error}", file=sys.stderr)
        return 1
    TABLE.write_text(text, encoding="utf-8")
    rows = read_table(text).rows
    print(f"{len(rows)} rows, {sum(len(row.prices) for row in rows)} prices")
    return 0


if __name__ == "__main__":
    sys.exit(main())
