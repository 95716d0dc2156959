"""Why an object is removed: one row for each cause. A cause is a metric label and a field of the audit log.

Source: docs/references/rules.md#circuit-breaker, docs/references/karpenter.md, from "Launch" to "Node repair".
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

Cause = Literal[
    "requested",
    "failed-create",
    "insufficient-capacity",
    "launch-failed",
    "scaled-down",
    "empty",
    "expired",
    "drifted",
    "underutilized",
    "replacement-failed",
    "terminate-node",
    "orphan-pool",
    "missing-pool",
    "node-deleted",
    "leftover-node",
    "crd-deleted",
    "unhealthy-node",
    "gpu-lost",
    "unhealthy-condition",
    "never-registered",
    "never-initialized",
    "spot-evicted",
]

# Requested: a user deleted the NodeClaim. NoMachine: nothing that could run a pod ever came of it. Voluntary: the
# machine works, and another state of the fleet is wanted. Forceful: a date of the NodePool has passed. Repair: the
# machine is unhealthy. Inferred: the state of claim, pool and Node contradict each other.
Kind = Literal["Requested", "NoMachine", "Voluntary", "Forceful", "Repair", "Inferred"]

# Names of Karpenter's controllers, and of Azure/gpu-provisioner's for agent pools.
LIFECYCLE, CLAIM_GARBAGE = "nodeclaim.lifecycle", "nodeclaim.garbagecollection"
TERMINATION, INSTANCE_GARBAGE = "node.termination", "instance.garbagecollection"
HEALTH = "node.health"


class CauseRow(msgspec.Struct, frozen=True, kw_only=True):
    """`controller`: the one of Karpenter that removes for this cause, a metric label."""

    kind: Kind
    controller: str


def _row(kind: Kind, controller: str) -> CauseRow:
    return CauseRow(kind=kind, controller=controller)


CAUSES: Mapping[Cause, CauseRow] = {
    "requested": _row("Requested", LIFECYCLE),
    "failed-create": _row("NoMachine", LIFECYCLE),
    "insufficient-capacity": _row("NoMachine", LIFECYCLE),
    "launch-failed": _row("NoMachine", LIFECYCLE),
    "replacement-failed": _row("NoMachine", LIFECYCLE),
    "scaled-down": _row("Voluntary", LIFECYCLE),
    "empty": _row("Voluntary", LIFECYCLE),
    "drifted": _row("Voluntary", LIFECYCLE),
    "underutilized": _row("Voluntary", LIFECYCLE),
    "expired": _row("Forceful", LIFECYCLE),
    "crd-deleted": _row("Inferred", LIFECYCLE),
    # Azure/gpu-provisioner's instance.garbagecollection also deletes the Nodes of a pool.
    "orphan-pool": _row("Inferred", INSTANCE_GARBAGE),
    "leftover-node": _row("Inferred", INSTANCE_GARBAGE),
    "missing-pool": _row("Inferred", CLAIM_GARBAGE),
    # Karpenter's node.termination deletes the claim of a deleted Node, and its node.health that of an evicted machine.
    "node-deleted": _row("Inferred", TERMINATION),
    "spot-evicted": _row("Inferred", HEALTH),
    "terminate-node": _row("Repair", HEALTH),
    "unhealthy-node": _row("Repair", HEALTH),
    "gpu-lost": _row("Repair", HEALTH),
    "unhealthy-condition": _row("Repair", HEALTH),
    "never-registered": _row("Repair", HEALTH),
    "never-initialized": _row("Repair", HEALTH),
}
