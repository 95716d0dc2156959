"""One machine of a NodePool, as the methods of disruption read it, and what its NodePool allows: budgets, and when.

Machines whose removal or replacement has begun, and those that are not Ready, use the budgets. NodeClaims that have
never been Initialized are no machines yet, and one whose instance is being deleted has none any more: neither counts.

Source: https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets,
https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/disruption/helpers.go
(BuildDisruptionBudgetMapping),
docs/references/karpenter.md#disruption-budgets.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from controllers.model.conditions import was_usable
from controllers.nodepool.budgets import allowed
from controllers.provisioning.pods import CachedPod
from provisioner.api.causes import Reason
from provisioner.api.conditions import INITIALIZED, INSTANCE_TERMINATING, READY
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool
from provisioner.api.time import parse_duration

from .marks import is_marked

NEVER = "Never"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """`pods`: those bound to the Node, besides pods of DaemonSets and static pods.

    `quiet_since`: when a pod was last bound to the Node or ended there, as far as it is known. `nominated_seconds`: for
    so long a pending pod is expected on it. `leaving`: its disruption is decided and being written.
    `blocked`: why it must not be disrupted voluntarily now, "" if it may. `blocked_eventually`: the same for drift.
    """

    claim: NodeClaim
    node: Node | None
    pods: tuple[CachedPod, ...] = ()
    quiet_since: datetime
    nominated_seconds: float = 0.0
    leaving: bool = False
    blocked: str = ""
    blocked_eventually: str = ""

    @property
    def going(self) -> bool:
        """Whether its removal or its replacement has begun."""
        return self.leaving or self.claim.deleting or is_marked(self.claim)


class BudgetUse(msgspec.Struct, frozen=True, kw_only=True):
    """`allowed`: how many machines may be going at the same time; None without a limit. `used`: how many use that."""

    allowed: int | None
    used: int


def budget_use(pool: NodePool, machines: Iterable[Machine], reason: Reason, now: datetime) -> BudgetUse:
    """`machines`: all of the NodePool."""
    counted = [
        one for one in machines if was_usable(one.claim) and not one.claim.condition(INSTANCE_TERMINATING, "True")
    ]
    used = sum(one.going or one.claim.condition(READY, "True") is None for one in counted)
    return BudgetUse(allowed=allowed(pool, reason, len(counted), now), used=used)


def budget_left(pool: NodePool, machines: Iterable[Machine], reason: Reason, now: datetime) -> int | None:
    """How many more machines may be disrupted now; None without a limit. `machines`: all of the NodePool."""
    use = budget_use(pool, machines, reason, now)
    return None if use.allowed is None else max(0, use.allowed - use.used)


def consolidate_after(pool: NodePool) -> float | None:
    """Seconds for which a machine of the NodePool is empty before it is removed; None: its machines are kept."""
    after = pool.spec.disruption.consolidate_after
    seconds = None if after == NEVER else parse_duration(after)
    if seconds is None or pool.spec.replicas is not None or pool.metadata.deleting:
        return None
    return max(0.0, seconds)


def consolidatable_in(claim: NodeClaim, pool: NodePool, quiet_since: datetime, now: datetime) -> float | None:
    """Seconds until the machine is consolidatable, 0 if it is; None: not without a change of its objects.

    It is quiet since the last pod was bound to its Node or ended there, and not before it was initialized.
    Source: https://karpenter.sh/docs/concepts/disruption/#consolidation, docs/references/karpenter.md#emptiness.
    """
    after, initialized = consolidate_after(pool), claim.condition(INITIALIZED, "True")
    if after is None or initialized is None:
        return None
    since = max(quiet_since, initialized.last_transition_time)
    return max(0.0, after - (now - since).total_seconds())
