"""The condition NodeHealthy of a claim: what others report about its Node, and a repair that is suspended.

A claim whose Node never had such a condition does not have it. Nodes that are not Ready, or lack GPUs, are reported by
the condition Initialized.

Source: https://cluster-api.sigs.k8s.io/tasks/automated-machine-management/healthchecking (the name).
"""

from controllers.model.conditions import ConditionUpdate
from controllers.model.facts import Facts
from controllers.model.reported import Reported
from provisioner.api import reasons
from provisioner.api.conditions import INITIALIZED, NODE_HEALTHY
from provisioner.api.nodeclaim import NodeClaim

from . import limits, messages, rejecting_node, repair


def condition(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The condition; None if it is to stay as it is."""
    current, unhealthy, node = claim.condition(NODE_HEALTHY), f.unhealthy, f.node
    if unhealthy is None and node is not None and (why := rejecting_node.message(node)):
        return ConditionUpdate(status="False", reason=reasons.NODE_CONDITION_UNHEALTHY, message=why, warning=True)
    if unhealthy is not None and (why := limits.suspended(f)) and repair.is_due(f):
        reports = Reported(suspended_image=unhealthy.stage.image if unhealthy.stage is not None else "")
        return ConditionUpdate(
            status="False", reason=reasons.REPAIR_SUSPENDED, message=why, warning=True, reports=reports
        )
    if unhealthy is not None and unhealthy.kept:
        return None
    if unhealthy is not None and (message := messages.conditions(f, unhealthy)):
        reason = reasons.NODE_CONDITION_UNHEALTHY
        why = repair.blocked(f)
        text = f"{message}; repair delayed: {why}" if why else message
        return ConditionUpdate(status="False", reason=reason, message=text, warning=True)
    if current is None or current.status == "True":
        return None
    if current.reason == reasons.REPAIR_SUSPENDED and claim.condition(INITIALIZED, "True") is None:
        return None  # what is wrong is not observed at present
    return ConditionUpdate(status="True", reason=reasons.NODE_HEALTHY)
