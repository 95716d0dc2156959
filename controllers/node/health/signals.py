"""Signals of an unhealthy machine: which rows of the repair policy apply to it now, and since when.

Missing GPUs become a signal once they were missing for `Policy.gpu_loss_seconds`. A machine that never got a Node, or
whose Node never got all its GPUs, is a signal since the condition before it became True.

Source: docs/references/karpenter.md#node-repair,
docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

import math
from datetime import datetime

from cloudprovider.interface import InstanceState
from controllers.model.conditions import launched, was_usable
from controllers.model.facts import Facts
from controllers.model.ownership import belongs, held_by
from controllers.nodeclaim import interruption
from controllers.nodeclaim.lifecycle import readiness
from controllers.nodeclaim.lifecycle.gpu_resources import state_of
from controllers.nodeclaim.lifecycle.initialization import uninitialized
from controllers.nodeclaim.lifecycle.launch import launched_since
from controllers.nodeclaim.lifecycle.launch_failure import failed_launch_remains, has_failed
from controllers.nodeclaim.lifecycle.registration import registered
from provisioner.api import reasons
from provisioner.api.conditions import INITIALIZED, NODE_HEALTHY, REGISTERED
from provisioner.api.node import Node, NodeCondition
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.repair_policy import (
    GPU_GONE,
    GPU_PARTIAL,
    NOT_INITIALIZED,
    NOT_READY,
    NOT_REGISTERED,
    READINESS_TIMEOUT,
    RepairPolicy,
)

from .repair_policy import rows
from .reported_conditions import reported_condition

REPORT_SECONDS = 5.0
# Reasons of a new Node that waits for its GPUs, and for nothing else.
FOR_GPUS = (
    reasons.RESOURCE_NOT_REGISTERED,
    reasons.DRA_DRIVER_POOLS_NOT_PUBLISHED,
    reasons.GPU_COUNT_MISMATCH,
)
REPORTED_NOT_READY = (reasons.NODE_NOT_READY, reasons.NODE_LOST, reasons.SPOT_EVICTED)


def present(f: Facts, claim: NodeClaim, node: Node | None) -> tuple[RepairPolicy, ...]:
    """The rows whose signal this claim's machine shows now; `node` None: it has no Node."""
    if claim.deleting:
        return ()
    found = _signals(f, claim, node)
    usable = was_usable(claim)
    return tuple(
        row
        for row in rows(f.policy)
        if row.signal in found or (usable and node is not None and not row.signal and has_condition(node, row))
    )


def has_condition(node: Node, row: RepairPolicy) -> bool:
    """Whether the Node has the condition of this row, with its status; a missing or stale one is not checked."""
    return reported_condition(node, row.condition, row.status) is not None


def _signals(f: Facts, claim: NodeClaim, node: Node | None) -> frozenset[str]:
    if not was_usable(claim):
        return _of_starting(f, claim, node)
    if node is None:
        return frozenset({NOT_READY} if is_lost(f, claim) else ())
    if not node.ready:
        return frozenset({NOT_READY})
    gone = not state_of(f, claim, node).some and gpus_gone_since(f) <= f.loop_now
    signal = GPU_GONE if gone else GPU_PARTIAL
    return frozenset({signal} if _lost_gpus(f, claim, node) else ())


def some_gpus(f: Facts, claim: NodeClaim, node: Node | None, row: RepairPolicy) -> bool:
    """Whether a machine that was never usable has some of its GPUs, which pods may use: its Node is Ready."""
    return row.signal == NOT_INITIALIZED and node is not None and state_of(f, claim, node).some


def _lost_gpus(f: Facts, claim: NodeClaim, node: Node) -> bool:
    """Whether GPUs are missing for longer than a plugin that restarts explains."""
    return state_of(f, claim, node).lost and gpu_loss_began(f) <= f.loop_now


def _of_starting(f: Facts, claim: NodeClaim, node: Node | None) -> frozenset[str]:
    """The signal of a machine that was never usable; none while its pool is to be replaced anyway.

    A Ready Node of a failed pool is a machine like others.
    """
    if failed_launch_remains(f, claim) or not (is_running(f, claim) or has_failed(f, claim)):
        return frozenset()
    if node is None:
        return frozenset({NOT_REGISTERED} if launched(claim) and not registered(claim) and not f.nodes else ())
    if not node.ready:
        return frozenset({NOT_READY} if _is_overdue(f, claim) else ())
    if readiness.replacement_due(f, claim, node) is not None:
        return frozenset({READINESS_TIMEOUT})
    waiting = uninitialized(f, claim, node) if registered(claim) else None
    for_gpus = waiting is not None and waiting.reason in FOR_GPUS and state_of(f, claim, node).lost
    return frozenset({NOT_INITIALIZED} if for_gpus else ())


def _is_overdue(f: Facts, claim: NodeClaim) -> bool:
    """Whether a Node that has not been Ready yet has had the time of an initialization."""
    return _seconds_since(f, launched_since(f, claim)) >= f.policy.initialization_seconds


def is_running(f: Facts, claim: NodeClaim) -> bool:
    """Whether the claim's pool runs."""
    return f.instance is not None and held_by(f.instance, claim) and f.instance.state is InstanceState.RUNNING


