"""Reasons of the conditions of NodeClaims by which a NodePool disrupts them."""

from provisioner.api import reasons as r
from provisioner.api.causes import CAUSES
from provisioner.api.conditions import CONSOLIDATABLE, DISRUPTION_REASON, DRIFTED

from .row import Reason, is_true

_LOOK = "The message, and `kubectl get nodepool NAME -o yaml`: budgets determine when the machine is replaced."


def _drifted(name: str, meaning: str, remedy: str) -> Reason:
    return Reason(on=DRIFTED, statuses=("True",), name=name, meaning=meaning, look=_LOOK, remedy=remedy)


DISRUPTION: tuple[Reason, ...] = (
    _drifted(
        r.NODEPOOL_DRIFTED,
        "The template of the NodePool has changed since the NodeClaim was created, apart from its requirements.",
        "None, or revert the change.",
    ),
    _drifted(
        r.REQUIREMENTS_DRIFTED,
        "The requirements of the NodePool do not allow the machine any longer. The message names the label.",
        "None, or revert the change.",
    ),
    _drifted(
        r.INSTANCE_TYPE_NOT_FOUND,
        "The VM size of the machine is not known in the region of the cluster.",
        "Allow other sizes in the requirements of the NodePool.",
    ),
    _drifted(
        r.NODECLASS_DRIFT,
        "The spec of the AgentPoolNodeClass has changed since the NodeClaim was created.",
        "None, or revert the change.",
    ),
    _drifted(
        r.K8S_VERSION_DRIFT,
        "The control plane has a newer Kubernetes version than the agent pool.",
        "None. Deny the reason `Drifted` in a budget of the NodePool to keep its machines for now.",
    ),
    _drifted(
        r.IMAGE_DRIFT,
        "An agent pool that was created later has the newest node image, which this one lacks.",
        "None. Deny the reason `Drifted` in a budget of the NodePool to keep its machines for now.",
    ),
    _drifted(
        r.EXPIRED,
        "The machine of a static NodePool is older than `expireAfter`. Those of dynamic NodePools are deleted instead.",
        "None. Set `spec.template.spec.expireAfter: Never` for machines that do not expire.",
    ),
    is_true(
        CONSOLIDATABLE,
        r.CONSOLIDATABLE,
        "No pod was bound to the machine or ended there for `spec.disruption.consolidateAfter`.",
    ),
    *(is_true(DISRUPTION_REASON, row.reason, row.replacement) for row in CAUSES.values() if row.replacement),
)
