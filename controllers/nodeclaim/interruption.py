"""Interruption: evicted spot VMs.

A claim whose spot VM was evicted gets the reason SpotEvicted and is deleted with its pool; its owner creates another.
The proof of an eviction is the pool: created with one machine, it counts none. Signals on the Node (a scheduled
preemption, the taint of a VM that was shut down) only set the reason while the Node is not Ready.

Source: docs/references/agent-pools.md#machine-interruptions-and-auto-repair,
docs/references/agent-pools.md#labels-and-taints.
"""

from cloudprovider.interface import SPOT, InstanceState
from controllers.model.conditions import ConditionUpdate, clock_text
from controllers.model.facts import Facts
from controllers.model.ownership import belongs, held_by
from provisioner.api import labels, reasons
from provisioner.api.conditions import Status
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

# Signals of an eviction: the type of a Node's condition, and a text that its reason or message contains.
SIGNALS = (("PreemptionScheduled", ""), ("VMEventScheduled", "preempt"))


def is_evicted(f: Facts, claim: NodeClaim) -> bool:
    """Whether the claim's spot pool is running, not being changed by AKS, and has no machine."""
    instance = f.instance
    if instance is None or not held_by(instance, claim) or instance.offering.capacity_type != SPOT:
        return False
    return instance.state is InstanceState.RUNNING and instance.count == 0 and not instance.busy


def eviction_signal(node: Node) -> str:
    """The signal of an eviction on this Node; "" without one."""
    if any(taint.key == labels.SHUTDOWN_TAINT for taint in node.spec.taints):
        return labels.SHUTDOWN_TAINT
    for condition in node.status.conditions:
        details = f"{condition.reason} {condition.message}".lower()
        if condition.status == "True" and any(condition.type == kind and text in details for kind, text in SIGNALS):
            return f"{condition.type} {condition.reason}".rstrip()
    return ""


def condition(f: Facts, claim: NodeClaim, status: Status) -> ConditionUpdate | None:
    """The Initialized condition of a claim whose spot VM was evicted; None if it was not."""
    capacity_type = (
        f.instance.offering.capacity_type if f.instance is not None else claim.metadata.labels.get(labels.CAPACITY_TYPE)
    )
    if capacity_type != SPOT:
        return None
    unready = (node for node in f.nodes if belongs(node, claim) and (node.deleting or not node.ready))
    signal = next(filter(None, map(eviction_signal, unready)), "")
    if not signal and not is_evicted(f, claim):
        return None
    current = next((c.message for c in claim.status.conditions if c.reason == reasons.SPOT_EVICTED), "")
    message = (
        f"spot VM of agent pool {f.key} was evicted, observed at {clock_text(f.now)}"
        f" ({signal or 'the pool has no machine'}); the owner can create a new claim that prefers on-demand"
    )
    return ConditionUpdate(status=status, reason=reasons.SPOT_EVICTED, message=current or message, warning=True)
