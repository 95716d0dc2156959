"""Whether a NodePool allows another machine in the place of one that is deleted, as a pure function.

The machine counts out first: a limit that is just used up is free again then, one that was lowered is not.

Source: docs/references/karpenter.md#nodepool.
"""

from decimal import Decimal

from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.quantity import parse_quantity

from .counter import Usage, written


def exceeded_limit(pool: NodePool, claim: NodeClaim, usage: Usage) -> str:
    """The first limit that another machine in the place of this one exceeds, with both amounts; "" if none is.

    `usage`: of all machines of the NodePool. The other one counts by the estimate that this one was created with. A
    limit that cannot be read is a condition of the NodePool.
    """
    after = usage.with_another(claim)
    for resource, limit in sorted(pool.spec.limits.items()):
        needed = after.get(resource, Decimal(0))
        try:
            exceeded = needed > parse_quantity(limit)
        except ValueError:
            continue
        if exceeded:
            return f"limit {resource}: {limit}, needed {written(resource, needed)}"
    return ""
