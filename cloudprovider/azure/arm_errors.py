"""Parsing of ARM and AKS error bodies into `ArmError`, whatever their shape.

Total: flat bodies of AKS, wrapped bodies of ARM, HTML, truncated JSON and empty bodies are accepted; nothing raises.
`error_details` lists the codes and messages of an error: the outer one, its details, then those quoted inside a message
as `Code="…" Message="…"` or as JSON.

Source: docs/references/agent-pools.md#error-bodies, docs/references/agent-pools.md#quota-and-capacity-errors.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

DEPTH = 8
WIDTH = 20
TEXT_CHARACTERS = 8192

# Also members of JSON that is cut or escaped.
_QUOTED = re.compile(
    r"""\bCode\\*["']?\s*[=:]\s*\\*["']([\w.]+)\\*["'],?\s*\\*["']?Message\\*["']?\s*[=:]\s*\\*["']?(.*)""",
    re.DOTALL | re.IGNORECASE,
)
_JSON = json.JSONDecoder(strict=False)


class ErrorDetail(msgspec.Struct, frozen=True):
    """One code and its message."""

    code: str
    message: str


class ArmError(msgspec.Struct, frozen=True, kw_only=True):
    """An error. `flat`: the body is of AKS, not of ARM in front of it; `details` are nested errors."""

    code: str = ""
    message: str = ""
    subcode: str = ""
    flat: bool = False
    details: tuple["ArmError", ...] = ()


NOTHING = ArmError()


def read_body(text: str | bytes) -> ArmError:
    """The error in a response body; `NOTHING` if there is none."""
    try:
        body = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return NOTHING
    if not isinstance(body, Mapping):
        return NOTHING
    wrapped = body.get("error")
    if isinstance(wrapped, Mapping):
        return read_error(wrapped)
    if isinstance(body.get("code"), str):
        return msgspec.structs.replace(read_error(body), flat=True)
    return NOTHING


def read_error(raw: Any, depth: int = DEPTH) -> ArmError:
    """A nested error of ARM; members of another type count as absent, errors deeper than `depth` are dropped."""
    if not isinstance(raw, Mapping):
        return NOTHING
    details = raw.get("details")
    inner: Sequence[Any] = details[:WIDTH] if isinstance(details, list | tuple) and depth > 0 else ()
    read = (read_error(one, depth - 1) for one in inner)
    return ArmError(
        code=_text(raw, "code"),
        message=_text(raw, "message"),
        subcode=_text(raw, "subcode"),
        details=tuple(one for one in read if one != NOTHING),
    )


def error_details(error: ArmError) -> Iterator[ErrorDetail]:
    """All codes of the error with their messages, the outermost first."""
    yield from _stated(error)
    yield from _quoted(error)
    yield from _embedded(error, DEPTH)


def _stated(error: ArmError) -> Iterator[ErrorDetail]:
    if error.code or error.message:
        yield ErrorDetail(error.code, error.message)
    if error.subcode:
        yield ErrorDetail(error.subcode, error.message)
    for inner in error.details:
        yield from _stated(inner)


def _quoted(error: ArmError) -> Iterator[ErrorDetail]:
    rest = error.message
    for _ in range(DEPTH):
        match = _QUOTED.search(rest)
        if match is None:
            break
        rest = match[2]
        yield ErrorDetail(match[1], rest.strip("\"'\\ "))
    for inner in error.details:
        yield from _quoted(inner)


def _embedded(error: ArmError, depth: int) -> Iterator[ErrorDetail]:
    """The errors that a message contains as JSON."""
    for found in _objects(error.message) if depth > 0 else ():
        yield from _stated(found)
        yield from _quoted(found)
        yield from _embedded(found, depth - 1)
    for inner in error.details:
        yield from _embedded(inner, depth - 1)


def _objects(message: str) -> Iterator[ArmError]:
    start = message.find("{")
    for _ in range(WIDTH):
        if start < 0:
            return
        try:
            body, end = _JSON.raw_decode(message, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            error = read_error(body.get("error") if isinstance(body.get("error"), Mapping) else body)
            if error != NOTHING:
                yield error
        start = message.find("{", end)


def _text(raw: Mapping[Any, Any], key: str) -> str:
    value = raw.get(key)
    return value[:TEXT_CHARACTERS] if isinstance(value, str) else ""
