"""`docs/reference/events.md`: every Event that the program records."""

from provisioner.api.conditions import READY
from provisioner.api.reasons import AWAITING
from provisioner.runtime import events as runtime

from .conditions import ORDER, anchor
from .explained import NOTICES, REASONS
from .markdown import code, page, table

INTRODUCTION = """\
Events tell people what happened; nothing in the program depends on them. They are reported by `{component}` and stand
in the namespace `default` when they are about a NodeClaim or a Node, which have none:

```console
$ kubectl get events --namespace default --field-selector involvedObject.kind=NodeClaim
$ kubectl describe nodeclaim NAME
```

The same Event again is counted up in place of being written anew, and there is a bound to how many are written
at all: a claim's condition is the truth, an Event may be missing.

## Changes of conditions

Whenever a condition's status or reason changes, an Event of that reason says so on the NodeClaim, with the condition's
message; once more when a deadline has passed. It is a Warning where a person may have to do something. The reasons are
those of [Conditions](conditions.md), and ARM's own codes ([Errors of Azure](errors.md))."""

OWN = """\
## Events of their own

These belong to no change of a condition."""


def render() -> str:
    """The page."""
    troubles = {reason.name for reason in REASONS if reason.look}
    rows = [[on, ", ".join(_linked(name, troubles) for name in _told(on))] for on in ORDER if _told(on)]
    own = [
        [code(notice.name), notice.kind, ", ".join(notice.about), f"{notice.meaning} {notice.remedy}".strip()]
        for notice in sorted(NOTICES, key=lambda notice: notice.name.casefold())
    ]
    return page(
        "Events",
        "tools/reference/explained/notices.py",
        INTRODUCTION.format(component=runtime.COMPONENT),
        table(["Of the condition", "Reasons"], rows),
        OWN,
        table(["Reason", "Type", "About", "Meaning"], own),
    )


def _told(condition: str) -> list[str]:
    """What is said of a condition once the program has looked at it. Ready follows from the others without a word."""
    found = (reason.name for reason in REASONS if reason.on == condition != READY and reason.name != AWAITING)
    return list(dict.fromkeys(found))


def _linked(name: str, troubles: set[str]) -> str:
    return f"[{code(name)}](../troubleshooting/reasons.md#{anchor(name)})" if name in troubles else code(name)
