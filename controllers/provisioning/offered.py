"""What a machine of a node class offers to pods: its instance type, with what the node class changes of it.

`offered` is the only place where properties of a node class become resources and labels: those of which the cloud makes
others (pods, disk, labels), and the devices that GPUs are offered as.

A node class that partitions or shares GPUs offers other numbers, some under other names; a pod that requests such a
device gets a machine only of a node class that states it. Sizes that lack a MIG profile are not offered with it.

With `gpu.mode: DRA` the GPUs are devices of a driver and no extended resource. No container can request them by the
name that they have here: names in the domain kubernetes.io are reserved. The capacity keeps the extended resource, so
that the limits of NodePools count the GPUs of both modes.
"""

from collections.abc import Mapping

import msgspec

from cloudprovider.cloud import Cloud, InstanceType
from controllers.model.gpu_devices import declares_devices, expected_devices
from controllers.nodeclaim.lifecycle.dra import DRA
from provisioner.api.nodeclaim import NodeClassReference
from provisioner.api.nodeclass import AgentPoolNodeClass, GpuSettings, NodeClassSpec, is_own
from provisioner.vendors import BY_RESOURCE, division_of, driver_of

from .solver import model

# The devices of a driver, and the right to all devices of a machine.
DEVICES = "resource.kubernetes.io/"
ALL_DEVICES = f"{DEVICES}all-devices"
DEFAULTS = NodeClassSpec()

NodeClasses = Mapping[str, AgentPoolNodeClass]


def settings_of(reference: NodeClassReference, node_classes: NodeClasses) -> NodeClassSpec:
    """The properties that the node class states; the defaults for one that is not known."""
    found = node_classes.get(reference.name) if is_own(reference) else None
    return found.spec if found is not None else DEFAULTS


def offered_types(
    types: tuple[InstanceType, ...], settings: NodeClassSpec, cloud: Cloud
) -> tuple[InstanceType, ...] | None:
    """The instance types that machines with these settings can have, as they offer them; None: as they are."""
    if settings == DEFAULTS:
        return None
    return tuple(offered(kind, settings, cloud) for kind in types if _supports(kind, settings.gpu, cloud))


def offered(kind: InstanceType, settings: NodeClassSpec, cloud: Cloud) -> InstanceType:
    """An instance type as machines with these settings offer it."""
    kind = _of_pool(kind, settings, cloud)
    return _by_driver(kind) if settings.gpu.mode == DRA else _by_plugin(kind, settings.gpu, cloud)


def _of_pool(kind: InstanceType, settings: NodeClassSpec, cloud: Cloud) -> InstanceType:
    """With the pods, the disk and the labels of a machine with these settings."""
    found = cloud.of_node_class(kind.capacity, kind.allocatable, kind.requirements.keys(), settings)
    capacity, allocatable = {**kind.capacity, **found.capacity}, {**kind.allocatable, **found.allocatable}
    requirements = {**kind.requirements, **found.requirements}
    if (capacity, allocatable, requirements) == (kind.capacity, kind.allocatable, kind.requirements):
        return kind
    return msgspec.structs.replace(kind, capacity=capacity, allocatable=allocatable, requirements=requirements)


def _supports(kind: InstanceType, settings: GpuSettings, cloud: Cloud) -> bool:
    """Whether the cloud creates machines of this type: with a MIG profile, only if its GPUs support it."""
    has_gpus = any(kind.capacity.get(name) for name in BY_RESOURCE)
    return not settings.mig_profile or not has_gpus or settings.mig_profile in cloud.gpus_of(kind.name).slices


def _by_plugin(kind: InstanceType, settings: GpuSettings, cloud: Cloud) -> InstanceType:
    resource = next((name for name in kind.capacity if division_of(name) is not None), "")
    count = kind.capacity.get(resource, 0) // 1000
    if not count or not declares_devices(settings):
        return kind
    gpus = msgspec.structs.replace(cloud.gpus_of(kind.name), resource=resource, count=count)
    found = expected_devices(gpus, settings)
    devices = {found.resource: 1000 * found.count}
    return msgspec.structs.replace(
        kind, capacity=_replaced(kind.capacity, devices), allocatable=_replaced(kind.allocatable, devices)
    )


def _replaced(amounts: model.Resources, devices: model.Resources) -> model.Resources:
    return {**{name: amount for name, amount in amounts.items() if division_of(name) is None}, **devices}


def _by_driver(kind: InstanceType) -> InstanceType:
    devices = {device_resource(name): amount for name, amount in kind.capacity.items() if name in BY_RESOURCE}
    if not devices:
        return kind
    devices[ALL_DEVICES] = 1000
    kept = {name: amount for name, amount in kind.allocatable.items() if name not in BY_RESOURCE}
    return msgspec.structs.replace(kind, capacity={**kind.capacity, **devices}, allocatable={**kept, **devices})


def device_resource(gpu_resource: str) -> str:
    """The name under which a decision counts the devices of the driver for this extended resource."""
    return DEVICES + driver_of(gpu_resource)


def is_plugged(resource: str) -> bool:
    """Whether a device plugin offers this resource."""
    return "/" in resource and not resource.startswith(DEVICES)


def is_requested(resource: str) -> bool:
    """Whether a NodeClaim states its requests of this resource; devices are requested by ResourceClaims only."""
    return not resource.startswith(DEVICES)
