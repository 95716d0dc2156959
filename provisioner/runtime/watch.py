"""What a watch says, line by line: bytes in, events or a KubeError out. No I/O.

Every line becomes an event, an ERROR event becomes the KubeError it carries, and anything else (a proxy's
page, half a line, an unknown type, an endless line, another kind) a KubeError that names what came.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes: one JSON object a
line, types ADDED, MODIFIED, DELETED, BOOKMARK, ERROR; a bookmark carries nothing but a resourceVersion.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from .decoding import decoded
from .kube_errors import NO_ANSWER, UNREADABLE, KubeError, from_status, quoted, unexpected
from .objects import Head, KubeObject, Status
from .resources import Resource

T = TypeVar("T", bound=KubeObject)


class EventType(StrEnum):
    """What happened to the object; a bookmark says only how far the watch has come."""

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
        raise KubeError(0, NO_ANSWER, f"{what}: the stream ended inside a line; {quoted('', bytes(buffer))}")


def event(line: bytes, resource: Resource[T], what: str) -> WatchEvent[T]:
    """One line's event. Raises KubeError."""
    try:
        said = msgspec.json.decode(line, type=_Line)
        if said.type == "ERROR":
            raise _error(said.object, what)
        head = msgspec.json.decode(said.object, type=Head)
    except UNREADABLE:
        raise unexpected(200, f"{what}: not a watch event", body=line) from None
    if said.type not in EventType.__members__:
        raise unexpected(200, f"{what}: unknown event type {said.type[:40]!r}")
    version = head.metadata.resource_version if head.metadata is not None else ""
    if said.type == EventType.BOOKMARK:
        return WatchEvent(EventType.BOOKMARK, None, version)
    return WatchEvent(EventType(said.type), decoded(said.object, resource, what), version)


def _error(body: msgspec.Raw, what: str) -> KubeError:
    error = from_status(msgspec.json.decode(body, type=Status))
    return KubeError(error.status, error.reason, f"{what}: {error.message}", retry_after=error.retry_after)
