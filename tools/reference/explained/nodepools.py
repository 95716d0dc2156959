"""Reasons of the conditions of NodePools, AgentPoolNodeClasses and NodeOverlays."""

from provisioner.api import reasons as r
from provisioner.api.conditions import READY

from .row import Reason, is_false, is_true, is_unknown

_IN_USE = (
    "The AgentPoolNodeClass is being deleted, and NodeClaims still refer to it. The message names them.",
    "`kubectl get nodeclaims -o wide`, column NODECLASS.",
    "Delete these NodeClaims; their machines are removed, and the node class after them.",
)
_INVALID_CLASS = (
    "A field of the AgentPoolNodeClass has a value that AKS would refuse. NodeClaims that refer to it wait.",
    "The field in the message.",
    "Set the field as the message states.",
)
_INVALID_POOL = (
    "No NodeClaim of this NodePool could be launched: requirements contradict each other, all sizes are unknown, or"
    " AKS refuses a label or a taint. Or a disruption budget cannot be read, so that no machine would be disrupted.",
    "The field in the message.",
    "Correct the field.",
)
_INVALID_OVERLAY = (
    "The NodeOverlay changes nothing, because a field is invalid.",
    "The field in the message.",
    "Correct the field.",
)
_CONFLICT = (
    "The NodeOverlay changes nothing, because another one of the same weight sets the same.",
    "The NodeOverlay in the message.",
    "Give one of the two another `spec.weight`.",
)
_MISSING = (
    "The AgentPoolNodeClass that the NodePool refers to does not exist.",
    "`kubectl get agentpoolnodeclasses`.",
    "Create it, or change `spec.template.spec.nodeClassRef.name`.",
)
_TERMINATING = (
    "The AgentPoolNodeClass that the NodePool refers to is being deleted.",
    "`kubectl get agentpoolnodeclass NAME -o yaml`.",
    "Change `spec.template.spec.nodeClassRef.name`.",
)
_UNVALIDATED = (
    "The AgentPoolNodeClass has not been validated since it changed.",
    "`kubectl get agentpoolnodeclass NAME -o yaml`, and the controller's log.",
    "Wait. If the reason remains for more than a few seconds, check that a replica holds the Lease.",
)

NODEPOOLS: tuple[Reason, ...] = (
    is_true(
        r.VALIDATION_SUCCEEDED,
        r.VALIDATION_SUCCEEDED,
        "The fields of the NodePool, AgentPoolNodeClass or NodeOverlay are valid.",
    ),
    is_false(r.VALIDATION_SUCCEEDED, r.NODECLASS_INVALID, *_INVALID_CLASS),
    is_false(READY, r.NODECLASS_INVALID, *_INVALID_CLASS),
    is_false(r.NODECLASS_READY, r.NODECLASS_INVALID, *_INVALID_CLASS),
    is_false(READY, r.NODECLASS_IN_USE, *_IN_USE),
    is_false(r.NODECLASS_READY, r.NODECLASS_IN_USE, *_IN_USE),
    is_false(r.VALIDATION_SUCCEEDED, r.NODEPOOL_INVALID, *_INVALID_POOL),
    is_false(READY, r.NODEPOOL_INVALID, *_INVALID_POOL),
    is_false(r.VALIDATION_SUCCEEDED, r.OVERLAY_INVALID, *_INVALID_OVERLAY),
    is_false(READY, r.OVERLAY_INVALID, *_INVALID_OVERLAY),
    is_false(r.VALIDATION_SUCCEEDED, r.OVERLAY_CONFLICT, *_CONFLICT),
    is_false(READY, r.OVERLAY_CONFLICT, *_CONFLICT),
    is_true(r.NODECLASS_READY, r.NODECLASS_READY, "The AgentPoolNodeClass exists and is Ready."),
    *(
        row
        for on in (r.NODECLASS_READY, READY)
        for row in (
            is_false(on, r.NODECLASS_NOT_FOUND, *_MISSING),
            is_false(on, r.NODECLASS_TERMINATING, *_TERMINATING),
            is_false(on, r.NODECLASS_READINESS_UNKNOWN, *_UNVALIDATED),
        )
    ),
    is_true(r.REGISTRATION_HEALTHY, r.REGISTRATION_HEALTHY, "NodeClaims of the NodePool become Nodes."),
    is_false(
        r.REGISTRATION_HEALTHY,
        r.REGISTRATION_FAILED,
        "At least two of the last four NodeClaims of the NodePool failed to launch. Information only.",
        "`kubectl describe nodeclaims -l karpenter.sh/nodepool=NAME`.",
        "Remove the cause that the NodeClaims report, often quota or capacity.",
    ),
    is_unknown(
        r.REGISTRATION_HEALTHY,
        r.AWAITING_REGISTRATION,
        "No NodeClaim was launched since the NodePool or its node class changed. Information only.",
        "`kubectl get nodeclaims -l karpenter.sh/nodepool=NAME`.",
        "None is needed.",
    ),
)
