"""KubeError, the error of every failed request to the API server; its properties classify it.

Messages quote the response (truncated, redacted) and never the request. `not_found` is proof of absence: the API server
answered NotFound and named the object. The page of a proxy, or the plain `404 page not found` for a kind that is not
served, proves nothing and is not `not_found`.

Source: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
(Status and its reasons), docs/references/kubernetes.md#writes.
"""

from collections.abc import Mapping

import msgspec

from .objects import Status, StatusDetails
from .redaction import redact

RETRYABLE = frozenset({0, 401, 408, 429, 500, 502, 503, 504})
# 400 is the code of a webhook that denies a request and names none.
REFUSED = frozenset({400, 403, 413, 422})
SERVER_ERROR = 500
QUOTED_CHARACTERS = 160
MESSAGE_CHARACTERS = 1024
# A longer Retry-After is cut to this.
RETRY_AFTER_SECONDS_MAX = 300.0

# What msgspec raises for an invalid body; RecursionError for deep nesting.
UNREADABLE: tuple[type[Exception], ...] = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

NO_RESPONSE = "NoResponse"
TIMEOUT = "Timeout"
IDLE_TIMEOUT = "IdleTimeout"
UNEXPECTED = "UnexpectedResponse"
TOO_LARGE = "ResponseTooLarge"
CREDENTIALS = "Credentials"


class KubeError(Exception):
    """A request that did not succeed.

    `status` is the HTTP status, 0 without a response (the request may have been applied). `reason` is Kubernetes' own
    (NotFound, Conflict, AlreadyExists, Expired, Invalid, …) or one of this module. `named` is the object that the
    Status names. `retry_after` is in seconds, at most five minutes, None if not set. `causes` are the messages of the
    Status' causes.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        retry_after: float | None = None,
        named: str = "",
        causes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.named = named
        self.causes = causes

    def __str__(self) -> str:
        return f"{self.status} {self.reason}: {self.message}" if self.status else f"{self.reason}: {self.message}"

    @property
    def not_found(self) -> bool:
        """Whether this proves that the object does not exist."""
        return self.status == 404 and self.reason == "NotFound" and bool(self.named)

    @property
    def conflict(self) -> bool:
        """Whether another client changed or created the object: read it again."""
        return self.status == 409

    @property
    def gone(self) -> bool:
        """Whether the resourceVersion or the continue token has expired: list again."""
        return self.status == 410

    @property
    def refused(self) -> bool:
        """Whether the request fails until the object, a permission or an admission policy changes."""
        return self.status in REFUSED

    @property
    def server_error(self) -> bool:
        """Whether the API server failed, or a webhook that it calls, which may be for one object only."""
        return self.status >= SERVER_ERROR

    @property
    def timed_out(self) -> bool:
        """Whether there was no response in time, as while a webhook hangs, which may be for one object only."""
        return not self.status and self.reason == TIMEOUT

    @property
    def unexpected(self) -> bool:
        """Whether the response is not used: a page of a proxy, a truncated body, another kind, or too many bytes."""
        return self.reason in {UNEXPECTED, TOO_LARGE}

    @property
    def too_large(self) -> bool:
        """Whether the response has more bytes than this client reads: request fewer objects, or less of them."""
        return self.reason == TOO_LARGE

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in RETRYABLE or self.unexpected


def from_response(status: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """The error for a response whose status is not a success."""
    retry_after = _retry_after(headers.get("Retry-After", ""))
    try:
        decoded = msgspec.json.decode(body, type=Status)
    except UNREADABLE:
        decoded = Status()
    if decoded.kind != "Status":
        return KubeError(status, UNEXPECTED, quoted(headers.get("Content-Type", ""), body), retry_after=retry_after)
    return from_status(decoded, status=status, retry_after=retry_after)


def from_status(error: Status, *, status: int = 0, retry_after: float | None = None) -> KubeError:
    """The error for a Status object, from a response or from an ERROR event."""
    details = error.details
    if retry_after is None and details is not None and details.retry_after_seconds > 0:
        retry_after = float(min(details.retry_after_seconds, RETRY_AFTER_SECONDS_MAX))
    return KubeError(
        status or error.code or 500,
        error.reason or "Unknown",
        redact(error.message)[:MESSAGE_CHARACTERS],
        retry_after=retry_after,
        named=details.name if details is not None else "",
        causes=_causes(details),
    )


def _causes(details: StatusDetails | None) -> tuple[str, ...]:
    causes = (details.causes or ()) if details is not None else ()
    return tuple(redact(cause.message)[:MESSAGE_CHARACTERS] for cause in causes if cause.message)


def unexpected(status: int, what: str, content_type: str = "", body: bytes = b"") -> KubeError:
    """The error for a response that is not the API server's; `what` describes the request and the problem."""
    quote = f"; {quoted(content_type, body)}" if body else ""
    return KubeError(status, UNEXPECTED, f"{what}{quote}")


def too_large(what: str, bytes_max: int) -> KubeError:
    """The error for a response of more than `bytes_max` bytes."""
    return KubeError(200, TOO_LARGE, f"{what}: more than {bytes_max} bytes")


def quoted(content_type: str, body: bytes) -> str:
    """The content type of the response and its first characters, on one line."""
    start = " ".join(body[: 4 * QUOTED_CHARACTERS].decode("utf-8", "replace").split())
    shown = redact(start)[:QUOTED_CHARACTERS]
    return f"the response is {content_type or 'of unknown type'}, starting with {shown!r}"


def _retry_after(header: str) -> float | None:
    # The API server sends seconds, never a date.
    if not (header.isascii() and header.isdigit()):
        return None
    return min(float(header), RETRY_AFTER_SECONDS_MAX)
