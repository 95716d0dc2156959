"""Reads of ARM through the pipeline of the SDK, decoded with msgspec: decoding with the SDK's models takes ten times as
long as the rest of a LIST.

Each call is one request (`list_items`: one per page). A list is complete or an error. The token is sent to the host of
ARM only. Exceptions inside `translate_errors` become CloudErrors.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from azure.core.exceptions import HttpResponseError
from azure.core.rest import HttpRequest

from cloudprovider.errors import CloudError
from cloudprovider.interface import BeforePage, immediately

from .error_table import Verb
from .errors import classify

if TYPE_CHECKING:
    from azure.mgmt.containerservice.aio import ContainerServiceClient

CALL_SECONDS = 15.0
# One page holds 100 pools; the bound ends a list whose links form a circle.
MAX_PAGES = 100


async def get_object(client: "ContainerServiceClient", url: str) -> Mapping[str, Any]:
    """GET an object. Raises HttpResponseError for a status other than 200, ValueError for an invalid body."""
    return decode_object(await _get(client, url))


class Page(NamedTuple):
    """One page of a list; `next_link` is "" for the last one."""

    items: Sequence[Mapping[str, Any]]
    next_link: str


def decode_page_of_items(content: bytes) -> Page:
    """Decode a page with all of its items. Raises ValueError."""
    page = decode_object(content)
    items = page.get("value")
    if not isinstance(items, list):
        raise ValueError("a page without items")  # noqa: TRY004 - as for every invalid response
    if not all(isinstance(item, Mapping) for item in items):
        raise ValueError("an item that is not an object")
    return Page(items, str(page.get("nextLink") or ""))


async def list_items(
    client: "ContainerServiceClient",
    url: str,
    endpoint: str,
    *,
    before_page: BeforePage = immediately,
    decode: Callable[[bytes], Page] = decode_page_of_items,
) -> AsyncIterator[Mapping[str, Any]]:
    """The items of all pages; each request has its own timeout. `before_page` is awaited before each but the first.

    Raises ValueError if the list is invalid or incomplete, TimeoutError if a page takes too long.
    """
    for number in range(MAX_PAGES):
        if number:
            await before_page()
        async with asyncio.timeout(CALL_SECONDS):
            page = decode(await _get(client, url))
        for item in page.items:
            yield item
        url = page.next_link
        if not url:
            return
        if not is_arm_url(url, endpoint):
            raise ValueError("a next page at another host")
    raise ValueError("too many pages")


async def _get(client: "ContainerServiceClient", url: str) -> bytes:
    # stream=True: the SDK then neither decodes the body nor tries to register resource providers.
    response = await client.send_request(HttpRequest("GET", url), stream=True)
    await response.read()
    if response.status_code != 200:
        raise HttpResponseError(response=response)
    return response.content


def is_arm_url(url: str, endpoint: str) -> bool:
    """Whether the host of a URL from a response is that of ARM."""
    return urlsplit(url).hostname == urlsplit(endpoint).hostname


@contextmanager
def translate_errors(verb: Verb, pool: str) -> Iterator[None]:
    """Translate exceptions to CloudErrors, without a cause: it may contain secrets."""
    try:
        yield
    except CloudError:
        raise
    except Exception as error:  # noqa: BLE001 - calls raise only CloudError
        raise classify(error, pool=pool, verb=verb) from None


def decode_object(content: bytes) -> Mapping[str, Any]:
    """Decode a JSON object. Raises ValueError."""
    body = msgspec.json.decode(content)
    if not isinstance(body, Mapping):
        raise ValueError("not an object")  # noqa: TRY004 - as for every invalid response
    return body
