"""`docs/reference/errors.md`: what each answer of ARM and AKS means to the program, from the table that judges them."""

from cloudprovider.azure import error_table
from cloudprovider.azure.error_table import Row
from cloudprovider.azure.errors import UNANSWERED

from .markdown import code, page, table

GROUPS = {
    "Throttling": error_table.THROTTLING,
    "Quota": error_table.QUOTA,
    "Capacity": error_table.CAPACITY,
    "Machines that do not come up": error_table.BRING_UP_FAILURES,
    "Cancelled operations": error_table.CANCELLATIONS,
    "Conflicts": error_table.CONFLICTS,
    "What is missing is not the pool": error_table.ELSEWHERE,
    "Access": error_table.ACCESS,
    "Validation": error_table.VALIDATION,
    "The service itself": error_table.SERVICE,
}

INTRODUCTION = """\
The first row that fits judges an answer, from top to bottom. A row fits by ARM's code (`*` stands for anything), by a
part of the message that came with it, and by the HTTP status; what a row does not name is not looked at.

The reason stands on the claim's `Launched` condition (on `InstanceTerminating` in a removal) and on the Event. Where
the table says *ARM's code*, the reason is that code in CamelCase, or `HTTP` and the status if there is none. The
message begins with the code and ends with the remedy."""

REST = """\
Where no rest is named, an offering rests 30 seconds, doubling to 10 minutes; an hour if the quota's limit is 0. A new
value of the annotation `gpu-provisioner.sh/retry` on a claim ends the rest of what it asks for."""

KINDS = {
    "no capacity": "`Launched` is False. The offering (a size, zone and capacity type) rests, and the claim tries"
    " the next"
    " one that it allows. *Scope* says which offerings rest with it.",
    "rejected": "`Launched` is False. The claim tries again after *rest*, or 5 minutes doubling to an hour, and at"
    " once when"
    " its labels or annotations change.",
    "retryable": "`Launched` is Unknown. It is tried again after *rest*, or a back-off that starts with seconds."
    " Azure's"
    " `Retry-After` counts before either.",
}

SILENCE = """\
## No answer

What was sent may have been applied, so it is looked up before anything is sent again. All of these are retryable."""

# What is said without an answer of ARM's, besides the failures of a connection.
BEFORE_ASKING = (
    (
        "NoToken",
        "no access token could be had from Entra ID; its own AADSTS code, if it has one",
        error_table.FIX_IDENTITY,
    ),
    ("ThrottledByBudget", "ARM's budget for this call is used up, by our own count", "Tried again by itself"),
    ("ETagUnknown", "the pool was read without an ETag", "Read again by itself"),
    ("UnexpectedError", "something else went wrong on the way; the log has it", error_table.AGAIN),
    ("UnknownError", "an operation failed without a code", error_table.AGAIN),
)

# Every reason that is not ARM's own code.
OWN_REASONS = frozenset(
    [row.reason for row in error_table.TABLE if row.reason]
    + [reason for _, reason, _, _ in UNANSWERED]
    + [reason for reason, _, _ in BEFORE_ASKING]
)

FALLBACK = """\
## Anything else

An answer that no row fits is retryable, with ARM's code as its reason. `NotFound` about this very pool is no error: it
is the proof that the pool is gone."""


def render() -> str:
    """The page; raises ValueError if a row of the table is in none of its groups."""
    grouped = [row for rows in GROUPS.values() for row in rows]
    if len(grouped) != len(error_table.TABLE):
        raise ValueError("a group of the error table is missing here")
    parts = []
    for title, rows in GROUPS.items():
        heads = ["ARM says", "Kind", "Reason", "Scope", "Rest", "Remedy"]
        parts += [f"## {title}", table(heads, [_cells(row) for row in rows])]
    told = dict.fromkeys([*((reason, text, remedy) for _, reason, text, remedy in UNANSWERED), *BEFORE_ASKING])
    unanswered = [(code(reason), text, remedy) for reason, text, remedy in told]
    return page(
        "Errors of Azure",
        "cloudprovider/azure/error_table.py",
        INTRODUCTION,
        table(["Kind", "What happens"], KINDS.items()),
        REST,
        *parts,
        SILENCE,
        table(["Reason", "Message", "Remedy"], unanswered),
        FALLBACK,
    )


def _cells(row: Row) -> list[str]:
    return [
        _fits(row),
        row.kind.replace("_", " "),
        code(row.reason) or "ARM's code",
        row.scope if row.kind == "no_capacity" else "",
        _span(row.after),
        row.remedy.format(location="LOCATION"),
    ]


def _fits(row: Row) -> str:
    told = [", ".join(code(name) for name in row.codes)] if row.codes else []
    told += [f"with “{'” or “'.join(row.says)}”"] if row.says else []
    told += [f"HTTP {_statuses(row.statuses)}"] if row.statuses else []
    told += [f"to {' or '.join(row.verbs)}"] if row.verbs else []
    return " ".join(told)


def _statuses(statuses: tuple[int, ...]) -> str:
    if statuses == error_table.ANY_5XX:
        return "5xx"
    if statuses == error_table.ACCEPTED:
        return "2xx that is not expected"
    return ", ".join("in a failed operation" if status == 0 else str(status) for status in statuses if status != 200)


def _span(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.0f} h"
