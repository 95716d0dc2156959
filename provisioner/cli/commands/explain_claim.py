"""`explain` of a NodeClaim: the facts of its key, the step that the planner chooses, and conditions with deadlines.

The status of the claim has what the running controller knew when it wrote it; the rest is computed now.
"""

import re
from collections.abc import Iterator
from datetime import timedelta

import msgspec

from controllers.disruption.candidates import price_of
from controllers.disruption.machine import Machine
from controllers.model.conditions import launched
from controllers.model.facts import Facts
from controllers.model.steps import (
    CreateInstance,
    DeleteClaim,
    DeleteInstance,
    DeleteNode,
    DeletePods,
    EvictPods,
    PatchStatus,
    Step,
    Wait,
)
from controllers.planner import status
from controllers.planner.controller_names import controller_name
from controllers.planner.plan import TERMINATING, phase_of
from provisioner.api.conditions import DEPENDENTS, DRAINED, INSTANCE_TERMINATING, READY, VOLUMES_DETACHED
from provisioner.api.meta import Condition
from provisioner.api.nodeclaim import NodeClaim, Phase
from provisioner.api.owner import counted_in, nodepool_of
from provisioner.api.time import format_duration
from provisioner.api.zones import REGIONAL

from .console import moment
from .explain_answer import Answer, Entry
from .explain_world import World

MEMORY = "delays and numbers of retries, and since when signals are seen: only the running controller remembers them"
READINESS = "objects that readiness rules name: not read; the condition Initialized has what they wait for"
ENDING = (DRAINED, VOLUMES_DETACHED, INSTANCE_TERMINATING)
WAITS = {
    Phase.PENDING: "waiting for the request of its agent pool",
    Phase.LAUNCHING: "waiting for AKS to create the agent pool",
    Phase.REGISTERING: "waiting for the Node",
    Phase.INITIALIZING: "waiting for the Node to be initialized",
    Phase.READY: "Ready",
    Phase.NOT_READY: "no longer Ready",
    Phase.FAILED: "cannot be launched now",
    Phase.DRAINING: "draining the Node",
    Phase.DETACHING: "waiting for volumes to be detached",
    Phase.INSTANCE_TERMINATING: "waiting for the deletion of the agent pool",
    Phase.TERMINATED: "the agent pool is gone; waiting for the removal of the finalizers",
}
# A deadline is looked for over so many changes that time alone causes.
CHANGES_MAX = 50


async def explain_claim(world: World, claim: NodeClaim) -> Answer:
    """Why the claim is where it is, and what happens next."""
    f, step = await world.controllers.reconciler.preview(world.caches.indexes.key_of(claim))
    waiting, owner = _waiting(claim), nodepool_of(claim)
    times = [*_times(f, claim, waiting)] if waiting is not None else []
    why = (
        "" if waiting is None or waiting.status == "True" else f"{waiting.type} is {waiting.status}, {_cause(waiting)}"
    )
    return Answer(
        kind="NodeClaim",
        name=claim.name,
        answer=WAITS[phase_of(claim)] + (f" ({', '.join(times)})" if times else ""),
        facts={
            "phase": phase_of(claim).value,
            "why": why,
            "nextStep": f"{_text(step)} ({controller_name(f, step)})" if f.inventory_synced else "",
            "nodePool": owner.name if owner is not None else "",
            "agentPool": _pool(f) if f.inventory_synced else f"{f.key}, not read",
            "node": ", ".join(one.name for one in f.nodes) or "none",
            "price": _price(world, f, claim),
            "conditions": ", ".join(f"{one.type} {one.status}" for one in claim.status.conditions),
        },
        parts={
            "offerings": tuple(_offerings(world, f, why)),
            "otherConditions": tuple(
                Entry(name=one.type, answer=f"{one.status} since {moment(one.last_transition_time)}, {_cause(one)}")
                for one in claim.status.conditions
                if one.type not in (*DEPENDENTS, *ENDING, READY)
            ),
        },
        unknown=(*world.unread, *_unread(f), MEMORY),
    )


def _unread(f: Facts) -> Iterator[str]:
    if not f.inventory_synced and f.list_failed is not None:
        yield f"agent pools: {f.list_failed.message}"
    if any(one.problem for one in f.readiness):
        yield READINESS


