"""The conditions of a Node that agents report, without those that are stale.

A condition stays on the Node when the agent that set it crashes or is removed. AKS's node problem detector refreshes
all of its conditions every 5 minutes, whether or not they change, and so does the kubelet with `Ready`. Both write the
time of the machine, so that their difference depends on no other clock. Other agents write changes only: theirs are
not stale.

Source: docs/references/agent-pools.md#conditions-of-gpu-machines, docs/adr/0078-stale-conditions.md.
"""

from datetime import timedelta

from provisioner.api.node import Node, NodeCondition

from .repair_policy import BUILT_IN, OF_DETECTOR

# 12 periods: the period is a flag of the detector, which restarts and is upgraded too.
STALE = timedelta(hours=1)
# A condition whose heartbeat is not later than its change may have been written once only.
REFRESHED = timedelta(minutes=1)
DETECTED = frozenset(row.condition for row in BUILT_IN if row.group in OF_DETECTOR)


def reported_condition(node: Node, kind: str, status: str) -> NodeCondition | None:
    """The condition of this type, if it has this status and is not stale."""
    found = node.condition(kind)
    return found if found is not None and found.status == status and not _is_stale(found, node) else None


def _is_stale(one: NodeCondition, node: Node) -> bool:
    """Whether the kubelet has refreshed Ready for a long time since the detector refreshed this condition."""
    ready, refreshed, changed = node.ready_condition, one.last_heartbeat_time, one.last_transition_time
    if ready is None or ready.status != "True" or ready.last_heartbeat_time is None or one.type not in DETECTED:
        return False
    if refreshed is None or changed is None or refreshed - changed < REFRESHED:
        return False
    return ready.last_heartbeat_time - refreshed > STALE
