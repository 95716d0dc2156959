"""Watch responses, with their timeouts, bookmarks and expiry.

A watch resumes from any revision of the window. It sends initial events with a final bookmark on request, bookmarks
every minute, and an ERROR event when the window has moved on. It ends at its timeout, with the server, and when its
kind is no longer served. Each stream is one coroutine that pulls, without a task or a queue.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists,
https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec
from aiohttp import web

from . import requests
from .errors import ApiError
from .handlers import chosen
from .objects import Json, Record
from .reads import View, revision_number
from .requests import Target
from .selectors import Predicate
from .store import Store
from .table import table
from .watch_cache import Collection, selected

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Notifier:
    """Wakes the streams that a write concerns, and all of them after a change of the view and at shutdown."""

    def __init__(self) -> None:
        self._listeners: dict[asyncio.Event, Callable[[], bool]] = {}
        self.closed = False

    def notify(self) -> None:
        for listener in self._listeners:
            listener.set()

    def written(self) -> None:
        """Wake the streams that the last write does not pass by."""
        for listener, passes in self._listeners.items():
            if not passes():
                listener.set()

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        self.notify()

    @contextmanager
    def listening(self, passes: Callable[[], bool]) -> Iterator[asyncio.Event]:
        """An event that wakes a stream; `passes` after each write, which needs no waking if it returns True."""
        listener = asyncio.Event()
        self._listeners[listener] = passes
        try:
            yield listener
        finally:
            del self._listeners[listener]


@dataclass(frozen=True, slots=True)
class WatchTimes:
    """Seconds between bookmarks, from the last one to the end, and the default timeout of a watch."""

    bookmark_seconds: float = 60.0
    last_bookmark_seconds: float = 2.0
    default_seconds: float = 2700.0


@dataclass(frozen=True, slots=True)
class Source:
    """The shared state of all streams of a server."""

    store: Store
    view: View
    notifier: Notifier
    times: WatchTimes


class Stream:
    """One watch. Create it, then `run`; both may raise ApiError before the response starts."""

    def __init__(self, source: Source, request: web.Request, target: Target) -> None:
        self._store, self._view, self._notifier, self._times = source.store, source.view, source.notifier, source.times
        self._request = request
        self._collection: Collection = self._store.collection(target.resource)
        self._namespace = target.namespace
        self._chosen: Predicate | None = chosen(self._collection.resource, request, target.name)
        self._as_table = requests.shape(request.headers.get("Accept", "")) == "table"
        self._include = requests.include_object(request.query)
        self._bookmarks = requests.flag(request.query, "allowWatchBookmarks")
        revision = request.query.get("resourceVersion", "")
        requests.check_list(request.query)
        initial_events = "sendInitialEvents" in request.query
        self._list_first = (
            requests.flag(request.query, "sendInitialEvents") if initial_events else revision in {"", "0"}
        )
        self._marks_end = self._list_first
        self._position = (
            revision_number(revision) if revision not in {"", "0"} else self._view.horizon(self._collection)
        )

    def check_window(self) -> None:
        """Raises ApiError 410 if the requested revision is outside the window."""
        if not self._list_first:
            self._collection.history.since(self._position, self._position)

    async def run(self) -> web.StreamResponse:
        """Stream until the end, or until the client disconnects."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        with suppress(ConnectionError):
            await response.prepare(self._request)
            try:
                await self._initial(response)
                await self._changes(response)
            except ApiError as error:
                await response.write(_line("ERROR", msgspec.json.encode(error.body())))
        return response

    async def _initial(self, response: web.StreamResponse) -> None:
        if not self._list_first:
            return
        self._position = max(self._view.horizon(self._collection), self._position if self._marks_end else 0)
        found = self._view.objects(self._collection)
        records = [found[key] for key in sorted(found) if not self._namespace or key[0] == self._namespace]
        lines = [self._event("ADDED", r) for r in records if self._chosen is None or self._chosen(r.obj)]
        if self._marks_end and self._bookmarks:
            lines.append(self._bookmark({INITIAL_EVENTS_END: "true"}))
        if lines:
            await response.write(b"".join(lines))

    async def _changes(self, response: web.StreamResponse) -> None:
        loop = asyncio.get_running_loop()
        seconds = requests.number(self._request.query, "timeoutSeconds") or self._times.default_seconds
        end = loop.time() + seconds
        bookmark = self._next_bookmark(loop.time(), end)
        with self._notifier.listening(self._passes) as rung:
            while True:
                rung.clear()
                served = self._store.serves(self._collection)
                horizon = self._view.horizon(self._collection)
                events = self._collection.history.since(self._position, horizon)
                events = [event for event in events if not self._view.is_lost(event.revision)]
                self._position = max(self._position, horizon)
                lines = [self._event(kind, r) for kind, r in selected(events, self._chosen, self._namespace)]
                if loop.time() >= bookmark:
                    bookmark = self._next_bookmark(loop.time(), end)
                    lines += [self._bookmark({})] if self._bookmarks else []
                if lines:
                    await response.write(b"".join(lines))
                if not served or self._notifier.closed or self._is_abandoned() or loop.time() >= end:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(min(end, bookmark)):
                        await rung.wait()

    def _passes(self) -> bool:
        """After a write: move on if it is of another kind, so that most writes wake few streams."""
        history = self._collection.history
        behind = history.newest > self._position or self._position < history.floor
        if behind or self._is_abandoned() or not self._store.serves(self._collection):
            return False
        self._position = max(self._position, self._view.horizon(self._collection))
        return True

    def _next_bookmark(self, now: float, end: float) -> float:
        """Every minute, and two seconds before the end, so that the next watch starts at a recent revision."""
        last = end - self._times.last_bookmark_seconds
        return min(now + self._times.bookmark_seconds, last if last > now else math.inf)

    def _is_abandoned(self) -> bool:
        return self._request.transport is None or self._request.transport.is_closing()

    def _event(self, kind: str, record: Record) -> bytes:
        if not self._as_table:
            return _line(kind, record.raw)
        meta = {"resourceVersion": record.obj["metadata"]["resourceVersion"]}
        rows = table(self._collection.resource, [record], meta, now=self._store.now(), include=self._include)
        return _line(kind, msgspec.json.encode(rows))

    def _bookmark(self, annotations: Json) -> bytes:
        meta: Json = {"resourceVersion": str(self._position)}
        if annotations:
            meta["annotations"] = annotations
        resource = self._collection.resource
        if self._as_table:
            return _line("BOOKMARK", msgspec.json.encode(table(resource, [], meta, now=self._store.now())))
        obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        return _line("BOOKMARK", msgspec.json.encode(obj))


def _line(kind: str, raw: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"
