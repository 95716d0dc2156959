"""Writes `cloudprovider/azure/prices.csv` from the retail price API: `python -m tools.prices`.

Sizes, vCPUs and memory are those of the existing file; the API has prices only, on demand and of spot. Regions in which
no size has a price on demand are left out. The first line of the file has the date of the prices.

Source: https://learn.microsoft.com/en-us/rest/api/cost-management/retail-prices/azure-retail-prices.
"""

import csv
import io
import json
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cloudprovider.azure.pricing import read_table
from cloudprovider.interface import ON_DEMAND, SPOT, CapacityType
from provisioner.runtime.clock import SystemClock

TABLE = Path("cloudprovider/azure/prices.csv")
COMMENT = "# Retail list prices of Linux machines in USD an hour, as of {}."
ADDRESS = "https://prices.azure.com/api/retail/prices?api-version=2023-01-01-preview&$filter="
FILTER = (
    "priceType eq 'Consumption' and currencyCode eq 'USD' and serviceFamily eq 'Compute'"
    " and serviceName eq 'Virtual Machines' and armSkuName eq '{}'"
)
TIMEOUT_SECONDS = 60

Prices = Mapping[tuple[CapacityType, str], float]


def prices(items: Iterable[Mapping[str, Any]], today: str) -> dict[tuple[CapacityType, str], float]:
    """USD an hour by capacity type and region, of one size with Linux.

    Of several rows the newest of the primary region counts; one that begins after `today` (ISO form) is left out.
    """
    chosen: dict[tuple[CapacityType, str], tuple[tuple[bool, str], float]] = {}
    for item in items:
        if item["productName"].endswith(" Windows") or item["skuName"].endswith(" Low Priority"):
            continue
        if item["unitOfMeasure"] != "1 Hour" or not item["retailPrice"] or item["effectiveStartDate"][:10] > today:
            continue
        rank = bool(item.get("isPrimaryMeterRegion")), str(item["effectiveStartDate"])
        key = SPOT if item["skuName"].endswith(" Spot") else ON_DEMAND, item["armRegionName"]
        if key not in chosen or rank > chosen[key][0]:
            chosen[key] = rank, float(item["retailPrice"])
    return {key: price for key, (_, price) in chosen.items()}


def pages(size: str, get: Callable[[str], Any]) -> Iterator[Mapping[str, Any]]:
    """All items of a size; `get` returns the decoded body of an address."""
    address = ADDRESS + urllib.parse.quote(FILTER.format(size))
    while address:
        body = get(address)
        yield from body["Items"]
        address = body.get("NextPageLink") or ""


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


def updated(text: str, get: Callable[[str], Any], today: str) -> str:
    """The new text of the file, with the sizes of the old one."""
    sizes = [(row.size, row.vcpus, row.memory_gib) for row in read_table(text).rows if row.capacity_type == ON_DEMAND]
    found = {size: prices(pages(size, get), today) for size, _, _ in sizes}
    if not any(kind == ON_DEMAND for of_size in found.values() for kind, _ in of_size):
        raise ValueError("the API has no price of any size; the file is not changed")
    return table(sizes, found, today)


def _get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - https, see ADDRESS
        return json.load(response)


def main() -> int:
    """Returns the exit code."""
    text = updated(TABLE.read_text(encoding="utf-8"), _get, SystemClock().now().date().isoformat())
    TABLE.write_text(text, encoding="utf-8")
    rows = read_table(text).rows
    print(f"{len(rows)} rows, {sum(len(row.prices) for row in rows)} prices")
    return 0


if __name__ == "__main__":
    sys.exit(main())
