"""Translation of the errors of ARM, AKS and the Azure SDK into `CloudError`.

Pure and total: any exception and any body become one `CloudError`. `NotFound` means that this pool is proven absent; an
unknown error is `Retryable`. A message has at most 256 bytes: code, text, remedy; it contains no URL, GUID or query.

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

from cloudprovider.errors import QUOTA_EXCEEDED, CloudError, NoCapacity, NotFound, Rejected, Retryable
from cloudprovider.interface import Failure
from provisioner.api.conditions import EXHAUSTED, MESSAGE_BYTES

from .arm_errors import NOTHING, ArmError, ErrorDetail, error_details, read_body, read_error
from .error_table import ASSIGN_QUOTA_ROLE, ASSIGN_ROLE, FIX_IDENTITY, LOG_IN, RETRIED, TABLE, UNKNOWN, Row, Verb
from .messages import denied_action, format_message, parse_location, parse_quota, parse_shortage, summarize
from .sdk_limits import TIMED_OUT

_REASON = re.compile(r"[A-Z][A-Za-z0-9]{2,62}")
_POOL_NAMED = re.compile(r"agent ?pools? '([^']*)'", re.IGNORECASE)
# The first sentence; the ids and times after it differ in each response.
_ENTRA = re.compile(r"(AADSTS\d{4,8}):\s*([^\r\n]{1,300}?\.)(?=\s|$)")
# The messages of AzureCliCredential, which has no class of error for them.
_AZURE_CLI = ("Azure CLI not found", "Please run 'az login'", "Timed out waiting for Azure CLI")
LONGEST_AFTER_SECONDS = 3600.0
CANCELED = ArmError(code="OperationCanceled", message="the operation was canceled by a user or by AKS")
# Leaves room for the suffixes that the condition of a claim may add.
NO_CAPACITY_BYTES = MESSAGE_BYTES - len(f"; {EXHAUSTED}") - len("; overdue: over 999 min")


def classify(exc: BaseException, *, pool: str, verb: Verb) -> CloudError:
    """The CloudError of an exception of a call about `pool` ("" for list and cluster)."""
    if isinstance(exc, CloudError):
        return exc
    if isinstance(exc, ClientAuthenticationError) and _is_credential_error(exc):
        return _token_error(exc)
    if isinstance(exc, HttpResponseError) and exc.response is not None and isinstance(exc.status_code, int):
        return classify_response(
            exc.status_code, _body_of(exc), headers=getattr(exc.response, "headers", None) or {}, pool=pool, verb=verb
        )
    return _transport_error(exc)


def classify_response(status: int, error: ArmError, *, headers: Mapping[str, str], pool: str, verb: Verb) -> CloudError:
    """The CloudError of an HTTP response."""
    if status == 404 and verb in ("get", "delete") and proves_absence(error, pool):
        return NotFound(
            "NotFound", format_message(error.code, f"agent pool {pool} does not exist", ""), code=error.code, status=404
        )
    row, detail = match_row(status, error, verb)
    after = retry_after_seconds(headers)
    return _to_error(row, detail, error, status=status, after=after if after is not None else row.after)


def classify_failure(code: str, message: str, details: Any) -> Failure:
    """The Failure of a Failed pool, from its `status.provisioningError`."""
    return _to_failure(read_error({"code": code, "message": message, "details": details}))


def classify_operation(body: Mapping[str, Any]) -> Failure | None:
    """The Failure of an operation, from the body of its URL; None if it has not failed or has no error."""
    error, state = read_error(body.get("error")), str(body.get("status") or "").casefold()
    if state not in ("failed", "canceled"):
        return None
    if error.code or error.message:
        return _to_failure(error)
    return _to_failure(CANCELED) if state == "canceled" else None


def _to_failure(error: ArmError) -> Failure:
    """A machine may have been created and billed: whatever the code, the retry waits as after a rejection at least.

    Only a shortage is known to have cost nothing.
    """
    row, detail = match_row(0, error, "create")
    cause = _to_error(row, detail, error, status=0, after=row.after)
    free = isinstance(cause, NoCapacity)
    return Failure(
        reason=cause.reason,
        message=cause.message,
        code=cause.code,
        kind=cause.kind if free else Rejected.kind,
        scope=cause.scope if isinstance(cause, NoCapacity) else "request",
        after=cause.after if free else None,
    )


def proves_absence(error: ArmError, pool: str) -> bool:
    """Whether this 404 proves that `pool` is absent: a flat body of AKS, or one of ARM with the path of the pool."""
    if not pool:
        return False
    code, text = error.code.casefold(), error.message
    if error.flat and code == "notfound" and "agent pool not found" in text.casefold():
        others = [name for name in _POOL_NAMED.findall(text) if name.casefold() != pool.casefold()]
        return not others
    path = rf"/agentPools/{re.escape(pool)}(?![\w/.-])"
    return code in ("resourcenotfound", "notfound") and re.search(path, text, re.IGNORECASE) is not None


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """The `Retry-After` in seconds, at most an hour; None if there is none, or if it is a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("x-ms-retry-after-ms", 1000.0), ("Retry-After", 1.0)):
        value = str(headers.get(name) or "").strip()
        if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", value, re.ASCII):
            seconds = float(value) / unit
            if seconds > 0:
                return min(seconds, LONGEST_AFTER_SECONDS)
    return None


