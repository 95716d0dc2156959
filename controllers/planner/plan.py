"""The order of the rules: from one key's facts to exactly one step.

Pure; the same facts give the same step. Removal comes before everything a living claim may want, a status
write never stands before a step that removes, and what waits says for what.
"""

import math

from controllers.garbagecollection import garbage
from controllers.model.facts import Facts
from controllers.model.ownership import Verdict, holds_finalizer, marked, verdict
from controllers.model.steps import (
    AddFinalizer,
    Forget,
    LookUpCrd,
    LookUpPool,
    PatchStatus,
    ReleaseFinalizer,
    Step,
    Wait,
)
from controllers.node.health import repair
from controllers.node.termination import termination
from controllers.nodeclaim.lifecycle import initialization, instance_labels, launch, registration
from provisioner.api.conditions import LAUNCHED
from provisioner.api.nodeclaim import NodeClaim

from . import status

OWN_WRITE_SECONDS = 10.0


def plan(f: Facts) -> Step:
    """The one step to take now. Whatever it waits for, a refused write is tried again when its time has passed."""
    step = _next(f)
    if isinstance(step, Wait) and f.refused_for < (math.inf if step.after is None else step.after):
        return Wait(after=f.refused_for, why=step.why, held=step.held)
    return step


def _next(f: Facts) -> Step:
    if f.own_write_pending:
        return Wait(after=OWN_WRITE_SECONDS, why="our own write is not yet in the cache")
    if not f.kube_synced:
        return Wait(after=None, why="claims and Nodes have not been listed yet")
    claim = f.claim
    if claim is None:
        return removal(f) or _nothing_or_wait(f)
    chosen = _fall(f, claim) if claim.deleting else _rise(f, claim)
    return _rivals(f) or chosen if isinstance(chosen, Wait) else chosen


def removal(f: Facts) -> Step | None:
    """The next step towards a removal, asked or inferred; a Wait while it has to wait; None: there is nothing to do."""
    claim = f.claim
    if claim is None or not claim.deleting:
        return garbage.step(f) or repair.step(f)
    if not f.crd_known:
        return LookUpCrd(claim=claim)
    return garbage.block_crd_deletion(f) or termination.step(f, claim)


def _rise(f: Facts, claim: NodeClaim) -> Step:
    if not holds_finalizer(claim):
        if "AddFinalizer" in f.refused:
            return Wait(after=None, why="the API refuses our finalizer; nothing is launched without it")
        return AddFinalizer(claim=claim)
    if not f.inventory_synced:
        return _blind(f, claim)
    removing = removal(f)
    if removing is not None and not isinstance(removing, Wait):
        return removing
    updates = status.launch_conditions(f, claim)
    soon = registration.wait_for_provider_id(f, claim)
    return (
        launch.step(f)
        or registration.step(f)
        or instance_labels.step(f)
        or initialization.step(f)
        or (status.report(f, claim, updates) if soon is None else None)
        or _soonest(updates, removing, soon)
    )


def _blind(f: Facts, claim: NodeClaim) -> Step:
    """Nothing is done before the pools were listed; what can be said without them is said."""
    updates = status.blind(f, claim)
    times = [j.recheck for j in updates.values() if j.recheck is not None]
    waiting = Wait(after=min(times, default=None), why="the agent pools have not been listed yet")
    return status.report(f, claim, updates) or waiting


def _fall(f: Facts, claim: NodeClaim) -> Step:
    if not f.inventory_synced:
        return _blind(f, claim)
    removing = removal(f)
    if removing is not None and not isinstance(removing, Wait):
        return removing
    updates = status.termination_conditions(f, claim)
    told = status.report(f, claim, updates) if removing is not None else None
    return told or _soonest(updates, removing)


def explain(f: Facts) -> PatchStatus | None:
    """The status write that says why a step at the cloud failed; `f` already carries the failure."""
    claim = f.claim
    if claim is None:
        return None
    return status.report(
        f, claim, status.termination_conditions(f, claim) if claim.deleting else status.launch_conditions(f, claim)
    )


def _soonest(updates: status.ConditionUpdates, *waits: Wait | None) -> Wait:
    """Until the first moment at which time alone changes something; a moment that has come changes nothing more."""
    known = [wait for wait in waits if wait is not None]
    times = [wait.after for wait in known if wait.after is not None]
    times += [j.recheck for j in updates.values() if j.recheck is not None and j.recheck > 0]
    why = known[0].why if known else ", ".join(f"{n}={j.status}" for n, j in updates.items())
    held = known[0].held if known else None
    return Wait(after=min(times, default=None), why=why or "something to happen", held=held)


def _nothing_or_wait(f: Facts) -> Step:
    if f.instance is not None and verdict(f.instance, None) is not Verdict.FOREIGN:
        return Wait(after=None, why="a pool without a claim is still there")
    born_here = any(marked(node) for node in f.nodes)
    return Wait(after=None, why="Nodes of a pool of ours are still there") if born_here else Forget()


def _rivals(f: Facts) -> Step | None:
    """Claims that share this key with the one in charge: told so while they live, let go when they leave.

    Only two claims whose names AKS does not allow, and whose UIDs hash alike, can meet here.
    """
    for rival in f.claims[1:]:
        if rival.deleting and holds_finalizer(rival):
            if f.pool_read_age > f.policy.fresh_seconds:
                return LookUpPool(name=f.key)
            return ReleaseFinalizer(target=rival, why="the pool of this name belongs to another claim")
        if not rival.deleting:
            told = status.report(f, rival, {LAUNCHED: launch.name_collides(f)})
            if told is not None:
                return told
    return None
