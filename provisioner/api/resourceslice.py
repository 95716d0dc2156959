"""The fields of a ResourceSlice (`resource.k8s.io/v1`) that the program uses; others are dropped when decoding.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-slice-v1/,
docs/references/kubernetes.md#dynamic-resource-allocation.
"""

from collections.abc import Mapping

import msgspec

from provisioner.vendors import BY_DRIVER, VENDORS

from .meta import ObjectMeta, Struct, Taint

TYPE = "type"
NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
# With effect NoSchedule drivers take a GPU out of service by these keys.
HEALTH_TAINTS = frozenset(key for vendor in VENDORS for key in vendor.health_taints)


class DeviceAttribute(Struct, frozen=True, kw_only=True):
    """An attribute of a device; only texts are kept."""

    string: str | None = None


class CounterConsumption(Struct, frozen=True, kw_only=True):
    """The set of counters that a device shares with others, such as a GPU with its partitions."""

    counter_set: str = ""


class Device(Struct, frozen=True, kw_only=True):
    name: str = ""
    attributes: Mapping[str, DeviceAttribute] = {}
    taints: tuple[Taint, ...] = ()
    counters: tuple[CounterConsumption, ...] = msgspec.field(default=(), name="consumesCounters")


class DevicePool(Struct, frozen=True, kw_only=True):
    """A pool at its highest generation is complete with `resource_slice_count` slices."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Struct, frozen=True, kw_only=True):
    """`node_name` is "" for devices that are not those of one Node."""

    driver: str = ""
    pool: DevicePool = DevicePool()
    node_name: str = ""
    devices: tuple[Device, ...] = ()


class ResourceSlice(Struct, frozen=True, kw_only=True):
    """A part of the devices that a driver publishes."""

    api_version: str = "resource.k8s.io/v1"
    kind: str = "ResourceSlice"
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


def digest(found: ResourceSlice) -> ResourceSlice:
    """The slice without what no rule reads: of the devices only their names, types, taints and sets of counters."""
    devices = tuple(
        msgspec.structs.replace(one, attributes={TYPE: one.attributes[TYPE]} if TYPE in one.attributes else {})
        for one in found.spec.devices
    )
    meta = found.metadata
    kept = ObjectMeta(name=meta.name, uid=meta.uid, resource_version=meta.resource_version, unreadable=meta.unreadable)
    return msgspec.structs.replace(found, metadata=kept, spec=msgspec.structs.replace(found.spec, devices=devices))


def is_whole_gpu(device: Device, driver: str) -> bool:
    """Whether the device is a whole GPU, neither a partition nor a GPU that is passed through to a virtual machine."""
    found = device.attributes.get(TYPE) or device.attributes.get(f"{driver}/{TYPE}")
    return found is not None and driver in BY_DRIVER and found.string == BY_DRIVER[driver].device_type
