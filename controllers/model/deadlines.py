"""Deadlines of states: every state has one, and its end is reported, but no deadline removes a machine by itself.

Before the deadline a condition has a time to recheck it; after it, the message says `overdue`, and the status write
that adds this also carries an Event and counts in a metric. The condition keeps the word whatever else changes in its
message, so each deadline is reported once, also across restarts.

Source: docs/references/agent-pools.md#durations, docs/references/rules.md#every-state-has-a-deadline.
"""

from datetime import datetime

import msgspec

from provisioner.api.conditions import MESSAGE_BYTES, truncate

from .conditions import ConditionUpdate

MARK = "; overdue: "


def is_overdue(message: str) -> bool:
    """Whether a condition with this message was reported as overdue."""
    return MARK in message


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
    """The condition past the deadline `name`; `remedy` ends its message, once.

    A cause that was kept from the condition's last message has the end of that message already.
    """
    end, cause = f"{MARK}{remedy}", update.message.partition(MARK)[0]
    # The cause is cut, not the end: it was reported in full before.
    text = truncate(cause, MESSAGE_BYTES - len(end)) + end
    return msgspec.structs.replace(update, message=text, warning=True, overdue=name)
