"""Termination grace period: the deadline of a drain, and the pods to delete so that they end before it.

The deadline is the time in the claim's annotation, else the deletion time plus `terminationGracePeriod`. Without either
there is none. The annotation is written once and never overwritten; an invalid one is ignored and reported. Pods that
would not end in time are deleted regardless of budgets and `do-not-disrupt`. Repair writes that annotation, too
(`controllers/node/health/repair_removal.py`), and what garbage collection removes has a deadline of its own
(`controllers/garbagecollection/garbage.py`).

Source: docs/references/karpenter.md#finalization, docs/references/karpenter.md#drain.
"""

from collections.abc import Iterable
from datetime import datetime

from controllers.model.facts import Facts
from controllers.model.steps import Event, PatchClaim
from provisioner.api import labels, reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.api.time import parse_duration, parse_rfc3339, rfc3339, shifted

from .pod_predicates import grace_seconds, terminates_by

SHORTEST_GRACE_SECONDS = 1


def deadline(claim: NodeClaim | None) -> datetime | None:
    """The time by which all pods of this deleting claim's Nodes must have ended; None if there is no limit."""
    if claim is None:
        return None
    return annotated_deadline(claim) or _spec_deadline(claim)


def record_deadline(f: Facts, claim: NodeClaim) -> PatchClaim | None:
    """Write the deadline to the claim's annotation; None if the claim has the annotation, or no deadline."""
    spec_deadline = _spec_deadline(claim)
    if spec_deadline is None or labels.TERMINATION_TIMESTAMP in claim.metadata.annotations or "PatchClaim" in f.refused:
        return None
    return PatchClaim(claim=claim, annotations={labels.TERMINATION_TIMESTAMP: rfc3339(spec_deadline)})


def has_invalid_deadline(claim: NodeClaim) -> bool:
    """Whether the claim's annotation is not an RFC 3339 time."""
    return labels.TERMINATION_TIMESTAMP in claim.metadata.annotations and annotated_deadline(claim) is None


def expiring_pods(waiting: Iterable[Pod], by: datetime, now: datetime) -> tuple[Pod, ...]:
    """The pods that must be deleted now to end before the deadline."""
    return tuple(pod for pod in waiting if _outlasts(pod, by, now) and now >= deletion_time(pod, by))


def deletion_time(pod: Pod, by: datetime) -> datetime:
    """The latest time to delete this pod so that it keeps its whole grace period."""
    return shifted(by, -grace_seconds(pod))


def remaining_seconds(by: datetime, now: datetime) -> int:
    """The grace period left for a pod; never 0, which would remove the object while the pod may still run."""
    return max(int((by - now).total_seconds()), SHORTEST_GRACE_SECONDS)


def expiring_event(by: datetime) -> Event:
    """Karpenter's Event about the deadline, for the claim and the Node."""
    return Event(
        type="Warning",
        reason=reasons.TERMINATION_GRACE_PERIOD_EXPIRING,
        message=f"All pods will be deleted by {rfc3339(by)}",
    )


def _outlasts(pod: Pod, by: datetime, now: datetime) -> bool:
    """Whether the pod is not terminating, or will end after the deadline; up to a second after it is accepted."""
    ends_by = terminates_by(pod)
    return ends_by is None or ends_by > max(by, shifted(now, SHORTEST_GRACE_SECONDS))


def _spec_deadline(claim: NodeClaim) -> datetime | None:
    deleted, period = claim.metadata.deletion_timestamp, parse_duration(claim.spec.termination_grace_period or "")
    return None if deleted is None or period is None else shifted(deleted, period)


def annotated_deadline(claim: NodeClaim) -> datetime | None:
    """The deadline in the claim's annotation; None without one, or if it is invalid."""
    return parse_rfc3339(claim.metadata.annotations.get(labels.TERMINATION_TIMESTAMP, ""))