def _waiting(claim: NodeClaim) -> Condition | None:
    """The condition that states what the claim waits for."""
    known = [one for kind in (ENDING if claim.deleting else DEPENDENTS) if (one := claim.condition(kind)) is not None]
    return next((one for one in known if one.status != "True"), known[-1] if known and claim.deleting else None)


def _cause(one: Condition) -> str:
    return ": ".join(filter(None, (one.reason, one.message)))


def _times(f: Facts, claim: NodeClaim, waiting: Condition) -> Iterator[str]:
    """Since when and until when the claim waits."""
    before = [one for kind in DEPENDENTS if (one := claim.condition(kind, "True")) is not None and not claim.deleting]
    since = max(one.last_transition_time for one in (waiting, *before))
    yield f"since {format_duration((f.now - since).total_seconds())}"
    update, left = _updates(f, claim).get(waiting.type), _deadline(f, claim, waiting.type)
    if update is not None and update.status == "False" and update.recheck:
        yield f"next attempt in {format_duration(update.recheck)}"
    if left is not None:
        yield f"deadline in {format_duration(left)}" if left else "overdue"


def _deadline(f: Facts, claim: NodeClaim, kind: str) -> float | None:
    """Seconds until the condition is overdue if nothing changes, by the rules at each time at which they change it."""
    ahead = 0.0
    for _ in range(CHANGES_MAX):
        later = msgspec.structs.replace(f, now=f.now + timedelta(seconds=ahead), loop_now=f.loop_now + ahead)
        update = _updates(later, claim).get(kind)
        if update is None or update.overdue or not update.recheck:
            return ahead if update is not None and update.overdue else None
        ahead += max(update.recheck, 1.0)
    return None


def _updates(f: Facts, claim: NodeClaim) -> status.ConditionUpdates:
    """The conditions by the rules; none that depend on an agent pool which was not read."""
    if phase_of(claim) in TERMINATING:
        return status.termination_conditions(f, claim) if f.inventory_synced else {}
    return status.launch_conditions(f, claim) if f.inventory_synced or launched(claim) else {}


def _text(step: Step) -> str:
    """The step in words: the name of its type, and what it states."""
    words = re.sub("(?<=[a-z])(?=[A-Z])", " ", type(step).__name__).lower()
    match step:
        case Wait(after=after, why=why):
            return f"wait {'for a change' if after is None else format_duration(after)}: {why}"
        case CreateInstance(offering=offering):
            return f"request the agent pool, after the delay of a failure if there was one: {offering}"
        case PatchStatus(conditions=conditions, claim=claim):
            changed = [one.type for one in conditions if one != claim.condition(one.type)]
            return f"write the status: {', '.join(changed) or 'its fields'}"
        case EvictPods(pods=pods) | DeletePods(pods=pods):
            return f"{words}: {', '.join(one.name for one in pods)}"
        case DeleteInstance(cause=cause) | DeleteClaim(cause=cause) | DeleteNode(cause=cause):
            return f"{words}: {cause}"
    return ": ".join(filter(None, (words, getattr(step, "why", ""))))


def _pool(f: Facts) -> str:
    if f.instance is None:
        return f"{f.key}, does not exist"
    failed = f", {f.instance.failure.reason}" if f.instance.failure is not None else ""
    return f"{f.instance.name}, {f.instance.raw_state or f.instance.state}{failed}, {f.instance.offering}"


def _price(world: World, f: Facts, claim: NodeClaim) -> float | str:
    try:
        return price_of(Machine(claim=claim, node=f.node, quiet_since=f.now), world.prices)
    except ValueError:
        return ""  # before the labels are known; offerings have prices


def _offerings(world: World, f: Facts, known: str) -> Iterator[Entry]:
    """What the claim may request, in order, and what failed. `known`: a text whose causes are not repeated."""
    pool = counted_in(f.claim) if f.claim is not None else ""
    for one in f.offers:
        requested = f.instance is not None and f.instance.offering == one.offering
        when = f"again in {format_duration(one.available_in)} at the latest" if one.available_in > 0 else ""
        state = "requested" if requested else when or ("tried" if one.tried else "not requested yet")
        why = f"{one.reason}: {one.message}" if one.reason and one.message not in known else ""
        known += why
        zone = f"{world.region}-{one.offering.zone}" if one.offering.zone else REGIONAL
        price = world.prices.price(pool, one.offering.size, one.offering.capacity_type, zone)
        yield Entry(name=str(one.offering), answer=state, price=price, why=why)
