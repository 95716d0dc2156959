"""When the cause of missing GPUs is read, and the diagnosis of one key by what was read last.

At most three LISTs for a Node, once a minute at first: of its pods; of the DaemonSets, which all Nodes share; and of
pods without a Node, which all Nodes share too, if the plugin fits the Node and has no pod there.

Source: docs/adr/0055-diagnosis-of-gpus.md.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from controllers.model.conditions import was_usable
from controllers.model.diagnosis import Diagnosis, Workloads
from controllers.model.facts import DeviceSight, Facts
from controllers.model.readiness import recorded_taints
from controllers.model.reported import reported
from controllers.model.steps import LookUpWorkloads, Wait
from controllers.nodeclaim.lifecycle.gpu_resources import state_of
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from .diagnosis import diagnose


def diagnosis(f: Facts) -> Diagnosis | None:
    """Why the claim's Node lacks GPUs, by what was read last; None if it lacks none, or nothing was read."""
    claim, node = f.claim, f.node
    if claim is None or node is None or f.workloads is None:
        return None
    state = state_of(f, claim, node)
    startup = (*claim.spec.startup_taints, *recorded_taints(claim))
    return None if state.unknown else diagnose(node, state, f.workloads, startup)


def blamed(f: Facts) -> DeviceSight | None:
    """What is remembered of the devices, with `f.diagnosis`: a plugin that was installed late has just started.

    A read that failed changes nothing. The first one of a process does if the GPUs have been missing for long, and the
    claim does not state the same: the process before may have found another cause.
    """
    seen, found = f.devices, f.diagnosis
    if seen is None or f.gpu_short_since is None:
        return seen and replace(seen, at_fault=None, blamed_since=None)
    if found is None or found.of_machine == seen.at_fault:
        return seen
    late = f.loop_now - f.gpu_short_since >= f.policy.gpu_loss_seconds
    stated = f.claim is not None and reported(f.claim).fault == found.cause
    is_new = seen.at_fault is False or (late and not stated)
    return replace(seen, at_fault=found.of_machine, blamed_since=f.loop_now if found.of_machine and is_new else None)


def step(f: Facts) -> LookUpWorkloads | Wait | None:
    """The read that a closed gate needs, or the wait for it; None if no GPU is missing, or nothing is known of them."""
    claim, node = f.claim, f.node
    if claim is None or node is None or f.gpu_short_since is None:
        return None
    state = state_of(f, claim, node)
    if state.unknown or state.allocatable >= state.expected:
        return None
    closed, found = f.loop_now - f.gpu_short_since, f.workloads
    left = f.policy.diagnosis_seconds - closed
    if found is not None:
        left = max(left, _interval(f, found, closed) - (f.loop_now - found.read_at))
    if left > 0:
        return Wait(after=left, why="waiting for the GPUs of the Node")
    since = found.since if found is not None else _closed_since(f, claim, node, closed)
    return LookUpWorkloads(node=node, source=state.source, since=since)


def fresh(f: Facts, node: Node) -> LookUpWorkloads | None:
    """The read that confirms the cause before a machine is deleted for it; None if it was read a moment ago."""
    claim, found = f.claim, f.workloads
    if claim is None or (found is not None and f.loop_now - found.read_at <= f.policy.fresh_seconds):
        return None
    since = found.since if found is not None else f.now
    return LookUpWorkloads(node=node, source=state_of(f, claim, node).source, since=since)


def _interval(f: Facts, found: Workloads, closed: float) -> float:
    if found.forbidden:
        return f.policy.refused_seconds
    slow = closed >= f.policy.diagnosis_slow_seconds
    return f.policy.diagnosis_slow_poll_seconds if slow else f.policy.diagnosis_poll_seconds


def _closed_since(f: Facts, claim: NodeClaim, node: Node, closed: float) -> datetime:
    """Of a Node that was never usable, since it is Ready, which every process reads alike."""
    ready = node.ready_condition
    if not was_usable(claim) and ready is not None and ready.last_transition_time is not None:
        return ready.last_transition_time
    return f.now - timedelta(seconds=closed)
