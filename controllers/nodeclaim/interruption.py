"""Spot machines that Azure takes back.

A claim whose spot machine was taken says so instead of merely that its Node is lost, and goes: its owner makes
another, and the pool, which holds no machine any more, is removed with it. What proves the end is the pool itself: it
was asked for with one machine and counts none. Signs on the Node (a scheduled preemption, the taint of a machine that
was shut down) give the reason once the Node is not Ready, and end nothing: agents that set them may be wrong.

Source: docs/references/agent-pools.md#machine-interruptions-and-auto-repair,
docs/references/agent-pools.md#labels-and-taints.
"""

from cloudprovider.interface import SPOT, InstanceState
from controllers.model.conditions import ConditionUpdate, Status, clock_text
from controllers.model.facts import Facts
from controllers.model.ownership import belongs, held_by
from provisioner.api import labels, reasons
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

# By what a Node says that its machine is taken: a condition's type, and what its words must have in them.
SIGNALS = (("PreemptionScheduled", ""), ("VMEventScheduled", "preempt"))


def is_evicted(f: Facts, claim: NodeClaim) -> bool:
    """Whether the claim's spot pool is at rest without the machine that it was asked for with."""
    instance = f.instance
    if instance is None or not held_by(instance, claim) or instance.offering.capacity_type != SPOT:
        return False
    return instance.state is InstanceState.RUNNING and instance.count == 0 and not instance.busy


def eviction_signal(node: Node) -> str:
    """What on this Node tells of an eviction, "" if nothing does."""
    if any(taint.key == labels.SHUTDOWN_TAINT for taint in node.spec.taints):
        return labels.SHUTDOWN_TAINT
    for condition in node.status.conditions:
        words = f"{condition.reason} {condition.message}".lower()
        if condition.status == "True" and any(condition.type == kind and said in words for kind, said in SIGNALS):
            return f"{condition.type} {condition.reason}".rstrip()
    return ""


def condition(f: Facts, claim: NodeClaim, status: Status) -> ConditionUpdate | None:
    """The Initialized condition of a claim whose spot machine was taken; None: nothing tells of that."""
    spot = (
        f.instance.offering.capacity_type if f.instance is not None else claim.metadata.labels.get(labels.CAPACITY_TYPE)
    )
    if spot != SPOT:
        return None
    signs = (eviction_signal(node) for node in f.nodes if belongs(node, claim) and (node.deleting or not node.ready))
    seen = next(filter(None, signs), "")
    if not seen and not is_evicted(f, claim):
        return None
    told = next((c.message for c in claim.status.conditions if c.reason == reasons.SPOT_EVICTED), "")
    message = (
        f"Azure took the spot machine of agent pool {f.key} back, as seen at {clock_text(f.now)}"
        f" ({seen or 'the pool counts no machine'}); its owner makes a new claim, which may prefer on-demand"
    )
    return ConditionUpdate(status=status, reason=reasons.SPOT_EVICTED, message=told or message, warning=True)
