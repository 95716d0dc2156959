"""The retail price API on a socket, and a client of it."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiohttp import web

from cloudprovider.azure.client import build_session
from cloudprovider.azure.retail_client import RetailPriceClient
from tests.retail_api import PATH, RetailApi

NOW = datetime(2026, 6, 18, 9, 30, tzinfo=UTC)


class Fixed:
    """A clock that stands still."""

    def now(self) -> datetime:
        return NOW


@asynccontextmanager
async def retail_api(api: RetailApi) -> AsyncIterator[tuple[RetailApi, RetailPriceClient]]:
    """Serve it on loopback; the links to next pages have its address."""
    runner = web.AppRunner(api.app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with build_session(ssl.create_default_context()) as session:
        try:
            yield api, RetailPriceClient(session, Fixed(), address=f"{api.origin}{PATH}")
        finally:
            await runner.cleanup()
