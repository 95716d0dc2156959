"""When a DELETE may be sent again, and what is said of a removal that the cloud refuses meanwhile.

A refused DELETE waits its time (5 s doubling to 30 s, or what Azure asks for); one whose answer was lost is
looked up first, so that a pool which is going already is not deleted twice. What is said of it names the code, since
when, and when it is tried next, in words that stay the same while nothing changes.

Source: docs/references/agent-pools.md#conflicts.
"""

from datetime import datetime

from controllers.model.conditions import ConditionUpdate, clock_text
from controllers.model.facts import Facts, Failed
from controllers.model.steps import LookUpPool, Wait
from provisioner.api.conditions import MESSAGE_BYTES, truncate

# Left for the words of a deadline that has passed.
OVERDUE_BYTES = 24


def wait_to_delete(f: Facts) -> Wait | LookUpPool | None:
    """What comes before the next DELETE of this pool; None: it may be sent now."""
    failed, unread = f.delete_failed, f.read_failed
    if failed is None:
        return None
    if failed.holds_for > 0:
        return Wait(after=failed.holds_for, why=f"deletion: {failed.reason}")
    if failed.unanswered and f.pool_read_age > failed.age:
        if unread is not None and unread.holds_for > 0:
            return Wait(after=unread.holds_for, why=f"the cloud does not answer: {unread.reason}")
        return LookUpPool(name=f.key)
    return None


def refused_condition(failed: Failed, since: datetime) -> ConditionUpdate:
    """What a claim says of a step that the cloud refuses; `since`: when the pool's turn came to be deleted."""
    tail = f"; deletion due since {clock_text(since)}"
    if failed.within is not None:
        tail += f", next try within {_span(failed.within)}"
    message = _shortened(failed.message, MESSAGE_BYTES - OVERDUE_BYTES - len(tail)) + tail
    return ConditionUpdate(status="Unknown", reason=failed.reason, message=message, recheck=failed.holds_for)


def _shortened(message: str, most_bytes: int) -> str:
    """The message in so many bytes: of its sentences the last, the remedy, stays whole."""
    cause, stop, remedy = message.rpartition(". ")
    if len(message.encode()) <= most_bytes or not cause:
        return truncate(message, most_bytes)
    cause = truncate(cause, most_bytes - len((stop + remedy).encode()))
    return cause + (" " if cause.endswith("...") else stop) + remedy


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
