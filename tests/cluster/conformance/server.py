"""One API server as the conformance suite sees it: raw HTTP in, status and JSON out.

Nothing of ours stands between a case and the server, neither our client nor our types; what a case creates
is gone when it ends, finalizers or not, so that cases may share a server. Every request is bounded in time.
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

from tests.cluster.connection_cutter import cut

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
# The real server's controllers act within seconds; a cache that is told of a new kind may take half a minute.
_PATIENCE_SECONDS = 60.0


class Answer(NamedTuple):
    """`body` is JSON where the server says so, else text."""

    status: int
    body: Any
    headers: Mapping[str, str]
    warnings: list[str]


class Event(NamedTuple):
    """One line of a watch."""

    type: str
    object: Json

    @property
    def told(self) -> str:
        """`ADDED n1`."""
        return f"{self.type} {self.object.get('metadata', {}).get('name', '')}".strip()

    @property
    def plain(self) -> Json:
        """The object as other requests answer with it."""
        return _plain(self.object)


class Watch:
    """An open watch. It ends with the server's stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status

    async def next(self) -> Event:
        """The next event; an AssertionError if the stream ends instead, or nothing comes."""
        event = await self._read()
        assert event is not None, "the watch ended"
        return event

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """The first event that is wanted; those before it are dropped."""
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
        said = json.loads(line)
        return Event(said["type"], said["object"])


class Server:
    """One server. `url` without a slash at its end; `token` is an administrator's; `ssl` is None for plain HTTP.

    `compact` makes the server forget the past: continue tokens and versions from before are too old afterwards.
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
        """A name that no other case uses; names of one case sort in the order they were asked for."""
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
        """One request; `how` is the body's content type, and bytes are sent as they are."""
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
        """The Status of a request that must be refused so; an empty reason means that there is none."""
        answer = await self.request(method, path, body, **options)
        assert answer.status == status, answer
        said = answer.body
        assert isinstance(said, dict), answer
        assert (said["kind"], said["apiVersion"], said["status"], said["code"]) == ("Status", "v1", "Failure", status)
        assert said.get("reason", "") == reason, said
        return said

    async def get(self, path: str, **options: Any) -> Json:
        return await self.done("GET", path, **options)

    async def patch(self, path: str, body: object, how: str = MERGE, **options: Any) -> Json:
        return await self.done("PATCH", path, body, how=how, **options)

    async def delete(self, path: str, body: object = None, **options: Any) -> Json:
        return await self.done("DELETE", path, body, **options)

    async def absent(self, path: str) -> bool:
        """Whether the server says that this object is not there."""
        return (await self.request("GET", path)).status == 404

    @asynccontextmanager
    async def stream(self, path: str, *, accept: str = "application/json", **query: object) -> AsyncIterator[Watch]:
        """A watch that must begin well."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": accept}
        async with self._session.get(
            self.url + path, params=_texts({"watch": True, **query}), headers=headers, ssl=self.ssl or True
        ) as response:
            assert response.status == 200, await response.text()
            try:
                yield Watch(response)
            finally:
                cut(response)

    async def compact(self) -> None:
        await self._compact()

    async def clean(self) -> None:
        """Remove what the case created, newest first."""
        for path in reversed(self._created):
            found = await self.request("GET", path)
            if found.status == 200 and found.body["metadata"].get("finalizers") and "/namespaces/" not in path:
                await self.request("PATCH", path, {"metadata": {"finalizers": None}}, how=MERGE)
            await self.request("DELETE", path, {"gracePeriodSeconds": 0})


def _plain(body: Any) -> Any:
    """Without the book-keeping of server-side apply, which the simulator does not keep and no case is about."""
    if isinstance(body, dict):
        body.get("metadata", {}).pop("managedFields", None)
        for item in body.get("items", []):
            item["metadata"].pop("managedFields", None)
    return body


def _texts(query: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in query.items()}


def _place(collection: str, meta: Json) -> str:
    return f"{collection}/{meta['name']}"
