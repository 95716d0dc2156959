"""`docs/reference/events.md`: every Event that the controller records."""

from controllers.planner.status import WITHOUT_EVENT
from provisioner.api.conditions import READY
from provisioner.api.reasons import AWAITING
from provisioner.runtime import events as runtime

from .conditions import ORDER, anchor
from .explained import EVENTS, REASONS
from .markdown import code, page, table

INTRODUCTION = """\
Events are informational; no component depends on them. The reporting component is `{component}`. Events about
NodeClaims and Nodes, which are cluster-scoped, are in the namespace `default`:

```console
$ kubectl get events --namespace default --field-selector involvedObject.kind=NodeClaim
$ kubectl describe nodeclaim NAME
```

A repeated Event increments the count of the existing one. What lasts is recorded again after 1 to 15 minutes, or
after an hour, when the API server has deleted the Event. The number of Events is limited, so that an Event can be
missing; the conditions of the NodeClaim are complete.

## Changes of conditions

When the status or the reason of a condition changes, and when a deadline is exceeded, the NodeClaim gets an Event
with the reason and the message of the condition. Its type is Warning where an operator may have to act. Usual steps
({usual}) get an Event only if they are a warning, so that a healthy life has three. The
reasons are those of [Conditions](conditions.md), and ARM's error codes ([Errors of Azure](errors.md)). A NodePool,
AgentPoolNodeClass or NodeOverlay gets a Warning for each cause by which a condition is False; `Ready` repeats it
without an Event."""

OWN = """\
## Other Events

These Events do not accompany a change of a condition."""


def render() -> str:
    """The page."""
    usual = ", ".join(code(name) for name in sorted(WITHOUT_EVENT))
    troubles = {reason.name for reason in REASONS if reason.look}
    rows = [[on, ", ".join(_linked(name, troubles) for name in _reasons(on))] for on in ORDER if _reasons(on)]
    own = [
        [code(event.name), event.kind, ", ".join(event.about), f"{event.meaning} {event.remedy}".strip()]
        for event in sorted(EVENTS, key=lambda event: event.name.casefold())
    ]
    return page(
        "Events",
        "tools/reference/explained/events.py",
        INTRODUCTION.format(component=runtime.COMPONENT, usual=usual),
        table(["Condition", "Reasons"], rows),
        OWN,
        table(["Reason", "Type", "About", "Meaning"], own),
    )


def _reasons(condition: str) -> list[str]:
    """The reasons of a condition that have Events. Ready has none, because it follows from the other conditions."""
    found = (reason.name for reason in REASONS if reason.on == condition != READY and reason.name != AWAITING)
    return list(dict.fromkeys(found))


def _linked(name: str, troubles: set[str]) -> str:
    return f"[{code(name)}](../troubleshooting/reasons.md#{anchor(name)})" if name in troubles else code(name)
