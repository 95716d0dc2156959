"""No state without a deadline; and no deadline that destroys a machine.

Promise: `watched` turns a judgement into one that knows its deadline: before it, it says when to look again; after it,
the message says so, and the status write that carries the change also carries an event and counts in a metric.
Since the text changes exactly once, each deadline speaks exactly once, also across restarts.
Left to others: the causes and remedies, which the judging rules put first.

Source: aks-arm.md §4 (how long AKS takes), users.md S1.6; the limits stand in `policy.py`.
"""

from datetime import datetime

import msgspec

from .judgement import Judgement


def watched(judged: Judgement, *, name: str, since: datetime, now: datetime, limit_seconds: float) -> Judgement:
    """`judged`, aware of the deadline `name` that ends `limit_seconds` after `since`. A True judgement has none."""
    if judged.status == "True":
        return judged
    left = limit_seconds - (now - since).total_seconds()
    if left > 0:
        recheck = left if judged.recheck is None else min(left, judged.recheck)
        return msgspec.structs.replace(judged, recheck=recheck)
    text = f"{judged.message}; overdue: over {round(limit_seconds / 60)} min"
    return msgspec.structs.replace(judged, message=text, warning=True, overdue=name)
