"""The phases of a NodeClaim, their transitions, and the order of the rules: `plan` maps one key's facts to one step.

Pure: the same facts give the same step. Removal comes before anything that a live claim needs, and no status write
precedes a step that removes something. A claim's phase summarizes its conditions (docs/concepts/life.md#phases).
"""

import math
from collections.abc import Mapping

from cloudprovider.interface import InstanceState
from controllers.garbagecollection import garbage
from controllers.model.conditions import launched, was_usable
from controllers.model.facts import Facts
from controllers.model.ownership import holds_finalizer, marked
from controllers.model.steps import (
    AddFinalizer,
    Forget,
    LookUpCrds,
    LookUpPool,
    LookUpWorkloads,
    PatchClaim,
    PatchStatus,
    ReleaseFinalizer,
    Step,
    Wait,
)
from controllers.node.health import diagnosis_reads, repair
from controllers.node.termination import termination
from controllers.node.termination.instance_delete import poll_deletion
from controllers.nodeclaim import interruption
from controllers.nodeclaim.lifecycle import initialization, instance_labels, launch, readiness, registration
from provisioner.api.conditions import DRAINED, INSTANCE_TERMINATING, LAUNCHED, READY, REGISTERED, VOLUMES_DETACHED
from provisioner.api.nodeclaim import NodeClaim, Phase

from . import status
from .record import record

_UP = (Phase.REGISTERING, Phase.INITIALIZING, Phase.READY)

# Transitions between consecutive versions of a claim. One status write may turn several conditions, so phases are
# skipped on the way up. Only a Pending claim may lack our finalizer, and so disappear at once when it is deleted.
TRANSITIONS: Mapping[Phase, tuple[Phase, ...]] = {
    Phase.PENDING: (Phase.LAUNCHING, *_UP, Phase.FAILED, Phase.INSTANCE_TERMINATING, Phase.TERMINATED),
    Phase.LAUNCHING: (Phase.PENDING, *_UP, Phase.FAILED, Phase.INSTANCE_TERMINATING),
    Phase.REGISTERING: (Phase.INITIALIZING, Phase.READY, Phase.FAILED, Phase.DRAINING),
    Phase.INITIALIZING: (Phase.READY, Phase.FAILED, Phase.DRAINING),
    Phase.READY: (Phase.NOT_READY, Phase.DRAINING),
    Phase.NOT_READY: (Phase.READY, Phase.DRAINING),
    Phase.FAILED: (Phase.PENDING, Phase.LAUNCHING, *_UP, Phase.INSTANCE_TERMINATING),
    Phase.DRAINING: (Phase.DETACHING, Phase.INSTANCE_TERMINATING, Phase.TERMINATED),
    Phase.DETACHING: (Phase.DRAINING, Phase.INSTANCE_TERMINATING, Phase.TERMINATED),
    Phase.INSTANCE_TERMINATING: (Phase.DRAINING, Phase.DETACHING, Phase.TERMINATED),
    Phase.TERMINATED: (),
}
TERMINATING = frozenset({Phase.DRAINING, Phase.DETACHING, Phase.INSTANCE_TERMINATING, Phase.TERMINATED})


def phase_of(claim: NodeClaim | None) -> Phase:
    """The phase that the conditions of this claim show; None: the claim is gone."""
    if claim is None:
        return Phase.TERMINATED
    if claim.deleting:
        return _terminating_phase(claim)
    if claim.condition(READY, "True") is not None:
        return Phase.READY
    if was_usable(claim):
        return Phase.NOT_READY
    if launched(claim):
        return Phase.REGISTERING if claim.condition(REGISTERED, "True") is None else Phase.INITIALIZING
    if claim.condition(LAUNCHED, "False") is not None:
        return Phase.FAILED
    return Phase.LAUNCHING if launch.accepted(claim) else Phase.PENDING


def _terminating_phase(claim: NodeClaim) -> Phase:
    terminating, drained = claim.condition(INSTANCE_TERMINATING), claim.condition(DRAINED)
    if terminating is not None and terminating.status != "Unknown":
        return Phase.INSTANCE_TERMINATING if terminating.status == "True" else Phase.TERMINATED
    if drained is not None and drained.status == "Unknown":
        return Phase.DRAINING
    if drained is not None and claim.condition(VOLUMES_DETACHED, "True", "False") is None:
        return Phase.DETACHING
    # A claim that was never launched has no Node to drain.
    ends = drained is not None or terminating is not None or not launched(claim)
    return Phase.INSTANCE_TERMINATING if ends else Phase.DRAINING


def plan(f: Facts) -> Step:
    """The next step. A Wait ends no later than the delay of a write that the API server refused."""
    step = _next(f)
    if isinstance(step, Wait) and f.refused_for < (math.inf if step.after is None else step.after):
        return Wait(after=f.refused_for, why=step.why, blocked_by=step.blocked_by)
    return step


def _next(f: Facts) -> Step:
    if not f.kube_synced:
        return Wait(after=None, why="waiting for the first list of claims and Nodes")
    claim = f.claim
    if claim is None:
        return removal(f) or _without_claim(f)
    chosen = _terminate(f, claim) if phase_of(claim) in TERMINATING else _provision(f, claim)
    return _name_collisions(f) or chosen if isinstance(chosen, Wait) else chosen


