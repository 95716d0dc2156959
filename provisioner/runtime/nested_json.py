"""Decoding of JSON of any depth. No I/O.

The API server accepts 10,000 levels of arrays and objects, in fields that any tenant writes. The decoder raises
RecursionError beyond the recursion limit of the process (1,000 in Python 3.11, 10,000 later, less what the stack has),
also where it only skips a value. Then the body is scanned once without recursion, each value that is deeper than
`DEPTH_MAX` is replaced by null, and the rest is decoded. No field of our types is as deep: nothing that is used is
lost, and no other object of the body.
"""

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

# Levels of arrays and objects. The deepest fields of our types, in a list in an event, have 20.
DEPTH_MAX = 100

# What is before a bracket: other characters and strings. Possessive: no byte is matched twice, and no memory is used
# per match. A string may end with the body, which may be the beginning of an event.
_BRACKETS = re.compile(
    rb'(?:[^\[\]{}"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))*+(?:([\[{]++)|([\]}]++)|\Z)', re.DOTALL
)


def decode(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """The body as this type, without what is nested too deeply if that cannot be decoded. Raises what msgspec does."""
    try:
        return msgspec.json.decode(body, type=kind)
    except RecursionError:
        return msgspec.json.decode(shallow(bytes(body)), type=kind)


def shallow(body: bytes) -> bytes:
    """The same JSON with null in place of each array and object that is inside `DEPTH_MAX` others."""
    if body.count(b"[") + body.count(b"{") <= DEPTH_MAX:
        return body
    found, whole = bytearray(), memoryview(body)
    depth = copied = 0
    for match in _BRACKETS.finditer(body):
        opened, closed = match.span(1), match.span(2)
        before, depth = depth, depth + (opened[1] - opened[0]) - (closed[1] - closed[0])
        if before <= DEPTH_MAX < depth:
            found += whole[copied : opened[0] + DEPTH_MAX - before]
            found += b"null"
            copied = len(body)
        elif depth <= DEPTH_MAX < before:
            copied = closed[0] + before - DEPTH_MAX
    found += whole[copied:]
    return bytes(found)
