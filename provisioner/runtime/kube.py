"""The Kubernetes API, as calls on typed objects.

Each call is one request (a list: one a page), bounded in time and size, raising KubeError and nothing else;
cancellation passes. A list is whole or an error: it is never shorter than the truth it claims to be. An answer that
is JSON but not the asked-for kind is an error, because our types would read it as an object full of defaults.

Source: docs/references/kubernetes.md#list-and-watch, docs/references/kubernetes.md#writes,
docs/references/kubernetes.md#eviction.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import Any, Literal, TypeVar

import msgspec
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

from provisioner.api.pod import Pod

from . import access_reviews
from .decoding import ObjectList, decoded, page
from .kube_errors import KubeError, unexpected
from .kubernetes_sdk import ApiClient
from .objects import KubeObject
from .resources import PODS, Resource
from .rights import Right
from .transport import OBJECT_BYTES, PAGE_BYTES, OnRequest, Request, Transport
from .watch import EventType, WatchEvent, event, lines

__all__ = ["EventType", "Kube", "KubeError", "ObjectList", "WatchEvent"]

T = TypeVar("T", bound=KubeObject)
Review = TypeVar("Review")
PatchType = Literal["merge", "json"]
Patch = Mapping[str, Any] | list[Any]

CONTENT_TYPES: Mapping[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
}
LIST_TRIES = 3
PAGES_MAX = 2000
IDLE_TIMEOUT_SECONDS = 75.0


class Kube:
    """`timeout_seconds` bounds each request but a watch, from sending it to the last byte of its answer."""

    def __init__(
        self,
        api_client: ApiClient,
        *,
        timeout_seconds: float = 10.0,
        renew_credentials: Callable[[], Awaitable[None]] | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        self._transport = Transport(
            api_client, timeout_seconds=timeout_seconds, renew_credentials=renew_credentials, on_request=on_request
        )

    async def get(self, resource: Resource[T], name: str, *, namespace: str = "") -> T:
        """One fresh read. `KubeError.not_found` proves that the object is absent."""
        return await self._object(_request("GET", "get", resource, name, namespace), resource, name)

    async def list(
        self,
        resource: Resource[T],
        *,
        field_selector: str = "",
        label_selector: str = "",
        namespace: str = "",
        limit: int = 500,
    ) -> ObjectList[T]:
        """All objects, in pages of `limit`, all pages of one version.

        When the rest of the pages has expired (410), the whole list begins anew, 3 tries at most.
        """
        query = _query(fieldSelector=field_selector, labelSelector=label_selector, limit=str(limit))
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(LIST_TRIES), retry=retry_if_exception(_expired), reraise=True
        ):
            with attempt:
                return await self._pages(resource, namespace, query)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def watch(
        self,
        resource: Resource[T],
        *,
        resource_version: str,
        rng: Random,
        timeout_seconds: float = 0.0,
        idle_timeout_seconds: float = IDLE_TIMEOUT_SECONDS,
        field_selector: str = "",
        label_selector: str = "",
        namespace: str = "",
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Events after `resource_version` until the server ends the watch, by itself after 240 to 300 s.

        Ends by KubeError on an ERROR event (410: list anew), on `silence_seconds` without a byte (bookmarks come each
        minute), on a broken connection, and on anything that is not a watch event. Close it with `aclosing`. `on_open`
        is called once the server has agreed to the watch.
        """
        asked_seconds = timeout_seconds or rng.uniform(240, 300)
        what = f"watch {resource.plural}"
        query = _query(
            fieldSelector=field_selector,
            labelSelector=label_selector,
            resourceVersion=resource_version,
            allowWatchBookmarks="true",
            watch="true",
            timeoutSeconds=str(max(1, round(asked_seconds))),
        )
        request = Request("watch", "GET", resource.path(namespace=namespace), resource.plural, what, query)
        # The server ends the watch in time; the total is for one that does not.
        async with (
            self._transport.stream(
                request, idle_timeout_seconds=idle_timeout_seconds, total_seconds=asked_seconds + idle_timeout_seconds
            ) as chunks,
            aclosing(lines(chunks, what=what, bytes_max=OBJECT_BYTES)) as stream,
        ):
            if on_open is not None:
                on_open()
            async for line in stream:
                yield event(line, resource, what)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Patch,
        *,
        patch_type: PatchType,
        subresource: str = "",
        namespace: str = "",
    ) -> T:
        """The object as it is after the patch. A `metadata.resourceVersion` in a merge patch makes it conditional."""
        request = _request(
            "PATCH",
            "patch",
            resource,
            name,
            namespace,
            subresource=subresource,
            body=_plain(body),
            content_type=CONTENT_TYPES[patch_type],
        )
        return await self._object(request, resource, name)

    async def create(self, resource: Resource[T], body: Any, *, namespace: str = "") -> T:
        """The object as it was created. `KubeError.conflict` (reason AlreadyExists) if its name is taken."""
        path = resource.path(namespace=namespace)
        request = Request(
            "create", "POST", path, resource.plural, f"create {resource.kind}", body=_whole(body, resource)
        )
        return decoded(await self._transport.send(request), resource, request.what)

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        namespace: str = "",
    ) -> None:
        """Ask for the object's removal; `uid` and `resource_version` are preconditions (409 if they do not hold)."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if conditions := {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}:
            options["preconditions"] = conditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self._transport.send(_request("DELETE", "delete", resource, name, namespace, body=options))

    async def evict(self, pod: Pod) -> None:
        """Ask for the eviction of exactly this pod. 429: a disruption budget forbids it for now."""
        meta = pod.metadata
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": {"preconditions": {"uid": meta.uid}},
        }
        await self._transport.send(
            _request("POST", "evict", PODS, meta.name, meta.namespace, subresource="eviction", body=body)
        )

    async def username(self) -> str:
        """Who the API server takes us for. Servers before Kubernetes 1.28 do not tell: a KubeError of status 404."""
        return (
            await self._review(access_reviews.subject_review(), access_reviews.SelfSubjectReview)
        ).status.user_info.username

    async def can_i(self, right: Right, *, namespace: str = "", name: str = "") -> bool:
        """Whether we have this right; without a namespace in all of them."""
        request = access_reviews.access_review(right, namespace=namespace, name=name)
        return (await self._review(request, access_reviews.SelfSubjectAccessReview)).status.allowed

    async def version(self) -> str:
        """The API server's version, as in `v1.34.4`."""
        return (await self._review(access_reviews.version(), access_reviews.Version)).git_version

    async def _review(self, request: Request, kind: type[Review]) -> Review:
        return access_reviews.decode(await self._transport.send(request), kind, request)

    async def _object(self, request: Request, resource: Resource[T], name: str) -> T:
        answer = decoded(await self._transport.send(request), resource, request.what)
        if answer.metadata.name != name:
            raise unexpected(200, f"{request.what}: the answer is about {answer.metadata.name!r}")
        return answer

    async def _pages(self, resource: Resource[T], namespace: str, query: tuple[tuple[str, str], ...]) -> ObjectList[T]:
        what, path = f"list {resource.plural}", resource.path(namespace=namespace)
        items: list[T] = []
        version, more = "", ""
        for _ in range(PAGES_MAX):
            asked = (*query, ("continue", more)) if more else query
            request = Request("list", "GET", path, resource.plural, what, asked, bytes_max=PAGE_BYTES)
            found, head_version, more = page(await self._transport.send(request), resource, what)
            version = version or head_version
            items += found
            if not more:
                return ObjectList(tuple(items), version)
        raise unexpected(200, f"{what}: more than {PAGES_MAX} pages")


def _request(
    method: str,
    verb: str,
    resource: Resource[T],
    name: str,
    namespace: str,
    *,
    subresource: str = "",
    body: Any = None,
    content_type: str = "application/json",
) -> Request:
    if not name:
        raise ValueError(f"{verb} {resource.plural}: a name is needed; without one the path means all objects")
    path = resource.path(name, namespace, subresource)
    shown = f"{namespace}/{name}" if namespace else name
    what = f"{verb} {resource.kind}{'/' + subresource if subresource else ''} {shown}"
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return Request(verb, method, path, plural, what, body=body, content_type=content_type)


def _plain(body: Any) -> Any:
    # The SDK serializes with json.dumps; our frozen mappings and Structs become dicts and lists first.
    return msgspec.json.decode(msgspec.json.encode(body, enc_hook=dict))


def _whole(body: Any, resource: Resource[T]) -> dict[str, Any]:
    # Our Structs leave out what equals a default, and their kind does.
    return {"apiVersion": resource.api_version, "kind": resource.kind, **_plain(body)}


def _query(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in values.items() if value)


def _expired(error: BaseException) -> bool:
    return isinstance(error, KubeError) and error.gone
