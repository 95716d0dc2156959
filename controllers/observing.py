"""Gathering one key's facts, from caches and memory only.

Promise: no I/O and no decision; every moment becomes an age, so that a plan needs no clock.
Left to others: the caches (`views.py`, the inventory), what the facts lead to (`plan.py`).
"""

import math
from collections.abc import Callable
from datetime import datetime

import msgspec

from cloudprovider.inventory import Inventory
from provisioner.api import labels

from . import garbage, initialization
from .facts import Facts, Fleet, Gpus, Suspicion
from .memory import Memory, age
from .ownership import in_charge, managed, marks
from .policy import Policy
from .views import Views


def observe(
    key: str,
    *,
    views: Views,
    inventory: Inventory,
    memory: Memory,
    fleet: Callable[[Facts], Fleet],
    policy: Policy,
    gpus: Callable[[str], Gpus],
    wall: datetime,
    now: float,
) -> Facts:
    """The facts of `key` at the wall time `wall` and loop time `now`; keeps the memory's first sights up to date."""
    instance = inventory.get(key)
    uids = marks(instance) if instance is not None else frozenset()
    claims = in_charge((c for c in views.claims_of(key) if managed(c) or c.uid in uids), instance)
    absence = inventory.absence(key)
    memory.versions = views.versions(key)
    _keep_proof(memory, proven=absence == "absent", present=instance is not None, now=now)
    nodes = views.nodes_of(key)
    _keep_drains(memory, frozenset(node.uid for node in nodes))
    facts = Facts(
        key=key,
        now=wall,
        policy=policy,
        claims=claims,
        nodes=nodes,
        instance=instance,
        kube_synced=views.synced,
        inventory_synced=inventory.synced,
        inventory_age=inventory.age(),
        own_write_pending=memory.barrier is not None and not views.shows(memory.barrier),
        absence=absence,
        settles_in=inventory.settles_in(key),
        proof_age=age(memory.proof_at, now),
        pool_read_age=age(memory.pool_read_at, now),
        claim_read_age=age(memory.claim_read_at, now),
        claim_read=memory.claim_read,
        nodes_known_age=age(memory.nodes_known_at, now),
        cluster=inventory.cluster,
        crd_deleting=views.crd_deleting,
        create_failed=memory.create_failed.as_fact(now) if memory.create_failed is not None else None,
        delete_failed=memory.delete_failed.as_fact(now) if memory.delete_failed is not None else None,
        read_failed=memory.read_failed.as_fact(now) if memory.read_failed is not None else None,
        refused=_refused(memory, now),
        refused_for=_refused_for(memory, now),
        drains={uid: drain.as_fact(now) for uid, drain in memory.drains.items()},
    )
    facts = msgspec.structs.replace(facts, gpus=gpus(_size(facts)))
    facts = msgspec.structs.replace(facts, gpu_short_age=_first_sight_of_short_gpus(memory, facts, now))
    facts = msgspec.structs.replace(facts, suspicion=_first_sight_of_garbage(memory, facts, now))
    return msgspec.structs.replace(facts, fleet=fleet(facts))


def _keep_drains(memory: Memory, uids: frozenset[str]) -> None:
    """What was remembered of a Node goes with it."""
    for uid in [uid for uid in memory.drains if uid not in uids]:
        del memory.drains[uid]


def _keep_proof(memory: Memory, *, proven: bool, present: bool, now: float) -> None:
    """When the absence was proven; for a pool that is somebody else's, the fresh look at it is the proof."""
    if present:
        memory.proof_at = memory.pool_read_at
    elif not proven:
        memory.proof_at = None
    elif memory.proof_at is None:
        memory.proof_at = now


def _size(f: Facts) -> str:
    """The machine's size as the pool says it, else the Node, else the claim's own column."""
    if f.instance is not None and f.instance.size:
        return f.instance.size
    told = (*(node.metadata for node in f.nodes), *(claim.metadata for claim in f.claims))
    return next((size for meta in told if (size := meta.labels.get(labels.INSTANCE_TYPE))), "")


def _refused(memory: Memory, now: float) -> dict[str, str]:
    """Steps that the API server refused, while their object is as it was then and not too long ago, and its words."""
    for step, refusal in list(memory.refused.items()):
        if memory.versions[refusal.about] != refusal.version or now - refusal.at >= refusal.seconds:
            del memory.refused[step]
    return {step: refusal.said for step, refusal in memory.refused.items()}


def _refused_for(memory: Memory, now: float) -> float:
    """Seconds until the first of what is still refused is due again."""
    return min((one.seconds - (now - one.at) for one in memory.refused.values()), default=math.inf)


def _first_sight_of_short_gpus(memory: Memory, facts: Facts, now: float) -> float:
    if not initialization.gpu_short(facts):
        memory.gpu_short_at = None
        return 0.0
    memory.gpu_short_at = now if memory.gpu_short_at is None else memory.gpu_short_at
    return now - memory.gpu_short_at


def _first_sight_of_garbage(memory: Memory, facts: Facts, now: float) -> Suspicion | None:
    cause = garbage.suspect(facts)
    if cause is None:
        memory.suspected = None
        return None
    if memory.suspected is None or memory.suspected[0] != cause:
        memory.suspected = (cause, now)
    return Suspicion(cause=cause, age=now - memory.suspected[1])
