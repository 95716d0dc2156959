"""ARM's and AKS's answers as our four errors.

Pure and total. Any exception and any body become one `CloudError`; `NotFound` only ever means that this very
pool is proven absent, and what nobody knows is `Retryable`. A message has at most 256 bytes: code, words, remedy; no
URL, GUID or query is in it.

Source: docs/references/agent-pools.md#error-bodies, docs/references/agent-pools.md#not-found,
docs/references/rules.md#absence-needs-proof, docs/references/rules.md#accurate-status,
docs/references/rules.md#no-secrets-in-output.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)

from cloudprovider.errors import CloudError, NoCapacity, NotFound, Rejected, Retryable
from cloudprovider.interface import Failure
from provisioner.api.conditions import EXHAUSTED, MESSAGE_BYTES

from .arm_errors import NOTHING, ArmError, ErrorDetail, error_details, read_body, read_error
from .error_table import AGAIN, FIX_IDENTITY, GIVE_ROLE, HOUR_SECONDS, TABLE, UNKNOWN, Row, Verb
from .messages import Quota, compose, denied, location, quota, told_limit, words

_REASON = re.compile(r"[A-Z][A-Za-z0-9]{2,62}")
_POOL_NAMED = re.compile(r"agent ?pools? '([^']*)'", re.IGNORECASE)
# Its first sentence; behind it come ids and times, which would make every message a new one.
_ENTRA = re.compile(r"(AADSTS\d{4,8}):\s*([^\r\n]{1,300}?\.)(?=\s|$)")
LONGEST_AFTER_SECONDS = 3600.0
CANCELED = ArmError(code="OperationCanceled", message="the operation was canceled, by a person or by AKS itself")
# Behind the words of a shortage may come that nothing else is left to try, and that this is overdue.
SHORT_BYTES = MESSAGE_BYTES - len(f"; {EXHAUSTED}") - len("; overdue: over 999 min")


def classify(exc: BaseException, *, pool: str, verb: Verb) -> CloudError:
    """What this failure of a call about `pool` ("" for list and cluster) means. Cancellation is not ours to judge."""
    if isinstance(exc, CloudError):
        return exc
    if isinstance(exc, ClientAuthenticationError) and _before_arm(exc):
        return _no_token(exc)
    if isinstance(exc, HttpResponseError) and exc.response is not None and isinstance(exc.status_code, int):
        return classify_answer(
            exc.status_code, _body_of(exc), headers=getattr(exc.response, "headers", None) or {}, pool=pool, verb=verb
        )
    return _unanswered(exc)


def classify_answer(status: int, error: ArmError, *, headers: Mapping[str, str], pool: str, verb: Verb) -> CloudError:
    """What an HTTP answer means."""
    if status == 404 and verb in ("get", "delete") and names_absence(error, pool):
        return NotFound(
            "NotFound", compose(error.code, f"agent pool {pool} does not exist", ""), code=error.code, status=404
        )
    row, detail = matching(status, error, verb)
    told = retry_after_seconds(headers)
    return _build(row, detail, error, status=status, after=told if told is not None else row.after)


def classify_failure(code: str, message: str, details: Any) -> Failure:
    """Why a Failed pool failed, from its `status.provisioningError` (the operation is over: no HTTP status)."""
    return _failure(read_error({"code": code, "message": message, "details": details}))


def classify_operation(body: Mapping[str, Any]) -> Failure | None:
    """Why an operation failed, from what its URL answers (HTTP 200); None if it does not say, or has not failed."""
    error, state = read_error(body.get("error")), str(body.get("status") or "").casefold()
    if state not in ("failed", "canceled"):
        return None
    if error.code or error.message:
        return _failure(error)
    return _failure(CANCELED) if state == "canceled" else None


def recalled(reason: str, message: str) -> Failure | None:
    """The shortage that a claim's condition tells of in our own words, of which nothing else is known any more.

    None if it is no shortage, or if the words do not tell which.
    """
    code, _, text = message.partition(": ")
    row, detail = matching(0, ArmError(code=code, message=text), "create")
    if row.kind != "no_capacity" or (row.reason or _reason(detail.code, 0)) != reason:
        return None
    after = HOUR_SECONDS if told_limit(text) == 0 else row.after
    return Failure(reason=reason, message=message, code=code, kind=NoCapacity.kind, scope=row.scope, after=after)


def _failure(error: ArmError) -> Failure:
    row, detail = matching(0, error, "create")
    cause = _build(row, detail, error, status=0, after=row.after)
    scope = cause.scope if isinstance(cause, NoCapacity) else "configuration"
    return Failure(
        reason=cause.reason, message=cause.message, code=cause.code, kind=cause.kind, scope=scope, after=cause.after
    )


def names_absence(error: ArmError, pool: str) -> bool:
    """Whether this 404 proves that `pool` is absent: AKS's own flat answer about it, or ARM's that names its path."""
    if not pool:
        return False
    code, text = error.code.casefold(), error.message
    if error.flat and code == "notfound" and "agent pool not found" in text.casefold():
        others = [name for name in _POOL_NAMED.findall(text) if name.casefold() != pool.casefold()]
        return not others
    path = rf"/agentPools/{re.escape(pool)}(?![\w/.-])"
    return code in ("resourcenotfound", "notfound") and re.search(path, text, re.IGNORECASE) is not None


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """What the service asks for, at most an hour; None if it asks for nothing readable (dates are not)."""
    for name, unit in (("retry-after-ms", 1000.0), ("x-ms-retry-after-ms", 1000.0), ("Retry-After", 1.0)):
        value = str(headers.get(name) or "").strip()
        if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", value, re.ASCII):
            seconds = float(value) / unit
            if seconds > 0:
                return min(seconds, LONGEST_AFTER_SECONDS)
    return None


def matching(status: int, error: ArmError, verb: Verb) -> tuple[Row, ErrorDetail]:
    """The row that judges this error, and the code and words by which it was recognised."""
    found = tuple(error_details(error))
    for row in TABLE:
        if (row.statuses and status not in row.statuses) or (row.verbs and verb not in row.verbs):
            continue
        if not row.codes and not row.says:
            return row, _first(found)
        fitting = [detail for detail in found if _fits(row, detail)]
        if fitting:
            return row, fitting[-1]  # the innermost: wrappers quote the words of what they wrap
    return UNKNOWN, _first(found)


def _first(found: Iterable[ErrorDetail]) -> ErrorDetail:
    return next(iter(found), ErrorDetail("", ""))


def _fits(row: Row, detail: ErrorDetail) -> bool:
    code, message = detail.code.casefold(), detail.message.casefold()
    return (not row.codes or any(fnmatchcase(code, glob.casefold()) for glob in row.codes)) and (
        not row.says or any(fragment.casefold() in message for fragment in row.says)
    )


def _build(row: Row, detail: ErrorDetail, error: ArmError, *, status: int, after: float | None) -> CloudError:
    code = detail.code or error.code
    limits = quota(detail.message) if row.reason == "QuotaExceeded" else Quota()
    named = denied(detail.message) if row.remedy == GIVE_ROLE else limits.words
    text = named or words(detail.message) or (f"HTTP {status} without a readable reason" if status else "")
    remedy = row.remedy.format(location=location(detail.message) or "<location>")
    message = compose(code, text, remedy, limit=SHORT_BYTES if row.kind == "no_capacity" else MESSAGE_BYTES)
    reason = row.reason or _reason(code, status)
    match row.kind:
        case "no_capacity":
            if limits.limit == 0:
                after = HOUR_SECONDS
            return NoCapacity(reason, message, scope=row.scope, after=after, code=code, status=status)
        case "rejected":
            return Rejected(reason, message, after=after, code=code, status=status)
        case "retryable":
            return Retryable(reason, message, after=after, code=code, status=status, conflict=row.conflict)


def _reason(code: str, status: int) -> str:
    """ARM's code, if a condition may bear it."""
    tail = code.rpartition("_")[2]
    tail = tail[:1].upper() + tail[1:]
    if _REASON.fullmatch(tail):
        return tail
    return f"HTTP{status}" if status else "UnknownError"


