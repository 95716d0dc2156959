"""Decoding of a watch: bytes to events. No I/O.

Every line becomes an event, one that is too long with the metadata of its object only: a watch that ended there would
end there again after each new list. An ERROR event becomes the KubeError that it carries; anything else (a page of a
proxy, a truncated line, an unknown type, another kind) becomes a KubeError that quotes it.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes: one JSON object per
line, types ADDED, MODIFIED, DELETED, BOOKMARK, ERROR; a bookmark carries only a resourceVersion.
"""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from .decoding import decoded, metadata_only
from .kube_errors import NO_RESPONSE, UNREADABLE, KubeError, from_status, quoted, too_large, unexpected
from .nested_json import decode, shallow
from .objects import Head, KubeObject, Status
from .resources import Resource

T = TypeVar("T", bound=KubeObject)


class EventType(StrEnum):
    """The types of watch events; a bookmark carries only a resourceVersion."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """`object` is None for a bookmark. `resource_version` is "" only for a bookmark that carries none."""

    type: EventType
    object: T | None
    resource_version: str


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw = msgspec.Raw(b"{}")


class Line(NamedTuple):
    """`whole`: whether the text has all bytes of the line."""

    text: bytes
    whole: bool


async def lines(chunks: AsyncIterator[bytes], *, what: str, bytes_max: int) -> AsyncGenerator[Line, None]:
    """Non-empty lines, each with its first `bytes_max` bytes. Raises KubeError if the stream ends inside one."""
    buffer, cut = bytearray(), False
    async for chunk in chunks:
        scanned = len(buffer)
        buffer += chunk
        while (end := buffer.find(b"\n", scanned)) >= 0:
            text = bytes(buffer[: min(end, bytes_max)])
            whole = not cut and end <= bytes_max
            del buffer[: end + 1]
            scanned, cut = 0, False
            if text.strip():
                yield Line(text, whole)
        if len(buffer) > bytes_max:
            del buffer[bytes_max:]
            cut = True
    if buffer.strip():
        raise KubeError(0, NO_RESPONSE, f"{what}: the stream ended inside a line; {quoted('', bytes(buffer))}")


def event(line: bytes, resource: Resource[T], what: str) -> WatchEvent[T]:
    """The event of one line. Raises KubeError."""
    try:
        decoded_line = decode(line, _Line)
        if decoded_line.type == "ERROR":
            raise _error(decoded_line.object, what)
        head = decode(decoded_line.object, Head)
    except UNREADABLE:
        raise unexpected(200, f"{what}: not a watch event", body=line) from None
    if decoded_line.type not in EventType.__members__:
        raise unexpected(200, f"{what}: unknown event type {decoded_line.type[:40]!r}")
    version = head.metadata.resource_version if head.metadata is not None else ""
    if decoded_line.type == EventType.BOOKMARK:
        return WatchEvent(EventType.BOOKMARK, None, version)
    return WatchEvent(EventType(decoded_line.type), decoded(decoded_line.object, resource, what, head), version)


# The members before the metadata of an object, as the API server writes them.
_HEAD = re.compile(rb'\{"type":"([A-Z]+)","object":\{(?:"(?:kind|apiVersion)":"[^"]{0,253}",){0,2}"metadata":')


def cut_event(line: bytes, resource: Resource[T], what: str) -> WatchEvent[T]:
    """The event of a line whose end was left out. Raises KubeError if its metadata is not in the rest."""
    head = _HEAD.match(line)
    if head is None or head[1].decode() not in EventType.__members__:
        raise too_large(f"{what}: an event", len(line))
    try:
        metadata = _leading_value(line[head.end() :])
    except (ValueError, RecursionError):
        raise too_large(f"{what}: the metadata of an event", len(line)) from None
    found = metadata_only(metadata, resource, what)
    return WatchEvent(EventType(head[1].decode()), found, found.metadata.resource_version)


def _leading_value(text: bytes) -> Any:
    """The value with which this JSON begins. Raises ValueError, RecursionError."""
    decoder = json.JSONDecoder()
    try:
        return decoder.raw_decode(text.decode("utf-8", "ignore"))[0]
    except RecursionError:
        return decoder.raw_decode(shallow(text).decode("utf-8", "ignore"))[0]


def _error(body: msgspec.Raw, what: str) -> KubeError:
    error = from_status(decode(body, Status))
    return KubeError(error.status, error.reason, f"{what}: {error.message}", retry_after=error.retry_after)
