"""The snapshot of a scheduling decision from Kubernetes objects and instance types.

Source: docs/references/karpenter.md#scheduling.
"""

from collections.abc import Iterable, Mapping

import msgspec

from provisioner.api import labels
from provisioner.api.meta import EMPTY, Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodepool import NodePool, PoolRequirement
from provisioner.api.schedulable import Quantities, SchedulablePod, SelectorExpression

from .podspecs import interchangeable, label_requirements, podspec
from .solver import model
from .solver.requirements import ValueSet, combine, of_labels, one_of, stable_key, value_set
from .solver.resources import parse, total

WELL_KNOWN = frozenset(
    {
        labels.NODEPOOL,
        labels.ZONE,
        labels.REGION,
        labels.INSTANCE_TYPE,
        labels.ARCH,
        labels.OS,
        labels.CAPACITY_TYPE,
        "node.kubernetes.io/windows-build",
    }
)
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


class OfferingInput(msgspec.Struct, frozen=True, kw_only=True):
    """An offering of an instance type; the price is in USD an hour."""

    zone: str = msgspec.field(default="", name="Zone")
    capacity_type: str = msgspec.field(default="on-demand", name="CapacityType")
    price: float | None = msgspec.field(default=None, name="Price")
    available: bool = msgspec.field(default=True, name="Available")


