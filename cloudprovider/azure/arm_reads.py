"""Reads of ARM through the SDK's pipeline, decoded here: its models cost ten times the rest of a LIST.

Each call is one request (rows: one a page); a list is whole or an error; the token goes to ARM's own host.
What fails inside `judging` fails as a CloudError, and shows nothing of what it was made of.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from azure.core.exceptions import HttpResponseError
from azure.core.rest import HttpRequest

from cloudprovider.errors import CloudError
from cloudprovider.interface import NextPage, at_once

from .error_table import Verb
from .errors import classify

if TYPE_CHECKING:
    from azure.mgmt.containerservice.aio import ContainerServiceClient

CALL_SECONDS = 15.0
# 100 pools fit one page today; a list that goes on for ever is none.
MOST_PAGES = 100


async def read(client: "ContainerServiceClient", url: str) -> Mapping[str, Any]:
    """The object at a path or URL. Raises HttpResponseError for any status but 200, ValueError for no object."""
    # Streamed, so that the SDK neither decodes the body a first time nor tries to register resource providers.
    response = await client.send_request(HttpRequest("GET", url), stream=True)
    await response.read()
    if response.status_code != 200:
        raise HttpResponseError(response=response)
    return decoded(response.content)


async def rows(
    client: "ContainerServiceClient", url: str, endpoint: str, *, next_page: NextPage = at_once
) -> AsyncIterator[Mapping[str, Any]]:
    """Every row of every page, each of which has its own time. `next_page` is awaited before each but the first.

    Raises ValueError for anything that is not a whole list, TimeoutError for a page that does not come.
    """
    for number in range(MOST_PAGES):
        if number:
            await next_page()
        async with asyncio.timeout(CALL_SECONDS):
            page = await read(client, url)
        found = page.get("value")
        if not isinstance(found, list):
            raise ValueError("a page without rows")  # noqa: TRY004 - as every answer that cannot be read
        for row in found:
            if not isinstance(row, Mapping):
                raise ValueError("a row that is no object")  # noqa: TRY004
            yield row
        url = str(page.get("nextLink") or "")
        if not url:
            return
        if not at_home(url, endpoint):
            raise ValueError("a page elsewhere: the token does not go there")
    raise ValueError("too many pages")


def at_home(url: str, endpoint: str) -> bool:
    """Whether a URL that an answer names is at ARM itself."""
    return urlsplit(url).hostname == urlsplit(endpoint).hostname


@contextmanager
def judging(verb: Verb, pool: str) -> Iterator[None]:
    """Whatever fails inside fails as a CloudError; what it was made of may hold secrets and is not shown."""
    try:
        yield
    except CloudError:
        raise
    except Exception as error:  # noqa: BLE001 - the contract: a CloudError and nothing else
        raise classify(error, pool=pool, verb=verb) from None


def decoded(content: bytes) -> Mapping[str, Any]:
    """A body as an object. Raises ValueError."""
    body = msgspec.json.decode(content)
    if not isinstance(body, Mapping):
        raise ValueError("not an object")  # noqa: TRY004 - as every answer that cannot be read
    return body
