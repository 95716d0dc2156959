"""The snapshot of a scheduling decision from the caches of the controller.

Machines that exist and NodeClaims whose Node has not appeared yet count as capacity; those that are being removed, or
whose replacements exist, count towards the limits of their NodePool only, and their pods need another place. An object
that cannot be read is left out and does not stop the others.

Source: docs/references/karpenter.md#scheduling, docs/references/rules.md#no-machine-is-bought-twice.
"""

from collections import Counter
from collections.abc import Mapping
from math import inf

import msgspec

from cloudprovider.cloud import InstanceType
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import is_own
from provisioner.api.nodepool import NodePool

from .demand import Braked, check_namespaces, demand, with_volumes
from .devices import note_of
from .instances import InstanceTypes
from .launchable import launchable
from .learned import corrected, known_types
from .machines import machines
from .nodepools import node_pool, why_unusable, with_capacity_type
from .observed import Observed
from .offered import offered_types, settings_of
from .pods import placed_pods
from .podspecs import interchangeable
from .solver import model
from .solver.comparisons import TooLargeError
from .solver.solver import Solver
from .volumes import Users

STATIC = "it is static: pending pods add no machine to spec.replicas"


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`errors`: why pods cannot be scheduled at all. `set_aside`: those of them whose constraints are too large.

    `places`: the machines as Events name them, by the name that the decision uses. `unusable`: why NodePools are left
    out. `unreadable`: why Nodes and NodeClaims do not count as machines. `notes`: what Events of pods add.
    """

    snapshot: model.Snapshot
    errors: Mapping[str, str]
    set_aside: frozenset[str]
    places: Mapping[str, str]
    unusable: Mapping[str, str]
    unreadable: tuple[tuple[Node | NodeClaim, str], ...]
    notes: Mapping[str, str] = {}


def cluster_snapshot(observed: Observed, types: InstanceTypes) -> ClusterSnapshot:
    """The snapshot of the provisionable pods."""
    cloud = types.cloud
    everything, unreadable = machines(observed, types)
    kept = tuple(machine for machine, leaving in everything if not leaving)
    pools, unusable = list[model.NodePool](), dict[str, str]()
    for one in observed.node_pools:
        if why := STATIC if one.spec.replicas is not None else why_unusable(one):
            unusable[one.name] = why
            continue
        try:
            own = _types(one, observed, types)
            pools.append(node_pool(with_capacity_type(one), [machine for machine, _ in everything], cloud, own))
        except ValueError as error:
            unusable[one.name] = str(error)
    specs, errors = list[tuple[str, model.PodSpec]](), dict[str, str]()
    set_aside, sharing, notes = set[str](), dict[str, tuple[str, ...]](), dict[str, str]()
    braked = Braked(observed.brake)
    users = Users((one.name, one.claims) for one in placed_pods(observed.pods))
    for pod in demand(observed.pods, observed.nodes, observed.claims, observed.replaced):
        try:
            check_namespaces(pod, observed)
            spec = braked(pod, with_volumes(pod, observed.storage, cloud))
            users.admit(pod.name, pod.claims, observed.storage)
            specs.append((pod.name, spec))
            if named := tuple(one.claim for one in pod.devices if one.claim):
                sharing[pod.name] = named
            if pod.devices and (note := note_of(pod.devices, observed.storage.devices)):
                notes[pod.name] = note
        except ValueError as error:
            errors[pod.name] = str(error)
            if isinstance(error, TooLargeError):
                set_aside.add(pod.name)
    bound_specs = {id(pod.spec): pod.spec for machine in kept for pod in machine.pods}
    made = model.Snapshot(
        pods=interchangeable(specs, bound_specs.values()),
        node_pools=tuple(pools),
        instance_types=types.types,
        daemons=observed.daemons,
        nodes=kept,
        well_known=types.well_known,
        max_new=observed.max_new,
        namespaces=None if observed.namespaces_error else observed.namespaces,
        quotas=observed.quotas,
    )
    if waiting := _waiting(made, sharing):
        errors |= waiting
        made = msgspec.structs.replace(made, pods=tuple(pod for pod in made.pods if pod.name not in waiting))
    return ClusterSnapshot(
        snapshot=made,
        errors=errors,
        set_aside=frozenset(set_aside),
        places=_places(observed),
        unusable=unusable,
        unreadable=unreadable,
        notes=notes,
    )


def _waiting(snapshot: model.Snapshot, sharing: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The pods that wait for the allocation of a ResourceClaim that they share. `sharing`: the claims of each pod.

    One allocation serves all: on the machine of the first pod that a machine could take.
    """
    users = Counter(claim for claims in sharing.values() for claim in claims)
    if all(number == 1 for number in users.values()):
        return {}
    pods = {pod.name: pod for pod in snapshot.pods}
    solver = Solver(msgspec.structs.replace(snapshot, pods=()))
    possible = {name for name in sharing if solver.bound([pods[name]]).alone < inf}
    taken, waiting = dict[str, str](), dict[str, str]()
    for name in sorted(sharing, key=lambda name: name not in possible):
        claims = sharing[name]
        if shared := next((one for one in claims if one in taken), ""):
            waiting[name] = f"it waits for ResourceClaim {shared}, which is allocated for Pod {taken[shared]} first"
        else:
            taken |= dict.fromkeys(claims, name)
    return waiting


def _types(pool: NodePool, observed: Observed, types: InstanceTypes) -> tuple[InstanceType, ...] | None:
    """The instance types as machines of the NodePool offer them, and as it can launch them; None: as they are."""
    reference = pool.spec.template.spec.node_class_ref
    node_class = observed.node_classes.get(reference.name) if is_own(reference) else None
    base = types.of_pool(pool.name)
    offered = offered_types(base, settings_of(reference, observed.node_classes), types.cloud)
    if offered is None and base is not types.types:
        offered = base
    own = base if offered is None else offered
    if node_class is not None:
        learned = observed.brake.learned.get(node_class.name, ()) if observed.brake else known_types(node_class)
        if learned:
            own = offered = corrected(own, learned)
    return launchable(own, node_class, observed.refused.get(pool.name, ()), types.cloud) or offered


def _places(observed: Observed) -> dict[str, str]:
    places = {claim.name: f"nodeclaim/{claim.name}" for claim in observed.claims}
    nodes = observed.claims_by_node().items()
    return places | {name: f"nodeclaim/{claim.name}, node/{name}" for name, claim in nodes}
