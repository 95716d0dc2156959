"""Machines that exist or are on their way, as the solver reads them.

A machine on its way offers what was counted on when it was bought: what others have shown meanwhile buys nothing for
its pods before its own Node shows whether they fit.

Source: docs/references/karpenter.md#scheduling, docs/adr/0063-purchase-brake.md.
"""

from collections.abc import Iterable, Mapping, Sequence

from cloudprovider.cloud import Cloud, InstanceOffering, InstanceType
from cloudprovider.interface import ON_DEMAND
from controllers.model.gpu_devices import declares_devices
from controllers.model.readiness import recorded_taints
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import NodeClassSpec
from provisioner.api.requirements import Requirements, allowed_values, combine, of_labels
from provisioner.api.value_sets import ABSENT, ANY, NEGATIVE, ValueSet, one_of
from provisioner.api.zones import REGIONAL, is_regional
from provisioner.vendors import is_other_device

from .nodepools import requirements
from .offered import DEFAULTS, is_plugged, offered
from .purchases import NOTHING, Purchase, purchase_of
from .solver import model
from .solver.resources import parse

# A Node has these taints before it is initialized; pods are expected to run once they are gone
# (docs/references/karpenter.md#scheduling).
EPHEMERAL_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "karpenter.sh/unregistered",
    }
)


def existing_node(
    node: Node | None,
    claim: NodeClaim | None,
    pods: tuple[model.BoundPod, ...],
    types: tuple[InstanceType, ...],
    settings: NodeClassSpec = DEFAULTS,
    *,
    cloud: Cloud,
    keeps_gpus: bool = False,
    overdue: bool = False,
) -> model.ExistingNode:
    """A Node, its NodeClaim, or both, with the pods on it. `settings`: of its node class.

    `keeps_gpus`: GPUs that the Node does not show now count as there. `overdue`: a Node that is not initialized counts
    as what it shows, not as what it is to become.

    Raises ValueError that names the field.
    """
    name = node.name if node is not None else claim.name if claim is not None else ""
    initialized = node is not None and (
        claim is None or overdue or node.metadata.labels.get(labels.INITIALIZED) == "true"
    )
    own_labels = {**(claim.metadata.labels if claim else {}), **(node.metadata.labels if node else {})}
    expected: Requirements = {}
    if claim is not None and not initialized:
        # The cloud node manager sets size and zone of a new Node after it has registered.
        expected = _expected(claim, own_labels, types, cloud)
    allowed = combine(of_labels(own_labels), expected)
    allowed.setdefault(labels.HOSTNAME, one_of((name,)))
    promise = NOTHING if claim is None or initialized else _promise(claim, own_labels)
    # What an initialized Node shows is all that it offers, but for GPUs that are expected back.
    size = None if claim is None or (initialized and not keeps_gpus) else _type(allowed, types, cloud, settings)
    capacity, allocatable = _size(node, None if initialized else claim, size, promise)
    if keeps_gpus:
        allocatable = _with_gpus(allocatable, size, settings)
    taints: tuple[Taint, ...] = node.spec.taints if node is not None else claim.spec.taints if claim else ()
    if node is None:
        possible = [offered(one, settings, cloud) for one in _types(allowed, types)]
        offerings = _offerings(possible, allowed)
        theirs = _common([one.requirements for one in possible]), _common([one.requirements for one in offerings])
        allowed = {**theirs[0], **theirs[1], **allowed}
        taints = tuple(dict.fromkeys((*taints, *(taint for one in offerings for taint in one.taints))))
    if not initialized:
        starting = (*claim.spec.startup_taints, *recorded_taints(claim)) if claim is not None else ()
        taints = tuple(t for t in taints if t.key not in EPHEMERAL_TAINTS and not any(t.matches(s) for s in starting))
    # kube-scheduler binds a pending pod to such a Node if no other has room; it waits for no other machine.
    taints = tuple(t for t in taints if t.effect != "PreferNoSchedule")
    return model.ExistingNode(
        name=name,
        requirements=allowed,
        taints=taints,
        allocatable=allocatable,
        pods=pods,
        node_pool=own_labels.get(labels.NODEPOOL, ""),
        capacity=capacity,
        planned=node is None,
        daemon_requests=promise.daemons if node is None and promise.allocatable else None,
    )