def match_row(status: int, error: ArmError, verb: Verb) -> tuple[Row, ErrorDetail]:
    """The row that matches this error, and the code and message that it matches."""
    found = tuple(error_details(error))
    for row in TABLE:
        if (row.statuses and status not in row.statuses) or (row.verbs and verb not in row.verbs):
            continue
        if not row.codes and not row.phrases:
            return row, _first(found)
        matching = [detail for detail in found if _matches(row, detail)]
        if matching:
            return row, matching[-1]  # the innermost one: wrappers quote the message of the wrapped error
    return UNKNOWN, _first(found)


def _first(found: Iterable[ErrorDetail]) -> ErrorDetail:
    return next(iter(found), ErrorDetail("", ""))


def _matches(row: Row, detail: ErrorDetail) -> bool:
    code, message = detail.code.casefold(), detail.message.casefold()
    return (not row.codes or any(fnmatchcase(code, glob.casefold()) for glob in row.codes)) and (
        not row.phrases or any(fragment.casefold() in message for fragment in row.phrases)
    )


def _to_error(row: Row, detail: ErrorDetail, error: ArmError, *, status: int, after: float | None) -> CloudError:
    code = detail.code or error.code
    text = _facts(row, detail.message) or summarize(detail.message)
    if not text and status:
        text = f"HTTP {status} without an error message"
    remedy = row.remedy.format(location=parse_location(detail.message) or "<location>")
    limit = NO_CAPACITY_BYTES if row.kind == "no_capacity" else MESSAGE_BYTES
    message = format_message(code, text, remedy, limit=limit)
    reason = row.reason or _reason(code, status)
    match row.kind:
        case "no_capacity":
            return NoCapacity(reason, message, scope=row.scope, after=after, code=code, status=status)
        case "rejected":
            return Rejected(reason, message, after=after, code=code, status=status, scope=row.scope)
        case "retryable":
            return Retryable(reason, message, after=after, code=code, status=status, conflict=row.conflict)


def _facts(row: Row, message: str) -> str:
    """What a long message of this kind states, in few words; "" if it is not in the known form."""
    if row.remedy in (ASSIGN_ROLE, ASSIGN_QUOTA_ROLE):
        return denied_action(message)
    known = {QUOTA_EXCEEDED: parse_quota, "SkuNotAvailable": parse_shortage}.get(row.reason)
    return known(message) if known is not None else ""


def _reason(code: str, status: int) -> str:
    """The code of ARM if it is a valid reason of a condition."""
    tail = code.rpartition("_")[2]
    tail = tail[:1].upper() + tail[1:]
    if _REASON.fullmatch(tail):
        return tail
    return f"HTTP{status}" if status else "UnknownError"


def _body_of(exc: HttpResponseError) -> ArmError:
    try:
        text = exc.response.text() if exc.response is not None else ""
    except Exception:  # noqa: BLE001 - the type of an incomplete body depends on the transport
        text = ""
    body = read_body(text) if isinstance(text, str | bytes) else NOTHING
    if body == NOTHING and exc.error is not None:
        return ArmError(code=str(exc.error.code or ""), message=str(exc.error.message or ""))
    return body


def _is_credential_error(exc: ClientAuthenticationError) -> bool:
    """Whether the credential failed. Responses of Entra ID have a status too, which is not about the request."""
    return exc.response is None or exc.status_code != 401 or _ENTRA.search(str(exc.message)) is not None


def _token_error(exc: ClientAuthenticationError) -> Retryable:
    """With the AADSTS code of Entra ID, if there is one. Status 401: no request was sent."""
    entra = _ENTRA.search(str(exc.message))
    timed_out = TIMED_OUT in str(exc.message)
    failed = TIMED_OUT if timed_out else "failed to get an access token"
    code, text = (entra[1], summarize(entra[2])) if entra is not None else ("", failed)
    after = retry_after_seconds(getattr(exc.response, "headers", None) or {})
    remedy = LOG_IN if str(exc.message).startswith(_AZURE_CLI) else FIX_IDENTITY
    return Retryable("NoToken", format_message(code, text, remedy), after=after, code=code, status=401)


# Without a response the request may have been applied (status 0). The first matching type applies.
TRANSPORT_ERRORS: tuple[tuple[type[BaseException], str, str, str], ...] = (
    (ServiceRequestTimeoutError, "ConnectionFailed", "connecting to ARM timed out", RETRIED),
    (ServiceRequestError, "ConnectionFailed", "the connection to ARM failed", RETRIED),
    (ServiceResponseTimeoutError, "Timeout", "the request to ARM timed out", RETRIED),
    (ServiceResponseError, "ConnectionFailed", "the connection to ARM was closed", RETRIED),
    (IncompleteReadError, "ConnectionFailed", "the connection to ARM was closed", RETRIED),
    (TimeoutError, "Timeout", "the request to ARM timed out", RETRIED),
    (ConnectionError, "ConnectionFailed", "the connection to ARM failed", RETRIED),
    (ValueError, "InvalidResponse", "the response of ARM is invalid", RETRIED),
    (msgspec.MsgspecError, "InvalidResponse", "the response of ARM is invalid", RETRIED),
)


def _transport_error(exc: BaseException) -> Retryable:
    for kind, reason, text, remedy in TRANSPORT_ERRORS:
        if isinstance(exc, kind):
            return Retryable(reason, format_message("", text, remedy))
    return Retryable("UnexpectedError", format_message("", f"unexpected {type(exc).__name__}", RETRIED))
