"""What a machine of a size offers its Node, from tables of published and observed values. Pure.

Between two rows a value is interpolated, and beyond the last one continued. A size without a row for its memory has the
share of the one with it. How much real machines differ is unverified
(`NodeSettings.allocatable_shares`).

Source: docs/references/nodes.md#reserved-resources, docs/references/nodes.md#ephemeral-storage.
"""

from typing import NamedTuple

from provisioner.simulator.azure import sizes

# vCPUs, and the CPU that the kubelet reserves, in thousandths.
_KEPT_CPU = ((1, 60), (2, 100), (4, 140), (8, 180), (16, 260), (32, 420), (64, 740))
# maxPods, and the memory that the kubelet reserves with its threshold of eviction, in MiB.
_KEPT_MEMORY = ((30, 750), (50, 1150), (110, 2350), (250, 5150))
_MOST_KEPT, _THRESHOLD_MIB = 0.25, 100
# Memory of a Node in KiB by size; of others, the share of what the size has.
_MEMORY_KIB = {"standard_nc4as_t4_v3": 28_736_340}
_MEMORY_SHARE = 0.979
# The OS disk in GiB, and its file system in KiB.
_DISK_KIB = ((100, 101_445_900), (128, 129_886_128), (256, 259_966_896))
_DISK_SHARE = 0.9


class Resources(NamedTuple):
    """Capacity, and with `free_` allocatable, in the units of their names."""

    vcpus: int
    memory_kib: int
    disk_kib: int
    free_cpu_milli: int
    free_memory_kib: int
    free_disk_bytes: int


def of(vm_size: str, max_pods: int, disk_gib: int) -> Resources:
    """A machine of this size, whose Node takes so many pods, with an OS disk of this size."""
    size = sizes.find(vm_size) or sizes.Size()
    whole_kib = size.memory_gib * 2**20
    memory = _MEMORY_KIB.get(vm_size.lower(), int(whole_kib * _MEMORY_SHARE))
    kept_mib = min(_row(_KEPT_MEMORY, max_pods), size.memory_gib * 1024 * _MOST_KEPT + _THRESHOLD_MIB)
    disk = int(_row(_DISK_KIB, disk_gib))
    return Resources(
        vcpus=size.vcpus,
        memory_kib=memory,
        disk_kib=disk,
        free_cpu_milli=size.vcpus * 1000 - int(_row(_KEPT_CPU, size.vcpus)),
        free_memory_kib=memory - int(kept_mib) * 1024,
        free_disk_bytes=int(disk * 1024 * _DISK_SHARE),
    )


def _row(table: tuple[tuple[int, int], ...], at: int) -> float:
    above = next((position for position, row in enumerate(table) if row[0] >= at), len(table) - 1)
    (x0, y0), (x1, y1) = table[max(0, above - 1)], table[max(1, above)]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
