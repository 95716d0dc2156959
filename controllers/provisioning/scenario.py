"""The snapshot of a scheduling decision from Kubernetes objects and instance types.

Source: docs/references/karpenter.md#scheduling.
"""

from collections.abc import Mapping

import msgspec

from cloudprovider.cloud import Cloud, InstanceOffering, InstanceType
from provisioner.api import labels
from provisioner.api.meta import EMPTY, Taint
from provisioner.api.namespace import Namespace
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.api.requirements import Requirement, combine, normalise_key, of_entries
from provisioner.api.schedulable import Quantities, SchedulablePod
from provisioner.api.value_sets import one_of

from .existing import existing_node
from .instances import WELL_KNOWN, InstanceTypes
from .nodepools import node_pool, provisions
from .offered import DEFAULTS, NodeClasses, offered_types, settings_of
from .podspecs import interchangeable, podspec
from .solver import model
from .solver.resources import parse, total


class OfferingInput(msgspec.Struct, frozen=True, kw_only=True):
    """An offering of an instance type; see `InstanceOffering`."""

    zone: str = msgspec.field(default="", name="Zone")
    capacity_type: str = msgspec.field(default="on-demand", name="CapacityType")
    price: float | None = msgspec.field(default=None, name="Price")
    order_price: float | None = msgspec.field(default=None, name="OrderPrice")
    available: bool = msgspec.field(default=True, name="Available")
    cause: str = msgspec.field(default="", name="Cause")
    requirements: tuple[Requirement, ...] = msgspec.field(default=(), name="Labels")
    taints: tuple[Taint, ...] = msgspec.field(default=(), name="Taints")
    quotas: Mapping[str, int] = msgspec.field(default={}, name="Quotas")


class InstanceTypeInput(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type; `overhead`: what system and kubelet reserve, whole or divided by purpose."""

    name: str
    requirements: tuple[Requirement, ...] = ()
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
    node_classes: tuple[AgentPoolNodeClass, ...] | None = ()
    namespaces: tuple[Namespace, ...] | None = ()
    max_new_node_claims: int | None = None


def snapshot(scenario: Scenario, offered: InstanceTypes) -> tuple[model.Snapshot, dict[str, str]]:
    """The snapshot, and an error for each pod that cannot be decoded. Raises ValueError for any other object."""
    types, cloud = offered.types, offered.cloud
    classes = {one.name: one for one in scenario.node_classes or ()}
    nodes = tuple(_node(one, types, classes, cloud) for one in scenario.nodes or ())
    specs, errors = list[tuple[str, model.PodSpec]](), dict[str, str]()
    for one in scenario.pods or ():
        try:
            specs.append((one.name, podspec(one)))
        except ValueError as error:
            errors[one.name] = f"invalid Pod: {error}"
    bound = (pod.spec for node in nodes for pod in node.pods)
    made = model.Snapshot(
        pods=interchangeable(specs, bound),
        node_pools=tuple(
            _node_pool(one, nodes, types, classes, cloud) for one in scenario.node_pools or () if provisions(one)
        ),
        instance_types=types,
        daemons=tuple(podspec(one) for one in scenario.daemon_pods or ()),
        nodes=nodes,
        well_known=offered.well_known,
        max_new=scenario.max_new_node_claims,
        namespaces={one.metadata.name: one.metadata.labels for one in scenario.namespaces or ()},
    )
    return made, errors


def types_of(scenario: Scenario, cloud: Cloud) -> InstanceTypes:
    """The instance types that the scenario states. Raises ValueError that names the field."""
    named = frozenset(normalise_key(key) for key in scenario.well_known_labels or ())
    types = tuple(_instance_type(one) for one in scenario.instance_types or ())
    return InstanceTypes(types=types, well_known=WELL_KNOWN | named, cloud=cloud)


def _instance_type(found: InstanceTypeInput) -> InstanceType:
    try:
        capacity = parse(found.capacity)
        overhead = _overhead(found.overhead)
        requirements = combine({labels.INSTANCE_TYPE: one_of((found.name,))}, of_entries(found.requirements))
    except ValueError as error:
        raise ValueError(f"instance type {found.name}: {error}") from None
    return InstanceType(
        name=found.name,
        requirements=requirements,
        capacity=capacity,
        allocatable={name: max(0, amount - overhead.get(name, 0)) for name, amount in capacity.items()},
        offerings=tuple(
            InstanceOffering(
                zone=one.zone,
                capacity_type=one.capacity_type or "on-demand",
                price=one.price,
                order_price=one.order_price,
                available=one.available,
                cause=one.cause,
                requirements=of_entries(one.requirements),
                taints=one.taints,
                quotas=one.quotas,
            )
            for one in found.offerings
        ),
    )


def _overhead(found: Mapping[str, str | int | float | dict[str, str | int | float] | None]) -> dict[str, int]:
    """The sum of an overhead that is divided by purpose, such as kubeReserved, or the overhead itself."""
    parts = [parse(part) for part in found.values() if isinstance(part, dict)]
    flat = parse({name: part for name, part in found.items() if part is not None and not isinstance(part, dict)})
    return total((*parts, flat))


def _node_pool(
    found: NodePool,
    nodes: tuple[model.ExistingNode, ...],
    types: tuple[InstanceType, ...],
    classes: NodeClasses,
    cloud: Cloud,
) -> model.NodePool:
    settings = settings_of(found.spec.template.spec.node_class_ref, classes)
    return node_pool(found, nodes, cloud, offered_types(types, settings, cloud))


def _node(found: NodeInput, types: tuple[InstanceType, ...], classes: NodeClasses, cloud: Cloud) -> model.ExistingNode:
    if found.node is None and found.node_claim is None:
        raise ValueError("an entry of nodes has neither a node nor a nodeClaim")
    pods = tuple(
        model.BoundPod(
            spec=msgspec.structs.replace(podspec(one), terminating=one.metadata.deleting),
            daemon=one.metadata.daemon_set is not None,
        )
        for one in found.pods
    )
    claim = found.node_claim
    settings = settings_of(claim.spec.node_class_ref, classes) if claim is not None else DEFAULTS
    return existing_node(found.node, claim, pods, types, settings, cloud=cloud)
