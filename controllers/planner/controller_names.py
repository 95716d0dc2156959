"""Maps each step to the name of Karpenter's controller that does the same: the metric label `controller`.

One reconciler makes all steps of one machine, but Karpenter's dashboards list its controllers. Pure.

Source: docs/references/karpenter.md, from "Launch" to "Node repair".
"""

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
    ReadRemedies,
    ReadVolumes,
    ReleaseFinalizer,
    RestartPluginPod,
    Step,
)
from provisioner.api.causes import CAUSES, HEALTH, INSTANCE_GARBAGE, LIFECYCLE, TERMINATION
from provisioner.api.node import Node


def controller_name(f: Facts, step: Step) -> str:
    """The controller of this step: by the step itself, or by the state of its key."""
    match step:
        case DeleteInstance(cause=cause) | DeleteNode(cause=cause) | DeleteClaim(cause=cause):
            return CAUSES[cause].controller
        case EvictPods() | DeletePods() | ReadDrain() | ReadVolumes() | ReleaseFinalizer(target=Node()):
            return TERMINATION
        case ReadRemedies() | LookUpWorkloads() | CountGpuPods() | RestartPluginPod():
            return HEALTH
        case _:
            return _by_state(f, step)


def _by_state(f: Facts, step: Step) -> str:
    claim = f.claim
    if f.candidate is not None:
        return CAUSES[f.candidate.cause].controller
    if claim is None:
        return INSTANCE_GARBAGE if f.instance is not None else TERMINATION
    if claim.deleting:
        return TERMINATION if isinstance(step, PatchNode) else LIFECYCLE
    return HEALTH if f.unhealthy is not None else LIFECYCLE
