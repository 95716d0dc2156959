"""The name of the rule that acts, in Karpenter's words: what stands under `controller` in metrics.

Pure; every step of every key has one of five names. There is one reconciler here, because all about one
machine is decided in one pass; people who know Karpenter look for its controllers, and its dashboards list them.

Source: docs/references/karpenter.md, from "Launch" to "Node repair": which controller of Karpenter does the same.
"""

from collections.abc import Mapping

from controllers.model.facts import Facts
from controllers.model.steps import (
    DeleteClaim,
    DeleteInstance,
    DeleteNode,
    DeletePods,
    EvictPods,
    PatchNode,
    ReadDrain,
    ReadRemedies,
    ReadVolumes,
    ReleaseFinalizer,
    Step,
)
from provisioner.api.node import Node

LIFECYCLE, CLAIM_GARBAGE = "nodeclaim.lifecycle", "nodeclaim.garbagecollection"
TERMINATION, INSTANCE_GARBAGE = "node.termination", "instance.garbagecollection"
HEALTH = "node.health"

# Karpenter's node.termination deletes the claim of a Node that somebody deletes; a spot machine that is taken back is
# a condition of its Node's health; Azure/gpu-provisioner's collector of pools deletes their Nodes too.
OF_CAUSE: Mapping[str, str] = {
    "asked": LIFECYCLE,
    "failed-create": LIFECYCLE,
    "crd-deleted": LIFECYCLE,
    "orphan-pool": INSTANCE_GARBAGE,
    "leftover-node": INSTANCE_GARBAGE,
    "missing-pool": CLAIM_GARBAGE,
    "node-deleted": TERMINATION,
    "unhealthy-node": HEALTH,
    "spot-evicted": HEALTH,
}


def rule(f: Facts, step: Step) -> str:
    """Whose step this is: by what it does, else by what this key is going through."""
    match step:
        case DeleteInstance(cause=cause) | DeleteNode(cause=cause) | DeleteClaim(cause=cause):
            return OF_CAUSE[cause]
        case EvictPods() | DeletePods() | ReadDrain() | ReadVolumes() | ReleaseFinalizer(target=Node()):
            return TERMINATION
        case ReadRemedies():
            return HEALTH
        case _:
            return _situation(f, step)


def _situation(f: Facts, step: Step) -> str:
    claim = f.claim
    if f.candidate is not None:
        return OF_CAUSE[f.candidate.cause]
    if claim is None:
        return INSTANCE_GARBAGE if f.instance is not None else TERMINATION
    if claim.deleting:
        return TERMINATION if isinstance(step, PatchNode) else LIFECYCLE
    return HEALTH if f.unhealthy is not None else LIFECYCLE