def _body_of(exc: HttpResponseError) -> ArmError:
    try:
        text = exc.response.text() if exc.response is not None else ""
    except Exception:  # noqa: BLE001 - an answer that broke off half-way has a type of error for each transport
        text = ""
    body = read_body(text) if isinstance(text, str | bytes) else NOTHING
    if body == NOTHING and exc.error is not None:
        return ArmError(code=str(exc.error.code or ""), message=str(exc.error.message or ""))
    return body


def _before_arm(exc: ClientAuthenticationError) -> bool:
    """Whether the credential failed. Entra ID's answers have statuses too, which say nothing of the claim."""
    return exc.response is None or exc.status_code != 401 or _ENTRA.search(str(exc.message)) is not None


def _no_token(exc: ClientAuthenticationError) -> Retryable:
    """Entra ID's own code, if any: it is what people search for. Status 401: nothing can have been applied."""
    said = _ENTRA.search(str(exc.message))
    code, text = (said[1], words(said[2])) if said is not None else ("", "no access token could be had from Entra ID")
    after = retry_after_seconds(getattr(exc.response, "headers", None) or {})
    return Retryable("NoToken", compose(code, text, FIX_IDENTITY), after=after, code=code, status=401)


# Without an answer: what was sent may have been applied (status 0). The first type that fits names the reason.
UNANSWERED: tuple[tuple[type[BaseException], str, str, str], ...] = (
    (ServiceRequestTimeoutError, "ConnectionFailed", "ARM could not be reached in time", AGAIN),
    (ServiceRequestError, "ConnectionFailed", "the connection to ARM failed", AGAIN),
    (ServiceResponseTimeoutError, "Timeout", "ARM did not answer in time", AGAIN),
    (ServiceResponseError, "ConnectionFailed", "the connection to ARM broke off", AGAIN),
    (IncompleteReadError, "ConnectionFailed", "the connection to ARM broke off", AGAIN),
    (TimeoutError, "Timeout", "ARM did not answer in time", AGAIN),
    (ConnectionError, "ConnectionFailed", "the connection to ARM failed", AGAIN),
    (ValueError, "UnreadableAnswer", "ARM's answer could not be read", AGAIN),
    (msgspec.MsgspecError, "UnreadableAnswer", "ARM's answer could not be read", AGAIN),
)


def _unanswered(exc: BaseException) -> Retryable:
    for kind, reason, text, remedy in UNANSWERED:
        if isinstance(exc, kind):
            return Retryable(reason, compose("", text, remedy))
    return Retryable("UnexpectedError", compose("", f"unexpected {type(exc).__name__}", AGAIN))
