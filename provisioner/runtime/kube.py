"""Typed client of the Kubernetes API.

Each call is one request, or one request per page of a list. It is bounded in time and size and raises only KubeError;
cancellation passes. A list is complete or an error. A JSON response of another kind is an error, because our types
would decode it into an object of default values.

Source: docs/references/kubernetes.md#list-and-watch, docs/references/kubernetes.md#writes,
docs/references/kubernetes.md#eviction.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from copy import copy
from random import Random  # noqa: TID251 - the type; the caller seeds it
from typing import Any, Literal, TypeVar

import msgspec
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

from provisioner.api.pod import Pod

from . import access_reviews
from .api_discovery import ApiResource, ApiResourceList, resources
from .decoding import ObjectList, decoded
from .fence import Fence
from .kube_errors import KubeError, unexpected
from .kubernetes_sdk import ApiClient
from .objects import KubeObject
from .paging import read_pages
from .permissions import Permission
from .resources import PODS, Resource, is_name
from .transport import RESPONSE_BYTES, OnRequest, Request, Transport
from .watch import EventType, WatchEvent, cut_event, event, lines
from .write_through import WriteThrough

__all__ = ["EventType", "Kube", "KubeError", "ObjectList", "WatchEvent"]

T = TypeVar("T", bound=KubeObject)
Kept = TypeVar("Kept")
Review = TypeVar("Review")
PatchType = Literal["merge", "json"]
Patch = Mapping[str, Any] | list[Any]

CONTENT_TYPES: Mapping[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
}
LIST_ATTEMPTS = 3
IDLE_TIMEOUT_SECONDS = 75.0


class Kube:
    """`timeout_seconds` bounds each request except a watch, until the last byte of the response.

    `bytes_max`: the longest response that is read, and the longest event of a watch. `caches` are shown each write.
    `server`: the cluster as messages name it.
    """

    def __init__(
        self,
        api_client: ApiClient,
        *,
        server: str = "",
        timeout_seconds: float = 10.0,
        bytes_max: int = RESPONSE_BYTES,
        renew_credentials: Callable[[], Awaitable[None]] | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        self.server = server
        self._timeout_seconds = timeout_seconds
        self._transport = Transport(
            api_client,
            timeout_seconds=timeout_seconds,
            bytes_max=bytes_max,
            renew_credentials=renew_credentials,
            on_request=on_request,
        )
        self.caches = WriteThrough()
        # Commands of a user write without a Lease.
        self.fence = Fence()

    def fenced(self, fence: Fence) -> "Kube":
        """The same client, whose writes pass this fence: they raise LeaseExpires, too."""
        kube = copy(self)
        kube.fence = fence
        return kube

    async def get(self, resource: Resource[T], name: str, *, namespace: str = "") -> T:
        """Read one object from the API server. `KubeError.not_found` proves that it does not exist."""
        request = _request("GET", "get", resource, name, namespace)
        return _named(decoded(await self._transport.send(request), resource, request.what), request, name)

    async def find(self, resource: Resource[T], name: str, *, namespace: str = "") -> T | None:
        """The same object, or None if it is proven not to exist."""
        try:
            return await self.get(resource, name, namespace=namespace)
        except KubeError as error:
            if error.not_found:
                return None
            raise

    async def list(
        self,
        resource: Resource[T],
        *,
        digest: Callable[[T], Kept | None],
        field_selector: str = "",
        label_selector: str = "",
        namespace: str = "",
        limit: int = 500,
    ) -> ObjectList[Kept]:
        """All objects at one resourceVersion, read in pages of `limit`, or of fewer if a page would be too large.

        An object that is too large by itself has its metadata only, and is named in `ObjectMeta.unreadable`.
        If the continue token expires (410), the list starts again, at most 3 times. `digest` replaces each object as
        it is decoded, None leaves it out (`kept`): what is kept decides the memory of a list, not what exists.
        """
        query = _query(fieldSelector=field_selector, labelSelector=label_selector)
        path, what = resource.path(namespace=namespace), f"list {resource.plural}"
        request = Request("list", "GET", path, resource.plural, what, query)
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(LIST_ATTEMPTS), retry=retry_if_exception(_expired), reraise=True
        ):
            with attempt:
                return await read_pages(self._transport, resource, request, limit=limit, digest=digest)
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
        """Events after `resource_version` until the server ends the watch, by default after 240 to 300 s.

        Raises KubeError on an ERROR event (410: list again), after `idle_timeout_seconds` without a byte (the server
        sends a bookmark each minute), on a broken connection, and on anything that is not a watch event. An event that
        is too large has the metadata of its object only. Close it with `aclosing`. `on_open` is called when the server
        has accepted the watch.
        """
        timeout_seconds = timeout_seconds or rng.uniform(240, 300)
        what = f"watch {resource.plural}"
        query = _query(
            fieldSelector=field_selector,
            labelSelector=label_selector,
            resourceVersion=resource_version,
            allowWatchBookmarks="true",
            watch="true",
            timeoutSeconds=str(max(1, round(timeout_seconds))),
        )
        request = Request("watch", "GET", resource.path(namespace=namespace), resource.plural, what, query)
        # The total timeout is for a server that does not end the watch.
        async with (
            self._transport.stream(
                request, idle_timeout_seconds=idle_timeout_seconds, total_seconds=timeout_seconds + idle_timeout_seconds
            ) as chunks,
            aclosing(lines(chunks, what=what, bytes_max=self._transport.bytes_max)) as stream,
        ):
            if on_open is not None:
                on_open()
            async for line in stream:
                yield event(line.text, resource, what) if line.whole else cut_event(line.text, resource, what)

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
        """The object after the patch. A `metadata.resourceVersion` in a merge patch is a precondition."""
        request = _request(
            "PATCH",
            "patch",
            resource,
            name,
            namespace,
            subresource=subresource,
            body=body,
            content_type=CONTENT_TYPES[patch_type],
        )
        answer = _named(decoded(await self._write(request), resource, request.what), request, name)
        return self.caches.written(resource, answer)

    async def create(self, resource: Resource[T], body: Any, *, namespace: str = "") -> T:
        """The created object. `KubeError.conflict` (reason AlreadyExists) if the name exists."""
        path = resource.path(namespace=namespace)
        request = Request(
            "create", "POST", path, resource.plural, f"create {resource.kind}", body=_with_type_meta(body, resource)
        )
        return self.caches.written(resource, decoded(await self._write(request), resource, request.what))

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        namespace: str = "",
        dry_run: bool = False,
    ) -> None:
        """Delete the object. `uid` and `resource_version` are preconditions (409 if they do not match).

        `dry_run`: the API server answers as it would, after all admission policies, and deletes nothing.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if conditions := {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}:
            options["preconditions"] = conditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        query: tuple[tuple[str, str], ...] = ()
        if dry_run:
            # The body decides. Audit logs have the query, and at most levels no body.
            options["dryRun"], query = ["All"], _query(dryRun="All")
        request = _request("DELETE", "delete", resource, name, namespace, query=query, body=options)
        if dry_run:
            await self._transport.send(request)
        else:
            key = f"{namespace}/{name}" if namespace else name
            self.caches.deleted(resource, await self._write(request), key, uid)

    async def evict(self, pod: Pod) -> None:
        """Evict the pod with this UID. 429: a PodDisruptionBudget does not allow it now."""
        meta = pod.metadata
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": {"preconditions": {"uid": meta.uid}},
        }
        await self._write(_request("POST", "evict", PODS, meta.name, meta.namespace, subresource="eviction", body=body))

    async def username(self) -> str:
        """The user name of this client. Raises KubeError with status 404 before Kubernetes 1.28."""
        return (
            await self._review(access_reviews.subject_review(), access_reviews.SelfSubjectReview)
        ).status.user_info.username

    async def can_i(self, permission: Permission, *, namespace: str = "", name: str = "") -> bool:
        """Whether this client has the permission; an empty namespace means all namespaces."""
        request = access_reviews.access_review(permission, namespace=namespace, name=name)
        return (await self._review(request, access_reviews.SelfSubjectAccessReview)).status.allowed

    async def authenticate(self, token: str) -> access_reviews.UserInfo | None:
        """Whose token this is; None if it is not valid. Raises KubeError."""
        found = (await self._review(access_reviews.token_review(token), access_reviews.TokenReview)).status
        return found.user if found.authenticated else None

    async def authorize(self, user: access_reviews.UserInfo, path: str) -> bool:
        """Whether this user may `get` this path. Raises KubeError."""
        request = access_reviews.path_review(user, path)
        return (await self._review(request, access_reviews.SelfSubjectAccessReview)).status.allowed

    async def version(self) -> str:
        """The API server's version, as in `v1.34.4`."""
        return (await self._review(access_reviews.version(), access_reviews.Version)).git_version

    async def api_resource(self, group: str, version: str, plural: str) -> ApiResource | None:
        """The resource of this name; None if the API server does not serve it."""
        request = resources(group, version)
        try:
            found = access_reviews.decode(await self._transport.send(request), ApiResourceList, request)
        except KubeError as error:
            if error.not_found or error.status == 404:
                return None
            raise
        return next((one for one in found.resources if one.name == plural), None)

    async def _review(self, request: Request, kind: type[Review]) -> Review:
        return access_reviews.decode(await self._transport.send(request), kind, request)

    async def _write(self, request: Request) -> bytes:
        return await self.fence.send(request.what, self._timeout_seconds, lambda: self._transport.send(request))


