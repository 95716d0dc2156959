"""Consolidatable: when a machine has been quiet for its NodePool's `consolidateAfter`, as a pure function.

It is quiet since the last pod was bound to its Node or ended there, and not before it was initialized.

Source: https://karpenter.sh/docs/concepts/disruption/#consolidation, docs/references/karpenter.md#emptiness.
"""

from datetime import datetime

from controllers.disruption.machine import consolidate_after
from provisioner.api.conditions import INITIALIZED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool


def consolidatable_in(claim: NodeClaim, pool: NodePool, quiet_since: datetime, now: datetime) -> float | None:
    """Seconds until the machine is consolidatable, 0 if it is; None: not without a change of its objects."""
    after, initialized = consolidate_after(pool), claim.condition(INITIALIZED, "True")
    if after is None or initialized is None:
        return None
    since = max(quiet_since, initialized.last_transition_time)
    return max(0.0, after - (now - since).total_seconds())
