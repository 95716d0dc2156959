"""The simulated Kubernetes API server: an aiohttp application over a store.

kubectl and other JSON clients work with it over sockets and in memory. Time advances only with the loop's timers and
the store's `now`. For tests, `faults` respond in its place, `after` hooks see every response, `freeze_view` makes it
lag, and `store.compact` expires watches.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/, docs/references/kubernetes.md#kubectl.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable

from aiohttp import web

from . import discovery, openapi, protobuf, requests, reviews
from .errors import ApiError, unserved
from .garbage_collector import Collector
from .handlers import Handlers, body_of, json_response
from .objects import Json, rfc3339
from .reads import View
from .requests import Target
from .resources import CRD_KEY
from .store import Store
from .watch_streams import Notifier, Source, Stream, WatchTimes

Fault = Callable[[web.Request], web.StreamResponse | Awaitable[web.StreamResponse | None] | None]
After = Callable[[web.Request, web.StreamResponse], None]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TARGET: web.RequestKey[Target | None] = web.RequestKey("TARGET", Target | None)  # type: ignore[arg-type]
_BODY_BYTES = 3 * 1024 * 1024
_OPEN_PATHS = ("/healthz", "/livez", "/readyz")


class ApiServer:
    """One API server. The caller runs `app` on sockets or in memory.

    `token`: the required bearer token, None for none. `crds` are created unless the store has them. A fault returns a
    response, or None to let the request pass; `request[TARGET]` is the object in the path (a `Target`, or None).
    `caller`: the user of all requests. `expired_as_status`: report an expired watch by HTTP 410 instead of an ERROR
    event; kube-apiserver does either. `around` wraps the handler of all requests; a middleware is not used, because
    aiohttp caches the last 1,024 wrapped handlers, and with them whole worlds.
    """

    def __init__(
        self,
        store: Store,
        *,
        token: str | None = None,
        crds: Iterable[Json] = (),
        times: WatchTimes | None = None,
        around: Callable[[Handler], Handler] | None = None,
    ) -> None:
        self.faults: list[Fault] = []
        self.after: list[After] = []
        self.expired_as_status = False
        self.caller = reviews.Caller()
        self.collector = Collector(store)
        self._store = store
        self._token = token
        self._view = View(store)
        self._notifier = Notifier()
        self._handlers = Handlers(store, self._view)
        self._source = Source(store, self._view, self._notifier, times or WatchTimes())
        for crd in crds:
            if store.get(CRD_KEY, crd["metadata"]["name"]) is None:
                store.create(CRD_KEY, crd)
        store.subscribe(lambda *_: self._notifier.written())
        self.app = web.Application(client_max_size=_BODY_BYTES)
        self.app.router.add_route("*", "/{path:.*}", around(self._serve) if around else self._serve)
        self.app.on_startup.append(self._start)
        self.app.on_shutdown.append(self._stop)

    def freeze_view(
        self,
        revision: int,
        *,
        consistent_lists: bool = False,
        consistent_selections: bool = False,
        kinds: Iterable[str] = (),
    ) -> None:
        """Lag: watches stop and lists show `revision`, until `thaw`; GETs and writes stay current.

        kube-apiserver lags only in lists that allow it (`resourceVersion=0`), which is `consistent_lists`; with
        `consistent_selections` only lists with a selector are current. With `kinds` (`nodes`,
        `nodeclaims.karpenter.sh`) only these lag.
        """
        self._view.freeze(
            revision, consistent_lists=consistent_lists, consistent_selections=consistent_selections, kinds=kinds
        )

    def lose_event(self, revision: int) -> None:
        """No watch delivers this write; lists show it."""
        self._view.lose(revision)

    def thaw(self) -> None:
        """End the lag: watches deliver the missed events."""
        self._view.thaw()
        self._notifier.notify()

    async def _start(self, _: web.Application) -> None:
        self.collector.start()

    async def _stop(self, _: web.Application) -> None:
        self.collector.stop()
        self._notifier.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        target = requests.target(request.path)
        request[TARGET] = target
        try:
            response = await self._faulted(request) or await self._answer(request, target)
        except ApiError as error:
            response = _status(error)
        except (ConnectionError, web.RequestPayloadError):
            raise
        except Exception as error:
            # aiohttp responds with 500 and continues; a bug of the simulator must not look like an injected fault.
            context = {"message": f"{request.method} {request.path}", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            raise
        for hook in self.after:
            hook(request, response)
        return response

    async def _faulted(self, request: web.Request) -> web.StreamResponse | None:
        for fault in self.faults:
            answer = fault(request)
            response = await answer if isawaitable(answer) else answer
            if response is not None:
                return response
        return None

    async def _answer(self, request: web.Request, target: Target | None) -> web.StreamResponse:
        if request.path in _OPEN_PATHS:
            return web.Response(text="ok")
        if self._token is not None and request.headers.get("Authorization") != f"Bearer {self._token}":
            raise ApiError(401, "Unauthorized", "Unauthorized")
        if target is None:
            return self._described(request)
        if target.resource in reviews.KINDS:
            return await self._reviewed(request, target.resource)
        served = {(resource.key, resource.version) for resource in self._store.resources}
        if (target.resource, target.version) not in served:
            return self._unserved(target)
        if request.method == "GET" and not target.name and requests.flag(request.query, "watch"):
            return await self._watch(request, target)
        return await self._handlers.handle(request, target)

    async def _reviewed(self, request: web.Request, resource: str) -> web.Response:
        body = await body_of(request)
        kind = reviews.KINDS[resource]
        if request.content_type == protobuf.CONTENT_TYPE and kind in protobuf.KINDS:
            sent = protobuf.decode(body, kind)
        else:
            sent = requests.decode(body, request.content_type, kind) if body else {}
        now = rfc3339(self._store.now())
        return json_response(reviews.review(request.method, resource, sent, self.caller, now), 201)

    def _unserved(self, target: Target) -> web.Response:
        """An unknown kind of a built-in group and version is a Status; of another group, which a CRD may add, text."""
        built_in = {r.group for r in self._store.resources if r.schema is None and r.version == target.version}
        if target.resource.partition(".")[2] in built_in:
            raise unserved()
        return _no_page()

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        stream = Stream(self._source, request, target)
        if self.expired_as_status:
            stream.check_window()
        return await stream.run()

    def _described(self, request: web.Request) -> web.StreamResponse:
        """Discovery and OpenAPI."""
        resources, parts = self._store.resources, request.path.strip("/").split("/")
        match parts:
            case ["version"]:
                return json_response(discovery.VERSION)
            case ["api" | "apis"] if "as=APIGroupDiscoveryList" in request.headers.get("Accept", ""):
                response = json_response(discovery.aggregated(resources, core=parts == ["api"]))
                response.headers["Content-Type"] = discovery.AGGREGATED
                return response
            case ["api"]:
                return json_response(discovery.api_versions())
            case ["apis"]:
                return json_response(discovery.group_list(resources))
            case ["api", version]:
                return _page(discovery.resource_list(resources, "", version))
            case ["apis", group]:
                return _page(discovery.group(resources, group))
            case ["apis", group, version]:
                return _page(discovery.resource_list(resources, group, version))
            case ["openapi", "v3"]:
                return json_response(openapi.index(resources))
            case ["openapi", "v3", *place]:
                return _page(openapi.document(resources, "/".join(place)))
        return _no_page()


def _status(error: ApiError) -> web.Response:
    response = json_response(error.body(), error.status)
    if error.details and "retryAfterSeconds" in error.details:
        response.headers["Retry-After"] = str(error.details["retryAfterSeconds"])
    return response


def _page(found: Json | None) -> web.Response:
    return _no_page() if found is None else json_response(found)


def _no_page() -> web.Response:
    """kube-apiserver's response to unknown paths, including those of a deleted CRD: text, not a Status."""
    return web.Response(text="404 page not found\n", status=404)
