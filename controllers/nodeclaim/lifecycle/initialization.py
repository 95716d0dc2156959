"""Initialization of a claim's Node, and the Initialized condition.

Initialized becomes True when the Node is Ready, has no startup or ephemeral taints, and has all requested resources and
the GPUs of its size. It becomes False, and Ready with it in the same write, when the Node is no longer usable. This
differs from Karpenter, because KAITO's RAGEngine creates a second claim when a claim is Initialized without a Ready
Node (docs/references/kaito.md#ragengine).

Source: docs/references/karpenter.md#initialization,
docs/references/kubernetes.md#extended-resources-and-the-device-manager, docs/references/kaito.md#contract (K5, K12,
K13).
"""

import msgspec

from controllers.model.adoption import kept
from controllers.model.conditions import ConditionUpdate, clock_text, was_usable
from controllers.model.deadlines import watched
from controllers.model.facts import Facts
from controllers.model.patches import add_keys
from controllers.model.reported import Reported
from controllers.model.steps import PatchNode, Step
from controllers.nodeclaim import interruption
from controllers.nodeclaim.consistency import scaled_to_zero, scaled_to_zero_message
from provisioner.api import labels, reasons
from provisioner.api.conditions import INITIALIZED, MESSAGE_BYTES, REGISTERED, Status, truncate
from provisioner.api.meta import Condition, Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from . import dra, readiness
from .expected_gpus import whole_number
from .gpu_resources import GpuState, changes_mig, failed_mig_config, state_of
from .launch_failure import failed_launch_remains, has_failed
from .registration import node_registered, pool_failed, registered, update_refused

# Taints of a Node that is starting; effect "" matches any (docs/references/karpenter.md#initialization).
EPHEMERAL_TAINTS = (
    (labels.NOT_READY_TAINT, "NoSchedule"),
    (labels.NOT_READY_TAINT, "NoExecute"),
    (labels.UNREACHABLE_TAINT, "NoSchedule"),
    (labels.UNINITIALIZED_TAINT, "NoSchedule"),
    (labels.UNREGISTERED_TAINT, "NoExecute"),
)
# Of these, the taints that the node controller derives from the Ready condition, and its maximum delay.
HEALTH_TAINTS = (labels.NOT_READY_TAINT, labels.UNREACHABLE_TAINT)
HEALTH_TAINT_SECONDS = 30.0
EPHEMERAL_PREFIX = "readiness.k8s.io/"
# Requests that are never allocatable on a Node: storage sizes the pool's disk (docs/references/kaito.md#contract,
# K12).
NOT_ON_NODES = frozenset({"storage"})
# Room for the suffix of a passed deadline.
CAUSE_BYTES = MESSAGE_BYTES - len("; overdue: over 999 min")
# Reasons of a Node without its GPUs; of one that had them, the reason is GPUUnavailable.
LACKS_GPUS = (
    reasons.RESOURCE_NOT_REGISTERED,
    reasons.GPU_COUNT_MISMATCH,
    reasons.DRA_DRIVER_POOLS_NOT_PUBLISHED,
)
PLUGIN_HINT = "is the device plugin running and tolerating the claim's taints?"


def step(f: Facts) -> Step | None:
    """Label the Node as initialized."""
    claim, node = f.claim, f.node
    if claim is None or node is None or "PatchNode" in f.refused or not node_registered(claim, node):
        return None
    if labels.INITIALIZED in node.metadata.labels or uninitialized(f, claim, node) is not None:
        return None
    patch = add_keys("/metadata/labels", node.metadata.labels, {labels.INITIALIZED: "true"})
    return PatchNode(node=node, patch=tuple(dict(operation) for operation in patch), why="the Node is initialized")


def condition(f: Facts, claim: NodeClaim) -> ConditionUpdate | None:
    """The Initialized condition; None before the Node is registered."""
    node = f.node
    if failed_launch_remains(f, claim):
        return pool_failed(f) if registered(claim) else None
    current = claim.condition(INITIALIZED)
    if current is not None and current.status in ("True", "False"):
        return _usable(f, claim, node, current)
    evicted = interruption.condition(f, claim, "Unknown") if node is None or not node.ready else None
    if evicted is not None or node is None or not node_registered(claim, node):
        return evicted
    starting = _starting(f, claim, node)
    waiting = starting or uninitialized(f, claim, node)
    if waiting is None:
        labelled = labels.INITIALIZED in node.metadata.labels
        return ConditionUpdate(status="True", reason=reasons.INITIALIZED) if labelled else update_refused(f, node)
    if starting is None and (waiting.recheck is not None or waiting.overdue):
        return waiting  # a readiness rule has a timeout of its own
    began = claim.condition(REGISTERED, "True")
    since = began.last_transition_time if began is not None else f.now
    limit = f.policy.initialization_seconds
    return watched(waiting, name="initialization", since=since, now=f.now, limit_seconds=limit)


