"""Pages of a list: as many objects as a response may have bytes for, and the metadata of one that is too large alone.

Source: docs/references/kubernetes.md#list-and-watch,
https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from .decoding import ObjectList, metadata_page, page
from .kube_errors import KubeError, unexpected
from .objects import KubeObject
from .resources import Resource
from .transport import Request, Transport

T = TypeVar("T", bound=KubeObject)
Kept = TypeVar("Kept")

# More than a cluster has objects of a kind: a page of large objects has only one.
PAGES_MAX = 200_000
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


async def read_pages(
    transport: Transport,
    resource: Resource[T],
    request: Request,
    *,
    limit: int,
    digest: Callable[[T], Kept | None],
) -> ObjectList[Kept]:
    """What `digest` keeps of the list that `request` is about, in pages of at most `limit`. Raises KubeError."""
    items: list[Kept] = []
    version, token, count = "", "", limit
    for _ in range(PAGES_MAX):
        body, count, whole = await _page(transport, request, token, count)
        found, head_version, token = (page if whole else metadata_page)(body, resource, request.what)
        if len(body) < transport.bytes_max // 4:
            count = min(limit, 2 * count)
        version = version or head_version
        items += (kept for one in found if (kept := digest(one)) is not None)
        if not token:
            return ObjectList(tuple(items), version)
    raise unexpected(200, f"{request.what}: more than {PAGES_MAX} pages")


async def _page(transport: Transport, request: Request, token: str, count: int) -> tuple[bytes, int, bool]:
    """A page, the number of objects that it has at most, and whether it has them whole or their metadata only."""
    while True:
        query = (*request.query, ("limit", str(count)), *((("continue", token),) if token else ()))
        try:
            return await transport.send(replace(request, query=query)), count, True
        except KubeError as error:
            if not error.too_large:
                raise
        if count == 1:
            return await transport.send(replace(request, query=query, accept=METADATA_ONLY)), count, False
        count //= 2
