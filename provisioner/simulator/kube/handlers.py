"""Handles one request for objects: get, list, create, replace, patch, delete, evict, bind.

Statuses, bodies and warnings are those of kube-apiserver: 201 on create, an object or a Status on delete, items of
built-in kinds without `kind`, Tables on request.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/,
https://github.com/kubernetes/apiserver/tree/master/pkg/endpoints/handlers.
"""

from datetime import datetime

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from . import apply, requests
from .binding import bind
from .errors import ApiError, method_not_allowed, not_found, unserved
from .eviction import evict
from .objects import Json, Record, rfc3339
from .reads import ListOptions, Page, View
from .requests import Target
from .resources import Resource
from .selectors import Predicate, selector
from .store import Store
from .table import table
from .writes import WriteOptions, check_identity

_TOO_LARGE = "Request entity too large: limit is 3145728"


def json_response(body: object, status: int = 200, warnings: list[str] | None = None) -> web.Response:
    """A JSON response, with warnings as headers, which kubectl prints."""
    headers: CIMultiDict[str] = CIMultiDict()
    for warning in warnings or []:
        headers.add("Warning", '299 - "{}"'.format(warning.replace("\\", "\\\\").replace('"', '\\"')))
    encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return web.Response(body=encoded, status=status, headers=headers, content_type="application/json")


def chosen(resource: Resource, request: web.Request, name: str = "") -> Predicate | None:
    """The request's selectors as a predicate."""
    fields = request.query.get("fieldSelector", "")
    return selector(
        request.query.get("labelSelector", ""), fields or (f"metadata.name={name}" if name else ""), resource.selectable
    )


async def body_of(request: web.Request) -> bytes:
    """The request's body. Raises ApiError 413 beyond 3 MiB."""
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiError(413, "RequestEntityTooLarge", _TOO_LARGE) from error