def is_lost(f: Facts, claim: NodeClaim) -> bool:
    """Whether the Node is gone although its pool runs, or has failed: an update can, and its machine may be billed."""
    gone = not any(belongs(node, claim) for node in f.nodes)
    at_rest = is_running(f, claim) or has_failed(f, claim)
    return at_rest and not interruption.is_evicted(f, claim) and gone


def gpu_loss_began(f: Facts) -> float:
    """The loop time since which missing GPUs are a loss."""
    return (f.loop_now if f.gpu_short_since is None else f.gpu_short_since) + f.policy.gpu_loss_seconds


def gpus_gone_since(f: Facts) -> float:
    """The loop time since which the loss of all GPUs is one: a loss of some before does not shorten its time."""
    gone = f.devices.gone_since if f.devices is not None else None
    return gpu_loss_began(f) if gone is None else max(gpu_loss_began(f), gone + f.policy.gpu_loss_seconds)


def confirmed_since(f: Facts, claim: NodeClaim, node: Node | None, row: RepairPolicy) -> float:
    """The loop time since which what has to confirm this signal does; -inf: nothing has to; inf: it does not.

    Each of several signals persists for the whole time: an old condition does not shorten that of missing GPUs.
    """
    match row.agreement:
        case "GpuCount":
            lost = node is not None and node.ready and _lost_gpus(f, claim, node) and not fault_elsewhere(f)
            return max(gpu_loss_began(f), _blamed_since(f)) if lost else math.inf
        case "Diagnosis":
            return math.inf if fault_elsewhere(f) else _blamed_since(f)
        case _:
            return -math.inf


def _blamed_since(f: Facts) -> float:
    """The loop time since which the diagnosis counts: a plugin that has just started has the time of a restart."""
    began = f.devices.blamed_since if f.devices is not None else None
    return -math.inf if began is None else began + f.policy.gpu_loss_seconds


def agrees(f: Facts, claim: NodeClaim, node: Node | None, row: RepairPolicy) -> bool:
    """Whether what has to confirm this signal does."""
    return confirmed_since(f, claim, node, row) < math.inf


def replaces(f: Facts, claim: NodeClaim, node: Node | None, row: RepairPolicy) -> bool:
    """Whether the machine is replaced once this signal was tolerated for its time."""
    return row.action == "Replace" and agrees(f, claim, node, row)


def fault_elsewhere(f: Facts) -> str:
    """Why the diagnosis of missing GPUs does not lay the fault on the machine; "" if it does.

    What is not known is no agreement: the diagnosis may not be permitted, or may have failed.
    """
    if f.diagnosis is None:
        return "the cause of the missing GPUs is not known"
    if f.diagnosis.of_machine:
        return ""
    return f.diagnosis.elsewhere or f.diagnosis.cause_text or f.diagnosis.cause.value


def seconds(f: Facts, row: RepairPolicy) -> float:
    """How long the signal is tolerated; always longer than the deadline of the same state, which is reported first."""
    match row.signal:
        case "NotRegistered":
            return max(row.seconds, f.policy.registration_seconds + REPORT_SECONDS)
        case "NotInitialized":
            return max(row.seconds, f.policy.initialization_seconds + REPORT_SECONDS)
        case _:
            return row.seconds


# Since when


def reported_seconds(f: Facts, claim: NodeClaim, node: Node | None, row: RepairPolicy) -> float:
    """Seconds since this signal was present as the objects state it, for a process that has just started.

    A condition of the claim can be older than the signal (another signal was present before), the Node's younger (two
    signals alternate): the later of the two never replaces a machine too early.
    """
    if row.signal == NOT_REGISTERED:
        return _seconds_since(f, launched_since(f, claim))
    if row.signal == NOT_INITIALIZED:
        began = claim.condition(REGISTERED, "True")
        return _seconds_since(f, began.last_transition_time if began is not None else None)
    if row.signal == READINESS_TIMEOUT:
        due = readiness.replacement_due(f, claim, node) if node is not None else None
        return due[1] if due is not None else 0.0
    if not row.signal:
        reported = claim.condition(NODE_HEALTHY, "False")
        stated = reported_condition(node, row.condition, row.status) if node is not None else None
        return _since_both(f, reported.last_transition_time if reported is not None else None, stated)
    if row.signal in (GPU_GONE, GPU_PARTIAL):
        return f.loop_now - (gpus_gone_since(f) if row.signal == GPU_GONE else gpu_loss_began(f))
    stated = node.ready_condition if node is not None else None
    reported = claim.condition(INITIALIZED, "False")
    if reported is None or reported.reason not in REPORTED_NOT_READY:
        return 0.0
    return _since_both(f, reported.last_transition_time, stated)


def _since_both(f: Facts, reported: datetime | None, stated: NodeCondition | None) -> float:
    if reported is None:
        return 0.0
    since = stated.last_transition_time if stated is not None else None
    return _seconds_since(f, reported if since is None else max(reported, since))


def _seconds_since(f: Facts, began: datetime | None) -> float:
    return 0.0 if began is None else max(0.0, (f.now - began).total_seconds())
