"""What an ARM or AKS error body says, whatever its shape.

Total. Flat AKS bodies, ARM's wrapped ones, HTML, half a JSON text and nothing at all become one `ArmError`;
nothing here raises. `findings` yields every code with its message, the outer one first, then the details, then what is
only quoted inside a message as `Code="…" Message="…"`.

Source: docs/references/agent-pools.md#error-bodies, docs/references/agent-pools.md#quota-and-capacity-errors.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

DEPTH = 8
WIDTH = 20
TEXT_CHARACTERS = 8192

_QUOTED = re.compile(
    r"""Code\s*[=:]\s*\\?["']([\w.]+)\\?["'],?\s*Message\s*[=:]\s*\\?["']?(.*)""", re.DOTALL | re.IGNORECASE
)


class Finding(msgspec.Struct, frozen=True):
    """One code and the message that came with it."""

    code: str
    message: str


class ArmError(msgspec.Struct, frozen=True, kw_only=True):
    """One error. `flat`: AKS itself spoke, not the gateway in front of it; `details` are errors within this one."""

    code: str = ""
    message: str = ""
    subcode: str = ""
    flat: bool = False
    details: tuple["ArmError", ...] = ()


NOTHING = ArmError()


def read_body(text: str | bytes) -> ArmError:
    """The error in a response body; `NOTHING` if there is none to be found."""
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
    """An error as ARM nests them; members of the wrong type count as absent, deeper ones than `depth` are dropped."""
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


def findings(error: ArmError) -> Iterator[Finding]:
    """All codes of the error, the most outward first; the same order always."""
    yield from _spoken(error)
    yield from _quoted(error)


def _spoken(error: ArmError) -> Iterator[Finding]:
    if error.code or error.message:
        yield Finding(error.code, error.message)
    if error.subcode:
        yield Finding(error.subcode, error.message)
    for inner in error.details:
        yield from _spoken(inner)


def _quoted(error: ArmError) -> Iterator[Finding]:
    rest = error.message
    for _ in range(DEPTH):
        match = _QUOTED.search(rest)
        if match is None:
            break
        rest = match[2]
        yield Finding(match[1], rest.strip("\"'\\ "))
    for inner in error.details:
        yield from _quoted(inner)


def _text(raw: Mapping[Any, Any], key: str) -> str:
    value = raw.get(key)
    return value[:TEXT_CHARACTERS] if isinstance(value, str) else ""
