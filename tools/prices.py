"""Writes `cloudprovider/azure/prices.csv` from the retail price API: `python -m tools.prices`.

Sizes, vCPUs and memory are those of the existing file; the API has prices only. Regions in which no size has a price
are left out. The date of the prices, `DATE` in `cloudprovider/azure/pricing.py`, is changed by hand.

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

TABLE = Path("cloudprovider/azure/prices.csv")
ADDRESS = "https://prices.azure.com/api/retail/prices?api-version=2023-01-01-preview&$filter="
FILTER = (
    "priceType eq 'Consumption' and currencyCode eq 'USD' and serviceFamily eq 'Compute'"
    " and serviceName eq 'Virtual Machines' and armSkuName eq '{}'"
)
TIMEOUT_SECONDS = 60


def prices(items: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """USD an hour by region, for one size: Linux, on demand; of several rows the newest of the primary region."""
    chosen: dict[str, tuple[tuple[bool, str], float]] = {}
    for item in items:
        if item["productName"].endswith(" Windows") or item["skuName"].endswith((" Spot", " Low Priority")):
            continue
        if item["unitOfMeasure"] != "1 Hour" or not item["retailPrice"]:
            continue
        rank = bool(item.get("isPrimaryMeterRegion")), str(item["effectiveStartDate"])
        region = item["armRegionName"]
        if region not in chosen or rank > chosen[region][0]:
            chosen[region] = rank, float(item["retailPrice"])
    return {region: price for region, (_, price) in chosen.items()}


def pages(size: str, get: Callable[[str], Any]) -> Iterator[Mapping[str, Any]]:
    """All items of a size; `get` returns the decoded body of an address."""
    address = ADDRESS + urllib.parse.quote(FILTER.format(size))
    while address:
        body = get(address)
        yield from body["Items"]
        address = body.get("NextPageLink") or ""


def table(sizes: Iterable[tuple[str, str, str]], found: Mapping[str, Mapping[str, float]]) -> str:
    """The file: one row for each (size, vCPUs, GiB), one column for each region."""
    regions = sorted({region for by_region in found.values() for region in by_region})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["size", "vcpus", "memory_gib", *regions])
    for size, vcpus, memory in sizes:
        writer.writerow([size, vcpus, memory, *(f"{found[size][r]:g}" if r in found[size] else "" for r in regions)])
    return text.getvalue()


def _get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - https, see ADDRESS
        return json.load(response)


def main() -> int:
    """Returns the exit code."""
    _, *rows = csv.reader(TABLE.read_text(encoding="utf-8").splitlines())
    sizes = [(row[0], row[1], row[2]) for row in rows]
    found = {size: prices(pages(size, _get)) for size, _, _ in sizes}
    TABLE.write_text(table(sizes, found), encoding="utf-8")
    print(f"{len(sizes)} sizes, {sum(map(len, found.values()))} prices")
    return 0


if __name__ == "__main__":
    sys.exit(main())
