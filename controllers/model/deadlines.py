"""Deadlines of states: every state has one, and its end is reported, but no deadline removes a machine by itself.

Before the deadline a condition has a time to recheck it; after it, the message ends with `overdue`. The claim records
which of its conditions are overdue (`reported.py`), and the write that does so carries an Event and counts in a metric:
each deadline is reported once, also across restarts. How long each is, is a field of `RuleSettings`
(`provisioner/settings/model.py`).

Source: docs/references/agent-pools.md#durations, docs/references/rules.md#every-state-has-a-deadline.
"""

from datetime import datetime

import msgspec

from .conditions import ConditionUpdate


def watched(
    update: ConditionUpdate, *, name: str, since: datetime, now: datetime, limit_seconds: float
) -> ConditionUpdate:
    """The condition with the deadline `name`, `limit_seconds` after `since`. A condition that is True has none."""
    if update.status == "True":
        return update
    left = limit_seconds - (now - since).total_seconds()
    if left > 0:
        recheck = left if update.recheck is None else min(left, update.recheck)
        return msgspec.structs.replace(update, recheck=recheck)
    return overdue(update, name=name, remedy=f"over {round(limit_seconds / 60)} min")


def overdue(update: ConditionUpdate, *, name: str, remedy: str) -> ConditionUpdate:
    """The condition past the deadline `name`; `remedy` ends its message."""
    return msgspec.structs.replace(update, ending=f"; overdue: {remedy}", warning=True, overdue=name)
