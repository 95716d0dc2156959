"""`docs/reference/errors.md`: how the controller handles each error of ARM and AKS."""

from cloudprovider.azure import error_table
from cloudprovider.azure.error_table import Row
from cloudprovider.azure.errors import TRANSPORT_ERRORS

from .markdown import code, page, table

GROUPS = {
    "Throttling": error_table.THROTTLING,
    "Quota": error_table.QUOTA,
    "Capacity": error_table.CAPACITY,
    "Provisioning failures": error_table.BRING_UP_FAILURES,
    "Cancelled operations": error_table.CANCELLATIONS,
    "Conflicts": error_table.CONFLICTS,
    "Missing resources other than the pool": error_table.OTHER_NOT_FOUND,
    "Access": error_table.ACCESS,
    "Validation": error_table.VALIDATION,
    "Service errors": error_table.SERVICE,
}

INTRODUCTION = """\
The first row that matches an error, from top to bottom, applies. A row matches by ARM's error code (`*` matches any
text), by a part of the error message, and by the HTTP status; a criterion that a row does not contain is not
checked.

The reason is set on the NodeClaim's `Launched` condition (on `InstanceTerminating` during termination) and on the
Event. Where the table contains *ARM's code*, the reason is that code in CamelCase, or `HTTP` and the status if there
is no code. The message begins with the code and ends with the remedy."""

DELAYS = """\
Without a delay in the table, an offering is unavailable for 30 seconds, doubling to 5 minutes; no offering is
unavailable for longer. A new value of the annotation `gpu-provisioner.sh/retry` on a NodeClaim ends the delay for its
offerings."""

KINDS = {
    "no capacity": "`Launched` is False. The offering (size, zone and capacity type) is unavailable for the *delay*,"
    " and the next offering that the NodeClaim allows is tried. *Scope* shows which offerings become unavailable with"
    " it.",
    "rejected": "`Launched` is False. The request is retried after the *delay*, or after 5 minutes doubling to an hour,"
    " and immediately when the labels or annotations of the NodeClaim change. An agent pool that fails after its"
    " PUT was accepted is handled so whatever its code, unless Azure has no capacity: a machine may have been created"
    " and billed.",
    "retryable": "`Launched` is Unknown. The request is retried after the *delay*, or with an exponential backoff that"
    " starts at a few seconds. `Retry-After` of Azure takes precedence.",
}

SILENCE = """\
## No response

Azure may have applied the request; the controller reads the agent pool before it sends a request again. All of these
errors are retryable."""

# Reasons without a response of ARM, in addition to connection errors.
BEFORE_SENDING = (
    (
        "NoToken",
        "Entra ID issued no access token; the reason is its AADSTS code, if there is one",
        error_table.FIX_IDENTITY,
    ),
    ("ClientSideThrottling", "the client-side rate limit for this request is reached", error_table.RETRIED),
    ("ETagUnknown", "the pool was read without an ETag", error_table.RETRIED),
    ("UnexpectedError", "an unexpected error occurred; the log contains it", error_table.RETRIED),
    ("UnknownError", "an operation failed without a code", error_table.RETRIED),
)

# Every reason that is not an error code of ARM.
OWN_REASONS = frozenset(
    [row.reason for row in error_table.TABLE if row.reason]
    + [reason for _, reason, _, _ in TRANSPORT_ERRORS]
    + [reason for reason, _, _ in BEFORE_SENDING]
)

FALLBACK = """\
## Other errors

An error that no row matches is retryable, with ARM's code as its reason. `NotFound` for the agent pool itself is not
an error: it proves that the pool is deleted."""


def render() -> str:
    """The page. Raises ValueError if a row of the table is in none of the groups."""
    grouped = [row for rows in GROUPS.values() for row in rows]
    if len(grouped) != len(error_table.TABLE):
        raise ValueError("a group of the error table is missing here")
    parts = []
    for title, rows in GROUPS.items():
        heads = ["Error", "Kind", "Reason", "Scope", "Delay", "Remedy"]
        parts += [f"## {title}", table(heads, [_cells(row) for row in rows])]
    known = dict.fromkeys([*((reason, text, remedy) for _, reason, text, remedy in TRANSPORT_ERRORS), *BEFORE_SENDING])
    unanswered = [(code(reason), text, remedy) for reason, text, remedy in known]
    return page(
        "Errors of Azure",
        "cloudprovider/azure/error_table.py",
        INTRODUCTION,
        table(["Kind", "Handling"], KINDS.items()),
        DELAYS,
        *parts,
        SILENCE,
        table(["Reason", "Message", "Remedy"], unanswered),
        FALLBACK,
    )


def _cells(row: Row) -> list[str]:
    return [
        _criteria(row),
        row.kind.replace("_", " "),
        code(row.reason) or "ARM's code",
        row.scope if row.kind == "no_capacity" else "",
        _span(row.after),
        row.remedy.format(location="LOCATION"),
    ]


def _criteria(row: Row) -> str:
    found = [", ".join(code(name) for name in row.codes)] if row.codes else []
    found += [f"with “{'” or “'.join(row.phrases)}”"] if row.phrases else []
    found += [f"HTTP {_statuses(row.statuses)}"] if row.statuses else []
    found += [f"for {' or '.join(row.verbs)}"] if row.verbs else []
    return " ".join(found)


def _statuses(statuses: tuple[int, ...]) -> str:
    if statuses == error_table.ANY_5XX:
        return "5xx"
    if statuses == error_table.ACCEPTED:
        return "unexpected 2xx"
    return ", ".join("in a failed operation" if status == 0 else str(status) for status in statuses if status != 200)


def _span(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.0f} h"