def _named(found: T, request: Request, name: str) -> T:
    if found.metadata.name != name:
        raise unexpected(200, f"{request.what}: the response is about {found.metadata.name!r}")
    return found


def _request(
    method: str,
    verb: str,
    resource: Resource[T],
    name: str,
    namespace: str,
    *,
    subresource: str = "",
    query: tuple[tuple[str, str], ...] = (),
    body: Any = None,
    content_type: str = "application/json",
) -> Request:
    if not name:
        raise ValueError(f"{verb} {resource.plural}: the name is empty, and the path would mean all objects")
    shown = f"{namespace}/{name}" if namespace else name
    if not is_name(name):
        # The name is from a field that the API server does not check. It has refused every object of this name.
        message = f"{verb} {resource.kind} {shown[:80]!r}: no object can have this name"
        raise KubeError(404, "NotFound", message, named=name[:80])
    path = resource.path(name, namespace, subresource)
    what = f"{verb} {resource.kind}{'/' + subresource if subresource else ''} {shown}"
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return Request(verb, method, path, plural, what, query=query, body=body, content_type=content_type)


def _with_type_meta(body: Any, resource: Resource[T]) -> dict[str, Any]:
    # Structs omit fields that equal their default, among them kind and apiVersion.
    return {"apiVersion": resource.api_version, "kind": resource.kind, **msgspec.to_builtins(body, enc_hook=dict)}


def _query(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in values.items() if value)


def _expired(error: BaseException) -> bool:
    return isinstance(error, KubeError) and error.gone
