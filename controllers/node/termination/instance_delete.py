"""Retries of a failed DELETE of an agent pool, the condition meanwhile, and the wait for an accepted one.

A rejected DELETE is retried after its delay (5 s doubling to 30 s, or `Retry-After`). After a DELETE without an answer
the pool is read first, so that a pool in deletion is not deleted twice. The condition's message is stable while the
failure is the same.

Source: docs/references/agent-pools.md#conflicts.
"""

from datetime import datetime

from controllers.model.conditions import ConditionUpdate, clock_text
from controllers.model.facts import Facts
from controllers.model.failures import CloudFailure
from controllers.model.steps import LookUpPool, Wait
from provisioner.api.conditions import MESSAGE_BYTES, truncate

# Reserved for the suffix of a passed deadline.
OVERDUE_BYTES = 24


def wait_to_delete(f: Facts) -> Wait | LookUpPool | None:
    """The step before the next DELETE of this pool; None if it can be sent now."""
    failed, unread = f.delete_failed, f.read_failed
    if failed is None:
        return None
    if (left := failed.retry_in(f.loop_now)) > 0:
        return Wait(after=left, why=f"retry of the deletion after {failed.reason}")
    if failed.unanswered and f.pool_read_age > failed.age(f.loop_now):
        if unread is not None and (left := unread.retry_in(f.loop_now)) > 0:
            return Wait(after=left, why=f"failed to read the agent pool: {unread.reason}")
        return LookUpPool(name=f.key)
    return None


def poll_deletion(f: Facts) -> Wait | LookUpPool:
    """The step while this pool is being deleted: LISTs show when it is gone, and GETs while LISTs fail."""
    # LISTs that succeed can be as far apart as the rate limits allow, without being stale.
    most_age = f.policy.stale_list_seconds if f.list_failed is None else f.policy.unlisted_seconds
    if (left := most_age - f.inventory_age) > 0:
        return Wait(after=left, why="the agent pool is being deleted")
    unread = f.read_failed.retry_in(f.loop_now) if f.read_failed is not None else 0.0
    if (left := max(f.policy.unlisted_poll_seconds - f.pool_read_age, unread)) > 0:
        return Wait(after=left, why="the agent pool is being deleted, and LISTs fail")
    return LookUpPool(name=f.key)


def refused_condition(f: Facts, failed: CloudFailure, since: datetime) -> ConditionUpdate:
    """The InstanceTerminating condition after a failed request; `since`: when the pool was due to be deleted."""
    tail = f"; deletion due since {clock_text(since)}"
    if failed.within is not None:
        tail += f", next try within {_span(failed.within)}"
    message = _shortened(failed.message, MESSAGE_BYTES - OVERDUE_BYTES - len(tail)) + tail
    return ConditionUpdate(status="Unknown", reason=failed.reason, message=message, recheck=failed.retry_in(f.loop_now))


def _shortened(message: str, most_bytes: int) -> str:
    """The message within `most_bytes`; the last sentence, the remedy, is kept whole."""
    cause, stop, remedy = message.rpartition(". ")
    if len(message.encode()) <= most_bytes or not cause:
        return truncate(message, most_bytes)
    cause = truncate(cause, most_bytes - len((stop + remedy).encode()))
    return cause + (" " if cause.endswith("...") else stop) + remedy


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
