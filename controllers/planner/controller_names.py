"""Maps each step to the name of Karpenter's controller that does the same: the metric label `controller`.

One reconciler makes all steps of one machine, but Karpenter's dashboards list its controllers. Pure.

Source: docs/references/karpenter.md, from "Launch" to "Node repair".
"""

from collections.abc import Mapping

from controllers.model.facts import Facts
from controllers.model.steps import (
    CountGpuPods,
    DeleteClaim,
    DeleteInstance,
    DeleteNode,
    DeletePods,
    EvictPods,
    LookUpWorkloads,
    PatchNode,
    ReadDrain,
    ReadFailedPods,
    ReadRemedies,
    ReadVolumes,
    ReleaseFinalizer,
    RestartPluginPod,
    Step,
)
from provisioner.api.node import Node

LIFECYCLE, CLAIM_GARBAGE = "nodeclaim.lifecycle", "nodeclaim.garbagecollection"
TERMINATION, INSTANCE_GARBAGE = "node.termination", "instance.garbagecollection"
HEALTH = "node.health"

# Karpenter's node.termination deletes the claim of a deleted Node, and its node.health that of an evicted spot machine;
# Azure/gpu-provisioner's instance.garbagecollection also deletes the Nodes of a pool.
OF_CAUSE: Mapping[str, str] = {
    "requested": LIFECYCLE,
    "failed-create": LIFECYCLE,
    "insufficient-capacity": LIFECYCLE,
    "scaled-down": LIFECYCLE,
    "empty": LIFECYCLE,
    "expired": LIFECYCLE,
    "drifted": LIFECYCLE,
    "underutilized": LIFECYCLE,
    "replacement-failed": LIFECYCLE,
    "crd-deleted": LIFECYCLE,
    "orphan-pool": INSTANCE_GARBAGE,
    "leftover-node": INSTANCE_GARBAGE,
    "missing-pool": CLAIM_GARBAGE,
    "node-deleted": TERMINATION,
    "terminate-node": HEALTH,
    "unhealthy-node": HEALTH,
    "gpu-lost": HEALTH,
    "unhealthy-condition": HEALTH,
    "never-registered": HEALTH,
    "never-initialized": HEALTH,
    "spot-evicted": HEALTH,
}


def controller_name(f: Facts, step: Step) -> str:
    """The controller of this step: by the step itself, or by the state of its key."""
    match step:
        case DeleteInstance(cause=cause) | DeleteNode(cause=cause) | DeleteClaim(cause=cause):
            return OF_CAUSE[cause]
        case EvictPods() | DeletePods() | ReadDrain() | ReadVolumes() | ReleaseFinalizer(target=Node()):
            return TERMINATION
        case ReadRemedies() | LookUpWorkloads() | ReadFailedPods() | CountGpuPods() | RestartPluginPod():
            return HEALTH
        case _:
            return _by_state(f, step)


def _by_state(f: Facts, step: Step) -> str:
    claim = f.claim
    if f.candidate is not None:
        return OF_CAUSE[f.candidate.cause]
    if claim is None:
        return INSTANCE_GARBAGE if f.instance is not None else TERMINATION
    if claim.deleting:
        return TERMINATION if isinstance(step, PatchNode) else LIFECYCLE
    return HEALTH if f.unhealthy is not None else LIFECYCLE
