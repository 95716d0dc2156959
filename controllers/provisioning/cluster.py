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
from controllers.nodeclaim.lifecycle.dra import DRA
from provisioner.api import labels
from provisioner.api.conditions import INITIALIZED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim, Requirement
from provisioner.api.nodepool import NodePool
from provisioner.api.owner import nodepool_of
from provisioner.api.resourceslice import ResourceSlice
from provisioner.api.schedulable import SchedulablePod

from .devices import claimed
from .existing import existing_node
from .free_devices import allocated_devices, slices_by_node, with_devices
from .nodepools import node_pool, why_unusable, with_capacity_type
from .offered import WHOLE_GPUS, NodeClasses, offered_types, settings_of
from .pods import CachedPod, bound, displaced, provisionable
from .podspecs import interchangeable
from .solver import model
from .volumes import ANYWHERE, both, compatible, volume_requirements

STATIC = "it is static: pending pods add no machine to spec.replicas"


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What the caches hold. `max_new`: how many agent pools may still be created. `storage`: the volumes of pods.

    `node_classes`: those that NodePools and NodeClaims refer to, by name. `gpus_required`: machines are not initialized
    without their GPUs. `slices`: the ResourceSlices of all Nodes.
    """

    node_pools: Sequence[NodePool]
    nodes: Sequence[Node]
    claims: Sequence[NodeClaim]
    pods: Sequence[SchedulablePod]
    daemons: tuple[model.PodSpec, ...] = ()
    max_new: int | None = None
    storage: Storage = Storage()
    node_classes: NodeClasses = {}
    gpus_required: bool = True
    slices: Sequence[ResourceSlice] = ()


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
            settings = settings_of(one.spec.template.spec.node_class_ref, observed.node_classes)
            own = offered_types(types, settings)
            pools.append(node_pool(with_capacity_type(one), [machine for machine, _ in everything], own))
        except ValueError as error:
            unusable[one.name] = str(error)
    specs, errors = list[tuple[str, model.PodSpec]](), dict[str, str]()
    first: dict[str, str] = {}
    for pod in demand(observed.pods, observed.nodes, observed.claims):
        named = [one.claim for one in pod.devices if one.claim]
        if shared := next((one for one in named if first.setdefault(one, pod.name) != pod.name), ""):
            # One allocation serves both: on the machine of the first one.
            errors[pod.name] = f"it waits for ResourceClaim {shared}, which is allocated for Pod {first[shared]} first"
            continue
        try:
            specs.append((pod.name, with_volumes(pod, observed.storage)))
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


def with_volumes(pod: CachedPod, storage: Storage) -> model.PodSpec:
    """The pod's constraints with those of its volumes and devices.

    Raises ValueError if no machine would help the pod.
    """
    if pod.error:
        raise ValueError(pod.error)
    found, requests = volume_requirements(pod.claims, storage), pod.constraints.requests
    if pod.devices:
        devices = claimed(pod.devices, storage.devices, bound=bool(pod.spec.node_name))
        found, requests = both(found or ANYWHERE, (devices.requirements,)), {**requests, **devices.requests}
        if not found:
            raise ValueError("no VM size has the GPUs that it claims where its volumes can be used")
    volumes = compatible(pod.constraints.alternatives, found)
    if not volumes and requests is pod.constraints.requests:
        return pod.constraints
    return msgspec.structs.replace(pod.constraints, volumes=volumes, requests=requests)


def machines(
    observed: Observed, types: tuple[model.InstanceType, ...]
) -> tuple[tuple[tuple[model.ExistingNode, bool], ...], tuple[tuple[Node | NodeClaim, str], ...]]:
    """All machines, and whether each is being removed; and the objects that cannot be read, each with the cause."""
    pods = bound(observed.pods)
    by_uid = {claim.uid: claim for claim in observed.claims}
    by_node = {claim.status.node_name: claim for claim in observed.claims if claim.status.node_name}
    found, with_node = list[tuple[model.ExistingNode, bool]](), set[str]()
    unreadable = list[tuple[Node | NodeClaim, str]]()
    slices, allocated = slices_by_node(observed.slices), allocated_devices(observed.storage.devices)
    for node in observed.nodes:
        claim = by_uid.get(node.metadata.labels.get(labels.CLAIM_UID, "")) or by_node.get(node.name)
        if claim is not None:
            with_node.add(claim.uid)
        leaving = node.deleting or (claim is not None and claim.deleting)
        try:
            settings = settings_of(claim.spec.node_class_ref, observed.node_classes) if claim else WHOLE_GPUS
            bound_pods, kept = tuple(pods.get(node.name, ())), _keeps_gpus(observed, claim)
            machine = existing_node(node, claim, bound_pods, types, settings, keeps_gpus=kept)
            if claim is not None and settings.mode == DRA:
                size = next((one for one in types if one.name == node.metadata.labels.get(labels.INSTANCE_TYPE)), None)
                own = slices.get(node.name, ())
                machine = with_devices(machine, node, claim, size=size, slices=own, allocated=allocated)
            found.append((machine, leaving))
        except ValueError as error:
            unreadable.append((node, str(error)))
    for claim in observed.claims:
        if claim.uid not in with_node:
            try:
                settings = settings_of(claim.spec.node_class_ref, observed.node_classes)
                found.append((existing_node(None, _expected(claim), (), types, settings), claim.deleting))
            except ValueError as error:
                unreadable.append((claim, str(error)))
    return tuple(found), tuple(unreadable)


def _keeps_gpus(observed: Observed, claim: NodeClaim | None) -> bool:
    """Whether GPUs that the Node does not show count as there.

    Until its NodeClaim states that they are lost they are expected within minutes, as when a device plugin starts or
    restarts: pods that became pending meanwhile are to wait for them.
    """
    if claim is None or claim.condition(INITIALIZED, "False") is not None:
        return False
    mode = claim.metadata.annotations.get(labels.GPU_READINESS, "require" if observed.gpus_required else "report")
    return mode != "report"


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
