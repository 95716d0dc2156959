"""Decoding of reviews that kubectl sends as protobuf; it has no JSON fallback for them.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding,
https://github.com/kubernetes/api/blob/master/authorization/v1/generated.proto (numbers of the fields).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .errors import bad_request
from .objects import Json

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_RAW = 2
Fields = Mapping[int, tuple[str, Any]]

_RESOURCE: Fields = {
    number: (name, None)
    for number, name in enumerate(("namespace", "verb", "group", "version", "resource", "subresource", "name"), start=1)
}
_SPEC: Fields = {
    1: ("resourceAttributes", _RESOURCE),
    2: ("nonResourceAttributes", {1: ("path", None), 2: ("verb", None)}),
}
KINDS: Mapping[str, Fields] = {
    "SelfSubjectAccessReview": {2: ("spec", _SPEC)},
    "SelfSubjectRulesReview": {2: ("spec", {1: ("namespace", None)})},
}


def decode(body: bytes, kind: str) -> Json:
    """The object of this kind of `KINDS`, without unknown fields. Raises ApiError 400."""
    if not body.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        raw = next((value for number, value in _fields(body[len(_MAGIC) :]) if number == _RAW), b"")
        return _decoded(raw, KINDS[kind])
    except (IndexError, UnicodeDecodeError, ValueError) as error:
        raise bad_request(f"unable to decode the protobuf message: {error}") from error


def _decoded(data: bytes, fields: Fields) -> Json:
    found: Json = {}
    for number, value in _fields(data):
        if number in fields:
            name, below = fields[number]
            found[name] = value.decode() if below is None else _decoded(value, below)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields by number; numbers are skipped."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        match tag & 7:
            case 0:
                _, position = _varint(data, position)
            case 2:
                length, position = _varint(data, position)
                if position + length > len(data):
                    raise ValueError("a field is longer than the message")
                yield tag >> 3, data[position : position + length]
                position += length
            case kind:
                raise ValueError(f"unexpected wire type {kind}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
