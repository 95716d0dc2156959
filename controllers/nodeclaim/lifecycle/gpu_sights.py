"""What each pass remembers of the devices of a Node: restarts of its kubelet, and whether it has published since.

After a restart the API shows the number of devices from before until the first status of the kubelet, and that number
says nothing. Signs of a restart are a changed boot ID, a Node that is Ready again, and `FrequentKubeletRestart`. A
changed number was published after the sign. A number that stays the same cannot be told from the old one by its
status, because a kubelet writes a status only when it differs: it counts after three status periods.

The first Ready of a new Node is no sign. A process that has just started judges by the transition times of the
conditions.

Source: docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

from datetime import datetime

from controllers.model.facts import DeviceSight, Facts
from provisioner.api import labels, reasons
from provisioner.api.conditions import INITIALIZED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.time import shifted

from .gpu_resources import changes_mig, gpu_state, state_of
from .registration import registered

FREQUENT_RESTARTS = "FrequentKubeletRestart"


def device_sight(f: Facts) -> DeviceSight | None:
    """What is remembered for the next pass; None without a Node."""
    claim, node = f.claim, f.node
    if claim is None or node is None:
        return None
    known = f.devices if f.devices is not None and f.devices.node_uid == node.uid else None
    seen = _first(f, node) if known is None else known
    boot_id = node.status.node_info.boot_id or seen.boot_id
    ready_since, restarts_since = _since(node, "Ready"), _since(node, FREQUENT_RESTARTS)
    state = state_of(f, claim, node)
    allocatable = state.allocatable
    rebooted = bool(seen.boot_id) and boot_id != seen.boot_id
    returned = node.ready and seen.was_ready and ready_since != seen.ready_since
    restarts = restarts_since is not None and restarts_since != seen.restarts_since
    restarted_at = max(
        seen.restarted_at,
        f.loop_now if rebooted else seen.restarted_at,
        _loop_time(f, ready_since) if returned else seen.restarted_at,
        _loop_time(f, restarts_since) if restarts else seen.restarted_at,
    )
    # A number that changes while the Node is not Ready is one of the kubelet that makes it Ready.
    doubted = rebooted or restarts or (seen.ready and (returned or not node.ready))
    return DeviceSight(
        node_uid=node.uid,
        boot_id=boot_id,
        ready=node.ready,
        was_ready=seen.was_ready or node.ready,
        ready_since=ready_since if node.ready else seen.ready_since,
        restarts_since=restarts_since,
        allocatable=allocatable,
        published=(known is not None and allocatable != known.allocatable) or (seen.published and not doubted),
        restarted_at=restarted_at,
        mig_since=(seen.mig_since or (f.now, f.loop_now)) if changes_mig(node) else None,
        seen_since=_first_seen(f, seen.seen_since) if node.ready else None,
        misconfigured=state.disagrees is not None,
        some=state.some,
        gone_since=None if state.some else f.loop_now if seen.some else seen.gone_since,
        closed_since=_first_seen(f, seen.closed_since) if node.spec.unschedulable else None,
        at_fault=seen.at_fault,
        blamed_since=seen.blamed_since,
    )


def gpu_short_since(f: Facts, known: float | None) -> float | None:
    """Since when the Node of a registered claim lacks GPUs, as a loop time; `known`: by the pass before, of this Node.

    While the Node is not Ready, or its number is in doubt, nothing new is known.
    """
    claim, node, state = f.claim, f.node, gpu_state(f)
    if claim is None or node is None or state is None or not registered(claim):
        return None
    if not node.ready or (state.holding and not state.short):
        return known
    if not state.short:
        return None
    return _reported_since(f, claim, node) if known is None else known


def _reported_since(f: Facts, claim: NodeClaim, node: Node) -> float:
    """Since when GPUs are missing, as a claim states that another process wrote; now without a statement.

    The condition can be older than the loss, of a Node that was not Ready before: then the Node's counts.
    """
    reported, ready = claim.condition(INITIALIZED, "False"), _since(node, "Ready")
    if reported is None or reported.reason != reasons.GPU_UNAVAILABLE or ready is None:
        return f.loop_now
    lost = max(shifted(reported.last_transition_time, -f.policy.gpu_loss_seconds), ready)
    return _loop_time(f, lost)


def _first(f: Facts, node: Node) -> DeviceSight:
    """What a process knows of a Node that it sees for the first time: whether it was in use before."""
    return DeviceSight(node_uid=node.uid, was_ready=labels.INITIALIZED in node.metadata.labels)


def _first_seen(f: Facts, before: float | None) -> float:
    return f.loop_now if before is None else before


def _since(node: Node, kind: str) -> datetime | None:
    """Since when this condition is True; None if it is not."""
    condition = node.condition(kind)
    return condition.last_transition_time if condition is not None and condition.status == "True" else None


def _loop_time(f: Facts, moment: datetime | None) -> float:
    """That moment by the clock of the Node, as a loop time; one in the future, by another clock, is now."""
    return f.loop_now - (max(0.0, (f.now - moment).total_seconds()) if moment is not None else 0.0)
