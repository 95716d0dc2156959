"""The devices that a Node must have: those that its node class states, or else those of its size, or more if the Node
itself has promised more.

A Node promises what its kubelet counts in capacity, unhealthy devices included, and what the labels of GPU feature
discovery describe: slices, shared GPUs, or the GPUs of a size that is not in the table. Pure.

Source: docs/references/kubernetes.md#gpu-resource-names, docs/references/kubernetes.md#labels-of-gpu-nodes,
docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

from collections.abc import Iterator, Mapping

from cloudprovider.interface import Gpus
from controllers.model.gpu_devices import Devices, declares_devices, expected_devices
from provisioner.api.node import Node
from provisioner.api.nodeclass import GpuSettings
from provisioner.api.quantity import parse_quantity
from provisioner.vendors import BY_RESOURCE, Vendor


def whole_number(value: str | float) -> int:
    """A quantity as a whole number, rounded down; 0 for an invalid one."""
    try:
        return int(parse_quantity(value))
    except ValueError:
        return 0


def amount(amounts: Mapping[str, str], resource: str) -> int:
    """How many devices of a resource are in capacity or allocatable."""
    return whole_number(amounts.get(resource, "0"))


def expected_gpus(gpus: Gpus, settings: GpuSettings | None, node: Node) -> Devices:
    """The devices that the Node must have. `settings`: of its node class; None if it has none of this program."""
    whole = expected_devices(gpus, settings)
    if not whole.resource:
        return _of_unlisted_size(node)
    found = whole
    if not declares_devices(settings) and amount(node.status.allocatable, whole.resource) < whole.count:
        described = tuple(_described(node, whole))
        found = min(described, key=lambda one: amount(node.status.allocatable, one.resource) / one.count, default=whole)
    return Devices(found.resource, max(found.count, _promised(node, found, gpus)))


def sees_fewer_gpus(gpus: Gpus, node: Node) -> bool:
    """Whether GPU feature discovery counts fewer GPUs on the Node than its size has. Of slices it counts the slices."""
    found, vendor = node.metadata.labels, BY_RESOURCE.get(gpus.resource)
    if vendor is None or (vendor.division and vendor.division.slice_product in found.get(vendor.product, "")):
        return False
    return 0 < whole_number(found.get(vendor.count, "0")) < gpus.count


def _is_shared(node: Node, vendor: Vendor) -> bool:
    product = node.metadata.labels.get(vendor.product, "")
    return vendor.division is not None and product.endswith(vendor.division.shared_product)


def _replicas(node: Node, vendor: Vendor) -> int:
    return whole_number(node.metadata.labels.get(vendor.division.replicas, "1")) if vendor.division is not None else 1


def _promised(node: Node, devices: Devices, gpus: Gpus) -> int:
    """What the Node had of this resource, or would have with all GPUs of its size."""
    counted, vendor = amount(node.status.capacity, devices.resource), BY_RESOURCE.get(devices.resource)
    if vendor is not None and _is_shared(node, vendor) and sees_fewer_gpus(gpus, node):
        return max(counted, gpus.count * _replicas(node, vendor))
    return counted


def _of_unlisted_size(node: Node) -> Devices:
    """How many GPUs such a size has is known of its Node only, once a device plugin has registered them."""
    for resource, vendor in BY_RESOURCE.items():
        if count := amount(node.status.capacity, resource):
            return Devices(resource, max(count, whole_number(node.metadata.labels.get(vendor.count, "0"))))
    return Devices()


def _described(node: Node, whole: Devices) -> Iterator[Devices]:
    """Other arrangements of the vendor's GPUs that the labels of the Node describe."""
    found, vendor = node.metadata.labels, BY_RESOURCE.get(whole.resource)
    if vendor is None or vendor.division is None:
        return
    shared = whole.resource + vendor.division.shared_suffix
    if found.get(vendor.division.strategy) == "mixed":
        for key, value in found.items():
            match = vendor.division.slice_count.fullmatch(key)
            if match is not None and (count := whole_number(value)) > 0:
                yield Devices(match[1], count)
    elif _is_shared(node, vendor) and shared in node.status.allocatable:
        yield Devices(shared, whole.count * max(1, _replicas(node, vendor)))