def _starting(f: Facts, claim: NodeClaim, node: Node) -> ConditionUpdate | None:
    """The condition of a Node that is not usable yet, which is usual shortly after its creation: one for all causes."""
    age = (f.now - node.metadata.creation_timestamp).total_seconds()
    left = f.policy.usual_start_seconds - age
    if left <= 0 or uninitialized(f, claim, node) is None:
        return None
    message = (
        f"Node {node.name} is starting since {clock_text(node.metadata.creation_timestamp)}; it is usually Ready with"
        " its GPUs within 3 min"
    )
    return ConditionUpdate(status="Unknown", reason=reasons.NODE_INITIALIZING, message=message, recheck=left)


def _usable(f: Facts, claim: NodeClaim, node: Node | None, current: Condition) -> ConditionUpdate:
    """The condition of a claim that was initialized; to become True again it must pass all checks."""
    if node is None or not node.ready:
        evicted = interruption.condition(f, claim, "False")
        if evicted is not None:
            return evicted
    if node is None:
        lost = f"Node {claim.status.node_name or f.key} is deleted or deleting; see kubectl get nodes -L agentpool"
        if f.instance is not None and scaled_to_zero(f.instance):
            lost = f"Node {claim.status.node_name or f.key} is deleted: {scaled_to_zero_message(f.instance)}"
        message = kept(f.nodes, claim) or lost
        return ConditionUpdate(status="False", reason=reasons.NODE_LOST, message=message, warning=True)
    if not node.ready:
        return _not_ready(node, status="False")
    if current.status == "True":
        return _tolerated(f, claim, node)
    waiting = uninitialized(f, claim, node)
    if waiting is None:
        return ConditionUpdate(status="True", reason=reasons.INITIALIZED)
    seconds_left = _health_taint_seconds_left(f, node, waiting)
    if seconds_left > 0 and current.reason == reasons.NODE_NOT_READY:
        return _unchanged(current, seconds_left)
    # What the Node shows is in doubt for so long; a partitioning by the MIG manager takes longer, and is reported.
    if waiting.recheck is not None and not state_of(f, claim, node).short and not changes_mig(node):
        return _unchanged(current, waiting.recheck)
    return _lost(f, waiting) if waiting.reason in LACKS_GPUS else msgspec.structs.replace(waiting, status="False")


def _tolerated(f: Facts, claim: NodeClaim, node: Node) -> ConditionUpdate:
    """The condition of a usable Node, whose GPUs may be missing for a while."""
    state = state_of(f, claim, node)
    if not state.short:
        return ConditionUpdate(status="True", reason=reasons.INITIALIZED)
    short_seconds = 0.0 if f.gpu_short_since is None else f.loop_now - f.gpu_short_since
    left = max(f.policy.gpu_loss_seconds - short_seconds, state.hold_seconds)
    if left > 0:
        return ConditionUpdate(status="True", reason=reasons.INITIALIZED, recheck=left)
    return msgspec.structs.replace(_lost(f, _missing_gpus(f, claim, node, state)), warning=True)


def _lost(f: Facts, missing: ConditionUpdate) -> ConditionUpdate:
    """The condition of a Node that had its GPUs, with the cause that is known if it lies in the machine."""
    fault = f.diagnosis.cause if f.diagnosis is not None and f.diagnosis.of_machine else ""
    reports = Reported(fault=fault)
    return msgspec.structs.replace(missing, status="False", reason=reasons.GPU_UNAVAILABLE, reports=reports)


def _unchanged(current: Condition, seconds: float) -> ConditionUpdate:
    """The condition as it is, for so long: nothing is written between NotReady and True."""
    return ConditionUpdate(
        status="False", reason=current.reason, message=current.message, recheck=seconds, warning=True, kept=True
    )


def _health_taint_seconds_left(f: Facts, node: Node, waiting: ConditionUpdate) -> float:
    """Seconds until the node controller must have removed its taints from a Node that is Ready again.

    Until then the condition stays as it is, so that nothing is written between NotReady and True
    (docs/references/kaito.md#contract, K13).
    """
    others = (taint for taint in node.spec.taints if _ephemeral(taint) and taint.key not in HEALTH_TAINTS)
    ready = node.ready_condition
    since = ready.last_transition_time if ready is not None else None
    if waiting.reason != reasons.KNOWN_EPHEMERAL_TAINTS_EXIST or any(others) or since is None:
        return 0.0
    return HEALTH_TAINT_SECONDS - (f.now - since).total_seconds()


