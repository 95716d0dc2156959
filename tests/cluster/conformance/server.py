"""An API server as the conformance suite uses it: raw HTTP requests, status and JSON responses.

Neither our client nor our types are involved; what a test creates is deleted when it ends, finalizers or not, so that
tests can share a server. Every request has a timeout.
"""

import asyncio
import io
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

import aiohttp

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
# The real server's controllers act within seconds; a cache can take half a minute to start for a new kind.
_PATIENCE_SECONDS = 300.0


class Answer(NamedTuple):
    """`body` is parsed JSON if the response is JSON, else text."""

    status: int
    body: Any
    headers: Mapping[str, str]
    warnings: list[str]


class Event(NamedTuple):
    """One line of a watch."""

    type: str
    object: Json

    @property
    def text(self) -> str:
        """`ADDED n1`."""
        return f"{self.type} {self.object.get('metadata', {}).get('name', '')}".strip()

    @property
    def plain(self) -> Json:
        """The object as other requests return it."""
        return _plain(self.object)


class Watch:
    """An open watch. It ends with the server's stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status

    async def next(self) -> Event:
        """The next event; AssertionError if the stream ends instead, or none comes in time."""
        event = await self._read()
        assert event is not None, "the watch ended"
        return event

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """The first event that matches; those before it are dropped."""
        while not wanted(event := await self.next()):
            pass
        return event

    async def rest(self) -> list[Event]:
        """All events to the end of the stream."""
        events = []
        while event := await self._read():
            events.append(event)
        return events

    async def _read(self) -> Event | None:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            line = await self._response.content.readline()
        if not line:
            return None
        result = json.loads(line)
        return Event(result["type"], result["object"])


class Server:
    """One server. `url` without a trailing slash; `token` is an administrator's; `ssl` is None for plain HTTP.

    `compact` compacts the server's history: continue tokens and versions from before are expired afterwards.
    """

    def __init__(
        self,
        kind: Literal["simulator", "real"],
        *,
        url: str,
        token: str,
        tls: ssl.SSLContext | None,
        session: aiohttp.ClientSession,
        compact: Callable[[], Any],
    ) -> None:
        self.kind = kind
        self.url = url
        self.token = token
        self.ssl = tls
        self.case = f"case-{secrets.token_hex(4)}"
        self._session = session
        self._compact = compact
        self._created: list[str] = []
        self._names = 0

    def name(self, prefix: str = "x") -> str:
        """A name that no other test uses; names of one test sort in the order of these calls."""
        self._names += 1
        return f"{prefix}-{self.case}-{self._names:02}"

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        how: str = "application/json",
        accept: str = "application/json",
        token: str | None = None,
        **query: object,
    ) -> Answer:
        """One request; `how` is the content type of the body, and bytes are sent unchanged."""
        headers = {
            "Authorization": f"Bearer {self.token if token is None else token}",
            "Content-Type": how,
            "Accept": accept,
        }
        data = None if body is None else io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        async with self._session.request(
            method, self.url + path, data=data, headers=headers, params=_texts(query), ssl=self.ssl or True
        ) as response:
            text = await response.text()
            found = _plain(json.loads(text)) if response.content_type == "application/json" else text
            answer = Answer(response.status, found, response.headers, response.headers.getall("Warning", []))
        if method == "POST" and answer.status == 201 and "uid" in answer.body.get("metadata", {}):
            self._created.append(_place(path, answer.body["metadata"]))
        return answer

    async def done(self, method: str, path: str, body: object = None, **options: Any) -> Json:
        """The body of a request that must succeed."""
        answer = await self.request(method, path, body, **options)
        assert answer.status < 300, answer
        return answer.body

    async def refused(
        self, status: int, reason: str, method: str, path: str, body: object = None, **options: Any
    ) -> Json:
        """The Status of a request that must be refused with this code and reason; an empty reason means that there is
        none.
        """
        answer = await self.request(method, path, body, **options)
        assert answer.status == status, answer
        result = answer.body
        assert isinstance(result, dict), answer
        assert (result["kind"], result["apiVersion"], result["status"], result["code"]) == (
            "Status",
            "v1",
            "Failure",
            status,
        )
        assert result.get("reason", "") == reason, result
        return result

    async def get(self, path: str, **options: Any) -> Json:
        return await self.done("GET", path, **options)

    async def patch(self, path: str, body: object, how: str = MERGE, **options: Any) -> Json:
        return await self.done("PATCH", path, body, how=how, **options)

    async def delete(self, path: str, body: object = None, **options: Any) -> Json:
        return await self.done("DELETE", path, body, **options)

    async def absent(self, path: str) -> bool:
        """Whether the server reports that this object does not exist."""
        return (await self.request("GET", path)).status == 404

    @asynccontextmanager
    async def stream(self, path: str, *, accept: str = "application/json", **query: object) -> AsyncIterator[Watch]:
        """A watch that must start."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": accept}
        async with self._session.get(
            self.url + path, params=_texts({"watch": True, **query}), headers=headers, ssl=self.ssl or True
        ) as response:
            assert response.status == 200, await response.text()
            try:
                yield Watch(response)
            finally:
                _cut(response)

    async def compact(self) -> None:
        await self._compact()

    async def clean(self) -> None:
        """Delete what the test created, newest first."""
        for path in reversed(self._created):
            found = await self.request("GET", path)
            if found.status == 200 and found.body["metadata"].get("finalizers") and "/namespaces/" not in path:
                await self.request("PATCH", path, {"metadata": {"finalizers": None}}, how=MERGE)
            await self.request("DELETE", path, {"gracePeriodSeconds": 0})


def _plain(body: Any) -> Any:
    """Without managedFields, which the simulator does not maintain and no test covers."""
    if isinstance(body, dict):
        body.get("metadata", {}).pop("managedFields", None)
        for item in body.get("items", []):
            item["metadata"].pop("managedFields", None)
    return body


def _texts(query: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in query.items()}


def _place(collection: str, meta: Json) -> str:
    return f"{collection}/{meta['name']}"


def _cut(answer: aiohttp.ClientResponse) -> None:
    """Abort the connection of a response that has not ended; no effect if it has.

    A graceful close of TLS waits for the server: its socket fails a later test that collects it.
    """
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
