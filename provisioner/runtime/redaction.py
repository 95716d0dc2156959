"""Redaction of credentials in text that leaves the process: logs, Events, conditions and errors.

Bearer tokens, JSON web tokens, authorization headers and the signatures of URLs become `***`. This is the second line
of defence: headers and bodies are not logged in the first place.

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

# Every pattern below contains one of these, so that most text is searched once instead of four times.
_CANDIDATE = re.compile(r"(?i)authorization|bearer|basic|eyj|[?&;]")
_QUERY = re.compile(
    r"(?i)([?&;](?:sig|s|h|c|code|access_token|refresh_token|id_token|client_secret|client_assertion|assertion)=)[^&\s\"'<>)]+"
)
_HEADER = re.compile(
    r"(?i)((?:proxy-)?authorization['\"]?\s*[:=]\s*['\"]?)(?:(?:bearer|basic|negotiate)\s+)?[^\s'\",;}]+"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?")


def redact(text: str) -> str:
    """The text with credentials replaced by `***`."""
    if _CANDIDATE.search(text) is None:
        return text
    text = _HEADER.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _JWT.sub(MASK, text)
    return _QUERY.sub(rf"\1{MASK}", text)


def is_secret(key: str) -> bool:
    """Whether the value of this field is always masked."""
    return key.lower().replace("-", "_") in SECRET_KEYS