def uninitialized(f: Facts, claim: NodeClaim, node: Node) -> ConditionUpdate | None:
    """The first check that the Node fails, in Karpenter's order; None if it passes all."""
    if not node.ready:
        return _not_ready(node, status="Unknown")
    if (held := readiness.condition(f, claim, node)) is not None:
        return held
    startup = {(taint.key, taint.effect) for taint in claim.spec.startup_taints}
    for taint in node.spec.taints:
        if (taint.key, taint.effect) in startup:
            why = _deadlock(f, taint) or "the component that owns it must remove it"
            return _waiting(reasons.STARTUP_TAINTS_EXIST, f'StartupTaint "{taint}" still exists; {why}')
    for taint in node.spec.taints:
        if _ephemeral(taint):
            return _waiting(reasons.KNOWN_EPHEMERAL_TAINTS_EXIST, f'KnownEphemeralTaint "{taint}" still exists')
    return _missing_request(f, claim, node) or _unusable_gpus(f, claim, node)


def _deadlock(f: Facts, taint: Taint) -> str:
    """Why the taint may stay for ever: the device plugin does not tolerate it; "" if it does."""
    return _diagnosed(f) if f.diagnosis is not None and taint in f.diagnosis.taints else ""


def _waiting(reason: str, message: str) -> ConditionUpdate:
    return ConditionUpdate(status="Unknown", reason=reason, message=message)


def _not_ready(node: Node, *, status: Status) -> ConditionUpdate:
    condition = node.ready_condition
    cause = (condition.reason or "no reason given") if condition is not None else "the kubelet has not posted a status"
    since = condition.last_transition_time if condition is not None else None
    when = f" since {clock_text(since)}" if since is not None else ""
    message = f"Node status is NotReady ({cause}){when}; see kubectl describe node {node.name}"
    return ConditionUpdate(status=status, reason=reasons.NODE_NOT_READY, message=message, warning=status == "False")


def _ephemeral(taint: Taint) -> bool:
    return taint.key.startswith(EPHEMERAL_PREFIX) or (taint.key, taint.effect) in EPHEMERAL_TAINTS


def _missing_request(f: Facts, claim: NodeClaim, node: Node) -> ConditionUpdate | None:
    state = state_of(f, claim, node)
    counted = state.resource if state.driver or state.unknown else ""
    for resource, wanted in claim.spec.resources.requests.items():
        if resource in NOT_ON_NODES or whole_number(wanted) == 0 or resource == counted:
            continue
        if whole_number(node.status.allocatable.get(resource, "0")) == 0:
            hint = f"; {_diagnosed(f) or PLUGIN_HINT}" if "/" in resource else ""
            return _waiting(
                reasons.RESOURCE_NOT_REGISTERED, f'Resource "{resource}" was requested but not registered{hint}'
            )
    return None


def _unusable_gpus(f: Facts, claim: NodeClaim, node: Node) -> ConditionUpdate | None:
    state = state_of(f, claim, node)
    if state.holding:
        held = _waiting(_reason(state), f"{state.counted}; {state.holding}")
        return msgspec.structs.replace(held, recheck=state.hold_seconds)
    return _missing_gpus(f, claim, node, state) if state.short else None


def _missing_gpus(f: Facts, claim: NodeClaim, node: Node, state: GpuState) -> ConditionUpdate:
    if state.disagrees is not None:
        message = f"{state.counted}; {state.disagrees.text}; {state.disagrees.remedy}"
        return _waiting(_reason(state), truncate(message, CAUSE_BYTES))
    if unpublished := dra.unpublished(f, claim, node, state.expected):
        return msgspec.structs.replace(unpublished, message=truncate(unpublished.message, CAUSE_BYTES))
    if state.unknown:
        return _waiting(_reason(state), f"{state.counted}; {state.unknown}")
    if refused := failed_mig_config(node):
        message = f"{state.counted}; the MIG manager failed to apply {refused}; see its log, and correct the label"
        return _waiting(_reason(state), message)
    failure = f.instance.failure if f.instance is not None and has_failed(f, claim) else None
    failed = f"the pool failed ({failure.message})" if failure is not None and not was_usable(claim) else ""
    if cause := "; ".join(filter(None, (_diagnosed(f), failed))):
        return _waiting(_reason(state), truncate(f"{state.counted}; {cause}", CAUSE_BYTES))
    message = f"{state.counted}; {PLUGIN_HINT} To skip this check: annotate the claim {labels.GPU_READINESS}=report"
    return _waiting(_reason(state), message)


def _diagnosed(f: Facts) -> str:
    """Why the GPUs are missing, since when, and the remedy; "" while it is not known."""
    return f.diagnosis.message if f.diagnosis is not None else ""


def _reason(state: GpuState) -> str:
    partial = 0 < state.allocatable < state.expected
    return reasons.GPU_COUNT_MISMATCH if partial else reasons.RESOURCE_NOT_REGISTERED
