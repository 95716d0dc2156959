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
    `several_nodes`: its agent pool has another Node, too, as after `az aks nodepool scale` or a failed upgrade.
    `blocked`: why it must not be disrupted voluntarily now, "" if it may. `blocked_eventually`: the same for drift.
    """

    claim: NodeClaim
    node: Node | None
    pods: tuple[CachedPod, ...] = ()
    quiet_since: datetime
    nominated_seconds: float = 0.0
    leaving: bool = False
    several_nodes: bool = False
    blocked: str = ""
    blocked_eventually: str = ""

    @property
    def going(self) -> bool:
        """Whether its removal or its replacement has begun."""
        return self.leaving or is_going(self.claim)


class MachineCount(msgspec.Struct, frozen=True, kw_only=True):
    """The machines of a NodePool that its budgets count. `disrupted`: those of them that are going or not Ready."""

    total: int = 0
    disrupted: int = 0


class BudgetUse(msgspec.Struct, frozen=True, kw_only=True):
    """`allowed`: how many machines may be going at the same time; None without a limit. `used`: how many use that."""

    allowed: int | None
    used: int


def is_going(claim: NodeClaim) -> bool:
    """Whether the removal or the replacement of its machine has begun."""
    return claim.deleting or is_marked(claim)


def is_counted(claim: NodeClaim) -> bool:
    """Whether budgets count its machine."""
    return was_usable(claim) and claim.condition(INSTANCE_TERMINATING, "True") is None


def is_disrupted(claim: NodeClaim) -> bool:
    """Whether its machine, which budgets count, uses them."""
    return is_going(claim) or claim.condition(READY, "True") is None


def count_of(machines: Iterable[Machine]) -> MachineCount:
    """`machines`: all of a NodePool."""
    found = [one.leaving or is_disrupted(one.claim) for one in machines if is_counted(one.claim)]
    return MachineCount(total=len(found), disrupted=sum(found))


def budget_use(pool: NodePool, machines: MachineCount, reason: Reason, now: datetime) -> BudgetUse:
    """What the budgets of the NodePool allow now, and what of that its machines use."""
    return BudgetUse(allowed=allowed(pool, reason, machines.total, now), used=machines.disrupted)


def budget_left(pool: NodePool, machines: MachineCount, reason: Reason, now: datetime) -> int | None:
    """How many more machines may be disrupted now; None without a limit."""
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
