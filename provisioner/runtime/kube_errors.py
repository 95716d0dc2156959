"""What can go wrong between us and the API server: one error, asked by property what to do about it.

Messages quote what came (cut, credentials masked), never what was sent. `not_found` is proof: the API
server itself said NotFound and named the object. A proxy's page, or the plain `404 page not found` for a kind that
is no longer served, proves nothing about an object and is not `not_found`.

Source: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
(Status and its reasons), docs/references/kubernetes.md#writes.
"""

from collections.abc import Mapping

import msgspec

from .objects import Status, StatusDetails
from .redaction import redact

RETRYABLE = frozenset({0, 401, 408, 429, 500, 502, 503, 504})
REFUSED = frozenset({403, 413, 422})
QUOTED_CHARACTERS = 160
MESSAGE_CHARACTERS = 1024
# No answer can put us to sleep for good.
RETRY_AFTER_SECONDS_MAX = 300.0

# What the decoder raises for bytes that are no JSON of ours; nesting without end exhausts its stack.
UNREADABLE: tuple[type[Exception], ...] = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

NO_ANSWER = "NoAnswer"
TIMEOUT = "Timeout"
IDLE_TIMEOUT = "Silent"
UNEXPECTED = "UnexpectedAnswer"
CREDENTIALS = "Credentials"


class KubeError(Exception):
    """A call that did not succeed.

    `status` is the HTTP status, 0 if no answer arrived (the call may have been carried out all the same).
    `reason` is Kubernetes' own (NotFound, Conflict, AlreadyExists, Expired, Invalid, …) or one of this module's.
    `named` is the object the server's answer names; `retry_after` is in seconds, at most five minutes, None if not
    stated; `causes` are the single causes it gives, in its words.
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
        """Whether the API server proves that this object is absent."""
        return self.status == 404 and self.reason == "NotFound" and bool(self.named)

    @property
    def conflict(self) -> bool:
        """Whether the object was changed, or created, by someone else: read it anew and decide again."""
        return self.status == 409

    @property
    def gone(self) -> bool:
        """Whether a version or a page is too old to continue from: list anew."""
        return self.status == 410

    @property
    def refused(self) -> bool:
        """Whether the same call will be refused until the object, or a permission, changes."""
        return self.status in REFUSED

    @property
    def unexpected(self) -> bool:
        """Whether what came is not what the API server says: a proxy's page, half a body, another kind."""
        return self.reason == UNEXPECTED

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed a little later, with nothing changed."""
        return self.status in RETRYABLE or self.unexpected


def from_answer(status: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """The error for an answer whose status is not a success."""
    retry_after = _retry_after(headers.get("Retry-After", ""))
    try:
        said = msgspec.json.decode(body, type=Status)
    except UNREADABLE:
        said = Status()
    if said.kind != "Status":
        return KubeError(status, UNEXPECTED, quoted(headers.get("Content-Type", ""), body), retry_after=retry_after)
    return from_status(said, status=status, retry_after=retry_after)


def from_status(said: Status, *, status: int = 0, retry_after: float | None = None) -> KubeError:
    """The error for a Status object: an answer's body, or what an ERROR event carries."""
    details = said.details
    if retry_after is None and details is not None and details.retry_after_seconds > 0:
        retry_after = float(min(details.retry_after_seconds, RETRY_AFTER_SECONDS_MAX))
    return KubeError(
        status or said.code or 500,
        said.reason or "Unknown",
        redact(said.message)[:MESSAGE_CHARACTERS],
        retry_after=retry_after,
        named=details.name if details is not None else "",
        causes=_causes(details),
    )


def _causes(details: StatusDetails | None) -> tuple[str, ...]:
    causes = (details.causes or ()) if details is not None else ()
    return tuple(redact(cause.message)[:MESSAGE_CHARACTERS] for cause in causes if cause.message)


def unexpected(status: int, what: str, content_type: str = "", body: bytes = b"") -> KubeError:
    """The error for an answer that is not what the API server says; `what` names the object and the flaw."""
    came = f"; {quoted(content_type, body)}" if body else ""
    return KubeError(status, UNEXPECTED, f"{what}{came}")


def quoted(content_type: str, body: bytes) -> str:
    """What came, in a few words: its declared type and its beginning, on one line."""
    start = " ".join(body[: 4 * QUOTED_CHARACTERS].decode("utf-8", "replace").split())
    shown = redact(start)[:QUOTED_CHARACTERS]
    return f"the answer is {content_type or 'of no declared type'}, beginning {shown!r}"


def _retry_after(header: str) -> float | None:
    # Only seconds: the API server never sends the other form, a date, and our wall clock need not be its.
    if not (header.isascii() and header.isdigit()):
        return None
    return min(float(header), RETRY_AFTER_SECONDS_MAX)
