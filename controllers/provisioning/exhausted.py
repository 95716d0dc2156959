"""NodeClaims of NodePools that no machine can be created for now.

Such a NodeClaim tries its own offerings again as long as it exists. When its pods can be taken by other machines, those
are bought instead, and it is deleted first, so that its machine does not come in addition. One that a pod waits for
which no other machine takes is kept.

Source: docs/references/rules.md#no-machine-is-bought-twice, docs/references/karpenter.md#launch.
"""

from collections.abc import Iterable, Sequence

import msgspec

from provisioner.api import labels
from provisioner.api.conditions import EXHAUSTED, LAUNCHED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import PoolRequirement
from provisioner.api.owner import nodepool_of

from .cluster import Observed, machines
from .nodepools import requirements
from .offered import NodeClasses
from .solver import model
from .solver.solver import solve


def exhausted(claim: NodeClaim, types: Sequence[model.InstanceType]) -> bool:
    """Whether all offerings of a NodePool's claim have failed, and none of them may be requested now."""
    launched = claim.condition(LAUNCHED, "False")
    if nodepool_of(claim) is None or claim.deleting or launched is None or EXHAUSTED not in launched.message:
        return False
    return not any(offering.available for offering in _offerings(claim, types))


def still_needed(
    failed: Iterable[NodeClaim], snapshot: model.Snapshot, decision: model.Decision, node_classes: NodeClasses
) -> frozenset[str]:
    """The names of those of `failed` that a pod waits for which the decision, made without them, cannot place."""
    unplaced = tuple(pod for pod in snapshot.pods if pod.name in decision.errors)
    if not unplaced:
        return frozenset()
    alone = Observed(node_pools=(), nodes=(), claims=tuple(failed), pods=(), node_classes=node_classes)
    nodes = tuple(machine for machine, _ in machines(alone, snapshot.instance_types)[0])
    placed = solve(msgspec.structs.replace(snapshot, pods=unplaced, node_pools=(), nodes=nodes))
    return frozenset(placed.existing)


def _offerings(claim: NodeClaim, types: Iterable[model.InstanceType]) -> Iterable[model.Offering]:
    """The offerings that the claim allows; without a requirement on the zone it is launched outside all zones."""
    try:
        allowed = requirements(
            PoolRequirement(key=one.key, operator=one.operator, values=one.values) for one in claim.spec.requirements
        )
    except ValueError:
        return
    sizes, terms, zones = (allowed.get(key) for key in (labels.INSTANCE_TYPE, labels.CAPACITY_TYPE, labels.ZONE))
    for kind in types:
        if sizes is None or not sizes.allows(kind.name):
            continue
        for offering in kind.offerings:
            in_zone = zones.allows(offering.zone) if zones is not None else not offering.zone
            if in_zone and (terms is None or terms.allows(offering.capacity_type)):
                yield offering
