"""The devices that a Node must have: those that its node class states, or else those of its size, or more if the Node
itself has promised more.

A Node promises what its kubelet counts in capacity, unhealthy devices included, and what the labels of GPU feature
discovery describe: slices, shared GPUs, or the GPUs of a size that is not in the table. Pure.

Source: docs/references/kubernetes.md#gpu-resource-names, docs/references/kubernetes.md#labels-of-gpu-nodes,
docs/references/kubernetes.md#extended-resources-and-the-device-manager.
"""

import re
from collections.abc import Iterator, Mapping

from cloudprovider.interface import Gpus
from controllers.model.gpu_devices import NVIDIA_GPU, SHARED, Devices, declares_devices, expected_devices
from provisioner.api.node import Node
from provisioner.api.nodeclass import GpuSettings
from provisioner.api.quantity import parse_quantity

# The labels of GPU feature discovery.
MIG_STRATEGY = "nvidia.com/mig.strategy"
PRODUCT = "nvidia.com/gpu.product"
COUNT = "nvidia.com/gpu.count"
REPLICAS = "nvidia.com/gpu.replicas"
SHARED_PRODUCT = "-SHARED"
WHOLE_GPUS = (NVIDIA_GPU, "amd.com/gpu")
_SLICE_COUNT = re.compile(r"(nvidia\.com/mig-[0-9]+g\.[0-9]+gb(?:\.[a-z.]+)?)\.count")


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
    found = node.metadata.labels
    return "-MIG-" not in found.get(PRODUCT, "") and 0 < whole_number(found.get(COUNT, "0")) < gpus.count


def _promised(node: Node, devices: Devices, gpus: Gpus) -> int:
    """What the Node had of this resource, or would have with all GPUs of its size."""
    counted, found = amount(node.status.capacity, devices.resource), node.metadata.labels
    shared = devices.resource == NVIDIA_GPU and found.get(PRODUCT, "").endswith(SHARED_PRODUCT)
    if shared and sees_fewer_gpus(gpus, node):
        return max(counted, gpus.count * whole_number(found.get(REPLICAS, "1")))
    return counted


def _of_unlisted_size(node: Node) -> Devices:
    """How many GPUs such a size has is known of its Node only, once a device plugin has registered them."""
    promised = (Devices(one, amount(node.status.capacity, one)) for one in WHOLE_GPUS)
    found = next((one for one in promised if one.count), None)
    if found is None or found.resource != NVIDIA_GPU:
        return found or Devices()
    return Devices(NVIDIA_GPU, max(found.count, whole_number(node.metadata.labels.get(COUNT, "0"))))


def _described(node: Node, whole: Devices) -> Iterator[Devices]:
    """Other arrangements of NVIDIA GPUs that the labels of the Node describe."""
    found = node.metadata.labels
    if whole.resource != NVIDIA_GPU:
        return
    if found.get(MIG_STRATEGY) == "mixed":
        for key, value in found.items():
            match = _SLICE_COUNT.fullmatch(key)
            if match is not None and (count := whole_number(value)) > 0:
                yield Devices(match[1], count)
    elif found.get(PRODUCT, "").endswith(SHARED_PRODUCT) and NVIDIA_GPU + SHARED in node.status.allocatable:
        yield Devices(NVIDIA_GPU + SHARED, whole.count * max(1, whole_number(found.get(REPLICAS, "1"))))
