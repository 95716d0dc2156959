"""Decoding of a watch: bytes to events. No I/O.

Every line becomes an event. An ERROR event becomes the KubeError that it carries; anything else (a page of a proxy, a
truncated or oversized line, an unknown type, another kind) becomes a KubeError that quotes it.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes: one JSON object per
line, types ADDED, MODIFIED, DELETED, BOOKMARK, ERROR; a bookmark carries only a resourceVersion.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from .decoding import decoded
from .kube_errors import NO_RESPONSE, UNREADABLE, KubeError, from_status, quoted, unexpected
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


async def lines(chunks: AsyncIterator[bytes], *, what: str, bytes_max: int) -> AsyncGenerator[bytes, None]:
    """Whole, non-empty lines. Raises KubeError if a line is longer than `bytes_max` or the stream ends inside one."""
    buffer = bytearray()
    async for chunk in chunks:
        scanned = len(buffer)
        buffer += chunk
        while 0 <= (end := buffer.find(b"\n", scanned)) <= bytes_max:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            scanned = 0
            if line.strip():
                yield line
        if len(buffer) > bytes_max:
            raise unexpected(200, f"{what}: a line of more than {bytes_max} bytes")
    if buffer.strip():
        raise KubeError(0, NO_RESPONSE, f"{what}: the stream ended inside a line; {quoted('', bytes(buffer))}")


def event(line: bytes, resource: Resource[T], what: str) -> WatchEvent[T]:
    """The event of one line. Raises KubeError."""
    try:
        decoded_line = msgspec.json.decode(line, type=_Line)
        if decoded_line.type == "ERROR":
            raise _error(decoded_line.object, what)
        head = msgspec.json.decode(decoded_line.object, type=Head)
    except UNREADABLE:
        raise unexpected(200, f"{what}: not a watch event", body=line) from None
    if decoded_line.type not in EventType.__members__:
        raise unexpected(200, f"{what}: unknown event type {decoded_line.type[:40]!r}")
    version = head.metadata.resource_version if head.metadata is not None else ""
    if decoded_line.type == EventType.BOOKMARK:
        return WatchEvent(EventType.BOOKMARK, None, version)
    return WatchEvent(EventType(decoded_line.type), decoded(decoded_line.object, resource, what), version)


def _error(body: msgspec.Raw, what: str) -> KubeError:
    error = from_status(msgspec.json.decode(body, type=Status))
    return KubeError(error.status, error.reason, f"{what}: {error.message}", retry_after=error.retry_after)