class InstanceTypeInput(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type; `overhead`: what system and kubelet reserve, whole or divided by purpose."""

    name: str
    requirements: tuple[SelectorExpression, ...] = ()
    capacity: Quantities = EMPTY
    overhead: Mapping[str, str | int | float | dict[str, str | int | float] | None] = {}
    offerings: tuple[OfferingInput, ...] = ()


class NodeInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A Node, its NodeClaim, or both, and the pods that run on it."""

    node: Node | None = None
    node_claim: NodeClaim | None = None
    pods: tuple[SchedulablePod, ...] = ()


class Scenario(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All that one decision depends on. `max_new_node_claims`: how many NodeClaims may still be created."""

    node_pools: tuple[NodePool, ...] | None = ()
    instance_types: tuple[InstanceTypeInput, ...] | None = ()
    daemon_pods: tuple[SchedulablePod, ...] | None = ()
    nodes: tuple[NodeInput, ...] | None = ()
    pods: tuple[SchedulablePod, ...] | None = ()
    well_known_labels: tuple[str, ...] | None = ()
    max_new_node_claims: int | None = None


def snapshot(scenario: Scenario) -> tuple[model.Snapshot, dict[str, str]]:
    """The snapshot, and an error for each pod that cannot be decoded. Raises ValueError for any other object."""
    well_known = WELL_KNOWN | frozenset(stable_key(key) for key in scenario.well_known_labels or ())
    types = tuple(_instance_type(one) for one in scenario.instance_types or ())
    nodes = tuple(_node(one, types, well_known) for one in scenario.nodes or ())
    specs, errors = list[tuple[str, model.PodSpec]](), dict[str, str]()
    for one in scenario.pods or ():
        try:
            specs.append((one.name, podspec(one)))
        except ValueError as error:
            errors[one.name] = f"invalid Pod: {error}"
    bound = (pod.spec for node in nodes for pod in node.pods)
    made = model.Snapshot(
        pods=interchangeable(specs, bound),
        node_pools=tuple(_pool(one, nodes) for one in scenario.node_pools or () if _provisions(one)),
        instance_types=types,
        daemons=tuple(podspec(one) for one in scenario.daemon_pods or ()),
        nodes=nodes,
        well_known=well_known,
        max_new=scenario.max_new_node_claims,
    )
    return made, errors


def _provisions(pool: NodePool) -> bool:
    ready = next((c for c in pool.status.conditions if c.type == "Ready"), None)
    return pool.spec.replicas is None and not pool.metadata.deleting and (ready is None or ready.status == "True")


def _pool(pool: NodePool, nodes: Iterable[model.ExistingNode]) -> model.NodePool:
    template = pool.spec.template
    fixed = {
        **template.metadata.labels,
        labels.NODEPOOL: pool.name,
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
    }
    reference = template.spec.node_class_ref
    if reference.kind:
        fixed[f"{reference.group}/{reference.kind.lower()}"] = reference.name
    try:
        requirements = combine(of_labels(fixed), _requirements(template.spec.requirements))
        limits = parse(pool.spec.limits)
    except ValueError as error:
        raise ValueError(f"NodePool {pool.name}: {error}") from None
    own = [node for node in nodes if node.node_pool == pool.name]
    return model.NodePool(
        name=pool.name,
        requirements=requirements,
        taints=template.spec.taints,
        weight=pool.spec.weight or 0,
        limits=limits,
        used={**total(node.capacity for node in own), "nodes": 1000 * len(own)},
    )


def _requirements(found: Iterable[PoolRequirement]) -> dict[str, ValueSet]:
    combined: dict[str, ValueSet] = {}
    for one in found:
        try:
            wanted = value_set(one.operator, one.values, one.min_values or 0)
        except ValueError as error:
            raise ValueError(f"{one.key}: {error}") from None
        combined = combine(combined, {stable_key(one.key): wanted})
    return combined


def _instance_type(found: InstanceTypeInput) -> model.InstanceType:
    try:
        capacity = parse(found.capacity)
        overhead = _overhead(found.overhead)
        requirements = combine({labels.INSTANCE_TYPE: one_of((found.name,))}, label_requirements(found.requirements))
    except ValueError as error:
        raise ValueError(f"instance type {found.name}: {error}") from None
    return model.InstanceType(
        name=found.name,
        requirements=requirements,
        capacity=capacity,
        allocatable={name: max(0, amount - overhead.get(name, 0)) for name, amount in capacity.items()},
        offerings=tuple(
            model.Offering(
                zone=one.zone, capacity_type=one.capacity_type or "on-demand", price=one.price, available=one.available
            )
            for one in found.offerings
        ),
    )


def _overhead(found: Mapping[str, str | int | float | dict[str, str | int | float] | None]) -> dict[str, int]:
    """The sum of an overhead that is divided by purpose, such as kubeReserved, or the overhead itself."""
    parts = [parse(part) for part in found.values() if isinstance(part, dict)]
    flat = parse({name: part for name, part in found.items() if part is not None and not isinstance(part, dict)})
    return total((*parts, flat))


def _node(found: NodeInput, types: tuple[model.InstanceType, ...], well_known: frozenset[str]) -> model.ExistingNode:
    node, claim = found.node, found.node_claim
    if node is None and claim is None:
        raise ValueError("an entry of nodes has neither a node nor a nodeClaim")
    name = node.name if node is not None else claim.name if claim is not None else ""
    initialized = node is not None and (claim is None or node.metadata.labels.get("karpenter.sh/initialized") == "true")
    own_labels = {**(claim.metadata.labels if claim else {}), **(node.metadata.labels if node else {})}
    expected: dict[str, ValueSet] = {}
    if claim is not None and node is None:
        expected = _requirements(
            PoolRequirement(key=r.key, operator=r.operator, values=r.values) for r in claim.spec.requirements
        )
    requirements = combine(of_labels(own_labels), expected)
    requirements.setdefault(labels.HOSTNAME, one_of((name,)))
    capacity, allocatable = _size(node, claim, requirements, types)
    taints: tuple[Taint, ...] = node.spec.taints if node is not None else claim.spec.taints if claim else ()
    if not initialized:
        starting = claim.spec.startup_taints if claim is not None else ()
        taints = tuple(t for t in taints if t.key not in EPHEMERAL_TAINTS and not any(t.matches(s) for s in starting))
    return model.ExistingNode(
        name=name,
        requirements=requirements,
        taints=taints,
        allocatable=allocatable,
        pods=tuple(
            model.BoundPod(
                spec=podspec(one), daemon=any(owner.kind == "DaemonSet" for owner in one.metadata.owner_references)
            )
            for one in found.pods
        ),
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