class Handlers:
    """The handlers of one store and one view of it."""

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view

    async def handle(self, request: web.Request, target: Target) -> web.Response:
        """Handle any request except a watch."""
        resource = self._store.collection(target.resource).resource
        if not _has(resource, target.subresource):
            raise unserved()
        match request.method, bool(target.name), target.subresource:
            case "GET", False, "":
                return self._list(request, resource, target)
            case "GET", True, "" | "status":
                return self._get(request, resource, target)
            case "POST", False, "":
                return await self._create(request, target)
            case "POST", True, "eviction" if target.resource == "pods":
                return await self._evict(request, target)
            case "POST", True, "binding" if target.resource == "pods":
                return await self._bind(request, target)
            case ("PUT" | "PATCH") as verb, True, "" | "status":
                return await self._change(request, resource, target, verb)
            case "DELETE", True, "":
                return await self._delete(request, resource, target)
        raise method_not_allowed()

    def _get(self, request: web.Request, resource: Resource, target: Target) -> web.Response:
        collection = self._store.collection(target.resource)
        record = self._view.get(collection, (target.namespace, target.name), request.query.get("resourceVersion", ""))
        if record is None:
            raise not_found(target.resource, target.name)
        if requests.shape(request.headers.get("Accept", "")) == "table":
            meta = {"resourceVersion": record.obj["metadata"]["resourceVersion"]}
            return json_response(self._table(request, resource, [record], meta))
        return json_response(record.raw)

    def _list(self, request: web.Request, resource: Resource, target: Target) -> web.Response:
        query = request.query
        requests.check_list(query)
        options = ListOptions(
            namespace=target.namespace,
            chosen=chosen(resource, request),
            limit=requests.number(query, "limit"),
            token=query.get("continue", ""),
            revision=query.get("resourceVersion", ""),
            exact=query.get("resourceVersionMatch") == "Exact",
        )
        page = self._view.page(self._store.collection(target.resource), options)
        meta: Json = {"resourceVersion": str(page.revision)}
        if page.token:
            meta["continue"] = page.token
        if page.remaining is not None:
            meta["remainingItemCount"] = page.remaining
        if requests.shape(request.headers.get("Accept", "")) == "table":
            return json_response(self._table(request, resource, page.records, meta))
        return json_response(_encoded_list(resource, page, meta))

    def _table(self, request: web.Request, resource: Resource, records: list[Record], meta: Json) -> Json:
        now: datetime = self._store.now()
        return table(resource, records, meta, now=now, include=requests.include_object(request.query))

    async def _create(self, request: web.Request, target: Target) -> web.Response:
        resource = self._store.collection(target.resource).resource
        custom = resource.schema is not None
        sent = requests.decode(await body_of(request), request.content_type, resource.kind, custom=custom)
        warnings: list[str] = []
        obj = self._store.create(target.resource, sent, target.namespace, options=_options(request, warnings))
        return self._answer(request, target, obj, 201, warnings)

    async def _change(self, request: web.Request, resource: Resource, target: Target, verb: str) -> web.Response:
        body, warnings = await body_of(request), list[str]()
        options = _options(request, warnings)
        where = (target.resource, target.name)
        if verb == "PATCH" and request.content_type == apply.CONTENT_TYPE:
            obj, status = self._apply(request, resource, target, body, options)
            return self._answer(request, target, obj, status, warnings)
        if verb == "PUT":
            sent = requests.decode(body, request.content_type, resource.kind, custom=resource.schema is not None)
            obj = self._store.replace(*where, sent, target.namespace, subresource=target.subresource, options=options)
        else:
            patch, how = requests.decode_patch(body, request.content_type, custom=resource.schema is not None)
            obj = self._store.patch(
                *where, patch, target.namespace, how=how, subresource=target.subresource, options=options
            )
        return self._answer(request, target, obj, 200, warnings)

    def _apply(
        self, request: web.Request, resource: Resource, target: Target, body: bytes, options: WriteOptions
    ) -> tuple[Json, int]:
        """Server-side apply; creates the object if it is absent."""
        where, query = (target.resource, target.name), request.query
        sent, manager = requests.decode_apply(body), requests.field_manager(query)
        check_identity(resource, sent, name=target.name, namespace=target.namespace)
        old = self._store.get(*where, target.namespace)
        if old is None and target.subresource:
            raise not_found(*where)
        force, now = requests.flag(query, "force"), rfc3339(self._store.now())
        made = apply.applied(old, sent, manager=manager, force=force, now=now)
        if old is None:
            return self._store.create(target.resource, made, target.namespace, options=options), 201
        kept = self._store.replace(*where, made, target.namespace, subresource=target.subresource, options=options)
        return kept, 200

    def _answer(
        self, request: web.Request, target: Target, obj: Json, status: int, warnings: list[str]
    ) -> web.Response:
        if requests.shape(request.headers.get("Accept", "")) == "table" and "resourceVersion" in obj["metadata"]:
            resource, meta = (
                self._store.collection(target.resource).resource,
                {"resourceVersion": obj["metadata"]["resourceVersion"]},
            )
            return json_response(self._table(request, resource, [Record(obj)], meta), status, warnings)
        return json_response(obj, status, warnings)

    async def _delete(self, request: web.Request, resource: Resource, target: Target) -> web.Response:
        body, query = await body_of(request), request.query
        wanted: Json = requests.decode(body, request.content_type, "DeleteOptions") if body else dict(query)
        preconditions = wanted.get("preconditions") or {}
        requested = wanted.get("dryRun")
        dry_runs = requested if isinstance(requested, list) else query.getall("dryRun", [])
        obj, gone = self._store.delete(
            target.resource,
            target.name,
            target.namespace,
            uid=preconditions.get("uid"),
            rv=preconditions.get("resourceVersion"),
            grace=requests.number(wanted, "gracePeriodSeconds") if "gracePeriodSeconds" in wanted else None,
            policy=requests.propagation(wanted.get("propagationPolicy")),
            options=WriteOptions(dry_run=requests.dry_run(dry_runs, "DeleteOptions")),
        )
        if resource.returns_deleted or not gone:
            return json_response(obj)
        details = {"name": target.name, "group": resource.group, "kind": resource.plural, "uid": obj["metadata"]["uid"]}
        return json_response(_success(details))

    async def _evict(self, request: web.Request, target: Target) -> web.Response:
        sent = requests.decode(await body_of(request), request.content_type, "Eviction")
        requested = (sent.get("deleteOptions") or {}).get("dryRun")
        evict(self._store, target.name, target.namespace, sent, options=_options(request, [], requested))
        return json_response({**_success({}), "code": 201}, 201)

    async def _bind(self, request: web.Request, target: Target) -> web.Response:
        sent = requests.decode(await body_of(request), request.content_type, "Binding")
        bind(self._store, target.name, target.namespace, sent, options=_options(request, []))
        return json_response({**_success({}), "code": 201}, 201)


def _has(resource: Resource, subresource: str) -> bool:
    served = {"": True, "status": resource.has_status, **dict.fromkeys(("eviction", "binding"), resource.key == "pods")}
    return served.get(subresource, False)


_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def _options(request: web.Request, warnings: list[str], dry_runs: list[str] | None = None) -> WriteOptions:
    kind = _OPTIONS[request.method]
    return WriteOptions(
        dry_run=requests.dry_run([*request.query.getall("dryRun", []), *(dry_runs or [])], kind),
        field_validation=requests.field_validation(request.query, kind),
        warn=warnings.append,
    )


def _success(details: Json) -> Json:
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**body, "details": {k: v for k, v in details.items() if v}} if details else body


def _encoded_list(resource: Resource, page: Page, meta: Json) -> bytes:
    """A list joined from the bytes of its objects; items of built-in kinds have no `kind`."""
    head = msgspec.json.encode({"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": meta})
    prefix = msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind})[:-1] + b","
    cut = 0 if resource.schema is not None else len(prefix)
    items = b",".join(b"{" + r.raw[cut:] if cut and r.raw.startswith(prefix) else r.raw for r in page.records)
    return head[:-1] + b',"items":[' + items + b"]}"
