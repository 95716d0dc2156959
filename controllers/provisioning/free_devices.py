"""The devices of a machine of a DRA driver that pods can still claim.

Of a complete pool those count that no ResourceClaim has, nor a partition of them, and that have no taint. While the
driver restarts, its pool is incomplete: the devices of the size count then, unless the claim reports that the GPUs are
lost.

Source: docs/references/kubernetes.md#dynamic-resource-allocation.
"""

from collections.abc import Mapping, Sequence

import msgspec

from cloudprovider.cloud import InstanceType
from controllers.model.devices import pools_of
from controllers.model.storage import DeviceClaims
from provisioner.api import labels
from provisioner.api.conditions import INITIALIZED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.resourceslice import ResourceSlice
from provisioner.vendors import VENDORS

from .offered import ALL_DEVICES, device_resource
from .solver import model

Devices = frozenset[tuple[str, str, str]]


def allocated_devices(found: DeviceClaims) -> Devices:
    """Driver, pool and name of each device that a ResourceClaim has."""
    return frozenset(
        (one.driver, one.pool, one.device)
        for claim in found.claims.values()
        if claim.status.allocation is not None
        for one in claim.status.allocation.devices.results
        if not one.admin_access
    )


def with_devices(
    machine: model.ExistingNode,
    node: Node,
    claim: NodeClaim,
    *,
    size: InstanceType | None,
    slices: Sequence[ResourceSlice],
    allocated: Devices,
) -> model.ExistingNode:
    """The machine with its devices. `size`: None if it is not known. `slices`: those of this Node."""
    capacity, allocatable = dict(machine.capacity), dict(machine.allocatable)
    started = node.metadata.labels.get(labels.INITIALIZED) == "true"
    usable = not started or claim.condition(INITIALIZED, "True") is not None
    for driver, resource in ((one.driver, one.resource) for one in VENDORS):
        of_size = size.capacity.get(resource, 0) if size is not None else 0
        pools = pools_of(slices, driver)
        names = {pool.name for pool in pools} or {node.name}
        taken = {(pool, device) for by, pool, device in allocated if by == driver and pool in names}
        if pools and all(pool.complete for pool in pools):
            free = 1000 * sum(len(pool.free_gpus({name for of, name in taken if of == pool.name})) for pool in pools)
            whole = 1000 * sum(len(pool.whole_gpus) for pool in pools)
        else:
            whole = of_size if usable else 0
            free = max(0, whole - 1000 * len(taken))
        if of_size or pools:
            capacity[resource] = max(of_size, capacity.get(resource, 0))
            allocatable[device_resource(resource)] = free
            allocatable[ALL_DEVICES] = 1000 if free and free == whole and not taken else 0
    return msgspec.structs.replace(machine, capacity=capacity, allocatable=allocatable)


def slices_by_node(slices: Sequence[ResourceSlice]) -> Mapping[str, list[ResourceSlice]]:
    """The slices of each Node."""
    found: dict[str, list[ResourceSlice]] = {}
    for one in slices:
        if one.spec.node_name:
            found.setdefault(one.spec.node_name, []).append(one)
    return found
