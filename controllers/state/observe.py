"""Gathering one key's facts, from caches and memory only.

No I/O and no decision; every moment becomes an age, so that a plan needs no clock.
"""

import math
from collections.abc import Callable
from datetime import datetime

import msgspec

from cloudprovider.interface import Gpus
from cloudprovider.inventory import Inventory
from controllers.garbagecollection import garbage
from controllers.model import adoption
from controllers.model.facts import Candidate, ClusterCounts, Facts, Unhealthy, Unlisted
from controllers.model.ownership import in_charge, managed, marks
from controllers.model.policy import Policy
from controllers.node.health import repair
from controllers.nodeclaim.lifecycle import initialization
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim

from .indexes import Indexes
from .memory import Memory, UnhealthyMemory, age
from .memory_updates import with_cause


def observe(
    key: str,
    *,
    indexes: Indexes,
    inventory: Inventory,
    memory: Memory,
    counts: Callable[[Facts], ClusterCounts],
    policy: Policy,
    gpus: Callable[[str], Gpus],
    wall: datetime,
    now: float,
) -> Facts:
    """The facts of `key` at the wall time `wall` and loop time `now`; keeps the memory's first sights up to date."""
    seen = cached_facts(key, indexes=indexes, inventory=inventory, policy=policy, wall=wall)
    seen = msgspec.structs.replace(seen, instance=with_cause(memory, seen.instance))
    memory.versions = indexes.versions(key)
    _keep_proof(memory, proven=seen.absence == "absent", present=seen.instance is not None, now=now)
    _keep_drains(memory, frozenset(node.uid for node in seen.nodes))
    facts = msgspec.structs.replace(
        seen,
        inventory_age=inventory.age(),
        own_write_pending=memory.expectation is not None and not indexes.shows(memory.expectation),
        settles_in=inventory.settles_in(key),
        proof_age=age(memory.proof_at, now),
        pool_read_age=age(memory.pool_read_at, now),
        claim_read_age=age(memory.claim_read_at, now),
        claim_read=memory.claim_read,
        nodes_known_age=age(memory.nodes_known_at, now),
        nodes_read_age=age(memory.nodes_read_at, now),
        nodes_read=memory.nodes_read,
        cluster=inventory.cluster,
        cluster_age=inventory.cluster_age(),
        crd_deleting=seen.crd_deleting or _goes_with(seen.claim, _read_for(seen.claim, memory)),
        crd_known=seen.claim is None or not seen.claim.deleting or memory.crd_read.for_uid == seen.claim.uid,
        create_failed=memory.create_failed.as_fact(now) if memory.create_failed is not None else None,
        delete_failed=memory.delete_failed.as_fact(now) if memory.delete_failed is not None else None,
        read_failed=memory.read_failed.as_fact(now) if memory.read_failed is not None else None,
        refused=_refused(memory, now),
        refused_for=_refused_for(memory, now),
        drains={uid: drain.as_fact(now) for uid, drain in memory.drains.items()},
    )
    facts = msgspec.structs.replace(facts, gpus=gpus(_size(facts)))
    facts = msgspec.structs.replace(facts, gpu_short_age=_first_sight_of_short_gpus(memory, facts, now))
    facts = msgspec.structs.replace(facts, unhealthy=_first_sight_of_sickness(memory, facts, now))
    facts = msgspec.structs.replace(facts, candidate=_first_sight_of_garbage(memory, facts, now))
    return msgspec.structs.replace(facts, counts=counts(facts))


def _keep_drains(memory: Memory, uids: frozenset[str]) -> None:
    """What was remembered of a Node goes with it."""
    for uid in [uid for uid in memory.drains if uid not in uids]:
        del memory.drains[uid]


def cached_facts(key: str, *, indexes: Indexes, inventory: Inventory, policy: Policy, wall: datetime) -> Facts:
    """What the caches alone say of `key`: enough to tell whether it looks like garbage."""
    instance, nodes = inventory.get(key), indexes.nodes_of(key)
    marked_for = marks(instance) if instance is not None else frozenset()
    claims: list[NodeClaim] = []
    refused: dict[str, str] = {}
    for one in indexes.claims_of(key):
        if not (managed(one) or one.uid in marked_for):
            continue
        why = adoption.refusal(one, instance=instance, nodes=nodes, living=indexes.claim_of_uid)
        if why:
            refused[one.uid] = why
        claims.append(adoption.without(one) if why else one)
    ordered = in_charge(claims, instance)
    claim, crd = ordered[0] if ordered else None, indexes.crd
    return Facts(
        key=key,
        now=wall,
        policy=policy,
        claims=ordered,
        nodes=nodes,
        instance=instance,
        kube_synced=indexes.synced,
        kube_current=indexes.current,
        inventory_synced=inventory.synced,
        unlisted=_unlisted(inventory),
        absence=inventory.absence(key),
        crd_deleting=_goes_with(claim, crd.metadata.deletion_timestamp if crd is not None else None),
        crd_created=crd.metadata.creation_timestamp if crd is not None else None,
        adoption_refused=refused.get(claim.uid, "") if claim is not None else "",
    )


def _unlisted(inventory: Inventory) -> Unlisted | None:
    error = inventory.list_error
    return Unlisted(reason=error.reason, message=error.message) if error is not None else None


def _goes_with(claim: NodeClaim | None, crd_deleted_at: datetime | None) -> bool:
    """Whether this claim goes because its CRD does: whoever was asked to go before that was asked for by name."""
    asked = claim.metadata.deletion_timestamp if claim is not None else None
    return asked is not None and crd_deleted_at is not None and asked >= crd_deleted_at


def _read_for(claim: NodeClaim | None, memory: Memory) -> datetime | None:
    read = memory.crd_read
    return read.deleted_at if claim is not None and read.for_uid == claim.uid else None


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


def _first_sight_of_sickness(memory: Memory, facts: Facts, now: float) -> Unhealthy | None:
    """Time counts only while cluster and pool are at rest: what was stopped needs time to come back."""
    node, known = repair.unhealthy_node(facts), memory.unhealthy
    if node is None:
        memory.unhealthy = None
        return None
    if known is None or known.node_uid != node.uid:
        known = UnhealthyMemory(node_uid=node.uid, since=now - repair.reported_seconds(facts, node), watched_at=now)
        memory.unhealthy = known
    if garbage.in_maintenance(facts):
        known.since = known.watched_at = now
    return Unhealthy(
        age=now - known.since,
        watched=now - known.watched_at,
        remedies=known.remedies,
        remedies_age=age(known.remedies_read_at, now),
    )


def _first_sight_of_garbage(memory: Memory, facts: Facts, now: float) -> Candidate | None:
    cause = garbage.candidate_cause(facts)
    if cause is None:
        memory.candidate_seen = None
        return None
    if memory.candidate_seen is None or memory.candidate_seen[0] != cause:
        memory.candidate_seen = (cause, now)
    return Candidate(cause=cause, age=now - memory.candidate_seen[1])
