"""Machines that exist or are on their way, as the solver reads them.

Source: docs/references/karpenter.md#scheduling.
"""

from controllers.model.gpu_devices import declares_devices, is_other_device
from controllers.model.readiness import recorded_taints
from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import GpuSettings
from provisioner.api.nodepool import PoolRequirement
from provisioner.api.value_sets import ValueSet, one_of

from .nodepools import requirements
from .offered import WHOLE_GPUS, is_plugged, offered
from .solver import model
from .solver.requirements import combine, of_labels
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
    types: tuple[model.InstanceType, ...],
    settings: GpuSettings = WHOLE_GPUS,
    *,
    keeps_gpus: bool = False,
) -> model.ExistingNode:
    """A Node, its NodeClaim, or both, with the pods on it. `settings`: of its node class.

    `keeps_gpus`: GPUs that the Node does not show now count as there.

    Raises ValueError that names the field.
    """
    name = node.name if node is not None else claim.name if claim is not None else ""
    initialized = node is not None and (claim is None or node.metadata.labels.get("karpenter.sh/initialized") == "true")
    own_labels = {**(claim.metadata.labels if claim else {}), **(node.metadata.labels if node else {})}
    expected: dict[str, ValueSet] = {}
    if claim is not None and not initialized:
        # The cloud node manager sets size and zone of a new Node after it has registered.
        expected = requirements(
            PoolRequirement(key=r.key, operator=r.operator, values=r.values)
            for r in claim.spec.requirements
            if r.key not in own_labels
        )
    allowed = combine(of_labels(own_labels), expected)
    allowed.setdefault(labels.HOSTNAME, one_of((name,)))
    capacity, allocatable = _size(node, claim, allowed, types, settings)
    if keeps_gpus:
        allocatable = _with_gpus(allocatable, allowed, types, settings)
    taints: tuple[Taint, ...] = node.spec.taints if node is not None else claim.spec.taints if claim else ()
    if not initialized:
        starting = (*claim.spec.startup_taints, *recorded_taints(claim)) if claim is not None else ()
        taints = tuple(t for t in taints if t.key not in EPHEMERAL_TAINTS and not any(t.matches(s) for s in starting))
    return model.ExistingNode(
        name=name,
        requirements=allowed,
        taints=taints,
        allocatable=allocatable,
        pods=pods,
        node_pool=own_labels.get(labels.NODEPOOL, ""),
        capacity=capacity,
        planned=node is None,
    )


def _size(
    node: Node | None,
    claim: NodeClaim | None,
    requirements: dict[str, ValueSet],
    types: tuple[model.InstanceType, ...],
    settings: GpuSettings,
) -> tuple[dict[str, int], dict[str, int]]:
    """Capacity and allocatable of the Node; what it lacks or reports as 0 comes from the NodeClaim or its size."""
    capacity, allocatable = dict[str, int](), dict[str, int]()
    if claim is not None:
        size = _type(requirements, types, settings)
        if size is not None:
            capacity, allocatable = dict(size.capacity), dict(size.allocatable)
        capacity |= parse(claim.status.capacity)
        allocatable |= parse(claim.status.allocatable)
    if node is not None:
        initialized = claim is None or node.metadata.labels.get("karpenter.sh/initialized") == "true"
        theirs = parse(node.status.capacity), parse(node.status.allocatable)
        if initialized:
            return theirs
        capacity |= {name: amount for name, amount in theirs[0].items() if amount}
        allocatable |= {name: amount for name, amount in theirs[1].items() if amount}
    return capacity, allocatable


def _type(
    requirements: dict[str, ValueSet], types: tuple[model.InstanceType, ...], settings: GpuSettings
) -> model.InstanceType | None:
    """The cheapest instance type that the machine may have, as it offers it."""
    allowed = requirements.get(labels.INSTANCE_TYPE)
    known = [one for one in types if allowed is not None and allowed.allows(one.name)]
    size = min(known, key=_cheapest, default=None)
    return None if size is None else offered(size, settings)


def _with_gpus(
    allocatable: dict[str, int],
    requirements: dict[str, ValueSet],
    types: tuple[model.InstanceType, ...],
    settings: GpuSettings,
) -> dict[str, int]:
    """The resources of a Node with the devices that it is to have.

    One that shows other devices than its node class states is partitioned by others, and has no whole GPUs.
    """
    if not declares_devices(settings) and any(is_other_device(name) and found for name, found in allocatable.items()):
        return allocatable
    size = _type(requirements, types, settings)
    gpus = {} if size is None else {name: size.allocatable[name] for name in size.allocatable if is_plugged(name)}
    return {**allocatable, **{name: max(amount, allocatable.get(name, 0)) for name, amount in gpus.items()}}


def _cheapest(kind: model.InstanceType) -> tuple[float, str]:
    prices = [one.price for one in kind.offerings if one.available and one.price is not None]
    return min(prices, default=1e6), kind.name
