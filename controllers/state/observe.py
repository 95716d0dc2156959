"""Builds one key's Facts from caches and memory: no I/O, no decisions, no side effects."""

import math
from collections.abc import Callable
from datetime import datetime

from cloudprovider.errors import CloudError
from cloudprovider.interface import Gpus, Identity, Instance, identify
from cloudprovider.inventory import Inventory
from controllers.model import adoption
from controllers.model.crd_deletion import CRD_NAMES, NODECLAIM_CRD, Crds, deleted_with
from controllers.model.facts import Facts
from controllers.model.failures import CloudFailure, wrong_cluster
from controllers.model.ownership import in_charge, managed
from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim

from .indexes import Indexes
from .memory import CrdRead, Memory, age
from .memory_updates import with_cause
from .readiness_rules import ReadinessRules


def observe(
    key: str,
    *,
    indexes: Indexes,
    inventory: Inventory,
    memory: Memory,
    policy: Policy,
    gpus: Callable[[str], Gpus],
    wall: datetime,
    now: float,
    readiness: ReadinessRules | None = None,
) -> Facts:
    """The facts of `key` at the wall time `wall` and the loop time `now`. `gpus` maps a VM size to its GPUs.

    `readiness` None: without readiness rules.
    """
    # The pools of another cluster say nothing about the machines of this one.
    group = inventory.node_resource_group
    identity = identify(indexes.resource_groups(), group)
    other = identity is Identity.OTHER
    instance, nodes = None if other else with_cause(memory, inventory.get(key)), indexes.nodes_of(key)
    claims, adoption_refused = _claims(key, indexes, instance, nodes, inventory)
    slices, slices_error = indexes.slices_of(key)
    node_class, node_class_known = indexes.node_class_of(claims[0]) if claims else (None, False)
    claim, seen = claims[0] if claims else None, memory.first_sights
    read = memory.crd_read if claim is not None and memory.crd_read.for_uid == claim.uid else None
    facts = Facts(
        key=key,
        now=wall,
        loop_now=now,
        policy=policy,
        claims=claims,
        nodes=nodes,
        instance=instance,
        node_class=node_class,
        node_class_known=node_class_known,
        slices=slices,
        slices_error=slices_error,
        gpus=gpus(_size(claims, nodes, instance)),
        kube_synced=indexes.synced,
        kube_current=indexes.current,
        inventory_synced=inventory.synced and not other,
        list_failed=wrong_cluster(group) if other else _list_failure(inventory.list_error),
        inventory_age=inventory.age(),
        absence="unknown" if other else inventory.absence(key),
        settles_in=inventory.settles_in(key),
        proof_age=age(memory.proof_at, now),
        pool_read_age=age(memory.pool_read_at, now),
        claim_read_age=age(memory.claim_read_at, now),
        claim_read=memory.claim_read,
        nodes_known_age=age(memory.nodes_known_at, now),
        node_write_age=age(memory.node_write.at if memory.node_write is not None else None, now),
        nodes_read_age=age(memory.nodes_read_at, now),
        nodes_read=memory.nodes_read,
        cluster=inventory.cluster,
        cluster_confirmed=identity is Identity.SAME,
        cluster_age=inventory.cluster_age(),
        deleted_with_crd=_deleted_with(claim, indexes.crds, read),
        crd_known=claim is None or not claim.deleting or read is not None,
        crd_created=_crd_created(instance, indexes.crds),
        adoption_refused=adoption_refused,
        create_failed=memory.create_failed,
        delete_failed=memory.delete_failed,
        read_failed=memory.read_failed,
        refused={step: refusal.message for step, refusal in memory.refused.items()},
        refused_for=min((one.seconds - (now - one.at) for one in memory.refused.values()), default=math.inf),
        drains=dict(memory.drains),
        workloads=memory.workloads,
        candidate=seen.candidate,
        unhealthy=seen.unhealthy,
        devices=seen.devices,
        gpu_short_since=seen.gpu_short_since,
    )
    return facts if readiness is None else readiness.added_to(facts)


def _claims(
    key: str, indexes: Indexes, instance: Instance | None, nodes: tuple[Node, ...], inventory: Inventory
) -> tuple[tuple[NodeClaim, ...], str]:
    """The claims of this key, the one in charge first, and why an adoption annotated on that one is invalid.

    An invalid annotation is removed from the claim that the rules see.
    """
    marked_for = instance.marks if instance is not None else frozenset()
    claims: list[NodeClaim] = []
    refused: dict[str, str] = {}
    for one in indexes.claims_of(key):
        if not (managed(one) or one.uid in marked_for):
            continue
        why = adoption.refusal(one, instance=instance, nodes=nodes, living=indexes.claim_of_uid, pools=inventory.items)
        if why:
            refused[one.uid] = why
        claims.append(adoption.without(one) if why else one)
    ordered = in_charge(claims, instance)
    return ordered, refused.get(ordered[0].uid, "") if ordered else ""


def _list_failure(error: CloudError | None) -> CloudFailure | None:
    return None if error is None else CloudFailure(kind=error.kind, reason=error.reason, message=error.message)


def _deleted_with(claim: NodeClaim | None, cached: Crds, read: CrdRead | None) -> str:
    """The CRD with which this claim was deleted: by the fresh read, and until there is one by the cache."""
    if claim is None:
        return ""
    return read.deleted_with if read is not None else deleted_with(claim, cached)


def _crd_created(instance: Instance | None, crds: Crds) -> datetime | None:
    """When the youngest CRD was created with whose deletion the claim of this pool would have been deleted.

    Pools of other claims are labeled as well: with the name that KAITO uses for all of its own.
    """
    pool = instance.labels.get(labels.NODEPOOL, "") if instance is not None else ""
    names = CRD_NAMES if pool not in ("", labels.DEFAULT_NODEPOOL) else (NODECLAIM_CRD,)
    created = (crd.metadata.creation_timestamp for name in names if (crd := crds.get(name)) is not None)
    return max(created, default=None)


def _size(claims: tuple[NodeClaim, ...], nodes: tuple[Node, ...], instance: Instance | None) -> str:
    """The VM size by the pool, else by the Node's label, else by the claim's."""
    if instance is not None and instance.size:
        return instance.size
    labeled = (*(node.metadata for node in nodes), *(claim.metadata for claim in claims))
    return next((size for meta in labeled if (size := meta.labels.get(labels.INSTANCE_TYPE))), "")
