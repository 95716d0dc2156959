"""NodeClaims that cannot become machines for now: they are no capacity that pods may wait for.

Such a NodeClaim tries its own offerings again as long as it exists. When its pods can be taken by other machines, those
are bought instead. If it belongs to a dynamic NodePool, it is deleted before that, so that its machine does not come in
addition, and also when no pod waits for it; one that a pod waits for which no other machine takes is kept. NodeClaims
of others (KAITO's, a person's, replicas of a static NodePool, replacements) are theirs to delete.

Source: docs/references/rules.md#no-machine-is-bought-twice, docs/references/karpenter.md#launch.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from controllers.model.policy import Policy
from controllers.state.offering_tracker import LaunchObstacle
from provisioner.api import reasons
from provisioner.api.conditions import LAUNCHED
from provisioner.api.nodeclaim import NodeClaim

from .instances import InstanceTypes
from .machines import machines
from .observed import Observed
from .offered import NodeClasses
from .solver import model
from .solver.solver import solve

# No further attempt follows unless a user edits something: fields of the NodeClaim, which are immutable, are invalid
# or contradict its node class.
FINAL = frozenset(
    {
        reasons.REQUIREMENTS_INVALID,
        reasons.INSTANCE_TYPE_MISSING,
        reasons.INSTANCE_TYPE_INVALID,
        reasons.OPERATING_SYSTEM_INVALID,
        reasons.ZONE_INVALID,
        reasons.CAPACITY_TYPE_INVALID,
        reasons.RESOURCE_QUANTITY_INVALID,
        reasons.DISK_SIZE_INVALID,
        reasons.IMAGE_FAMILY_INVALID,
        reasons.LABEL_REFUSED,
        reasons.TAINT_INVALID,
        reasons.NODECLASS_CONTRADICTS_OFFERING,
    }
)
# The NodeClaim waits for something that another one does not need: its node class, its name, a correction. What every
# NodeClaim waits for (limits, the managed cluster, access to Azure) is no reason to create another.
OF_CLAIM = frozenset(
    {
        reasons.NODECLASS_NOT_FOUND,
        reasons.NODECLASS_TERMINATING,
        reasons.NODECLASS_NOT_READY,
        reasons.PREVIOUS_POOL_LEFT,
        reasons.LEGACY_POOL_LEFT,
        reasons.LEFTOVER_NODE,
        reasons.POOL_NAME_TAKEN,
        reasons.ADOPTION_REFUSED,
        reasons.FIELD_UNREADABLE,
    }
)


def launchless(
    claim: NodeClaim, obstacle: LaunchObstacle, *, now: datetime, policy: Policy, observed_seconds: float
) -> bool:
    """Whether a NodeClaim without a Node cannot get its machine for now.

    At once after its last offering failed and while none may be requested, when only another NodeClaim can help, and
    when its agent pool has been in creation for too long; after `policy.launch_seconds` while it waits for an offering,
    for its node class or for its name. `observed_seconds`: for how long this process has led.
    """
    launched = claim.condition(LAUNCHED)
    if claim.deleting or claim.status.node_name or launched is None or launched.status == "True":
        return False
    if obstacle == "slow":
        return True
    if launched.status == "False" and (launched.reason in FINAL or obstacle in ("no-capacity", "refused")):
        return True
    waiting = (launched.status == "False" and obstacle == "waiting") or launched.reason in OF_CLAIM
    seconds = min((now - launched.last_transition_time).total_seconds(), observed_seconds)
    return waiting and seconds >= policy.launch_seconds


def still_needed(
    failed: Iterable[NodeClaim],
    snapshot: model.Snapshot,
    decision: model.Decision,
    node_classes: NodeClasses,
    types: InstanceTypes,
) -> frozenset[str]:
    """The names of those of `failed` that a pod waits for which the decision, made without them, cannot place."""
    unplaced = tuple(pod for pod in snapshot.pods if pod.name in decision.errors)
    if not unplaced:
        return frozenset()
    alone = Observed(node_pools=(), nodes=(), claims=tuple(failed), pods=(), node_classes=node_classes)
    nodes = tuple(machine for machine, _ in machines(alone, types)[0])
    placed = solve(msgspec.structs.replace(snapshot, pods=unplaced, node_pools=(), nodes=nodes))
    return frozenset(placed.existing)
