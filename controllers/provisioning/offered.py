"""What a machine of a node class offers to pods: its instance type, with the devices that its GPUs are offered as.

A node class that partitions or shares GPUs offers other numbers, some under other names; a pod that requests such a
device gets a machine only of a node class that states it. Sizes that lack a MIG profile are not offered with it.

With `gpu.mode: DRA` the GPUs are devices of a driver and no extended resource. No container can request them by the
name that they have here: names in the domain kubernetes.io are reserved. The capacity keeps the extended resource, so
that the limits of NodePools count the GPUs of both modes.
"""

from collections.abc import Mapping

import msgspec

from cloudprovider.azure.instance_types import gpus_of
from cloudprovider.interface import Gpus
from controllers.model.gpu_devices import NVIDIA_GPU, declares_devices, expected_devices
from controllers.nodeclaim.lifecycle.dra import DRA, DRIVERS
from provisioner.api.nodeclaim import NodeClassReference
from provisioner.api.nodeclass import AgentPoolNodeClass, GpuSettings, is_own

from .solver import model

# The devices of a driver, and the right to all devices of a machine.
DEVICES = "resource.kubernetes.io/"
ALL_DEVICES = f"{DEVICES}all-devices"
WHOLE_GPUS = GpuSettings()

NodeClasses = Mapping[str, AgentPoolNodeClass]


def settings_of(reference: NodeClassReference, node_classes: NodeClasses) -> GpuSettings:
    """How the node class offers GPUs; the defaults for one that is not known."""
    found = node_classes.get(reference.name) if is_own(reference) else None
    return found.spec.gpu if found is not None else WHOLE_GPUS


def offered_types(
    types: tuple[model.InstanceType, ...], settings: GpuSettings
) -> tuple[model.InstanceType, ...] | None:
    """The instance types that machines with these settings can have, as they offer them; None: as they are."""
    if settings == WHOLE_GPUS:
        return None
    return tuple(offered(kind, settings) for kind in types if _supports(kind, settings))


def offered(kind: model.InstanceType, settings: GpuSettings) -> model.InstanceType:
    """An instance type as machines with these settings offer it."""
    return _by_driver(kind) if settings.mode == DRA else _by_plugin(kind, settings)


def _supports(kind: model.InstanceType, settings: GpuSettings) -> bool:
    """Whether AKS creates machines of this type: with a MIG profile, only if its GPUs support it."""
    has_gpus = any(kind.capacity.get(name) for name in DRIVERS)
    return not settings.mig_profile or not has_gpus or settings.mig_profile in gpus_of(kind.name).slices


def _by_plugin(kind: model.InstanceType, settings: GpuSettings) -> model.InstanceType:
    count = kind.capacity.get(NVIDIA_GPU, 0) // 1000
    if not count or not declares_devices(settings):
        return kind
    gpus = Gpus(resource=NVIDIA_GPU, count=count, slices=gpus_of(kind.name).slices)
    found = expected_devices(gpus, settings)
    devices = {found.resource: 1000 * found.count}
    return msgspec.structs.replace(
        kind, capacity=_replaced(kind.capacity, devices), allocatable=_replaced(kind.allocatable, devices)
    )


def _replaced(amounts: model.Resources, devices: model.Resources) -> model.Resources:
    return {**{name: amount for name, amount in amounts.items() if name != NVIDIA_GPU}, **devices}


def _by_driver(kind: model.InstanceType) -> model.InstanceType:
    devices = {device_resource(name): amount for name, amount in kind.capacity.items() if name in DRIVERS}
    if not devices:
        return kind
    devices[ALL_DEVICES] = 1000
    kept = {name: amount for name, amount in kind.allocatable.items() if name not in DRIVERS}
    return msgspec.structs.replace(kind, capacity={**kind.capacity, **devices}, allocatable={**kept, **devices})


def device_resource(gpu_resource: str) -> str:
    """The name under which a decision counts the devices of the driver for this extended resource."""
    return DEVICES + DRIVERS[gpu_resource]


def is_plugged(resource: str) -> bool:
    """Whether a device plugin offers this resource."""
    return "/" in resource and not resource.startswith(DEVICES)


def is_requested(resource: str) -> bool:
    """Whether a NodeClaim states its requests of this resource; devices are requested by ResourceClaims only."""
    return not resource.startswith(DEVICES)