def removal(f: Facts) -> Step | None:
    """The next step of a removal, requested or inferred, or a Wait; None if there is nothing to remove."""
    claim = f.claim
    if claim is None or not claim.deleting:
        return interruption.step(f) or garbage.step(f) or repair.step(f)
    if not f.crd_known:
        return LookUpCrds(claim=claim)
    return garbage.block_crd_deletion(f) or termination.step(f, claim)


def _provision(f: Facts, claim: NodeClaim) -> Step:
    if claim.metadata.unreadable:
        return _report_unreadable(f, claim)
    if not holds_finalizer(claim):
        if "AddFinalizer" in f.refused:
            return Wait(after=None, why="the API server refuses our finalizer, without which nothing is launched")
        return AddFinalizer(claim=claim, labels=instance_labels.known_before_launch(f))
    if not f.inventory_synced:
        return _report_unlisted(f, claim)
    removing = removal(f)
    if removing is not None and not isinstance(removing, Wait):
        return removing
    updates = status.launch_conditions(f, claim)
    soon = registration.wait_for_provider_id(f, claim)
    polling, rules = _poll_deletion(f), readiness.wait_for_rules(f)
    diagnosing = diagnosis_reads.step(f)
    return (
        launch.step(f)
        or (polling if isinstance(polling, LookUpPool) else None)
        or registration.step(f)
        or instance_labels.step(f)
        or readiness.step(f)
        or initialization.step(f)
        or (diagnosing if isinstance(diagnosing, LookUpWorkloads) else None)
        or (_report(f, claim, updates) if soon is None else None)
        or _soonest(updates, removing, soon, *(one for one in (polling, rules, diagnosing) if isinstance(one, Wait)))
    )


def _report_unreadable(f: Facts, claim: NodeClaim) -> Step:
    """A claim that is known in part is neither launched nor taken for gone; its removal needs none of these fields."""
    waiting = Wait(after=None, why="waiting for a claim that can be decoded")
    return (None if launched(claim) else status.report(f, claim, {LAUNCHED: launch.unreadable(claim)})) or waiting


def _report(f: Facts, claim: NodeClaim, updates: status.ConditionUpdates) -> PatchStatus | PatchClaim | None:
    """The write of these conditions, then of what they report; None if nothing differs."""
    return status.report(f, claim, updates) or record(f, claim, updates)


def _poll_deletion(f: Facts) -> Wait | LookUpPool | None:
    """Observes the deletion of the pool; None if it is not being deleted."""
    going = f.instance is not None and f.instance.state is InstanceState.DELETING
    return poll_deletion(f) if going else None


def _report_unlisted(f: Facts, claim: NodeClaim) -> Step:
    """Before the first list of agent pools only conditions are written."""
    updates = status.unlisted_conditions(f, claim)
    times = [update.recheck for update in updates.values() if update.recheck is not None]
    waiting = Wait(after=min(times, default=None), why="waiting for the first list of agent pools")
    return _report(f, claim, updates) or waiting


def _terminate(f: Facts, claim: NodeClaim) -> Step:
    if not f.inventory_synced:
        return _report_unlisted(f, claim)
    removing = removal(f)
    if removing is not None and not isinstance(removing, Wait):
        return removing
    updates = status.termination_conditions(f, claim)
    report = _report(f, claim, updates) if removing is not None else None
    return report or _soonest(updates, removing)


def explain(f: Facts) -> PatchStatus | None:
    """The status write that reports why a cloud call failed; `f` already has the failure."""
    claim = f.claim
    if claim is None:
        return None
    terminating = phase_of(claim) in TERMINATING
    updates = status.termination_conditions(f, claim) if terminating else status.launch_conditions(f, claim)
    return status.report(f, claim, updates)


def _soonest(updates: status.ConditionUpdates, *waits: Wait | None) -> Wait:
    """A Wait until the first moment at which time alone changes a condition or ends one of these waits."""
    known = [wait for wait in waits if wait is not None]
    times = [wait.after for wait in known if wait.after is not None]
    times += [u.recheck for u in updates.values() if u.recheck is not None and u.recheck > 0]
    why = known[0].why if known else ", ".join(f"{name}={update.status}" for name, update in updates.items())
    blocked_by = known[0].blocked_by if known else None
    return Wait(after=min(times, default=None), why=why or "waiting for a change", blocked_by=blocked_by)


def _without_claim(f: Facts) -> Step:
    if f.instance is not None and not f.instance.foreign:
        waiting = Wait(after=None, why="waiting for an agent pool without a claim to be deleted")
        return _poll_deletion(f) or waiting
    left = any(marked(node) for node in f.nodes)
    return Wait(after=None, why="waiting for Nodes of an agent pool of ours to be deleted") if left else Forget()


def _name_collisions(f: Facts) -> Step | None:
    """Steps for other claims with the same key: a condition while they live, the finalizer when they are deleted.

    Two claims collide only if AKS does not allow their names, and their UIDs have the same hash.
    """
    for rival in f.claims[1:]:
        if rival.deleting and holds_finalizer(rival):
            if f.pool_read_age > f.policy.fresh_seconds:
                return LookUpPool(name=f.key)
            return ReleaseFinalizer(target=rival, why="the pool of this name belongs to another claim")
        if not rival.deleting:
            report = status.report(f, rival, {LAUNCHED: launch.name_collides(f)})
            if report is not None:
                return report
    return None
