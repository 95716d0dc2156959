"""The wait of a claim for its AgentPoolNodeClass: no agent pool is created before the node class is Ready.

Claims of other kinds of node classes, such as KAITO's, do not wait: theirs need not exist.
"""

from controllers.model.conditions import ConditionUpdate
from controllers.model.facts import Facts
from provisioner.api import reasons
from provisioner.api.conditions import READY
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import is_own

REASONS = (reasons.NODECLASS_NOT_FOUND, reasons.NODECLASS_TERMINATING, reasons.NODECLASS_NOT_READY)


def blocking_condition(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The Launched condition of a claim whose node class cannot be used now; None if it can."""
    reference = claim.spec.node_class_ref
    if not is_own(reference):
        return None
    name, found = f"AgentPoolNodeClass {reference.name}", f.node_class
    if not f.node_class_known:
        why = "cannot be read: install its CRD with the chart gpu-provisioner-crd, and enable NodePools (--node-pools)"
        return _blocked(reasons.NODECLASS_NOT_READY, f"{name} {why}")
    if found is None:
        remedy = "create it, or create the claim with another spec.nodeClassRef.name"
        return _blocked(reasons.NODECLASS_NOT_FOUND, f"{name} does not exist: {remedy}")
    if found.metadata.deleting:
        remedy = "create the claim with another node class"
        return _blocked(reasons.NODECLASS_TERMINATING, f"{name} is being deleted: {remedy}")
    ready = found.condition(READY)
    if ready is None or ready.observed_generation != found.metadata.generation:
        return _blocked(reasons.NODECLASS_NOT_READY, f"waiting for the validation of {name}")
    if ready.status != "True":
        return _blocked(reasons.NODECLASS_NOT_READY, f"{name} is not Ready: {ready.reason}: {ready.message}")
    return None


def _blocked(reason: str, message: str) -> ConditionUpdate:
    return ConditionUpdate(status="Unknown", reason=reason, message=message, warning=True)
