"""Machines that exist or are on their way, as the solver reads them.

Source: docs/references/karpenter.md#scheduling.
"""

from provisioner.api import labels
from provisioner.api.meta import Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import PoolRequirement
from provisioner.api.value_sets import ValueSet, one_of

from .nodepools import requirements
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
    node: Node | None, claim: NodeClaim | None, pods: tuple[model.BoundPod, ...], types: tuple[model.InstanceType, ...]
) -> model.ExistingNode:
    """A Node, its NodeClaim, or both, with the pods on it. Raises ValueError that names the field."""
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
    capacity, allocatable = _size(node, claim, allowed, types)
    taints: tuple[Taint, ...] = node.spec.taints if node is not None else claim.spec.taints if claim else ()
    if not initialized:
        starting = claim.spec.startup_taints if claim is not None else ()
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
    node: Node | None, claim: NodeClaim | None, requirements: dict[str, ValueSet], types: tuple[model.InstanceType, ...]
) -> tuple[dict[str, int], dict[str, int]]:
    """Capacity and allocatable of the Node; what it lacks or reports as 0 comes from the NodeClaim or its size."""
    capacity, allocatable = dict[str, int](), dict[str, int]()
    allowed = requirements.get(labels.INSTANCE_TYPE)
    if claim is not None:
        known = [one for one in types if allowed is not None and allowed.allows(one.name)]
        size = min(known, key=_cheapest, default=None)
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


def _cheapest(kind: model.InstanceType) -> tuple[float, str]:
    prices = [one.price for one in kind.offerings if one.available and one.price is not None]
    return min(prices, default=1e6), kind.name
