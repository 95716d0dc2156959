"""No state without a deadline; and no deadline that destroys a machine.

`watched` turns a judgement into one that knows its deadline: before it, it says when to look again; after it,
the message says so, and the status write that carries the change also carries an event and counts in a metric.
The condition itself keeps that it was said (`told`), however its other words change: each deadline of a state speaks
exactly once, also across restarts.

Source: docs/references/agent-pools.md#durations, docs/references/rules.md#every-state-has-a-deadline.
"""

from datetime import datetime

import msgspec

from provisioner.api.conditions import MESSAGE_BYTES, truncate

from .conditions import ConditionUpdate

MARK = "; overdue: "


def told(message: str) -> bool:
    """Whether a condition with this message has already said that it is overdue."""
    return MARK in message


def watched(
    updates: ConditionUpdate, *, name: str, since: datetime, now: datetime, limit_seconds: float
) -> ConditionUpdate:
    """`judged`, aware of the deadline `name` that ends `limit_seconds` after `since`. A True judgement has none."""
    if updates.status == "True":
        return updates
    left = limit_seconds - (now - since).total_seconds()
    if left > 0:
        recheck = left if updates.recheck is None else min(left, updates.recheck)
        return msgspec.structs.replace(updates, recheck=recheck)
    return overdue(updates, name=name, remedy=f"over {round(limit_seconds / 60)} min")


def overdue(updates: ConditionUpdate, *, name: str, remedy: str) -> ConditionUpdate:
    """`judged`, past the deadline `name`: it says so, and how to look further."""
    end = f"{MARK}{remedy}"
    # The cause gives way: it was told whole before, and without its end the deadline would never be heard of.
    text = truncate(updates.message, MESSAGE_BYTES - len(end)) + end
    return msgspec.structs.replace(updates, message=text, warning=True, overdue=name)
