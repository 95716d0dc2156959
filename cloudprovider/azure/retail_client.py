"""Reads of the retail price API, which is public: no token is sent, and nothing of the cluster but its region.

A failed request is repeated twice. Pages, their bytes and the whole read are bounded, and a next page must be at the
same address. Redirects are not followed.

Source: https://learn.microsoft.com/en-us/rest/api/cost-management/retail-prices/azure-retail-prices,
docs/references/agent-pools.md#retail-prices.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from cloudprovider.interface import ON_DEMAND, SPOT
from cloudprovider.prices import PriceFailure, PriceReading, PricesUnavailable, RetailPrices
from provisioner.runtime.ca_file import CaFile
from provisioner.runtime.clock import Clock

from .client import AzureConfig, build_session, build_tls, bypasses_proxy
from .pricing import known_sizes
from .retail_prices import QUERY, SIZES_MAX, RetailItem, RetailPage, Rows, filter_of, prices_of, rows_of

ADDRESS = "https://prices.azure.com/api/retail/prices"
ATTEMPTS = 3
REQUEST_SECONDS, READ_SECONDS = 20.0, 180.0
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = 2.0, 30.0
# A page has at most 1,000 rows of about 700 bytes, and a query for ten sizes about 60 rows in a region.
PAGE_BYTES, PAGES_MAX = 4 * 2**20, 50


class _Failed(PricesUnavailable):
    """A request failed; `again`: it may succeed when it is repeated, `after` seconds later at least."""

    def __init__(self, reason: PriceFailure, message: str, *, again: bool = False, after: float = 0.0) -> None:
        super().__init__(reason, message)
        self.again = again
        self.after = after


class RetailPriceClient:
    """Reads over `session`, which it does not close. `tls()`: of the next request; `proxy`: "" for none."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        clock: Clock,
        *,
        address: str = ADDRESS,
        proxy: str = "",
        tls: Callable[[], ssl.SSLContext | bool] = lambda: True,
    ) -> None:
        self._session = session
        self._clock = clock
        self._address = address
        self._proxy = proxy
        self._tls = tls

    async def read(self, region: str) -> PriceReading:
        """The prices of all known sizes in a region. Raises PricesUnavailable, also if none has a price on demand."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                rows = await self._rows_of_region(region)
        except TimeoutError:
            raise PricesUnavailable("timeout", f"no complete answer within {READ_SECONDS:.0f} s") from None
        now = self._clock.now().replace(microsecond=0)
        found, known = prices_of(rows.items, now.date().isoformat()), {one.casefold() for one in known_sizes()}
        by_kind = {
            kind: {
                size.casefold(): price
                for (size, of, where), price in found.items()
                if of == kind and where == region and size.casefold() in known
            }
            for kind in (ON_DEMAND, SPOT)
        }
        if not by_kind[ON_DEMAND]:
            raise PricesUnavailable("empty", f"the answer has no price of a known size in {region}")
        prices = RetailPrices(region=region, read_at=now, on_demand=by_kind[ON_DEMAND], spot=by_kind[SPOT])
        return PriceReading(prices=prices, dropped=rows.dropped)

    async def rows(self, sizes: Sequence[str], region: str = "") -> Rows:
        """All rows of these sizes, at most `SIZES_MAX`, in a region or in all. Raises PricesUnavailable."""
        items, dropped = list[RetailItem](), 0
        address = f"{self._address}?{QUERY}{quote(filter_of(sizes, region))}"
        for _ in range(PAGES_MAX):
            page = await self._page(address)
            rows = rows_of(page)
            items += rows.items
            dropped += rows.dropped
            if not page.next_page:
                return Rows(items=tuple(items), dropped=dropped)
            address = self._checked(page.next_page)
        raise PricesUnavailable("body", f"the answer has more than {PAGES_MAX} pages")

    async def _rows_of_region(self, region: str) -> Rows:
        sizes, items, dropped = known_sizes(), list[RetailItem](), 0
        for first in range(0, len(sizes), SIZES_MAX):
            rows = await self.rows(sizes[first : first + SIZES_MAX], region)
            items += rows.items
            dropped += rows.dropped
        return Rows(items=tuple(items), dropped=dropped)

    def _checked(self, address: str) -> str:
        try:
            same = _origin(address) == _origin(self._address)
        except ValueError:
            same = False
        if not same:
            raise PricesUnavailable("body", "the next page is at another address")
        return address

    async def _page(self, address: str) -> RetailPage:
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS),
            retry=retry_if_exception(lambda error: isinstance(error, _Failed) and error.again),
            wait=_wait,
            sleep=asyncio.sleep,
            reraise=True,
        ):
            with attempt:
                return await self._get(address)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _get(self, address: str) -> RetailPage:
        try:
            async with (
                asyncio.timeout(REQUEST_SECONDS),
                self._session.get(
                    address, proxy=self._proxy or None, ssl=self._tls(), allow_redirects=False
                ) as response,
            ):
                if response.status != 200:
                    throttled = response.status == 429
                    raise _Failed(
                        "throttled" if throttled else "status",
                        f"HTTP {response.status}",
                        again=throttled or response.status >= 500,
                        after=retry_after(response.headers.get("Retry-After", "")),
                    )
                body = await _body(response)
        except TimeoutError:
            raise _Failed("timeout", f"no answer within {REQUEST_SECONDS:.0f} s", again=True) from None
        except (aiohttp.ClientError, OSError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise _Failed("network", f"connection failed: {why}", again=True) from None
        try:
            return msgspec.json.decode(body, type=RetailPage)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise _Failed("body", "the answer is not a page of prices") from None


@asynccontextmanager
async def open_retail_prices(config: AzureConfig, clock: Clock, *, version: str) -> AsyncIterator[RetailPriceClient]:
    """A client with a session of its own, with the proxy and certificates of ARM. Raises OSError for unusable ones."""
    direct = bypasses_proxy(urlsplit(ADDRESS).hostname or "", config.no_proxy)
    trusted = build_tls(config)
    ca = CaFile(Path(config.ca_file), lambda: build_tls(config)) if config.ca_file else None
    async with build_session(trusted) as session:
        session.headers["User-Agent"] = f"gpu-provisioner/{version}"
        yield RetailPriceClient(
            session,
            clock,
            proxy="" if direct else config.https_proxy,
            tls=ca.context if ca is not None else lambda: trusted,
        )


def pause(attempt: int, after: float) -> float:
    """Seconds until the next attempt; `after`: what the API states."""
    return min(MAX_WAIT_SECONDS, max(after, FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1)))


def retry_after(header: str) -> float:
    """The seconds in the value of the header, 0 without any."""
    return float(header) if header.isascii() and header.isdigit() else 0.0


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    return pause(state.attempt_number, error.after if isinstance(error, _Failed) else 0.0)


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > PAGE_BYTES:
            raise _Failed("body", f"a page has more than {PAGE_BYTES} bytes")
    return bytes(body)


def _origin(address: str) -> tuple[str, str, int]:
    """The API names the default port in the links to next pages. Raises ValueError."""
    parts = urlsplit(address)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
