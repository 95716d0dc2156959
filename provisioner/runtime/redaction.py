"""No secret leaves: what looks like a credential is masked before text goes anywhere people can read it.

Bearer tokens, JSON web tokens, authorization headers and the signed part of URLs become `***`, whatever
surrounds them. It is the last line, not the first: nobody logs headers or bodies to begin with.

Source: docs/references/agent-pools.md#long-running-operations (signed URLs of operations),
docs/references/rules.md#no-secrets-in-output; storage URLs carry `sig`.
"""

import re

MASK = "***"
SECRET_KEYS = frozenset(
    {
        "authorization",
        "token",
        "access_token",
        "refresh_token",
        "id_token",
        "password",
        "secret",
        "client_secret",
        "cookie",
    }
)

# Every pattern below needs one of these: nearly all text has none, and is looked through once instead of four times.
_SUSPECT = re.compile(r"(?i)authorization|bearer|basic|eyj|[?&;]")
_QUERY = re.compile(
    r"(?i)([?&;](?:sig|s|h|c|code|access_token|refresh_token|id_token|client_secret|client_assertion|assertion)=)[^&\s\"'<>)]+"
)
_HEADER = re.compile(
    r"(?i)((?:proxy-)?authorization['\"]?\s*[:=]\s*['\"]?)(?:(?:bearer|basic|negotiate)\s+)?[^\s'\",;}]+"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?")


def redact(text: str) -> str:
    """The text with everything that looks like a credential replaced by `***`."""
    if _SUSPECT.search(text) is None:
        return text
    text = _HEADER.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _JWT.sub(MASK, text)
    return _QUERY.sub(rf"\1{MASK}", text)


def is_secret(key: str) -> bool:
    """Whether a field of this name is masked whatever its value looks like."""
    return key.lower().replace("-", "_") in SECRET_KEYS
