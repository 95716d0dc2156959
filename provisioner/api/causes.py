"""Why an object is removed: one row for each cause, from which metric labels, Events, the CRD and the documentation
take their values.

A cause is a metric label and a field of the audit log.

Source: docs/references/rules.md#circuit-breaker, docs/references/karpenter.md, from "Launch" to "Node repair".
"""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from . import reasons

Cause = Literal[
    "requested",
    "failed-create",
    "insufficient-capacity",
    "launch-failed",
    "replacement-failed",
    "scaled-down",
    "empty",
    "expired",
    "drifted",
    "underutilized",
    "crd-deleted",
    "orphan-pool",
    "leftover-node",
    "missing-pool",
    "node-deleted",
    "spot-evicted",
    "terminate-node",
    "unhealthy-node",
    "gpu-lost",
    "unhealthy-condition",
    "never-registered",
    "never-initialized",
]

# Of a disruption, in the order of Karpenter's CRD: budgets name them, and the condition DisruptionReason.
Reason = Literal["Underutilized", "Empty", "Drifted"]
REASONS: tuple[Reason, ...] = get_args(Reason)
# As Karpenter's metrics name them: what consolidation or emptiness does ("" for others), and a command.
ConsolidationType = Literal["empty", "single", "multi", ""]
Decision = Literal["delete", "replace"]

# What blocks a removal by inference, other than time. A metric label.
RemovalBlocker = Literal[
    "restricted",
    "cluster_not_running",
    "cluster_not_confirmed",
    "pool_busy",
    "pools_not_listed",
    "cache_not_current",
    "older_than_crd",
    "deleted_with_crd",
]

# Requested: a user deleted the NodeClaim. NoMachine: nothing that could run a pod ever came of it. Voluntary: the
# machine works, and another state of the fleet is wanted. Forceful: the NodePool states a date that has passed, or
# fewer replicas. Repair: the machine is unhealthy. Inferred: the state of claim, pool and Node contradict each other.
Kind = Literal["Requested", "NoMachine", "Voluntary", "Forceful", "Repair", "Inferred"]

EventType = Literal["Normal", "Warning"]

# Names of Karpenter's controllers, and of Azure/gpu-provisioner's for agent pools.
CONTROLLERS = LIFECYCLE, CLAIM_GARBAGE, INSTANCE_GARBAGE, TERMINATION, HEALTH = (
    "nodeclaim.lifecycle",
    "nodeclaim.garbagecollection",
    "instance.garbagecollection",
    "node.termination",
    "node.health",
)


class CauseRow(msgspec.Struct, frozen=True, kw_only=True):
    """`kind`: which questions the gate puts. `controller`: the one of Karpenter that removes for this cause.

    `event`, `event_type`: of the Event about the deletion, "" for one without. `reason`: as messages name a disruption.
    `disrupted`: Karpenter's metric label `reason`, "" for what is no disruption. `condition`: what Karpenter's counter
    of unhealthy NodeClaims calls a repair: the condition of the Node, or `gpu` for missing GPUs and `other` for a
    condition of the repair policy. `by_inference`: counted in `gpu_provisioner_gc_deleted_total`. `circuit_breaker`:
    counts toward its limit. `meaning`: why the machine goes, and `replacement`: why another one replaces it, for the
    documentation of disruptions.
    """

    kind: Kind
    controller: str = LIFECYCLE
    event: str = ""
    event_type: EventType = "Warning"
    reason: str = ""
    disrupted: str = ""
    condition: str = ""
    by_inference: bool = False
    circuit_breaker: bool = False
    meaning: str = ""
    replacement: str = ""


def _no_machine(event: str, event_type: EventType = "Warning") -> CauseRow:
    return CauseRow(kind="NoMachine", event=event, event_type=event_type)


def _disruption(reason: str, meaning: str, replacement: str = "", *, kind: Kind = "Voluntary") -> CauseRow:
    row = CauseRow(kind=kind, event=reasons.DISRUPTION_TERMINATING, event_type="Normal", reason=reason)
    return replace(row, disrupted=reason.lower(), meaning=meaning, replacement=replacement)


def _inferred(controller: str, event: str = "", disrupted: str = "", *, limited: bool = True) -> CauseRow:
    row = CauseRow(kind="Inferred", controller=controller, event=event, disrupted=disrupted)
    return replace(row, by_inference=True, circuit_breaker=limited)


def _repair(condition: str) -> CauseRow:
    row = CauseRow(kind="Repair", controller=HEALTH, event=reasons.NODE_REPAIR, disrupted="unhealthy")
    return replace(row, condition=condition, by_inference=True, circuit_breaker=True)


CAUSES: Mapping[Cause, CauseRow] = {
    "requested": CauseRow(kind="Requested"),
    "failed-create": _no_machine(reasons.REMOVING_FAILED_POOL, "Normal"),
    "insufficient-capacity": _no_machine(reasons.INSUFFICIENT_CAPACITY),
    "launch-failed": _no_machine(reasons.LAUNCH_FAILED),
    "replacement-failed": _no_machine(reasons.REPLACEMENT_FAILED),
    "scaled-down": CauseRow(kind="Forceful", event=reasons.SCALED_DOWN, event_type="Normal"),
    "empty": _disruption("Empty", "no pod uses it"),
    "expired": _disruption("Expired", "it is older than `expireAfter`", kind="Forceful"),
    "drifted": _disruption("Drifted", "it was replaced", "Another machine replaces this one, because it has drifted."),
    "underutilized": _disruption("Underutilized", "its pods need less", "Cheaper machines replace this one."),
    "crd-deleted": _inferred(LIFECYCLE),
    # Azure/gpu-provisioner's instance.garbagecollection also deletes the Nodes of a pool.
    "orphan-pool": _inferred(INSTANCE_GARBAGE, reasons.LEAKED_POOL_DELETED),
    "leftover-node": _inferred(INSTANCE_GARBAGE),
    "missing-pool": _inferred(CLAIM_GARBAGE, reasons.INSTANCE_GONE, "garbage_collected"),
    # Karpenter's node.termination deletes the claim of a deleted Node, and its node.health that of an evicted machine.
    "node-deleted": _inferred(TERMINATION, reasons.NODE_DELETED, "garbage_collected"),
    # An evicted spot VM is no sign of an error.
    "spot-evicted": _inferred(HEALTH, reasons.SPOT_EVICTED, "spot_interrupted", limited=False),
    "terminate-node": CauseRow(kind="Repair", controller=HEALTH, event=reasons.TERMINATE_NODE, circuit_breaker=True),
    "unhealthy-node": _repair("ready"),
    "gpu-lost": _repair("gpu"),
    "unhealthy-condition": _repair("other"),
    "never-registered": _repair("registered"),
    "never-initialized": _repair("initialized"),
}
CAUSE_OF: Mapping[Reason, Cause] = {
    reason: cause for cause, row in CAUSES.items() for reason in REASONS if row.reason == reason
}
