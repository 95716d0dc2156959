"""Long-running operations, the targets of `Azure-AsyncOperation` and `Location`.

An operation ends once and expires `ttl_seconds` after its start. Its URL has a signed query of more than 3 KB, which
must be sent unchanged, and another api-version than the request's.

Source: docs/references/agent-pools.md#long-running-operations.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

API_VERSION = "2016-03-30"
_KEY = b"the simulated region's signing key"
_CERTIFICATE_BYTES = 2304


@dataclass(frozen=True, kw_only=True)
class Operation:
    """`status` is InProgress, Succeeded, Failed or Canceled; `since` is in simulated seconds."""

    id: str
    pool: str
    start: datetime
    since: float
    status: str = "InProgress"
    end: datetime | None = None
    error: Mapping[str, Any] | None = None

    @property
    def done(self) -> bool:
        return self.end is not None


class Operations:
    """The region's operations. Times `now` are simulated seconds."""

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl_seconds = ttl_seconds
        self._known: dict[str, Operation] = {}

    def start(self, operation: Operation) -> None:
        """Store an operation, and drop the expired ones."""
        self._known = {key: op for key, op in self._known.items() if self._alive(op, operation.since) or not op.done}
        self._known[operation.id] = operation

    def get(self, key: str, now: float) -> Operation | None:
        """The operation; None if it is unknown or has expired."""
        operation = self._known.get(key)
        return operation if operation is not None and self._alive(operation, now) else None

    def end(self, key: str, status: str, at: datetime, error: Mapping[str, Any] | None = None) -> None:
        """End a running operation; ended and unknown ones ("": none) are ignored."""
        running = self._known.get(key)
        if running is not None and not running.done:
            self._known[key] = replace(running, status=status, end=at, error=error)

    def _alive(self, operation: Operation, now: float) -> bool:
        return now <= operation.since + self._ttl_seconds


def query(operation: str) -> str:
    """The signed query of an operation's URL: time, certificate, signature, hash; about 3.2 KB."""
    stretched, block = b"", hashlib.sha512(operation.encode()).digest()
    while len(stretched) < _CERTIFICATE_BYTES:
        block = hashlib.sha512(block).digest()
        stretched += block
    certificate = base64.urlsafe_b64encode(stretched).decode().rstrip("=")
    stamp = str(int(hashlib.sha256(operation.encode()).hexdigest()[:12], 16))
    signature = _sign(operation, stamp, certificate)
    return f"api-version={API_VERSION}&t={stamp}&c={certificate}&s={signature}&h={block.hex()[:43]}"


def _sign(*parts: str) -> str:
    digest = hmac.new(_KEY, "\n".join(parts).encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def genuine(operation: str, sent: Mapping[str, str]) -> bool:
    """Whether this is the signed query of the operation."""
    expected = dict(part.split("=", 1) for part in query(operation).split("&"))
    return all(hmac.compare_digest(sent.get(key, ""), value) for key, value in expected.items())


def url(origin: str, subscription: str, location: str, operation: str, *, results: bool = False) -> str:
    """The URL to poll, on the host that the client used."""
    kind = "operationresults" if results else "operations"
    return (
        f"{origin}/subscriptions/{quote(subscription)}/providers/Microsoft.ContainerService"
        f"/locations/{quote(location)}/{kind}/{operation}?{query(operation)}"
    )