def _expected(claim: NodeClaim, known: Mapping[str, str], types: Iterable[InstanceType], cloud: Cloud) -> Requirements:
    """What its Node will have besides the labels that are known, as the cloud reads the claim's requirements.

    Without a requirement on the zone, the cloud places it outside all zones; of several zones the first one is
    requested first, and pods that need another one must not count on it. Without one on the capacity type it is on
    demand.
    """
    stated = claim.spec.requirements
    keys, added = {one.key for one in stated}, dict[str, ValueSet]()
    if labels.ZONE not in keys:
        zones = (offering.zone for kind in types for offering in kind.offerings)
        outside = next((zone for zone in zones if is_regional(zone)), REGIONAL)
        added[labels.ZONE] = one_of((outside,)) if outside else ABSENT
    elif listed := allowed_values(stated, labels.ZONE):
        added[labels.ZONE] = one_of(listed[:1])
    if labels.CAPACITY_TYPE not in keys:
        added[labels.CAPACITY_TYPE] = one_of((ON_DEMAND,))
    unknown = {key: allowed for key, allowed in added.items() if key not in known}
    return combine(requirements((one for one in stated if one.key not in known), cloud), unknown)


def _promise(claim: NodeClaim, own_labels: Mapping[str, str]) -> Purchase:
    """What was counted on when the machine was bought; nothing for one that became another size."""
    purchase = purchase_of(claim)
    size = own_labels.get(labels.INSTANCE_TYPE, purchase.instance_type)
    return purchase if size == purchase.instance_type else NOTHING


def _size(
    node: Node | None, claim: NodeClaim | None, size: InstanceType | None, promise: Purchase
) -> tuple[dict[str, int], dict[str, int]]:
    """Capacity and allocatable of the Node; what it lacks or reports as 0 comes from the purchase or the size.

    `claim`: None if only what the Node shows counts.
    """
    theirs = (parse(node.status.capacity), parse(node.status.allocatable)) if node is not None else ({}, {})
    if claim is None:
        return theirs
    capacity, allocatable = (dict(size.capacity), dict(size.allocatable)) if size is not None else ({}, {})
    capacity |= parse(claim.status.capacity)
    allocatable |= {**parse(claim.status.allocatable), **promise.allocatable}
    capacity |= {name: amount for name, amount in theirs[0].items() if amount}
    allocatable |= {name: amount for name, amount in theirs[1].items() if amount}
    return capacity, allocatable


def _type(
    requirements: dict[str, ValueSet], types: tuple[InstanceType, ...], cloud: Cloud, settings: NodeClassSpec
) -> InstanceType | None:
    """The cheapest instance type that the machine may have, as it offers it."""
    size = min(_types(requirements, types), key=_cheapest, default=None)
    return None if size is None else offered(size, settings, cloud)


def _types(requirements: Requirements, types: tuple[InstanceType, ...]) -> list[InstanceType]:
    """The instance types that the machine may have."""
    allowed = requirements.get(labels.INSTANCE_TYPE)
    return [one for one in types if allowed is not None and allowed.allows(one.name)]


def _offerings(types: Iterable[InstanceType], requirements: Requirements) -> list[InstanceOffering]:
    """The offerings that the machine may have."""
    terms, zones = requirements.get(labels.CAPACITY_TYPE, ANY), requirements.get(labels.ZONE, ANY)
    return [
        one
        for kind in types
        for one in kind.offerings
        if terms.allows(one.capacity_type) and (zones.allows(one.zone) if one.zone else zones.operator in NEGATIVE)
    ]


def _common(found: Sequence[Requirements]) -> Requirements:
    """The labels that the Node will bear whichever of these it has."""
    first, *others = found or ({},)
    return {key: one for key, one in first.items() if all(other.get(key) == one for other in others)}


def _with_gpus(allocatable: dict[str, int], size: InstanceType | None, settings: NodeClassSpec) -> dict[str, int]:
    """The resources of a Node with the devices that it is to have.

    One that shows other devices than its node class states is partitioned by others, and has no whole GPUs.
    """
    if not declares_devices(settings.gpu) and any(
        is_other_device(name) and found for name, found in allocatable.items()
    ):
        return allocatable
    gpus = {} if size is None else {name: size.allocatable[name] for name in size.allocatable if is_plugged(name)}
    return {**allocatable, **{name: max(amount, allocatable.get(name, 0)) for name, amount in gpus.items()}}


def _cheapest(kind: InstanceType) -> tuple[float, str]:
    prices = [one.price for one in kind.offerings if one.available and one.price is not None]
    return min(prices, default=1e6), kind.name
