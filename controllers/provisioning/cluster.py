"""The snapshot of a scheduling decision from the caches of the controller.

Machines that exist and NodeClaims whose Node has not appeared yet count as capacity; those that are being removed count
towards the limits of their NodePool only, and their pods need another place. An object that cannot be read is left out
and does not stop the others.

Source: docs/references/karpenter.md#scheduling, docs/references/rules.md#no-machine-is-bought-twice.
"""

from collections.abc import Mapping, Sequence

import msgspec

from cloudprovider.interface import ON_DEMAND
from controllers.model.storage import Storage
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim, Requirement
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of
from provisioner.api.schedulable import SchedulablePod

from .existing import existing_node
from .nodepools import node_pool, why_unusable, with_capacity_type
from .pods import CachedPod, bound, displaced, provisionable
from .podspecs import interchangeable
from .solver import model
from .volumes import compatible, volume_requirements

STATIC = "it is static: pending pods add no machine to spec.replicas"


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What the caches hold. `max_new`: how many agent pools may still be created. `storage`: the volumes of pods."""

    node_pools: Sequence[NodePool]
    nodes: Sequence[Node]
    claims: Sequence[NodeClaim]
    pods: Sequence[SchedulablePod]
    daemons: tuple[model.PodSpec, ...] = ()
    max_new: int | None = None
    storage: Storage = Storage()


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`errors`: why pods cannot be scheduled at all.

    `places`: the machines as Events name them, by the name that the decision uses. `unusable`: why NodePools are left
    out. `unreadable`: why Nodes and NodeClaims do not count as machines.
    """

    snapshot: model.Snapshot
    errors: Mapping[str, str]
    places: Mapping[str, str]
    unusable: Mapping[str, str]
    unreadable: tuple[tuple[Node | NodeClaim, str], ...]


def cluster_snapshot(
    observed: Observed, types: tuple[model.InstanceType, ...], well_known: frozenset[str]
) -> ClusterSnapshot:
    """The snapshot of the provisionable pods."""
    everything, unreadable = machines(observed, types)
    kept = tuple(machine for machine, leaving in everything if not leaving)
    pools, unusable = list[model.NodePool](), dict[str, str]()
    for one in observed.node_pools:
        if why := STATIC if one.spec.replicas is not None else why_unusable(one):
            unusable[one.name] = why
            continue
        try:
            pools.append(node_pool(with_capacity_type(one), [machine for machine, _ in everything]))
        except ValueError as error:
            unusable[one.name] = str(error)
    specs, errors = list[tuple[str, model.PodSpec]](), dict[str, str]()
    for pod in demand(observed.pods, observed.nodes, observed.claims):
        try:
            specs.append((pod.name, _with_volumes(pod, observed.storage)))
        except ValueError as error:
            errors[pod.name] = str(error)
    bound_specs = {id(pod.spec): pod.spec for machine in kept for pod in machine.pods}
    made = model.Snapshot(
        pods=interchangeable(specs, bound_specs.values()),
        node_pools=tuple(pools),
        instance_types=types,
        daemons=observed.daemons,
        nodes=kept,
        well_known=well_known,
        max_new=observed.max_new,
    )
    return ClusterSnapshot(
        snapshot=made, errors=errors, places=_places(observed), unusable=unusable, unreadable=unreadable
    )


def demand(pods: Sequence[SchedulablePod], nodes: Sequence[Node], claims: Sequence[NodeClaim]) -> tuple[CachedPod, ...]:
    """The pods that need a place: pending ones, then those of NodePools' machines that are being removed."""
    removed = {node.name for node in nodes if node.deleting}
    leaving = {
        claim.status.node_name
        for claim in claims
        if nodepool_of(claim) is not None and (claim.deleting or claim.status.node_name in removed)
    }
    return (*provisionable(pods), *displaced(pods, leaving))


def _with_volumes(pod: CachedPod, storage: Storage) -> model.PodSpec:
    """The pod's constraints with those of its volumes. Raises ValueError if no machine would help the pod."""
    if pod.error:
        raise ValueError(pod.error)
    volumes = compatible(pod.constraints.alternatives, volume_requirements(pod.claims, storage))
    return msgspec.structs.replace(pod.constraints, volumes=volumes) if volumes else pod.constraints


def machines(
    observed: Observed, types: tuple[model.InstanceType, ...]
) -> tuple[tuple[tuple[model.ExistingNode, bool], ...], tuple[tuple[Node | NodeClaim, str], ...]]:
    """All machines, and whether each is being removed; and the objects that cannot be read, each with the cause."""
    pods = bound(observed.pods)
    by_uid = {claim.uid: claim for claim in observed.claims}
    by_node = {claim.status.node_name: claim for claim in observed.claims if claim.status.node_name}
    found, with_node = list[tuple[model.ExistingNode, bool]](), set[str]()
    unreadable = list[tuple[Node | NodeClaim, str]]()
    for node in observed.nodes:
        claim = by_uid.get(node.metadata.labels.get(labels.CLAIM_UID, "")) or by_node.get(node.name)
        if claim is not None:
            with_node.add(claim.uid)
        leaving = node.deleting or (claim is not None and claim.deleting)
        try:
            found.append((existing_node(node, claim, tuple(pods.get(node.name, ())), types), leaving))
        except ValueError as error:
            unreadable.append((node, str(error)))
    for claim in observed.claims:
        if claim.uid not in with_node:
            try:
                found.append((existing_node(None, _expected(claim), (), types), claim.deleting))
            except ValueError as error:
                unreadable.append((claim, str(error)))
    return tuple(found), tuple(unreadable)


def _expected(claim: NodeClaim) -> NodeClaim:
    """The claim with what its Node will have, as `cloudprovider.azure.offerings` reads its requirements.

    Without a requirement on the zone, Azure places it outside all zones; without one on the capacity type it is
    on demand.
    """
    required = {one.key for one in claim.spec.requirements}
    implied = (
        Requirement(key=labels.ZONE, operator="DoesNotExist"),
        Requirement(key=labels.CAPACITY_TYPE, operator="In", values=(ON_DEMAND,)),
    )
    added = [one for one in implied if one.key not in required]
    if not added:
        return claim
    spec = msgspec.structs.replace(claim.spec, requirements=(*claim.spec.requirements, *added))
    return msgspec.structs.replace(claim, spec=spec)


def _places(observed: Observed) -> dict[str, str]:
    places = {claim.name: f"nodeclaim/{claim.name}" for claim in observed.claims}
    nodes = {claim.status.node_name: claim.name for claim in observed.claims if claim.status.node_name}
    return places | {name: f"nodeclaim/{claim}, node/{name}" for name, claim in nodes.items()}
