"""The condition NodeHealthy of a claim, and what its other conditions state of a repair: why it is delayed, its begin.

NodeHealthy is what others report about the Node, and a repair that is suspended. A claim whose Node never had such a
condition does not have it. Nodes that are not Ready, or lack GPUs, are reported by the condition Initialized.

Source: https://cluster-api.sigs.k8s.io/tasks/automated-machine-management/healthchecking (the name).
"""

import msgspec

from controllers.model.conditions import ConditionUpdate, clock_text
from controllers.model.facts import Facts
from controllers.model.reported import Reported
from provisioner.api import labels, reasons
from provisioner.api.conditions import INITIALIZED, NODE_HEALTHY
from provisioner.api.nodeclaim import NodeClaim

from . import limits, messages, rejecting_node, repair, signals
from .repairable import is_enabled

# The reasons of conditions that report what repair waits for.
REPORTED = (
    reasons.NODE_NOT_READY,
    reasons.NODE_LOST,
    reasons.GPU_UNAVAILABLE,
    reasons.NODE_NOT_FOUND,
    *signals.FOR_GPUS,
)


def with_blocked_repair(f: Facts, update: ConditionUpdate | None) -> ConditionUpdate | None:
    """The condition of a claim's Node, with the cause appended if a repair is due and delayed."""
    if update is None or update.kept or update.reason not in REPORTED or f.unhealthy is None:
        return update
    text = f"; repair delayed: {why}" if (why := repair.blocked(f)) else _replaced_text(f)
    if not text and limits.suspended(f) and repair.is_due(f):
        text = "; repair suspended: see condition NodeHealthy"
    if not text:
        return update
    return msgspec.structs.replace(update, ending=text + update.ending)


def taken_back(f: Facts, update: ConditionUpdate | None) -> ConditionUpdate | None:
    """The Initialized condition, False for a machine that is about to be replaced.

    KAITO's RAGEngine creates a second claim while one without a Node is Initialized
    (docs/references/kaito.md#ragengine).
    """
    replacing = f.claim is not None and labels.REPAIR_DRAIN_UNTIL in f.claim.metadata.annotations
    if update is None or update.status != "True" or not replacing or f.unhealthy is None or not f.unhealthy.replaces:
        return update
    reason, message = reasons.NODE_CONDITION_UNHEALTHY, messages.conditions(f, f.unhealthy)
    return ConditionUpdate(status="False", reason=reason, message=message, warning=True)


def _replaced_text(f: Facts) -> str:
    """By when a claim whose Node is gone is replaced; "" if AKS is changing its pool."""
    unhealthy = f.unhealthy
    if f.claim is None or unhealthy is None or unhealthy.replaced_at is None:
        return ""
    if not is_enabled(f.policy, f.claim):
        return "; its repair is disabled: delete the claim to stop paying for the machine"
    return f"; the claim is deleted at {clock_text(unhealthy.replaced_at)} if no Node returns"


def node_healthy(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The condition NodeHealthy; None if it is to stay as it is."""
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
