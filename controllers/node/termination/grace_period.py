"""How long a removal may be kind: the moment by which every pod is gone, and which pods must be deleted in time for it.

The moment is what the claim's annotation says, else deletion plus `terminationGracePeriod`, else never. The
annotation is written once and never overwritten: whoever wrote it (a person, a repair) meant it. An annotation that is
no time says nothing, and is told of. Near its end neither budgets nor do-not-disrupt hold a pod.

Source: docs/references/karpenter.md#finalization, docs/references/karpenter.md#drain.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from controllers.model.facts import Facts
from controllers.model.steps import Event, PatchClaim
from provisioner.api import labels, reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.pod import Pod
from provisioner.api.time import parse_duration, parse_rfc3339, rfc3339

from .pod_predicates import grace_seconds

SHORTEST_GRACE_SECONDS = 1


def deadline(claim: NodeClaim | None) -> datetime | None:
    """When all pods of this deleting claim's Nodes are gone, whatever they say; None: they may take their time."""
    if claim is None:
        return None
    return annotated_deadline(claim) or _spec_deadline(claim)


def record_deadline(f: Facts, claim: NodeClaim) -> PatchClaim | None:
    """Write the moment on the claim, for all who look at it; None if it stands there, or there is none."""
    granted = _spec_deadline(claim)
    if granted is None or labels.TERMINATION_TIMESTAMP in claim.metadata.annotations or "PatchClaim" in f.refused:
        return None
    return PatchClaim(claim=claim, annotations={labels.TERMINATION_TIMESTAMP: rfc3339(granted)})


def has_invalid_deadline(claim: NodeClaim) -> bool:
    """Whether the claim bears an annotation that is no time."""
    return labels.TERMINATION_TIMESTAMP in claim.metadata.annotations and annotated_deadline(claim) is None


def expiring_pods(waiting: Iterable[Pod], by: datetime, now: datetime) -> tuple[Pod, ...]:
    """The pods that would outlast that moment unless they are deleted now."""
    return tuple(pod for pod in waiting if _outlasts(pod, by, now) and now >= deletion_time(pod, by))


def deletion_time(pod: Pod, by: datetime) -> datetime:
    """The last moment at which this pod can be asked to go and still has all its grace."""
    return by - timedelta(seconds=grace_seconds(pod))


def remaining_seconds(by: datetime, now: datetime) -> int:
    """The grace that is left for a pod: 0 would take it off the API server while it may still run."""
    return max(int((by - now).total_seconds()), SHORTEST_GRACE_SECONDS)


def expiring_event(by: datetime) -> Event:
    """Karpenter's word for it, on claim and Node."""
    return Event(
        type="Warning",
        reason=reasons.TERMINATION_GRACE_PERIOD_EXPIRING,
        message=f"All pods will be deleted by {rfc3339(by)}",
    )


def _outlasts(pod: Pod, by: datetime, now: datetime) -> bool:
    """Not yet going, or going later than it may. Past `by`, whoever ends within a second is left alone."""
    gone_by = pod.metadata.deletion_timestamp
    return gone_by is None or gone_by > max(by, now + timedelta(seconds=SHORTEST_GRACE_SECONDS))


def _spec_deadline(claim: NodeClaim) -> datetime | None:
    asked, period = claim.metadata.deletion_timestamp, parse_duration(claim.spec.termination_grace_period or "")
    return None if asked is None or period is None else asked + timedelta(seconds=period)


def annotated_deadline(claim: NodeClaim) -> datetime | None:
    """The moment that stands on the claim; None if there is none, or none that can be read."""
    return parse_rfc3339(claim.metadata.annotations.get(labels.TERMINATION_TIMESTAMP, ""))
