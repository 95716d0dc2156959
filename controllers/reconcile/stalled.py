"""Reports on a NodeClaim that its reconciles fail repeatedly: condition `Stalled`, with an Event.

The condition is True or absent. It is removed by the first pass that ends in waiting, so that passes which write before
they fail do not remove it.

Source: https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md (`Stalled`).
"""

from datetime import datetime

from controllers.model.steps import Event, PatchStatus
from provisioner.api import reasons
from provisioner.api.conditions import STALLED, ConditionSet, truncate
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.kube_errors import KubeError

# One failure is usual, such as a lost connection; the queue has waited some seconds when the fifth one follows. Each
# fifth failure is reported, because the API server may refuse this write as well.
FAILURES = 5


def stalled(claim: NodeClaim, error: Exception, failures: int, now: datetime) -> PatchStatus | None:
    """The write that reports an error; None between reports, and if the condition states this error already.

    Throttling by the API server (Retry-After) is no error of the claim.
    """
    throttled = isinstance(error, KubeError) and error.retry_after is not None
    if failures % FAILURES or throttled or any(field.startswith("status") for field in claim.metadata.unreadable):
        return None
    cause = f"{type(error).__name__}: {error}"
    text = truncate(f"{cause}. Retried with backoff; the controller's log has the details")
    updated = ConditionSet.of(claim, now).set(STALLED, "True", reason=reasons.RECONCILE_FAILED, message=text, now=now)
    if not updated.changed(claim):
        return None
    event = Event(type="Warning", reason=reasons.RECONCILE_FAILED, message=text)
    return PatchStatus(claim=claim, conditions=updated.items, fields={}, events=(event,))


def recovered(claim: NodeClaim | None, now: datetime) -> PatchStatus | None:
    """The write that removes the condition; None if the claim does not have it."""
    if claim is None or claim.condition(STALLED) is None:
        return None
    return PatchStatus(claim=claim, conditions=ConditionSet.of(claim, now).clear(STALLED).items, fields={})
