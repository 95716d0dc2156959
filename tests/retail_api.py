"""A retail price API in the form of Azure's: filters, pages, and rows of products that are no Linux machines."""

import asyncio
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlencode

from aiohttp import web

Item = dict[str, Any]

# In place of a status: there is no answer.
STALLED = -1
PATH = "/api/retail/prices"
NAMED = re.compile(r"(armSkuName|armRegionName) eq '([^']*)'")


def item(size: str, region: str, price: float, **changes: Any) -> Item:
    """A row as the API returns it. `changes`: in wire names; `suffix`: of the names of SKU and meter."""
    name = size.removeprefix("Standard_").replace("_", " ") + changes.pop("suffix", "")
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": price,
        "unitPrice": price,
        "armRegionName": region,
        "location": "",
        "effectiveStartDate": "2024-03-01T00:00:00Z",
        "meterId": "00000000-0000-0000-0000-000000000000",
        "meterName": name,
        "productId": "DZH318Z0BQ35",
        "skuId": "DZH318Z0BQ35/0001",
        "productName": "Virtual Machines Series",
        "skuName": name,
        "serviceName": "Virtual Machines",
        "serviceId": "DZH313Z7MMC8",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": size,
        **changes,
    }


class RetailApi:
    """`items`: all rows. `unfiltered`: further rows of the next page.

    `statuses`: of the next answers, then 200; 0: the connection ends. `bodies`: in place of the next pages. `origin`:
    as links to next pages have it. `seen`: the filters of the requests.
    """

    def __init__(self, items: Iterable[Item] = (), *, page: int = 100) -> None:
        self.items = list(items)
        self.unfiltered: list[Any] = []
        self.page = page
        self.statuses: list[int] = []
        self.headers: dict[str, str] = {}
        self.bodies: list[bytes] = []
        self.seen: list[str] = []
        self.origin = ""
        self.app = web.Application()
        self.app.router.add_get(PATH, self.handle)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One page."""
        query = {name: values[0] for name, values in parse_qs(request.query_string).items()}
        written, skip = query.get("$filter", ""), int(query.get("$skip", "0"))
        self.seen.append(written)
        status = self.statuses.pop(0) if self.statuses else 200
        if status == STALLED:
            await asyncio.sleep(3600)
        if status == 0:
            assert request.transport is not None
            request.transport.abort()
        if status != 200:
            return web.Response(status=status or 200, headers=self.headers, text="no")
        if self.bodies:
            return web.Response(body=self.bodies.pop(0), content_type="application/json")
        return web.json_response(self._page(query, written, skip))

    def _page(self, query: dict[str, str], written: str, skip: int) -> Item:
        allowed: dict[str, set[str]] = {}
        for field, value in NAMED.findall(written):
            allowed.setdefault(field, set()).add(value)
        found = [one for one in self.items if all(one[field] in values for field, values in allowed.items())]
        rows, more = [*found[skip : skip + self.page], *self.unfiltered], skip + self.page < len(found)
        self.unfiltered = []
        link = f"{self.origin}{PATH}?{urlencode({**query, '$skip': str(skip + self.page)})}"
        return {
            "BillingCurrency": "USD",
            "CustomerEntityId": "Default",
            "CustomerEntityType": "Retail",
            "Items": rows,
            "NextPageLink": link if more else None,
            "Count": len(rows),
        }
